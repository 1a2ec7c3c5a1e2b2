"""withSchemaEvolution: columns that only the source has are added by the commit of the merge; and deletes that several rows ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import AmbiguousMergeError, SchemaMismatchError
from lance_spark.lance_table import MergeBuilder

ROWS = pa.table({"id": pa.array(range(90), pa.int64()), "a": [f"a{i}" for i in range(90)], "b": pa.array(range(90), pa.int32())})
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def table(uri: str, spark: SparkSession, stable: bool) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 5")
    return LanceTable.forPath(spark, uri)


def read(uri: str) -> dict[int, dict[str, object]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    rows = dataset.to_table()
    assert rows.equals(Dataset.open(uri).scan().to_table())
    for id in (2, 40, 500):
        assert dataset.to_table(filter=f"id = {id}").num_rows == rows["id"].to_pylist().count(id)  # by the index
    return {row["id"]: row for row in rows.to_pylist()}


def merge(table: LanceTable, spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> MergeBuilder:
    return table.alias("t").merge(spark.createDataFrame(rows, schema).alias("s"), "t.id = s.id")


def test_all_columns_of_the_source_are_added(table: LanceTable, uri: str, spark: SparkSession, stable: bool) -> None:
    before = Dataset.open(uri).scan(columns=["id", *LINEAGE]).to_table().to_pylist() if stable else []
    source: list[tuple[object, ...]] = [(2, "new", [1, 2]), (500, "more", None)]
    done = merge(table, spark, source, "id long, a string, n array<int>").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    changes = done.whenNotMatchedBySourceDelete("t.id >= 60").withSchemaEvolution().execute()
    assert (changes.num_updated_rows, changes.num_inserted_rows, changes.num_deleted_rows) == (1, 1, 30)
    rows = read(uri)
    assert rows[2] == {"id": 2, "a": "new", "b": 2, "n": [1, 2]}
    assert rows[500] == {"id": 500, "a": "more", "b": None, "n": None}
    assert rows[7] == {"id": 7, "a": "a7", "b": 7, "n": None}
    assert rows.keys() == {*range(60), 500} - {5}
    assert changes.version == lance.dataset(uri).version == 4
    if stable:
        old = {row["id"]: row for row in before}
        new = {row["id"]: row for row in Dataset.open(uri).scan(columns=["id", *LINEAGE]).to_table().to_pylist()}
        assert {i: row for i, row in new.items() if i not in (2, 500)} == {i: old[i] for i in new if i not in (2, 500)}
        assert new[2] == {**old[2], "_row_last_updated_at_version": 4}
        assert new[500] == {"id": 500, "_rowid": 90, "_row_created_at_version": 4, "_row_last_updated_at_version": 4}


def test_pylance_continues_with_the_table(table: LanceTable, uri: str, spark: SparkSession) -> None:
    merge(table, spark, [(2, "new", 7)], "id long, a string, n long").whenMatchedUpdateAll().withSchemaEvolution().execute()
    upsert = pa.table({"id": [2, 501], "a": ["x", "y"], "b": pa.array([1, 2], pa.int32()), "n": [8, 9]})
    lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(upsert)
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).optimize.optimize_indices()
    assert {i: row["n"] for i, row in read(uri).items() if row["n"]} == {2: 8, 501: 9}


def test_only_assigned_columns_are_added(table: LanceTable, uri: str, spark: SparkSession) -> None:
    builder = merge(table, spark, [(2, 7, "u"), (500, 8, "v")], "id long, n int, unused string")
    both = builder.whenMatchedUpdate(set={"t.N": "s.n + 1"}).whenNotMatchedInsert(values={"id": "s.id", "a": "'i'"})
    both.withSchemaEvolution().execute()
    rows = read(uri)
    assert rows[2] == {"id": 2, "a": "a2", "b": 2, "n": 8}
    assert rows[500] == {"id": 500, "a": "i", "b": None, "n": None}
    with pytest.raises(SchemaMismatchError, match="no column 'nope'"):
        builder.whenMatchedUpdate(set={"nope": "1"}).withSchemaEvolution().execute()


def test_without_it_other_columns_are_refused(table: LanceTable, uri: str, spark: SparkSession) -> None:
    builder = merge(table, spark, [(2, "new", 7, 1)], "id long, a string, b int, n long")
    with pytest.raises(SchemaMismatchError, match="no column 'n'"):
        builder.whenMatchedUpdate(set={"n": "s.n"}).execute()
    builder.whenMatchedUpdateAll().execute()
    assert lance.dataset(uri).schema.names == ["id", "a", "b"]


def test_a_change_of_columns_meanwhile_runs_the_merge_again(table: LanceTable, uri: str, spark: SparkSession, tmp_path: Path) -> None:
    once = tmp_path / "done"

    def other(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not once.exists():
            once.touch()
            Dataset.open(uri).add_columns({"m": "id * 2"})
        yield from batches

    source = spark.createDataFrame([(2, 7)], "id long, n long").coalesce(1).mapInArrow(other, "id long, n long")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().withSchemaEvolution().execute()
    assert read(uri)[2] == {"id": 2, "a": "a2", "b": 2, "m": 4, "n": 7}


@pytest.mark.parametrize("also", [False, True], ids=["delete", "delete and insert"])
def test_several_rows_may_delete_one(table: LanceTable, uri: str, spark: SparkSession, also: bool) -> None:
    builder = merge(table, spark, [(2, 1), (2, 2), (40, 1), (500, 1)] * 2, "id long, n int").whenMatchedDelete()
    done = (builder.whenNotMatchedInsert(values={"id": "s.id"}) if also else builder).execute()
    assert (done.num_deleted_rows, done.num_inserted_rows) == (2, 2 if also else 0)
    assert {2, 40}.isdisjoint(read(uri) if not also else lance.dataset(uri).to_table()["id"].to_pylist())


def test_other_repeated_matches_are_refused(table: LanceTable, uri: str, spark: SparkSession) -> None:
    builder = merge(table, spark, [(2, 1), (2, 2)], "id long, n int")
    with pytest.raises(AmbiguousMergeError, match="id = 2"):
        builder.whenMatchedDelete("s.n < 5").execute()
    with pytest.raises(AmbiguousMergeError, match="id = 2"):
        builder.whenMatchedUpdate("s.n = 1", {"b": "s.n"}).whenMatchedDelete().execute()
    assert lance.dataset(uri).version == 3


def test_structs_get_new_fields(uri: str, spark: SparkSession, stable: bool) -> None:
    rows = pa.table({"id": [1, 2, 3], "s": [{"a": 1, "in": {"x": "p"}}, None, {"a": 3, "in": None}]})
    lance.write_dataset(rows, uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    schema = "id long, s struct<a: long, in: struct<X: string, y: int>, b: double>, n int"
    source = [(3, (30, ("q", 7), 0.5), 1), (4, (40, None, None), 2)]
    done = merge(LanceTable.forPath(spark, uri), spark, source, schema).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert done.withSchemaEvolution().execute().version == 2
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    expected = [
        {"id": 1, "s": {"a": 1, "in": {"x": "p", "y": None}, "b": None}, "n": None},
        {"id": 2, "s": None, "n": None},
        {"id": 3, "s": {"a": 30, "in": {"x": "q", "y": 7}, "b": 0.5}, "n": 1},
        {"id": 4, "s": {"a": 40, "in": None, "b": None}, "n": 2},
    ]
    assert sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"]) == expected
    dataset.insert(dataset.to_table(filter="id = 4"))
    lance.dataset(uri).optimize.compact_files()
    assert sorted(Dataset.open(uri).scan().to_table().to_pylist(), key=lambda row: row["id"]) == [*expected, expected[3]]


def test_the_type_of_a_column_changes_where_a_merge_moved_all_rows_of_a_fragment(uri: str, spark: SparkSession) -> None:
    for start in (0, 3):
        lance.write_dataset(pa.table({"id": pa.array(range(start, start + 3), pa.int64())}), uri, mode="append")
    table = LanceTable.forPath(spark, uri).alias("t")
    table.addColumns({"long": "id * 2"})
    source = spark.range(3).selectExpr("id", "'new' AS name").alias("s")
    table.merge(source, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().execute()
    table.alterColumn("long", type="int")
    dataset = lance.dataset(uri)
    dataset.validate()
    assert sorted(dataset.to_table(columns=["id", "long"])["long"].to_pylist()) == [0, 2, 4, 6, 8, 10]
