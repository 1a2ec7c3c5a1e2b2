"""From a folder of Parquet files to a Lance table: convert, compare, verify.

    python migration.py FOLDER

With the jars of Delta Lake or Iceberg on Spark's class path, the source may also be a table of these: "delta.`/data/orders`" or a name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import LanceTable

ROWS = 5_000


def migrate(spark: SparkSession, source: str, uri: str) -> LanceTable:
    """Convert a source, and check that the rows are the same. If it fails, call it again: it goes on where it was."""
    table = LanceTable.convert(spark, source, uri)
    before, after = spark.sql(f"SELECT * FROM {source}"), table.toDF()
    assert sorted(before.columns) == sorted(after.columns)
    assert fingerprint(before) == fingerprint(after), "the rows differ"
    report = table.verify()
    assert report.ok, str(report)
    return table


def fingerprint(rows: DataFrame) -> tuple[int, int]:
    """The number of rows, and a sum of hashes of all their values, which does not depend on their order."""
    found = rows.selectExpr(f"xxhash64({', '.join(sorted(rows.columns))}) % 1000000007 AS h").selectExpr("count(*)", "sum(h)").first()
    assert found is not None
    return found[0], found[1]


def size(folder: str, ending: str) -> int:
    """The bytes of the data files."""
    return sum(path.stat().st_size for path in Path(folder).rglob(f"*{ending}"))


def main(spark: SparkSession, folder: str) -> list[str]:
    """Make Parquet files as an old job would have, and migrate them."""
    old, new = f"{folder}/orders_parquet", f"{folder}/orders.lance"
    orders = spark.range(ROWS).selectExpr("id", "concat('customer ', id % 97) AS customer", "id * 0.25 AS amount", "id % 4 AS shop")
    orders.write.partitionBy("shop").parquet(old)

    table = migrate(spark, f"parquet.`{old}`", new)
    ids = [row.id for row in table.toDF().where("shop = 3 AND amount < 5").orderBy("id").collect()]
    kib = [f"{size(*each) / 1024:.0f} KiB" for each in ((old, ".parquet"), (new, ".lance"))]
    return [f"{table.toDF().count()} rows: {kib[0]} of Parquet became {kib[1]}", f"ids of shop 3 under 5: {ids}"]


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    lance_spark.enable(session)
    print(*main(session, sys.argv[1]), sep="\n")
    session.stop()
