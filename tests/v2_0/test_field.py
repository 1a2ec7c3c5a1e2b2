"""Files of storage version 2.0 by pylance are read back, and only the bytes that the rows need."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError
from lance_spark.reading.spans import all_rows
from lance_spark.v2_0.field import open_field
from lance_spark.v2_0.tree import decode_page
from tests.arrays import LEAVES, ArrayMaker, types
from tests.rows import assert_same_values, selections
from tests.sample import examples
from tests.v2_0.files import OpenFile, without_struct_nulls, write


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
def test_every_leaf_type_is_read(tmp_path: Path, leaf: pa.DataType, nulls: float) -> None:
    for variety in (0, 1, 2):
        array = ArrayMaker(variety, nulls, variety).array(leaf, 3000)
        write(tmp_path / "c.lance", array, page_rows=1300)
        assert_same_values(OpenFile(tmp_path / "c.lance").read(range(3000), 700), array)


@settings(max_examples=examples(150))
@given(data=st.data(), seed=st.integers(0, 2**32), nulls=st.sampled_from([0, 0.1, 0.5, 1]), variety=st.integers(0, 2))
def test_any_rows_of_any_nesting_are_read(data: st.DataObject, seed: int, nulls: float, variety: int) -> None:
    count = data.draw(st.sampled_from([0, 1, 8, 100, 1500]))
    array = without_struct_nulls(ArrayMaker(seed, nulls, variety).sliced(data.draw(types(maps=False)), count))
    rows = data.draw(selections(count))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.lance"
        write(path, array, data.draw(st.sampled_from([7, 64, 10_000] if count < 500 else [400, 10_000])))
        got = OpenFile(path).read(rows, data.draw(st.sampled_from([13, 300, 10_000])))
    assert_same_values(got, array.take(pa.array(np.asarray(rows, dtype=np.int64))))


@pytest.mark.parametrize(
    ("compression", "t", "encoding"),
    [
        ("zstd", pa.string(), "zstd"),
        ("zstd", pa.large_binary(), "zstd"),
        ("lz4", pa.large_string(), "lz4"),
        ("lz4", pa.binary(), "lz4"),
        ("fsst", pa.string(), "Fsst"),
    ],
    ids=str,
)
def test_compressed_strings_are_read(tmp_path: Path, compression: str, t: pa.DataType, encoding: str) -> None:
    rng = np.random.default_rng(3)
    words = [None if rng.random() < 0.1 else " ".join(rng.choice(["information", "lance", "", "spark", "ü"], 7)) for _ in range(5000)]
    array = pa.array(words, pa.string()).cast(t)
    write(tmp_path / "c.lance", array, 2000, {"lance-encoding:compression": compression})
    file = OpenFile(tmp_path / "c.lance")
    column = file.columns[file.field.id]
    assert encoding in repr(decode_page(column.pages[0], column))
    rows = np.flatnonzero(rng.random(5000) < 0.1)
    assert_same_values(file.read(range(5000), 1111), array)
    assert_same_values(file.read(rows, 100), array.take(rows))


@pytest.mark.parametrize("rows", [range(150), np.array([0, 77, 149])], ids=["all", "some"])
def test_packed_structs_are_read(tmp_path: Path, rows: range | np.ndarray) -> None:
    types = [pa.int32(), pa.list_(pa.float32(), 3), pa.uint8(), pa.float64()]
    array = pa.StructArray.from_arrays([ArrayMaker(i, 0, 2).array(t, 150) for i, t in enumerate(types)], list("abcd"))
    write(tmp_path / "c.lance", array, 40, {"packed": "true"})
    assert_same_values(OpenFile(tmp_path / "c.lance").read(rows, 33), array.take(pa.array(rows)))


def test_blobs_are_read(tmp_path: Path) -> None:
    array = pa.array([b"first", None, b"", b"x" * 100_000] * 5, pa.large_binary())
    write(tmp_path / "c.lance", array, 7, {"lance-encoding:blob": "true"})
    file = OpenFile(tmp_path / "c.lance")
    assert_same_values(file.read(range(20), 6), array)
    before = file.bytes_read
    assert_same_values(file.read(np.array([0, 4, 17]), 6), array.take([0, 4, 17]))
    assert file.bytes_read - before < 1000


@pytest.mark.parametrize(
    ("t", "most"),
    [
        (pa.int64(), 10_000),
        (pa.bool_(), 10_000),
        (pa.list_(pa.float32(), 256), 20_000),
        (pa.string(), 40_000),
        (pa.list_(pa.string()), 60_000),
        (pa.struct([("a", pa.int64()), ("b", pa.large_list(pa.int16()))]), 40_000),
    ],
    ids=str,
)
def test_few_rows_read_few_bytes(tmp_path: Path, t: pa.DataType, most: int) -> None:
    array = without_struct_nulls(ArrayMaker(1, 0.1, 2).array(t, 50_000))
    write(tmp_path / "c.lance", array, 20_000)
    file = OpenFile(tmp_path / "c.lance")
    before = file.bytes_read
    rows = np.array([5, 17_000, 45_000])
    assert_same_values(file.read(rows, 100), array.take(rows))
    assert file.bytes_read - before < most


def test_a_batch_keeps_no_more_of_the_file_than_its_pages(tmp_path: Path) -> None:
    array = pa.array(np.arange(10_000))
    write(tmp_path / "c.lance", array, 1000)
    file = OpenFile(tmp_path / "c.lance")
    before = file.bytes_read
    file.read(range(10_000), 300)
    assert file.bytes_read - before == 80_000  # batches end within pages, and yet nothing is read twice


def test_inconsistent_pages_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "c.lance", pa.array(np.arange(10)), 10)
    file = OpenFile(tmp_path / "c.lance")
    with pytest.raises(CorruptFileError, match="expected 11 values, found pages with 10"):
        open_field(file.field, file.columns, all_rows(11), 11)


def test_a_field_without_a_column_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "c.lance", pa.array([[1], [2]]), 10)
    file = OpenFile(tmp_path / "c.lance")
    del file.columns[file.field.children[0].id]
    with pytest.raises(CorruptFileError, match="no column for field 1"):
        file.read(range(2), 10)
