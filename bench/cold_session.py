"""What `bench.cold` runs: python cold_session.py FORMAT TABLE ROWS. A whole session, or with ROWS, the one that makes the table of them.

The environment says where the session runs: SPARK_REMOTE, or PYSPARK_SUBMIT_ARGS with the master. Prints the seconds of each step.
"""

from __future__ import annotations

import itertools
import os
import sys
import time


def main(contestant: str, path: str, rows: str = "") -> None:
    moments = [time.perf_counter()]

    def step() -> None:
        moments.append(time.perf_counter())

    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    remote = os.environ.get("COLD_REMOTE")
    spark = (builder.remote(remote) if remote else builder).getOrCreate()
    step()
    if contestant == "lance":
        import lance_spark

        lance_spark.enable(spark)
    step()
    if rows:
        made = spark.read.parquet(rows).coalesce(1)
        if contestant == "iceberg":  # its catalog c has the folder of the table
            made.writeTo("c.iceberg").create()
        else:
            made.write.format(contestant).mode("append").save(path)
        return
    frame = spark.read.format(contestant).load(path)
    found = frame.where("n > 10").groupBy("label").agg({"*": "count", "n": "max"}).collect()
    assert len(found) == 200, len(found)
    step()
    added = spark.range(1000).selectExpr("id AS key", "'new' AS label", "id AS n", "'text' AS text")
    added.coalesce(1).write.format(contestant).mode("append").save(path)
    step()
    spark.stop()
    step()
    print("seconds", *(f"{end - start:.2f}" for start, end in itertools.pairwise(moments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
