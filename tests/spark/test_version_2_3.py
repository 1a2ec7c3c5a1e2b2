"""Tables of storage version 2.3 through Spark: all writers keep the version, and pylance reads the rows."""

from __future__ import annotations

from pathlib import Path

import lance
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lance_spark import Dataset, LanceTable, lance_udf


def versions(uri: str) -> set[str]:
    """The storage versions of the data files of all versions of the table."""
    return {
        f"{file.file_major_version}.{file.file_minor_version}"
        for version in lance.dataset(uri).versions()
        for fragment in lance.dataset(uri, version=version["version"]).get_fragments()
        for file in fragment.data_files()
    }


def test_all_writers_keep_the_version(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    rows = (
        spark.range(3000)
        .withColumn("t", sf.expr("repeat('x', cast(id % 4 as int))"))
        .withColumn("l", sf.expr("array_repeat(5, cast(id % 3 as int))"))
    )
    rows.write.format("lance").option("file_format_version", "2.3").save(uri, mode="append")
    rows.limit(10).selectExpr("id + 3000 AS id", "t", "l").write.format("lance").mode("append").save(uri)
    table = LanceTable.forPath(spark, uri)
    table.update("id = 1", {"t": "'changed'"})
    table.delete("id = 2")
    source = spark.createDataFrame([(3, "merged"), (9000, "new")], "id long, t string")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"t": "s.t"}).whenNotMatchedInsert(
        values={"id": "s.id", "t": "s.t"}
    ).execute()

    @lance_udf("int")
    def size(t: str) -> int:
        return len(t)

    table.backfill("size", size)
    spark.sql("SELECT 10000L AS id, 's' AS t, array(5) AS l, 1 AS size").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long, t string, l array<int>, size int").parquet(str(tmp_path / "in")).writeStream.format("lance")
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(uri)
    try:
        query.awaitTermination()
    finally:
        query.stop()
    table.optimize().executeCompaction(target_rows_per_fragment=100_000)
    assert versions(uri) == {"2.3"}
    assert Dataset.open(uri).snapshot.manifest.data_format == "2.3"
    theirs = {row["id"]: row for row in lance.dataset(uri).to_table(columns=["id", "t", "l", "size"]).to_pylist()}
    assert {row.id: row.asDict() for row in spark.read.format("lance").load(uri).select("id", "t", "l", "size").collect()} == theirs
    changed = {0: ("", [], 0), 1: ("changed", [5], 7), 3: ("merged", [], 6), 9000: ("new", None, 3)}
    assert {id: (theirs[id]["t"], theirs[id]["l"], theirs[id]["size"]) for id in changed} == changed
    assert 2 not in theirs
    assert theirs[10000]["t"] == "s"
    lance.dataset(uri).validate()
