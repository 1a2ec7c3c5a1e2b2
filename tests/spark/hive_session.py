"""A program that runs a script of `test_same_in_both_catalogs` on tables of a Hive metastore, and keeps what its steps give in a file.

Spark keeps one metastore for the whole process, so this is a process of its own. Its arguments are the address of the metastore, a folder,
and the name of the script.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import lance_spark
from tests.spark.test_same_in_both_catalogs import CATALOGS, SCRIPTS, outcomes_of
from tests.spark_session import QUICK_JAVA


def session(metastore: str, folder: Path) -> SparkSession:
    """A session whose own catalog is a Hive metastore."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    lance_spark.enable(made)
    return made


def main() -> None:
    metastore, folder, script = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    spark = session(metastore, folder)
    space = CATALOGS["session"]
    spark.sql(f"CREATE NAMESPACE {space}")
    (folder / script).write_bytes(pickle.dumps(outcomes_of(spark, SCRIPTS[script], space)))
    spark.sql(f"DROP NAMESPACE {space} CASCADE")
    spark.stop()


if __name__ == "__main__":
    main()
