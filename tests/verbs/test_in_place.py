"""Updates of few columns in many rows write these columns only; the rows stay where they are, with their ids."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import AmbiguousMergeError, SchemaMismatchError

VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(1).random(300 * 32, np.float32)), 32)
ROWS = pa.table({"id": pa.array(range(300), pa.int64()), "n": pa.array([None] * 300, pa.int32()), "v": VECTORS})


@pytest.fixture(params=[False, True], ids=["addresses, on the driver", "stable row ids, on executors"])
def table(request: pytest.FixtureRequest, uri: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> LanceTable:
    if request.param:
        monkeypatch.setattr("lance_spark.table.scan.runner._SMALL_WORK", -1)
    lance.write_dataset(ROWS, uri, max_rows_per_file=100, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id % 10 = 3")
    return LanceTable.forPath(spark, uri)


def read(uri: str) -> pa.Table:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    rows = dataset.to_table(with_row_address=True)
    assert rows.select(["id", "n", "v"]).equals(Dataset.open(uri).scan().to_table().select(["id", "n", "v"]))
    return rows


@pytest.mark.matrix
@pytest.mark.parametrize("by_spark", [False, True], ids=["ours", "spark's"])
def test_all_rows(table: LanceTable, uri: str, by_spark: bool) -> None:
    before, files = read(uri), set(Path(uri, "data").iterdir())
    done = table.update(set={"n": F.col("id") + 1 if by_spark else "id + 1"})
    after = read(uri)
    assert after.select(["id", "v", "_rowaddr"]).equals(before.select(["id", "v", "_rowaddr"]))
    assert after["n"].to_pylist() == [i + 1 for i in after["id"].to_pylist()]
    new = [path.stat().st_size for path in Path(uri, "data").iterdir() if path not in files]
    assert (done.num_updated_rows, done.num_files_added, done.num_bytes_added) == (270, 3, sum(new))


@pytest.mark.parametrize("by_spark", [False, True], ids=["ours", "spark's"])
def test_most_rows_of_one_fragment(table: LanceTable, uri: str, by_spark: bool) -> None:
    done = table.update("id >= 110 AND id < 190", {"n": F.length(F.lit("seven x")) if by_spark else "7"})
    after = {row["id"]: row["n"] for row in read(uri).to_pylist()}
    assert {i for i, n in after.items() if n == 7} == {i for i in range(110, 190) if i % 10 != 3}
    assert (done.num_updated_rows, done.num_files_added) == (72, 1)
    assert len(lance.dataset(uri).get_fragments()) == 3


def test_few_rows_move(table: LanceTable, uri: str) -> None:
    table.update("id = 5", {"n": "7"})
    assert len(lance.dataset(uri).get_fragments()) == 4
    assert {row["id"]: row["n"] for row in read(uri).to_pylist()}[5] == 7


def test_update_columns_from_a_frame(table: LanceTable, uri: str, spark: SparkSession) -> None:
    frame = spark.range(150, 1000).selectExpr("id", "CAST(id AS INT) * 2 AS n")
    done = table.updateColumns(frame, on="id")
    after = {row["id"]: row["n"] for row in read(uri).to_pylist()}
    assert after == {i: 2 * i if i >= 150 else None for i in after}
    assert (done.num_updated_rows, done.num_files_added) == (135, 2)


def test_unsupported_updates_of_columns_are_refused(table: LanceTable, uri: str, spark: SparkSession) -> None:
    with pytest.raises(AmbiguousMergeError):
        table.updateColumns(spark.createDataFrame([(1, 1), (1, 2)], "id long, n int"), on="id")
    with pytest.raises(SchemaMismatchError, match="no column 'other'"):
        table.updateColumns(spark.createDataFrame([(1, 1)], "id long, other int"), on="id")
    with pytest.raises(SchemaMismatchError, match="'n' is string"):
        table.updateColumns(spark.createDataFrame([(1, "x")], "id long, n string"), on="id")
    assert lance.dataset(uri).version == 2
    assert len(list(Path(uri, "data").iterdir())) == 3


def test_pylance_deletes_and_compacts_afterwards(table: LanceTable, uri: str) -> None:
    table.update(set={"n": "id * 2"})
    lance.dataset(uri).delete("id < 50")
    lance.dataset(uri).optimize.compact_files()
    table.update("id = 60", {"n": "1"})
    after = {row["id"]: row["n"] for row in read(uri).to_pylist()}
    assert after == {i: 1 if i == 60 else 2 * i for i in range(50, 300) if i % 10 != 3}
