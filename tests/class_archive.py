"""Write Spark's classes as the JVM has them once they are loaded and checked: `python -m tests.class_archive FILE`.

Sessions of tests that find the file (`tests.spark_session`) need two thirds of the processor time to
start and to run their first statements. A JVM that cannot write such a file, or that is not the one
that has written it, does without.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark import SparkContext
from pyspark.sql import SparkSession

import lance_spark
from tests.spark_session import QUICK_JAVA, worker_environment


def main(file: str) -> None:
    """Run what most tests run, in a session that writes the file when it ends."""
    os.environ.update(worker_environment())
    writes = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={file} -Xlog:cds=off -Xlog:cds+dynamic=off"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": writes,
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
        lance_spark.enable(spark)
        run(spark, folder)
        spark.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()  # it writes the file


def run(spark: SparkSession, folder: str) -> None:
    """Statements of each kind, in a SQL catalog and on a path."""
    lance_spark.catalog(spark, "lake", root=f"{folder}/lake")
    path = f"{folder}/t.lance"
    spark.range(10).write.format("lance").mode("append").save(path)
    spark.read.format("lance").load(path).createOrReplaceTempView("v")
    spark.sql("CREATE TABLE lake.t (id BIGINT, s STRING)")
    spark.sql("INSERT INTO lake.t SELECT id, CAST(id AS STRING) FROM v")
    spark.sql("UPDATE lake.t SET s = 'x' WHERE id = 1")
    spark.sql("DELETE FROM lake.t WHERE id = 2")
    spark.sql(
        "MERGE INTO lake.t t USING v ON t.id = v.id WHEN MATCHED THEN UPDATE SET s = 'y' WHEN NOT MATCHED THEN INSERT (id) VALUES (v.id)"
    )
    groups = "SELECT s, count(*) FROM lake.t JOIN v USING (id) WHERE id > 3 GROUP BY s ORDER BY s"
    spark.sql(groups).collect()
    frame = spark.createDataFrame([(1, "a")], "id BIGINT, s STRING")
    frame.write.mode("overwrite").parquet(f"{folder}/files")
    stream = spark.readStream.schema(frame.schema).parquet(f"{folder}/files")
    writer = stream.writeStream.format("lance").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/streamed.lance").awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
