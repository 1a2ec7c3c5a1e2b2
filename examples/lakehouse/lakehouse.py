"""A daily job: yesterday's orders are merged into a table, exactly once, and the table is kept fast and small.

    python lakehouse.py FOLDER_OR_URI

Each day is one file of new and corrected orders. The job merges it, compacts the table, and removes versions that nobody needs. A job
that is started again for a day that was done changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import LanceTable

DAYS, ORDERS = 4, 50


def arrived(spark: SparkSession, day: int) -> DataFrame:
    """The orders of a day: new ones, and corrections of some of the day before."""
    first = max(day * ORDERS - 10, 0)
    return spark.range(first, (day + 1) * ORDERS).selectExpr("id", f"{day} AS day", f"id * 2 + {day} AS amount").coalesce(1)


def run(spark: SparkSession, uri: str, day: int, storage: Mapping[str, str]) -> str:
    """The job of one day. Returns a line for its log."""
    orders = arrived(spark, day).alias("s")
    table = LanceTable.createIfNotExists(spark).location(uri).addColumns(orders.schema)
    for key, value in storage.items():
        table = table.option(key, value)
    merge = table.execute().alias("t").merge(orders, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    done = merge.execute(txnAppId="orders", txnVersion=day, commit_message=f"day {day}")

    lance = LanceTable.forPath(spark, uri, storage)
    compacted = lance.optimize().executeCompaction()
    removed = lance.vacuum(retain_versions=2)
    return (
        f"day {day}: {done.num_inserted_rows} new, {done.num_updated_rows} corrected; "
        f"{compacted.fragments_removed} fragments became {compacted.fragments_added}; {removed.old_versions} old versions removed"
    )


def main(spark: SparkSession, uri: str, storage: Mapping[str, str] | None = None) -> list[str]:
    """Run all days, the last one twice, and check the result."""
    storage = storage or {}
    log = [run(spark, uri, day, storage) for day in [*range(DAYS), DAYS - 1]]
    rows = spark.read.format("lance").options(**storage).load(uri)
    total = rows.selectExpr("count(*) AS orders", "count(DISTINCT id) AS ids").first()
    assert total is not None
    assert total.orders == total.ids == DAYS * ORDERS
    return [*log, f"{total.orders} orders, each once"]


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    lance_spark.enable(session)
    print(*main(session, sys.argv[1]), sep="\n")
    session.stop()
