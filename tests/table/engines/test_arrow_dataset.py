"""`Dataset.to_arrow_dataset`: DuckDB, polars and pyarrow read the columns and rows that a query needs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.engines.arrow_dataset import ArrowDataset

duckdb = pytest.importorskip("duckdb", reason="one of the engines that are tested")
polars = pytest.importorskip("polars", reason="one of the engines that are tested")

ROWS = pa.table(
    {
        "id": pa.array(range(4000), pa.int64()),
        "kind": pa.array([None if i % 5 == 0 else f"k{i % 5}" for i in range(4000)]),
        "size": pa.array([float("nan") if i % 7 == 0 else i / 2 for i in range(4000)]),
        "text": [f"{random.Random(i).getrandbits(3200)}" for i in range(4000)],
    }
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Path:
    uri = tmp_path_factory.mktemp("engines") / "t"
    Dataset.write(uri, ROWS, max_rows_per_file=1000)
    return uri


@pytest.fixture
def rows(uri: Path) -> ArrowDataset:
    return ArrowDataset(Dataset.open(uri))


CONDITIONS = [
    "id < 10",
    "id BETWEEN 995 AND 1005 AND kind = 'k1'",
    "kind IS NULL AND id > 3990",
    "kind IN ('k1', 'k3') OR id = 5",
    "NOT (kind = 'k1') AND id < 20",
    "size > 1990.0",
    "isnan(size) AND id < 30",
    "size = 'nan'::DOUBLE AND id < 30",
    "kind LIKE 'k%' AND starts_with(text, '00') AND id % 1000 = 7",
    "upper(kind) = 'K2' AND id < 10",
    "length(text) > 5 AND id > 3997",
    "id IN (1, 999, 3999, 5000)",
    "text LIKE '%3999'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("columns", ["*", "id, kind", "count(*)"])
def test_duckdb_finds_the_same_rows_as_in_memory(rows: ArrowDataset, columns: str, condition: str) -> None:
    query = f"SELECT {columns} FROM {{}} WHERE {condition}"
    found = duckdb.sql(query.format("rows")).to_arrow_table()
    assert str(found.to_pylist()) == str(duckdb.sql(query.format("ROWS")).to_arrow_table().to_pylist())


def test_engines_take_it_for_a_dataset_of_pyarrow(rows: ArrowDataset) -> None:
    assert isinstance(rows, pyarrow.dataset.Dataset)
    scanned = polars.scan_pyarrow_dataset(rows).filter(polars.col("id") < 5).select("kind").collect()
    assert scanned["kind"].to_list() == ROWS["kind"][:5].to_pylist()
    assert rows.schema == ROWS.schema
    assert pickle.loads(pickle.dumps(rows)).count_rows() == 4000


READS: dict[str, Callable[[ArrowDataset], Any]] = {
    "duckdb": lambda rows: duckdb.sql("SELECT kind FROM rows WHERE id = 2500").fetchall(),
    "polars": lambda rows: polars.scan_pyarrow_dataset(rows).filter(polars.col("id") == 2500).select("kind").collect(),
    "pyarrow": lambda rows: rows.to_table(columns=["kind"], filter=pc.field("id") == 2500),
}


def _bytes_read(uri: Path, read: Callable[[ArrowDataset], Any]) -> int:
    table = Dataset.open(uri)
    before = table.snapshot.store.counters.bytes_read
    read(table.to_arrow_dataset())
    return int(table.snapshot.store.counters.bytes_read - before)


@pytest.mark.parametrize("engine", READS)
def test_an_engine_reads_few_bytes_of_few_columns_and_fragments(uri: Path, engine: str) -> None:
    all_bytes = _bytes_read(uri, lambda rows: rows.to_table())
    assert _bytes_read(uri, READS[engine]) < all_bytes / 4  # most of it are the ends of the files


def test_a_dataset_answers_as_pyarrows_own(rows: ArrowDataset) -> None:
    own = pyarrow.dataset.dataset(ROWS)
    late = pc.field("id") >= 3990
    assert rows.to_table(columns=["kind", "id"], filter=late) == own.to_table(columns=["kind", "id"], filter=late)
    made = {"double": pc.field("id") * 2, "kind": pc.field("kind")}
    assert rows.to_table(columns=made, filter=late) == own.to_table(columns=made, filter=late)
    assert rows.to_table(columns={"one": pc.scalar(1)}).num_rows == 4000
    assert rows.head(3, columns=["id"]) == own.head(3, columns=["id"])
    assert rows.head(3, filter=late, columns=["id"]) == own.head(3, filter=late, columns=["id"])
    assert rows.take([5, 3999, 5], columns=["id"]) == own.take([5, 3999, 5], columns=["id"])
    assert rows.take([1, 0], filter=late, columns=["id"]) == own.take([1, 0], filter=late, columns=["id"])
    assert rows.count_rows() == own.count_rows()
    assert rows.filter(late).filter(pc.field("id") < 3995).count_rows() == 5
    assert rows.scanner(["id"], late).head(2) == own.scanner(["id"], late).head(2)
    assert rows.scanner(["id"], late).count_rows() == 10
    assert rows.scanner(made).projected_schema == own.scanner(made).projected_schema
    assert sum(batch.num_rows for batch in rows.to_batches(batch_size=100)) == 4000
    assert max(batch.num_rows for batch in rows.to_batches(batch_size=100)) <= 100
    assert rows.sort_by([("id", "descending")]).head(1)["id"].to_pylist() == [3999]
    other = pa.table({"id": pa.array([1, 2], pa.int64()), "n": [10, 20]})
    assert rows.join(pyarrow.dataset.dataset(other), "id", join_type="inner").count_rows() == 2


@pytest.mark.parametrize("partitioning", [None, ["kind"]])
def test_pyarrow_writes_it_to_files_of_another_format(rows: ArrowDataset, tmp_path: Path, partitioning: Any) -> None:
    few = rows.filter(pc.field("id") < 20)
    pyarrow.dataset.write_dataset(few, tmp_path, format="parquet", partitioning=partitioning)
    found = pyarrow.dataset.dataset(tmp_path, partitioning=partitioning).to_table(["id"])
    assert sorted(found["id"].to_pylist()) == sorted(few.to_table()["id"].to_pylist())


def test_what_it_cannot_do_is_an_error(rows: ArrowDataset) -> None:
    with pytest.raises(UnsupportedFeatureError, match="no fragments of pyarrow"):
        rows.get_fragments()
    with pytest.raises(UnsupportedFeatureError, match="cast the table"):
        rows.replace_schema(pa.schema({"id": pa.int8()}))
    with pytest.raises(TypeError, match="no argument 'colums'"):
        rows.to_table(colums=["id"])


def test_no_method_of_pyarrow_is_left_that_would_need_its_own_files() -> None:
    inherited = {name for name in dir(pyarrow.dataset.Dataset) if not name.startswith("_")}
    assert inherited <= vars(ArrowDataset).keys()
