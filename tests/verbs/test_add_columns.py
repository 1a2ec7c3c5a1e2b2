"""addColumns: new files hold the new columns only, in the order of the rows; pylance reads them beside the old ones."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import SchemaMismatchError
from tests.verbs.spark_jobs import stages

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [None if i % 7 == 0 else f"n{i}" for i in range(100)]})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def table(request: pytest.FixtureRequest, uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id IN (0, 40, 41, 99) OR (id >= 60 AND id < 85)")
    return LanceTable.forPath(spark, uri)


def read(uri: str) -> dict[int, dict[str, object]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


def test_columns_from_our_expressions(table: LanceTable, uri: str) -> None:
    before = {path.name for path in Path(uri, "data").iterdir()}
    done = table.addColumns({"double": "id * 2", "size": "length(name)"})
    assert {i: (row["double"], row["size"]) for i, row in read(uri).items()} == {
        i: (2 * i, None if i % 7 == 0 else len(f"n{i}")) for i in ROWS["id"].to_pylist() if i in read(uri)
    }
    assert lance.dataset(uri).schema.field("size").type == pa.int32()
    new = {path.name: path.stat().st_size for path in Path(uri, "data").iterdir() if path.name not in before}
    assert (done.num_files_added, done.num_bytes_added) == (len(new), sum(new.values()))
    assert len(new) == 4


def test_columns_from_expressions_of_spark_only(table: LanceTable, uri: str) -> None:
    table.addColumns({"hash": F.sha2(F.col("name"), 256), "n": "size(split(name, '1'))"})
    rows = read(uri)
    assert len(rows) == 71
    assert rows[11]["n"] == 3
    assert rows[7]["hash"] is None


def test_columns_from_a_function_over_batches(table: LanceTable, uri: str) -> None:
    def vectors(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pc.cast(batch.column("id"), pa.float32()).to_numpy().repeat(4)
        return pa.record_batch({"v": pa.FixedSizeListArray.from_arrays(pa.array(values), 4)})

    table.addColumns(vectors, schema=pa.schema({"v": pa.list_(pa.float32(), 4)}), columns=["id"])
    assert {i: row["v"] for i, row in read(uri).items()} == {i: [float(i)] * 4 for i in read(uri)}


def test_columns_from_a_dataframe_by_key(table: LanceTable, uri: str, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(i, f"extra {i}") for i in range(90, 200)], "id long, extra string")
    table.addColumns(frame, on="id")
    assert {i: row["extra"] for i, row in read(uri).items() if row["extra"]} == {i: f"extra {i}" for i in range(90, 99)}


def test_pylance_continues_with_the_table(table: LanceTable, uri: str) -> None:
    table.addColumns({"double": "id * 2"})
    dataset = lance.dataset(uri)
    dataset.insert(pa.table({"id": pa.array([500]), "name": ["x"], "double": pa.array([1000])}))
    lance.dataset(uri).optimize.compact_files()
    assert {i: row["double"] for i, row in read(uri).items()} == {i: 2 * i for i in read(uri)}


def test_existing_names_and_invalid_results_are_refused(table: LanceTable, uri: str) -> None:
    with pytest.raises(SchemaMismatchError, match="already has the columns 'name'"):
        table.addColumns({"name": "id"})
    with pytest.raises(SchemaMismatchError, match="rows, not 1 rows"):
        table.addColumns(lambda batch: pa.record_batch({"a": [1]}), schema=pa.schema({"a": pa.int64()}))
    two = pa.schema({"a": pa.int64(), "b": pa.int64()})
    for names, found in ((["zz", "b"], "'zz', 'b'"), (["a"], "'a'"), (["a", "b", "c"], "'a', 'b', 'c'"), ([], "none")):

        def other(batch: pa.RecordBatch, names: list[str] = names) -> pa.RecordBatch:
            empty = pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
            return pa.RecordBatch.from_arrays([batch["id"]] * len(names), names) if names else empty

        with pytest.raises(SchemaMismatchError, match=f"returned the columns {found}; expected those of its schema: 'a', 'b'$"):
            table.addColumns(other, schema=two, columns=["id"])
    assert lance.dataset(uri).version == 2
    assert len(list(Path(uri, "data").iterdir())) == 4


def test_expressions_of_spark_move_no_rows(table: LanceTable, uri: str, spark: SparkSession) -> None:
    length = F.udf(lambda text: len(text or ""), "int")
    assert stages(spark, lambda: table.addColumns({"n": length("name"), "hash": F.sha2("name", 256)})) == [1]
    assert {i: row["n"] for i, row in read(uri).items()} == {i: len(str(row["name"] or "")) for i, row in read(uri).items()}
    assert stages(spark, lambda: table.update(set={"n": F.col("n") + length("name")})) == [1]
    assert {i: row["n"] for i, row in read(uri).items()} == {i: 2 * len(str(row["name"] or "")) for i, row in read(uri).items()}


def test_expressions_with_subqueries_may_move_rows(table: LanceTable, uri: str) -> None:
    table.addColumns({"known": "id IN (SELECT id * 2 FROM range(20))", "most": "(SELECT max(id) FROM range(7))"})
    assert {i: (row["known"], row["most"]) for i, row in read(uri).items()} == {i: (i % 2 == 0 and i < 40, 6) for i in read(uri)}


def test_an_append_meanwhile_gets_values_too(table: LanceTable, uri: str, tmp_path: Path) -> None:
    once = tmp_path / "done"

    def slowly(i: int) -> int:
        if i == 1 and not once.exists():
            once.touch()
            lance.dataset(uri).insert(pa.table({"id": pa.array([500, 501]), "name": ["a", "b"]}))
            lance.dataset(uri).delete("id = 2")
        return i * 2

    table.addColumns({"double": F.udf(slowly, "long", useArrow=False)("id")})
    rows = read(uri)
    assert {i: row["double"] for i, row in rows.items()} == {i: 2 * i for i in rows}
    assert {500, 501} <= rows.keys()
    assert 2 not in rows


def test_by_a_frame_on_the_address_of_rows(table: LanceTable, uri: str, spark: SparkSession) -> None:
    rows = spark.read.format("lance").option("with_row_address", True).load(uri)
    table.addColumns(rows.selectExpr("_rowaddr", "id * 3 AS triple"), on="_rowaddr")
    assert {i: row["triple"] for i, row in read(uri).items()} == {i: 3 * i for i in read(uri)}
    rows = spark.read.format("lance").option("with_row_address", True).load(uri)
    done = table.updateColumns(rows.where("id < 50").selectExpr("_rowaddr", "id * 4 AS triple"), on="_rowaddr")
    assert done.num_updated_rows == 47
    assert {i: row["triple"] for i, row in read(uri).items()} == {i: (4 if i < 50 else 3) * i for i in read(uri)}


def test_fields_of_structs_get_values_and_types(spark: SparkSession, uri: str) -> None:
    structs = [{"x": 1}, None, {"x": 3}, {"x": 4}]
    lance.write_dataset(pa.table({"id": range(4), "s": pa.array(structs)}), uri, max_rows_per_file=2, data_storage_version="2.1")
    lance.dataset(uri).delete("id = 2")
    table = LanceTable.forPath(spark, uri)
    table.addColumns({"s.twice": "s.x * 2", "s.`a.b`": F.concat(F.lit("v"), F.col("id"))})
    table.addColumns(spark.createDataFrame([(0, 7), (3, 8)], "id long, `s.joined` long"), on="id")
    table.alterColumn("s.x", type="int")
    table.renameColumn("s.joined", "j")
    table.dropColumns(["s.twice"])
    lance.dataset(uri).validate()
    expected = [{"x": 1, "a.b": "v0", "j": 7}, None, {"x": 4, "a.b": "v3", "j": 8}]
    assert lance.dataset(uri).to_table()["s"].to_pylist() == expected
    assert [row.s and row.s.asDict() for row in table.toDF().orderBy("id").collect()] == expected
    assert lance.dataset(uri).schema.field("s").type.field("x").type == pa.int32()
