"""Tables with a write-ahead log through every door of Spark: reads see the log, changes are those of the table, and a job merges both."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from tests import write_ahead_logs as logs
from tests.spark.catalog.lakes import Lake
from tests.spark.plans import settings
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def uri(own: Lake, tmp_path: Path) -> Iterator[str]:
    """Ids 1 and 2 in the table; the log has deleted 1, updated 2, flushed 3 to 5, and has 6 and 7 in entries."""
    uri = logs.make(str(tmp_path / "logged.lance"))
    shard = logs.flushed(uri, 3, 4, 5)
    writer = lance.dataset(uri).mem_wal_writer(shard)
    writer.put(pa.table({"id": [2], "v": ["new"], "w": [20]}, schema=logs.SCHEMA))
    writer.delete(pa.table({"id": pa.array([1], pa.int64())}))
    writer.close()
    writer = logs.unflushed(uri, 6, 7, shard=shard)
    own.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}')")
    own.spark.sql(f"CREATE TABLE IF NOT EXISTS default.logged USING lance LOCATION '{uri}'")
    yield uri
    own.spark.sql("DROP TABLE default.logged")
    own.spark.catalog.dropTempView("v")
    writer.close()


DOORS: dict[str, Callable[[Lake, str], DataFrame]] = {
    "path": lambda own, uri: own.spark.read.format("lance").load(uri),
    "view": lambda own, uri: own.spark.table("v"),
    "session catalog": lambda own, uri: own.spark.table("default.logged"),
    "SQL catalog": lambda own, uri: own.spark.table(f"lance.`{uri}`"),
    "LanceTable": lambda own, uri: LanceTable.forPath(own.spark, uri).toDF(),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_read_sees_the_log(door: str, own: Lake, uri: str) -> None:
    frame = DOORS[door](own, uri)
    assert sorted(r.id for r in frame.collect()) == [2, 3, 4, 5, 6, 7]
    assert frame.count() == 6
    assert frame.where("id > 1 AND w < 21").count() == 6
    assert [tuple(r) for r in frame.where("v = 'new'").select("w", "id").collect()] == [(20, 2)]
    assert frame.where("v = '2'").count() == 0
    assert [r.id for r in frame.orderBy(frame.w.desc()).limit(2).collect()] == [2, 7]
    assert frame.limit(4).count() == len(frame.limit(4).collect()) == 4
    assert [tuple(r) for r in frame.groupBy((frame.id % 2).alias("odd")).count().orderBy("odd").collect()] == [(0, 3), (1, 3)]
    assert tuple(frame.selectExpr("min(id)", "max(w)", "count(v)").collect()[0]) == (2, 20, 6)
    assert frame.join(own.spark.range(4, 6), "id").count() == 2


def test_the_table_alone_is_read_on_request(own: Lake, uri: str) -> None:
    assert own.spark.read.format("lance").option("mem_wal", "base").load(uri).count() == 2
    assert LanceTable.forPath(own.spark, uri, {"mem_wal": "base"}).toDF().count() == 2
    with pytest.raises(SPARK_ERRORS, match="merged or base"):
        own.spark.read.format("lance").option("mem_wal", "both").load(uri)


def test_searches_find_rows_of_the_log(own: Lake, uri: str) -> None:
    def of_column(words: str) -> dict[str, object]:
        return {"match": {"query": words, "column": "v"}}

    words = own.spark.read.format("lance").option("fullTextQuery", json.dumps(of_column("new"))).load(uri)
    assert [(row.id, row.v) for row in words.collect()] == [(2, "new")]
    assert words.count() == 1
    table = LanceTable.forPath(own.spark, uri)
    assert {row.id for row in table.search().fullText(of_column("new 6")).toDF().collect()} == {2, 6}
    base = LanceTable.forPath(own.spark, uri, {"mem_wal": "base"})
    assert base.search().fullText(of_column("new")).toDF().count() == 0


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "not indexed"])
def test_nearest_rows_are_found_in_the_log(indexed: bool, own: Lake, tmp_path: Path) -> None:
    """By a search, and by a join in tasks, which do not open the log themselves."""
    schema = pa.schema([logs.SCHEMA.field("id"), pa.field("vector", pa.list_(pa.float32(), 2))])

    def rows(ids: list[int], y: float) -> pa.Table:
        return pa.table({"id": ids, "vector": [[i, y] for i in ids]}, schema)

    uri = str(tmp_path / "vectors.lance")
    table = lance.write_dataset(rows([*range(60)], 0), uri, max_rows_per_file=20)
    if indexed:
        table.create_index("vector", "IVF_FLAT", num_partitions=2)
    table.initialize_mem_wal()
    with table.mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(rows([10, 12, 70], 0.25))
        writer.delete(pa.table({"id": [11]}))
    writer = lance.dataset(uri).mem_wal_writer(str(uuid.uuid4()))
    writer.put(rows([71], 0.5))
    own_table = LanceTable.forPath(own.spark, uri)
    found = own_table.search("vector").nearest([11.0, 0.0], k=4).toDF().select("id", "_distance").collect()
    assert {(row.id, row._distance) for row in found} == {(10, 1.0625), (12, 1.0625), (9, 4.0), (13, 4.0)}
    questions = own.spark.createDataFrame([("a", [11.0, 0.0]), ("b", [71.0, 0.0])], "q STRING, asked ARRAY<FLOAT>")
    joined = own_table.nearestJoin(questions, ("asked", "vector"), k=2).select("q", "id", "_distance").collect()
    assert {tuple(row) for row in joined} == {("a", 10, 1.0625), ("a", 12, 1.0625), ("b", 71, 0.25), ("b", 70, 1.0625)}
    writer.close()


def test_rows_of_the_log_have_no_ids(own: Lake, uri: str) -> None:
    frame = own.spark.read.format("lance").load(uri)
    for column in ("_rowid", "_rowaddr", "_fragid"):
        with pytest.raises(SPARK_ERRORS, match="mem_wal=base"):
            frame.select("id", column).collect()
    assert frame.where("_rowid < 5").count() == 0
    assert {row[0] for row in frame.select("_row_created_at_version").collect()} == {None}


def test_commands_change_the_table_and_the_log_replaces_its_rows(own: Lake, uri: str) -> None:
    own.sql("UPDATE default.logged SET w = 0")
    own.sql("MERGE INTO default.logged t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'merged'")
    own.sql("DELETE FROM default.logged WHERE id = 1")
    assert Dataset.open(uri, mem_wal="base").to_table().to_pylist() == [{"id": 2, "v": "merged", "w": 0}]
    assert own.sql("SELECT v, w FROM default.logged WHERE id = 2") == [("new", 20)]
    LanceTable.forPath(own.spark, uri).update("id = 2", {"w": "w + 1"})
    assert Dataset.open(uri, mem_wal="base").to_table()["w"].to_pylist() == [1]


def test_a_job_merges_what_was_flushed(own: Lake, uri: str) -> None:
    done = LanceTable.forPath(own.spark, uri).mergeMemWal(commit_message="log")
    assert [(one.generation, one.changes.num_inserted_rows) for one in done] == [(1, 3), (2, 0)]
    assert sorted(Dataset.open(uri, mem_wal="base").to_table()["id"].to_pylist()) == [2, 3, 4, 5]
    assert own.spark.read.format("lance").load(uri).count() == 6
    shard = logs.flushed(uri, 9, shard=str(uuid.uuid4()))
    [row] = own.sql(f"CALL lance.system.merge_mem_wal('{uri}')")
    assert row[1:] == (shard, 1, 0, 1, 0)
    lance.dataset(uri).validate()


def test_dynamic_pruning_leaves_rows_of_the_log_that_match(own: Lake, uri: str, tmp_path: Path) -> None:
    own.spark.range(6).selectExpr("id + 2 AS k", "id AS n").write.parquet(str(tmp_path / "few"))
    few = F.broadcast(own.spark.read.parquet(str(tmp_path / "few")).where("n IN (0, 1, 5)"))
    with settings(own.spark, adaptive__enabled="false"):
        frame = own.spark.read.format("lance").load(uri)
        joined = frame.join(few, frame.id == few.k).select("id", "v")
        assert {tuple(row) for row in joined.collect()} == {(2, "new"), (3, "3"), (7, "7")}
        assert "RuntimeFilters" in str(joined._jdf.queryExecution().executedPlan())


def test_streams_read_and_write_the_table_and_see_rows_of_the_log_when_they_are_merged(own: Lake, uri: str, tmp_path: Path) -> None:
    def run(stream: DataFrame, name: str) -> None:
        checkpoint = str(tmp_path / name)
        query = stream.writeStream.format("lance").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(out[name])
        try:
            query.awaitTermination()
        finally:
            query.stop()

    out = {"source": str(tmp_path / "out.lance"), "sink": uri}
    source = own.spark.readStream.format("lance").option("skipChangeCommits", "true").load(uri)
    run(source, "source")
    assert sorted(lance.dataset(out["source"]).to_table()["id"].to_pylist()) == [1, 2]
    Dataset.write(str(tmp_path / "new.lance"), logs.rows(7, 8))  # the log has a newer row of 7
    new = own.spark.readStream.format("lance").load(str(tmp_path / "new.lance"))
    run(new, "sink")
    assert sorted(row.id for row in own.spark.read.format("lance").load(uri).collect()) == [2, 3, 4, 5, 6, 7, 8]
    run(source, "source")
    assert sorted(lance.dataset(out["source"]).to_table()["id"].to_pylist()) == [1, 2, 7, 8]


def test_row_level_commands_keep_what_the_log_has(own: Lake, uri: str) -> None:
    before = Dataset.open(uri).to_table().to_pylist()
    own.sql("MERGE INTO default.logged t USING (SELECT 3L AS id, 'x' AS v, 1 AS w) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert Dataset.open(uri).to_table().to_pylist() == before, "the log has a newer row of this key"
    own.sql("ALTER TABLE default.logged RENAME COLUMN v TO u")
    assert own.sql("SELECT u FROM default.logged WHERE id = 3") == [("3",)]
    own.sql("ALTER TABLE default.logged DROP COLUMN w")
    assert own.sql("SELECT * FROM default.logged WHERE id = 2") == [(2, "new")]
    for refused, why in {"DROP COLUMN id": "primary key", "RENAME COLUMN id TO key": "write-ahead log"}.items():
        with pytest.raises(SPARK_ERRORS, match=why):
            own.sql(f"ALTER TABLE default.logged {refused}")
    with pytest.raises(SPARK_ERRORS, match="would lose them"):
        own.sql("INSERT OVERWRITE default.logged SELECT 1L, 'x'")
    own.sql(f"OPTIMIZE lance.`{uri}`")
    assert own.sql("SELECT count(*), max(id) FROM default.logged") == [(6, 7)]
