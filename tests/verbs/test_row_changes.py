"""delete, update and merge: the rows are those of the same change by pylance, in one version that pylance validates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import lance
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import AmbiguousMergeError, SchemaMismatchError
from lance_spark.table.changes.row_changes import RowChanges
from tests.verbs.spark_jobs import stages

ROWS = pa.table({
    "id": pa.array(range(100), pa.int64()),
    "name": [None if i % 7 == 0 else f"n{i}" for i in range(100)],
    "x": pa.array([i / 2 for i in range(100)], pa.float32()),
    "at": pa.array(range(100), pa.timestamp("ns")),
    "v": pa.array([[i, i + 1] for i in range(100)], pa.list_(pa.float32(), 2)),
})  # fmt: skip


@pytest.fixture(params=[False, True], ids=["addresses, on the driver", "stable row ids, on executors"])
def table(request: pytest.FixtureRequest, uri: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> LanceTable:
    if request.param:
        monkeypatch.setattr("lance_spark.table.scan.runner._SMALL_WORK", -1)
    lance.write_dataset(ROWS, uri, max_rows_per_file=30, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id IN (5, 40, 41)")
    return LanceTable.forPath(spark, uri)


def read(uri: str) -> list[dict[str, object]]:
    """The rows as pylance reads them, after it has checked the table."""
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])


def expected(**changes: dict[int, object]) -> list[dict[str, object]]:
    """The rows that were there, with new values by column and id."""
    rows = {row["id"]: row for row in ROWS.to_pylist() if row["id"] not in (5, 40, 41)}
    for column, values in changes.items():
        for id, value in values.items():
            rows[id][column] = value
    return [rows[id] for id in sorted(rows)]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "condition",
    ["id >= 90", lambda: F.col("id") >= 90, "id IN (SELECT id + 90 FROM range(10))"],
    ids=["text", "column", "subquery"],
)
def test_delete(table: LanceTable, uri: str, condition: str | Callable[[], Column]) -> None:
    done = table.delete(condition() if callable(condition) else condition)
    assert done == RowChanges(version=3, num_deleted_rows=10)
    assert read(uri) == [row for row in expected() if row["id"] < 90]  # type: ignore[operator]


def test_what_reads_and_writes_little_runs_without_a_spark_job(uri: str, spark: SparkSession) -> None:
    small, many = uri, f"{uri}.many"
    lance.write_dataset(ROWS, small, max_rows_per_file=30)
    # To open 300 fragments is more work than to start a job.
    Dataset.write(many, pa.table({"id": range(300), "x": range(300)}), max_rows_per_file=1)
    numbers = {}
    for place in (small, many):
        table = LanceTable.forPath(spark, place)
        deleted = len(stages(spark, partial(table.delete, "id % 50 = 1")))
        numbers[place] = (deleted, len(stages(spark, partial(table.update, "id % 50 = 2", {"x": "-1"}))))
        assert lance.dataset(place).count_rows("x = -1 OR id % 50 = 1") == lance.dataset(place).count_rows("id % 50 = 2")
    assert numbers[small] == (0, 0)
    assert min(numbers[many]) >= 1


def test_delete_without_a_condition_leaves_no_row(table: LanceTable, uri: str) -> None:
    assert table.delete().num_deleted_rows == 97
    assert read(uri) == []


def test_changes_without_matches_make_no_version(table: LanceTable, uri: str) -> None:
    assert table.delete("id > 1000") == RowChanges(version=2)
    assert table.update("id > 1000", {"x": "0"}) == RowChanges(version=2)
    assert lance.dataset(uri).version == 2


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "columns"])
def test_update_keeps_the_values_that_it_does_not_assign(table: LanceTable, uri: str, as_text: bool) -> None:
    if as_text:
        done = table.update("id < 10", {"x": "x + 1", "name": "'new'"})
    else:
        done = table.update(F.col("id") < 10, {"x": F.col("x") + 1, "name": F.lit("new")})
    assert (done.version, done.num_updated_rows, done.num_deleted_rows) == (3, 9, 0)
    ids = [i for i in range(10) if i != 5]
    assert read(uri) == expected(x={i: i / 2 + 1 for i in ids}, name=dict.fromkeys(ids, "new"))


def test_merge_updates_deletes_and_inserts_in_one_version(table: LanceTable, uri: str, spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, "one"), (2, "two"), (200, "more")], "id long, name string")
    done = (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.name = 'one'")
        .whenMatchedUpdate(set={"name": "s.name"})
        .whenNotMatchedInsert(values={"id": "s.id", "name": "upper(s.name)"})
        .whenNotMatchedBySourceUpdate("t.id = 99", {"x": "0.5"})
        .execute()
    )
    assert (done.version, done.num_deleted_rows, done.num_updated_rows, done.num_inserted_rows) == (3, 1, 2, 1)
    rows = [row for row in expected(name={2: "two"}, x={99: 0.5}) if row["id"] != 1]
    assert read(uri) == [*rows, {"id": 200, "name": "MORE", "x": None, "at": None, "v": None}]


def test_two_rows_of_the_source_for_one_row_are_refused_by_key(table: LanceTable, uri: str, spark: SparkSession) -> None:
    source = spark.createDataFrame([(7, "a"), (7, "b")], "id long, name string")
    builder = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"name": "s.name"})
    with pytest.raises(AmbiguousMergeError, match="id = 7"):
        builder.execute()
    assert lance.dataset(uri).version == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": "'text'"}, "'x' is string"),
        ({"nope": "1"}, "no column 'nope'"),
        ({"name": "1", "NAME": "2"}, "assigned more than once"),
        ({"name": "'1'", "NAME": "'2'"}, "assigned more than once"),
    ],
)
def test_invalid_assignments_are_refused_before_anything_is_written(table: LanceTable, values: dict[str, str], message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        table.update("id = 1", values)
    assert len(table.history()) == 2


def test_a_numbered_change_is_made_once(table: LanceTable) -> None:
    first = table.delete("id = 1", txnAppId="job", txnVersion=1, commit_message="once")
    again = table.delete("id = 2", txnAppId="job", txnVersion=1)
    assert (first.num_deleted_rows, again) == (1, RowChanges(version=first.version))
    assert table.history(1)[0].message == "once"
