"""What `Dataset.write` takes: rows in the form in which other libraries have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, SchemaMismatchError

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "text": [f"t{i}" for i in range(10)]})


class Stream:
    """Rows of a library that nobody knows."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


class OneBatch:
    """A batch of a library that nobody knows."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return ROWS.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


def pieces() -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches(max_chunksize=3)


def slices() -> Iterator[pa.Table]:
    yield from (ROWS.slice(start, 4) for start in (0, 4, 8))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: ROWS,
    "batch": lambda _: ROWS.combine_chunks().to_batches()[0],
    "reader": lambda _: ROWS.to_reader(),
    "stream": lambda _: Stream(),
    "array": lambda _: OneBatch(),
    "pandas": lambda _: ROWS.to_pandas(),
    "polars": lambda _: pl.DataFrame(ROWS),
    "lazy polars": lambda _: pl.DataFrame(ROWS).lazy(),
    "DuckDB": lambda _: duckdb.from_arrow(ROWS),
    "pyarrow dataset": lambda _: pyarrow.dataset.dataset(ROWS),
    "pyarrow scanner": lambda _: pyarrow.dataset.dataset(ROWS).scanner(),
    "list of batches": lambda _: ROWS.to_batches(max_chunksize=3),
    "generator of batches": lambda _: pieces(),
    "generator of tables": lambda _: slices(),
    "generator of frames": lambda _: (part.to_pandas() for part in slices()),
    "Dataset": lambda folder: Dataset.write(folder / "source", ROWS),
    "scan": lambda folder: Dataset.write(folder / "source", ROWS).scan(["id", "text"]),
    "dataset of a table": lambda folder: Dataset.write(folder / "source", ROWS).to_arrow_dataset(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rows_of_other_libraries_are_written(tmp_path: Path, name: str) -> None:
    written = Dataset.write(tmp_path / "t", SOURCES[name](tmp_path))
    assert written.to_table().to_pydict() == ROWS.to_pydict()


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_cast_to_a_schema(tmp_path: Path, name: str) -> None:
    schema = pa.schema({"text": pa.large_string(), "id": pa.int16()})
    written = Dataset.write(tmp_path / "t", SOURCES[name](tmp_path), schema=schema)
    assert written.schema.equals(schema)
    assert written.to_table().to_pydict() == ROWS.select(["text", "id"]).to_pydict()
    appended = written.insert(SOURCES[name](tmp_path / "again"), schema=schema)
    assert appended.count_rows() == 2 * len(ROWS)


@pytest.mark.parametrize(
    "source",
    [iter(()), [], pl.LazyFrame({"id": []}), ROWS.schema.empty_table().to_batches()],
    ids=["an iterator", "a list", "a lazy frame", "batches"],
)
def test_no_rows_with_a_schema_make_an_empty_table(tmp_path: Path, source: Any) -> None:
    written = Dataset.write(tmp_path / "t", source, schema=pa.schema({"id": pa.int64()}))
    assert written.schema.names == ["id"]
    assert written.count_rows() == 0


def test_a_lazy_frame_without_rows_has_a_schema(tmp_path: Path) -> None:
    written = Dataset.write(tmp_path / "t", pl.LazyFrame({"id": [1]}).filter(pl.col("id") > 1))
    assert (written.schema, written.count_rows()) == (pa.schema({"id": pa.int64()}), 0)


def test_errors_of_a_source_are_its_own(tmp_path: Path) -> None:
    source = Dataset.write(tmp_path / "source", ROWS)
    (file,) = (tmp_path / "source" / "data").iterdir()
    file.unlink()
    for rows in (source, source.scan(), source.to_batches()):
        with pytest.raises(CorruptFileError, match=file.name):
            Dataset.write(tmp_path / "t", rows)


BATCH = pa.record_batch({"id": [1]})
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no batches": (iter(()), TypeError, "pass schema="),
    "rows": ([{"id": 1}], TypeError, "not of dict; of rows as dictionaries, make pa.Table.from_pylist"),
    "columns": ({"id": [1]}, TypeError, r"which are list.*pa.table\(columns\)"),
    "frames by name": ({"train": pd.DataFrame({"id": [1]})}, TypeError, "of its values, which are pandas.*DataFrame, write one"),
    "text": ("table.parquet", TypeError, "not str"),
    "a number": (7, TypeError, "not int"),
    "an array": (pa.array([1]), TypeError, "not pyarrow.lib.Int64Array"),
    "a column of polars": (pl.Series([1]), TypeError, "not polars.*Series"),
    "arrays": ([pa.array([1])], TypeError, "not pyarrow.lib.Int64Array"),
    "another type later": (
        [BATCH, pa.record_batch({"id": ["1"]})],
        SchemaMismatchError,
        "piece 1 .* id string, but the first has id int64",
    ),
    "another column later": ([BATCH, pa.record_batch({"x": [1]})], SchemaMismatchError, "piece 1 .* x int64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_things_are_refused(tmp_path: Path, name: str) -> None:
    source, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        Dataset.write(tmp_path / "t", source)
    assert not (tmp_path / "t" / "_versions").exists()


@pytest.mark.parametrize("source", [BATCH, [BATCH], iter([BATCH])], ids=["batch", "list", "generator"])
@pytest.mark.parametrize(
    ("schema", "message"), [({"x": pa.int64()}, "a column 'x', which the data has not"), ({"id": pa.date64()}, "does not fit")]
)
def test_rows_that_do_not_fit_the_schema_are_refused(tmp_path: Path, source: Any, schema: Any, message: str) -> None:
    data = [pa.record_batch({"id": ["no date"]})] if "id" in schema else source
    with pytest.raises(SchemaMismatchError, match=message):
        Dataset.write(tmp_path / "t", data, schema=pa.schema(schema))
    assert not (tmp_path / "t" / "_versions").exists()
