"""A job for spark-submit: writes, appends, fails and reads on a cluster to which only a zip of the package was given.

usage: cluster_job.py URI   prints one line of JSON
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark


def where_imported(batches: Any) -> Any:
    """The executor that runs the task, and the location of its package."""
    import os

    import pyarrow as pa

    import lance_spark.spark.source as source

    for _ in batches:
        yield pa.record_batch({"executor": [os.getcwd()], "file": [source.__file__]})


def main(uri: str) -> None:
    """Run the job."""
    spark = SparkSession.builder.getOrCreate()
    lance_spark.enable(spark)
    lance_spark.write(spark.range(0, 1000, 1, 4).selectExpr("id", "CAST(id AS string) s", "array(id, NULL) l"), uri)
    spark.range(1000, 1010, 1, 2).selectExpr("id", "'more' s", "array(id) l").write.format("lance").mode("append").save(uri)
    try:
        spark.range(0, 8, 1, 4).selectExpr("IF(id = 7, raise_error('broken'), id) id", "'x' s", "array(id) l").write.format("lance").mode(
            "append"
        ).save(uri)
        error = "none"
    except PySparkException as e:
        error = str(e)
    table = spark.read.format("lance").load(uri)
    workers = spark.range(0, 4, 1, 4).mapInArrow(where_imported, "executor string, file string").distinct().collect()
    result = {
        "rows": table.count(),
        "sum": table.selectExpr("sum(id)").collect()[0][0],
        "old": spark.read.format("lance").option("version", 1).option("filter", "s LIKE '99%'").load(uri).count(),
        "failed": "broken" in error,
        "executors": len({w.executor for w in workers}),
        "imported": sorted({w.file for w in workers}),
        "here": lance_spark.__file__,
    }
    print("RESULT " + json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
