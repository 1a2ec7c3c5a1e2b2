"""Data files of every version: batches, errors that name the file and the column, and damage at every byte."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.data_file import open_data_file
from lance_spark.storage.store import Store
from tests.layouts.data import random_array, read_rows, written_by_pylance

pytestmark = pytest.mark.spec("format-document.md", "File Structure")

VERSIONS = ["legacy", "2.0", "2.1", "2.2", "2.3"]


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_every_version_are_read(version: str, tmp_path: Path) -> None:
    table = pa.table({"i": range(1000), "s": [f"text {i}" for i in range(1000)], "l": [[i] * (i % 3) for i in range(1000)]})
    reader, columns = written_by_pylance(table, tmp_path / "t.lance", version)
    assert (reader.num_rows, reader.schema.names) == (1000, ["i", "s", "l"])
    for rows in (range(1000), range(10, 700), np.array([0, 5, 999])):
        for field in reader.schema.fields:
            got = read_rows(reader, columns, field, rows, 300)
            assert got.to_pylist() == table[field.name].take(pa.array(np.asarray(rows))).to_pylist()


def test_batches_respect_the_limits_of_rows_and_bytes(tmp_path: Path) -> None:
    reader, columns = written_by_pylance(pa.table({"s": ["x" * 1000] * 5000}), tmp_path / "t.lance", "2.1")
    sizes = [len(b[0]) for b in reader.read(reader.schema.fields, columns, range(5000), 700)]
    assert max(sizes) == 700
    assert sum(sizes) == 5000
    small = [len(b[0]) for b in reader.read(reader.schema.fields, columns, range(5000), 5000, batch_bytes=100_000)]
    assert max(small) <= 100
    assert sum(small) == 5000


def test_no_rows_are_no_batches(tmp_path: Path) -> None:
    reader, columns = written_by_pylance(pa.table({"i": [1]}), tmp_path / "t.lance", "2.1")
    assert list(reader.read(reader.schema.fields, columns, range(0), 10)) == []


def test_rows_that_the_file_does_not_have_are_refused(tmp_path: Path) -> None:
    reader, columns = written_by_pylance(pa.table({"i": [1, 2]}), tmp_path / "t.lance", "2.1")
    with pytest.raises(IndexError, match="out of bounds of a file of 2"):
        list(reader.read(reader.schema.fields, columns, range(1, 3), 10))


def test_errors_name_the_file_and_the_column(tmp_path: Path) -> None:
    written_by_pylance(pa.table({"good": range(100), "bad": [i * 10**9 for i in range(100)]}), tmp_path / "t.lance", "2.1")
    (path,) = (tmp_path / "t.lance" / "data").iterdir()
    store, name = Store(str(tmp_path / "t.lance")), f"data/{path.name}"
    reader = open_data_file(store, name)
    column = reader._layout.column_metadata[1]  # type: ignore[union-attr]
    data = bytearray(path.read_bytes())
    data[column[0] : column[1]] = bytes(column[1] - column[0])
    path.write_bytes(data)
    reader = open_data_file(store, name)
    with pytest.raises(CorruptFileError, match=f"{name}.*column"):
        list(reader.read(reader.schema.fields, {0: 0, 1: 1}, range(100), 100))


def test_errors_name_the_nested_column_and_the_page(tmp_path: Path) -> None:
    texts = pa.array([f"{i:0>60}" for i in np.random.default_rng(0).integers(0, 2**62, 300_000).tolist()])
    table = pa.table({"s": pa.StructArray.from_arrays([texts], ["inner"])})
    dataset = Dataset.write(str(tmp_path / "t"), table, data_storage_version="2.1")
    (path,) = (tmp_path / "t" / "data").iterdir()
    store, name = Store(str(tmp_path / "t")), f"data/{path.name}"
    reader = open_data_file(store, name, verify_checksums=False)
    pages = next(iter(reader._columns(reader.schema.fields, {1: 0}).values())).pages
    assert len(pages) > 1
    first = pages[1].buffers[0]
    data = bytearray(path.read_bytes())
    data[first.start : first.stop] = b"\xff" * (first.stop - first.start)
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=rf"{name}: column 's': s\.inner: page 1: "):
        Dataset.open(str(tmp_path / "t"), verify_checksums=False).scan().to_table()
    assert dataset.count_rows() == 300_000


def test_a_file_of_another_size_than_the_manifest_says_is_refused(tmp_path: Path) -> None:
    written_by_pylance(pa.table({"i": [1]}), tmp_path / "t.lance", "2.1")
    (path,) = (tmp_path / "t.lance" / "data").iterdir()
    with pytest.raises(CorruptFileError, match="expected 5 bytes"):
        open_data_file(Store(str(tmp_path / "t.lance")), f"data/{path.name}", 5)


TYPES = [
    pa.int32(),
    pa.string(),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.list_(pa.string())), ("b", pa.float64())]),
    pa.list_(pa.list_(pa.float32(), 80)),
    pa.dictionary(pa.int8(), pa.string()),
    pa.bool_(),
    pa.large_binary(),
]


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_a_damaged_file_is_refused_or_gives_other_values_but_nothing_else(version: str, t: pa.DataType, tmp_path: Path) -> None:
    rng = random.Random(11)
    array = random_array(t, 300, rng, 0.2, 60)
    _, columns = written_by_pylance(pa.table({"c": array}), tmp_path / "t.lance", version)
    (path,) = (tmp_path / "t.lance" / "data").iterdir()
    good, store = path.read_bytes(), Store(str(tmp_path / "t.lance"))
    outcomes = set()
    for _ in range(60):
        data = bytearray(good)
        for _ in range(rng.choice((1, 3))):
            # Half of the damage hits the end, where positions, counts and encodings are.
            position = rng.choice((rng.randrange(len(data)), len(data) - 1 - rng.randrange(min(len(data), 900))))
            data[position] = rng.choice((0, 255, rng.randrange(256)))
        path.write_bytes(data)
        try:
            reader = open_data_file(store, f"data/{path.name}")
            for field in reader.schema.fields:
                for arrays in reader.read([field], columns, range(min(reader.num_rows, 300)), 300):
                    arrays[0].validate(full=True)
            outcomes.add("read")
        except LanceError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
