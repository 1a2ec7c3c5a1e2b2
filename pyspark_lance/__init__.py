"""What Spark 4 looks for in installed packages whose names begin with pyspark_: the data source that "lance" means."""

import logging
import sys

try:
    from lance_spark.spark.source import LanceDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except ImportError as _e:
    # An error here would hide the data sources of all other packages.
    logging.getLogger("lance_spark").warning(
        "Spark looks for data sources with %s, which lacks what the format lance needs (%s): set PYSPARK_PYTHON to a Python that has it, "
        "or call lance_spark.enable(spark)",
        sys.executable,
        _e,
    )
    __all__ = []
