"""A merge of a small source runs in tasks without a join, if our formulas can evaluate it; its clauses mean the same as in Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import LanceTable
from lance_spark.lance_table import MergeBuilder
from lance_spark.table.changes.delta import UPDATED
from lance_spark.table.changes.merge import rows as merge_rows
from lance_spark.table.scan import runner
from lance_spark.verbs import collect
from lance_spark.verbs.collect import collected
from lance_spark.verbs.merge import merge
from lance_spark.verbs.merge.clauses import Clause, Merge
from lance_spark.verbs.merge.pairs import own_merge
from lance_spark.verbs.target import Target

ROWS = pa.table(
    {
        "id": pa.array([*range(40), None], pa.int64()),
        "k": pa.array([i % 4 for i in range(41)], pa.int32()),
        "v": pa.array([i / 2 for i in range(41)], pa.float32()),
        "st": pa.array([{"a": i, "b": None if i % 3 else f"b{i}"} for i in range(41)]),
        "at": pa.array(range(41), pa.timestamp("ns")),
    }
)


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=15, enable_stable_row_ids=True)
    return LanceTable.forPath(spark, uri).alias("t")


def source(spark: SparkSession) -> DataFrame:
    rows = spark.createDataFrame([(1, 10), (5, 50), (39, 390), (None, -1), (100, 1000)], "id int, w long")
    return rows.withColumn("st", F.struct(F.col("w").alias("a"), F.lit("new").alias("b")).alias("st")).alias("s")


def with_clauses(builder: MergeBuilder) -> MergeBuilder:
    builder = builder.whenMatchedDelete("s.w > 300").whenMatchedUpdate("t.k = 1 AND w < 20", {"v": "s.w + t.id", "t.k": "7"})
    builder = builder.whenMatchedUpdate(set={"v": "0.5"}).whenNotMatchedInsert("s.w > 0", {"id": "s.id", "v": "w"})
    return builder.whenNotMatchedBySourceDelete("t.id % 8 = 0").whenNotMatchedBySourceUpdate("t.k = 3", {"k": "t.k + 100"})


@pytest.mark.parametrize("on_executors", [False, True], ids=["on the driver", "on executors"])
def test_all_kinds_of_clauses_are_those_of_a_join(
    on_executors: bool, table: LanceTable, uri: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(uri, copy := str(tmp_path / "copy.lance"))
    rows = source(spark).drop("st")
    with monkeypatch.context() as patch:
        patch.setattr(merge, "plan_join", None)
        if on_executors:
            patch.setattr(runner, "_SMALL_WORK", -1)
            patch.setattr(merge_rows, "_LEFT_BYTES", 0)
            patch.setattr(merge_rows, "_MAX_PAIRS", 2)
        done = with_clauses(table.merge(rows, "t.id = s.id")).execute()
    monkeypatch.setattr(merge, "own_merge", lambda *given: None)
    expected = with_clauses(LanceTable.forPath(spark, copy).alias("t").merge(rows, "t.id = s.id")).execute()
    assert (done.num_updated_rows, done.num_deleted_rows, done.num_inserted_rows) == (11, 6, 1)
    assert (expected.num_updated_rows, expected.num_deleted_rows, expected.num_inserted_rows) == (11, 6, 1)
    lance.dataset(uri).validate()
    found, other = (sorted(map(str, lance.dataset(u).to_table(with_row_id=True).to_pylist())) for u in (uri, copy))
    assert found == other


def test_few_updates_of_many_tasks_are_one_fragment(
    table: LanceTable, uri: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_SMALL_WORK", -1)
    done = table.merge(source(spark), "t.id = s.id").whenMatchedUpdate(set={"k": "s.w"}).execute()
    assert (done.num_updated_rows, done.num_files_added) == (3, 1)
    assert len(lance.dataset(uri).get_fragments()) == 4


def test_many_rows_of_the_table_match_one_row_of_the_source(table: LanceTable, uri: str, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(2, 200), (3, 300), (9, 900)], "k long, w long").alias("s")
    done = table.merge(rows, "t.k = s.k").whenMatchedUpdate(set={"v": "s.w"}).whenNotMatchedInsert(values={"id": "s.w"}).execute()
    assert (done.num_updated_rows, done.num_inserted_rows) == (20, 1)
    assert lance.dataset(uri).count_rows("v = 200") == lance.dataset(uri).count_rows("v = 300") == 10


def definition(table: LanceTable, rows: DataFrame, on: str, condition: str | None = None, value: str = "1") -> Merge:
    return Merge(table._target, rows, on, (Clause("matched", UPDATED, condition, {"k": value}),))


@pytest.mark.parametrize(
    ("on", "condition", "value", "own"),
    [
        ("t.id = s.id", "s.w > t.v AND w > 0", "s.w + k", True),
        ("T.ID = S.Id AND t.k > 1", "st.a > 1", "1", False),
        ("t.id = w", "t.st.a > s.st.a", "s.`w`", True),
        ("t.id + 1 = s.id * 2", None, "s.w % 7", False),
        ("t.id + 1 = s.id * 2", "s.w % 7 = 0", "w", True),
        ("id = s.id", None, "1", False),
        ("t.id = x.id", None, "1", False),
        ("t.id = s.missing", None, "1", False),
        ("t.id <=> s.id", None, "1", False),
        ("t.id = s.id OR t.k = s.w", None, "1", False),
        ("t.id > s.id", None, "1", False),
        ("t.id = s.id", "rand() < 0.5", "1", False),
        ("t.id = s.id", None, "s.st.b", False),
        ("t.id = s.id", "s.w / t.k > 1", "1", False),
    ],
)
def test_what_only_spark_can_evaluate_is_joined(
    on: str, condition: str | None, value: str, own: bool, table: LanceTable, spark: SparkSession
) -> None:
    target = table._target.latest()
    assert (own_merge(definition(table, source(spark), on, condition, value), target) is not None) == own


def test_sources_with_ambiguous_columns_are_joined(table: LanceTable, spark: SparkSession) -> None:
    target = table._target.latest()
    twice = spark.createDataFrame([(1, 2, 3)], "id long, w long, W long").alias("s")
    assert own_merge(definition(table, twice, "t.id = s.id"), target) is None
    named_like_a_column = source(spark).alias("k")
    assert own_merge(definition(table, named_like_a_column, "t.id = k.id"), target) is not None
    joined = source(spark).join(spark.range(5).selectExpr("id AS other").alias("o"), F.expr("other = s.id")).drop("st")
    assert own_merge(definition(table, joined, "t.id = o.other", value="s.w"), target) is not None
    assert own_merge(definition(table, joined, "t.id = o.w"), target) is None
    assert isinstance(table._target, Target)


def test_only_small_sources_are_collected(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.range(4).selectExpr("id", "repeat('x', 512 * CAST(id AS INT)) AS `te.xt`", "array(id, NULL) AS ar", "struct(id) AS st")
    found = collected(rows, ["te.xt", "id", "ar"])
    assert found is not None
    assert sorted(found.column("id").to_pylist()) == [0, 1, 2, 3]
    assert found.schema.names == ["te.xt", "id", "ar"]
    assert max(map(len, found.column(0).to_pylist())) == 3 * 512
    assert collected(rows.where("id < 0"), ["id", "te.xt"]).num_rows == 0  # type: ignore[union-attr]
    assert collected(rows, ["id", "st"]) is None
    monkeypatch.setattr(collect, "_TEXT", 1024)
    assert collected(rows, ["te.xt"]) is None
    monkeypatch.setattr(collect, "MAX_BYTES", 24)
    assert collected(rows, ["id"]) is None
    monkeypatch.setattr(collect, "_TRANSFERRED_BYTES", 3 * 16)
    assert collected(rows, ["id"]) is None
