"""Legacy files of pylance are read as in pylance, and only the bytes that the rows need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.file.legacy import read_legacy_file
from lance_spark.reading.steps import Rows, run
from lance_spark.v0_1.field import open_field
from tests.arrays import LEAVES, ArrayMaker, types
from tests.rows import assert_same_values, selections, without_dictionaries
from tests.sample import examples


class OpenFile:
    """The only field of the only file of a table, `bytes_read` being the bytes that its data took."""

    def __init__(self, table: Path) -> None:
        (path,) = (table / "data").iterdir()
        self._data = np.fromfile(path, dtype=np.uint8)
        self._file = run(read_legacy_file(len(self._data)), self._fetch)
        self.bytes_read = 0

    def _fetch(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        self.bytes_read = getattr(self, "bytes_read", 0) + sum(stop - start for start, stop in ranges)
        return [self._data[start:stop] for start, stop in ranges]

    def read(self, rows: Rows, batch_rows: int) -> pa.Array:
        """The given rows of the field, read `batch_rows` at a time."""
        reader = open_field(self._file.schema.fields[0], self._file.pages, rows)
        steps = [reader.read(start, min(start + batch_rows, len(rows))) for start in range(0, max(len(rows), 1), batch_rows)]
        arrays = [run(s, self._fetch) for s in steps]
        assert {a.type for a in arrays} == {self._file.schema.fields[0].type}
        return pa.concat_arrays(arrays)


def write(path: Path, array: pa.Array, batch_rows: int) -> pa.Array:
    """Write a legacy table with `array` as its column; returns what pylance reads, which has other nulls, dictionaries looked up."""
    table = pa.table({"c": array})
    lance.write_dataset(table, str(path), data_storage_version="legacy", max_rows_per_group=batch_rows)
    expected, plain = lance.dataset(str(path)).to_table()["c"], without_dictionaries(array.type)
    return (expected if plain == array.type else expected.cast(plain)).combine_chunks()


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
@pytest.mark.parametrize("nulls", [0, 0.3])
def test_every_leaf_type_is_read(tmp_path: Path, leaf: pa.DataType, nulls: float) -> None:
    expected = write(tmp_path, ArrayMaker(2, nulls, 2).array(leaf, 300), 128)
    assert_same_values(OpenFile(tmp_path).read(range(300), 100), expected)


@settings(max_examples=examples(100))
@given(data=st.data(), seed=st.integers(0, 2**32), nulls=st.sampled_from([0, 0.1, 0.5]))
def test_any_rows_of_any_nesting_are_read(data: st.DataObject, seed: int, nulls: float) -> None:
    count = data.draw(st.sampled_from([1, 8, 100, 1500]))
    array = ArrayMaker(seed, nulls, 2).array(data.draw(types(maps=False)), count)
    rows = data.draw(selections(count))
    with TemporaryDirectory() as folder:
        expected = write(Path(folder), array, data.draw(st.sampled_from([7, 400])))
        got = OpenFile(Path(folder)).read(rows, data.draw(st.sampled_from([13, 300, 10_000])))
    assert_same_values(got, expected.take(pa.array(np.asarray(rows, dtype=np.int64))))


def test_an_empty_string_is_null_only_where_a_column_may_hold_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("c", pa.string(), nullable=False)])
    lance.write_dataset(pa.table({"c": ["a", "", "b"]}, schema=schema), str(tmp_path), data_storage_version="legacy")
    assert OpenFile(tmp_path).read(range(3), 3).to_pylist() == ["a", "", "b"]


@pytest.mark.parametrize(
    ("t", "most"),
    [
        (pa.int64(), 20_000),
        (pa.list_(pa.float32(), 256), 20_000),
        (pa.string(), 80_000),
        (pa.list_(pa.string()), 100_000),
    ],
    ids=str,
)
def test_few_rows_read_few_bytes(tmp_path: Path, t: pa.DataType, most: int) -> None:
    expected = write(tmp_path, ArrayMaker(1, 0.1, 2).array(t, 50_000), 20_000)
    file = OpenFile(tmp_path)
    rows = np.array([5, 17_000, 45_000])
    assert_same_values(file.read(rows, 100), expected.take(rows))
    assert file.bytes_read < most
