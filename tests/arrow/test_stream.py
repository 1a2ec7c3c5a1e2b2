"""Tables, scans, searches and change feeds as Arrow streams, which pyarrow, pandas, polars and DuckDB read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset, PartitionedNamespace, create_partitioned_namespace, namespace
from lance_spark.arrow.stream import ArrowStream
from lance_spark.errors import SchemaMismatchError

duckdb = pytest.importorskip("duckdb", reason="one of the readers that are tested")
polars = pytest.importorskip("polars", reason="one of the readers that are tested")

ROWS = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "text": [f"text {i}" for i in range(100)],
        "vector": pa.array([[i, 1.0] for i in range(100)], pa.list_(pa.float32(), 2)),
    }
)


def _in_namespace(folder: Path) -> Dataset:
    return namespace(folder / "tables").write(("t",), ROWS)


def _partitioned(folder: Path) -> PartitionedNamespace:
    fields = [("bucket", "id", 3)]
    return create_partitioned_namespace(folder / "parts", ROWS.schema, fields).write(ROWS)


DOORS: dict[str, Callable[[Path], Any]] = {
    "dataset": lambda folder: Dataset.write(folder / "t", ROWS),
    "scan": lambda folder: Dataset.write(folder / "t", ROWS).scan(["id", "text"], "id >= 50"),
    "scan without columns": lambda folder: Dataset.write(folder / "t", ROWS).scan([]),
    "scan without rows": lambda folder: Dataset.write(folder / "t", ROWS).scan(filter="id < 0"),
    "search": lambda folder: Dataset.write(folder / "t", ROWS).scan(nearest={"column": "vector", "q": [7.2, 1], "k": 5}),
    "changes": lambda folder: Dataset.write(folder / "t", ROWS).changes(0),
    "table of a namespace": _in_namespace,
    "partitioned namespace": _partitioned,
    "scan of a partitioned namespace": lambda folder: _partitioned(folder).scan(filter="id < 10"),
}


def _by_duckdb(rows: Any) -> pa.Table:
    return duckdb.sql("SELECT * FROM rows").to_arrow_table()


READERS: dict[str, Callable[[Any], pa.Table]] = {
    "pa.table": pa.table,
    "from_stream": lambda rows: pa.RecordBatchReader.from_stream(rows).read_all(),
    "polars": lambda rows: polars.DataFrame(rows).to_arrow(),
    "duckdb": _by_duckdb,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("door", DOORS)
def test_other_libraries_read_all_rows(door: str, reader: str, tmp_path: Path) -> None:
    rows = DOORS[door](tmp_path)
    expected = (rows if isinstance(rows, ArrowStream) else rows.scan()).to_table()
    if not expected.num_columns and reader != "from_stream" and reader != "pa.table":
        return  # polars and DuckDB have no tables without columns
    found = READERS[reader](rows)
    assert found.num_rows == expected.num_rows
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("door", [name for name in DOORS if "scan" in name or name in ("search", "changes")])
def test_batches_come_from_a_reader_with_a_schema(door: str, tmp_path: Path) -> None:
    rows = DOORS[door](tmp_path)
    reader = rows.to_batches()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.equals(rows.schema, check_metadata=True)
    assert sum(batch.num_rows for batch in reader) == rows.to_table().num_rows


def test_frames_of_pandas_and_polars(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", ROWS)
    wanted = ROWS.slice(98)["text"].to_pylist()
    assert table.to_pandas(["text"], "id >= 98")["text"].tolist() == wanted
    assert table.to_polars(["text"], "id >= 98")["text"].to_list() == wanted
    assert table.changes(0, columns=["text"], filter="id >= 98").to_polars()["text"].to_list() == wanted


class Counted(ArrowStream):
    """Batches of one row, which are counted when they are made and when the stream ends."""

    schema = pa.schema({"id": pa.int64()})

    def __init__(self) -> None:
        self.made = 0
        self.ended = False

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for i in range(100):
                self.made += 1
                yield pa.record_batch({"id": [i]})
        finally:
            self.ended = True


@pytest.mark.parametrize("as_reader", [lambda rows: rows.to_batches(), pa.RecordBatchReader.from_stream], ids=["own", "stream"])
def test_a_stream_is_read_on_request_and_ends_when_it_is_dropped(as_reader: Callable[[Any], Any]) -> None:
    rows = Counted()
    reader = as_reader(rows)
    assert rows.made == 0
    reader.read_next_batch()
    assert rows.made == 1
    assert not rows.ended
    del reader
    assert rows.ended
    assert rows.made == 1


def test_a_scan_that_is_dropped_half_way_reads_no_more(tmp_path: Path) -> None:
    for i in range(4):
        table = Dataset.write(tmp_path / "t", ROWS.append_column("n", pa.array([i] * 100)), mode="append")
    table = Dataset.open(tmp_path / "t")
    reader = pa.RecordBatchReader.from_stream(table.scan(batch_size=10))
    before = threading.active_count()
    reader.read_next_batch()
    del reader
    assert threading.active_count() <= before
    read = table.snapshot.store.counters.bytes_read
    pa.table(table)
    assert table.snapshot.store.counters.bytes_read > 2 * read


NUMBERS = pa.table({"i": pa.array([1, None, 3], pa.int32()), "s": ["a", None, "c"], "f": [0.5, None, 1.5]})
REQUESTS = {
    "wider": {"i": pa.int64(), "s": pa.large_string(), "f": pa.float64()},
    "views": {"i": pa.int32(), "s": pa.string_view(), "f": pa.float64()},
    "dictionary": {"i": pa.int32(), "s": pa.dictionary(pa.int32(), pa.string()), "f": pa.float64()},
    "narrower": {"i": pa.int8(), "s": pa.string(), "f": pa.float32()},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_requested_schema_is_honored(name: str, tmp_path: Path) -> None:
    requested = pa.schema(REQUESTS[name])
    found = pa.table(Dataset.write(tmp_path / "t", NUMBERS), schema=requested)
    assert found.schema == requested
    assert found == NUMBERS.cast(requested)


def test_types_that_no_cast_makes_are_left(tmp_path: Path) -> None:
    requested = pa.schema({"i": pa.list_(pa.int32()), "s": pa.string(), "f": pa.float64()})
    table = Dataset.write(tmp_path / "t", NUMBERS)
    capsule = table.__arrow_c_stream__(requested.__arrow_c_schema__())
    assert pa.RecordBatchReader._import_from_c_capsule(capsule).read_all() == NUMBERS


@pytest.mark.parametrize("names", [["i"], ["i", "f", "s"], ["i", "s", "g"]], ids=str)
def test_a_request_for_other_columns_is_an_error(names: list[str], tmp_path: Path) -> None:
    requested = pa.schema([(name, pa.int32()) for name in names])
    with pytest.raises(SchemaMismatchError, match="choose columns in the scan"):
        Dataset.write(tmp_path / "t", NUMBERS).__arrow_c_stream__(requested.__arrow_c_schema__())


def test_a_value_that_does_not_fit_the_requested_type_is_an_error(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", pa.table({"i": [1, 1000]}))
    with pytest.raises(pa.ArrowInvalid, match="1000"):
        pa.table(table, schema=pa.schema({"i": pa.int8()}))
