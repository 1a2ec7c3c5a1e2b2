"""Write, audit, publish: new rows go to a branch, are checked there, and reach the readers of the main branch in one commit, or not at all.

python write_audit_publish.py FOLDER
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import LanceTable


def problems(rows: DataFrame) -> list[str]:
    """The audit: what is wrong with the rows."""
    found = []
    if missing := rows.where("amount IS NULL").count():
        found.append(f"{missing} rows without an amount")
    if doubled := rows.groupBy("id").count().where("count > 1").count():
        found.append(f"{doubled} ids that are there more than once")
    return found


def publish(spark: SparkSession, uri: str, day: int, new: DataFrame) -> str:
    """Write the rows of a day to a branch, audit the branch, and publish them."""
    name = f"audit-{day}"
    branch = LanceTable.forPath(spark, uri).createBranch(name)
    new.write.format("lance").mode("append").option("branch", name).save(uri)
    rows = branch.toDF()
    found = problems(rows)
    if not found:
        checked = rows.where(f"day = {day}").coalesce(1)
        checked.write.format("lance").mode("append").option("txnAppId", "publish").option("txnVersion", day).save(uri)
    LanceTable.forPath(spark, uri).branches.delete(name)
    return f"day {day}: {'; '.join(found) or 'published'}"


def main(spark: SparkSession, folder: str) -> list[str]:
    """A day that is right, and a day that is not."""
    uri, columns = f"{folder}/sales.lance", "id bigint, day int, amount double"
    spark.createDataFrame([(1, 1, 10.0)], columns).coalesce(1).write.format("lance").mode("append").save(uri)
    days = {2: [(2, 2, 20.0), (3, 2, 30.0)], 3: [(3, 3, 5.0), (4, 3, None)]}
    log = [publish(spark, uri, day, spark.createDataFrame(rows, columns).coalesce(1)) for day, rows in days.items()]
    table = LanceTable.forPath(spark, uri)
    assert not table.branches.list()
    return [*log, f"readers see {sorted(row.id for row in table.toDF().collect())}"]


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    lance_spark.enable(session)
    print(*main(session, sys.argv[1]), sep="\n")
    session.stop()
