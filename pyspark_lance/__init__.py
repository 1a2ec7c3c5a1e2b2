"""What Spark 4 looks for in installed packages whose names begin with pyspark_: the data source that "lance" means."""

from lance_spark.spark.source import LanceDataSource as DefaultSource

__all__ = ["DefaultSource"]
