"""A catalog of lance tables over Spark Connect: the client has no JVM, and changes tables with SQL.

    python connect_catalog.py sc://localhost:15002

The README says how to start the server.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import lance_spark


def main(spark: SparkSession, catalog: str = "lake") -> list[str]:
    """Make a table, change it, merge into it, look back, and keep it in order."""
    lance_spark.enable(spark)
    for statement in (
        f"CREATE NAMESPACE {catalog}.shop",
        f"CREATE TABLE {catalog}.shop.orders AS SELECT id, id * 2.5 AS price FROM range(4)",
        f"UPDATE {catalog}.shop.orders SET price = 0 WHERE id = 1",
        f"MERGE INTO {catalog}.shop.orders t USING (SELECT id, 9.5 AS price FROM range(3, 6)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        f"OPTIMIZE {catalog}.shop.orders",
    ):
        spark.sql(statement).collect()
    prices = [str(row.price) for row in spark.table(f"{catalog}.shop.orders").orderBy("id").collect()]
    (first,) = spark.sql(f"SELECT sum(price) AS price FROM {catalog}.shop.orders VERSION AS OF 1").collect()
    return [f"prices now: {', '.join(prices)}", f"sum of the first version: {first.price}"]


if __name__ == "__main__":
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    print(*main(session), sep="\n")
    session.stop()
