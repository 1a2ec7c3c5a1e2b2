"""Files of storage version 2.0 that we write are read back by both libraries."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.writer import DataFileWriter
from lance_spark.schema.schema import from_arrow
from lance_spark.schema.storage_version import V2_0
from lance_spark.v2_0.tree import decode_page
from tests.arrays import LEAVES, ArrayMaker, types
from tests.rows import assert_same_values, without_dictionaries
from tests.sample import examples
from tests.v2_0.files import OpenFile, without_struct_nulls


def write(path: Path, array: pa.Array, batch_rows: int, metadata: dict[str, str] | None = None) -> None:
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    with path.open("wb") as out:
        writer = DataFileWriter(out, from_arrow(schema), V2_0)
        for start in range(0, max(len(array), 1), batch_rows):
            writer.write(pa.record_batch([array.slice(start, batch_rows)], schema=schema))
        written = writer.finish()
    assert written.num_rows == len(array)
    assert written.size_bytes == path.stat().st_size
    assert written.column_indices == tuple(range(len(written.field_ids)))


def assert_read_back(path: Path, array: pa.Array) -> OpenFile:
    file = OpenFile(path)
    assert_same_values(file.read(range(len(array)), 1000), array)
    theirs = LanceFileReader(str(path)).read_all().to_table()["c"]
    if without_dictionaries(array.type) != array.type:
        theirs = theirs.cast(without_dictionaries(array.type))
    assert_same_values(theirs.combine_chunks(), array)
    return file


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
def test_every_leaf_type_is_read_back(tmp_path: Path, leaf: pa.DataType, nulls: float) -> None:
    array = ArrayMaker(2, nulls, 2).sliced(leaf, 3000)
    write(tmp_path / "c.lance", array, 700)
    assert_read_back(tmp_path / "c.lance", array)


@settings(max_examples=examples(100))
@given(data=st.data(), seed=st.integers(0, 2**32), nulls=st.sampled_from([0, 0.1, 0.5, 1]))
def test_any_nesting_is_read_back(data: st.DataObject, seed: int, nulls: float) -> None:
    count = data.draw(st.sampled_from([0, 1, 8, 1500]))
    array = without_struct_nulls(ArrayMaker(seed, nulls, 2).sliced(data.draw(types(maps=False)), count))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.lance"
        write(path, array, data.draw(st.sampled_from([400, 10_000])))
        assert_read_back(path, array)


def test_large_columns_take_several_pages_that_do_not_line_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    offsets = np.concatenate([[0], rng.integers(0, 40, 200_000).cumsum()]).astype(np.int32)
    array = pa.ListArray.from_arrays(pa.array(offsets), pa.array(rng.integers(0, 2**60, offsets[-1])))
    write(tmp_path / "c.lance", array, 30_000)
    file = assert_read_back(tmp_path / "c.lance", array)
    assert [len(column.pages) for column in file.columns.values()] == [1, 4]


def test_lists_that_are_all_empty_have_a_page_of_no_items(tmp_path: Path) -> None:
    array = pa.array([[], None, []], pa.list_(pa.list_(pa.string())))
    write(tmp_path / "c.lance", array, 10)
    file = assert_read_back(tmp_path / "c.lance", array)
    assert [[page.num_rows for page in column.pages] for column in file.columns.values()] == [[3], [0], [0]]


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_strings_are_compressed_on_request(tmp_path: Path, compression: str) -> None:
    array = pa.array(["lance " * 50, None, ""] * 500)
    write(tmp_path / "c.lance", array, 1000, {"lance-encoding:compression": compression, "lance-encoding:compression-level": "3"})
    assert (tmp_path / "c.lance").stat().st_size < 50_000
    file = assert_read_back(tmp_path / "c.lance", array)
    column = file.columns[file.field.id]
    assert compression in repr(decode_page(column.pages[0], column))


def test_packed_structs_are_read_back(tmp_path: Path) -> None:
    leaves = [pa.int32(), pa.list_(pa.float32(), 3), pa.uint8(), pa.decimal128(9, 2)]
    array = pa.StructArray.from_arrays([ArrayMaker(i, 0, 2).array(t, 150) for i, t in enumerate(leaves)], list("abcd"))
    write(tmp_path / "c.lance", array, 100, {"packed": "true"})
    file = assert_read_back(tmp_path / "c.lance", array)
    assert len(file.columns) == 1


PACKED = {"packed": "true"}


@pytest.mark.parametrize(
    ("array", "metadata", "complaint"),
    [
        (pa.array([{"a": 1}, None]), None, "1 null structs"),
        (pa.array([[{"a": 1}, None]]), None, "1 null structs"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), None, "type map.* is not supported"),
        (pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int8())]), 1)), None, "type fixed_size_list.* is not supported"),
        (pa.array([["x"]], pa.list_(pa.string(), 1)), None, "fixed-size lists of variable-width values are not supported"),
        (pa.array([{"a": None}], pa.struct([("a", pa.int8())])), PACKED, "has nulls"),
        (pa.array([None], pa.struct([("a", pa.int8())])), PACKED, "has nulls"),
        (pa.array([{"a": "x"}]), PACKED, "'a' is of type string"),
        (pa.array([{"a": True}]), PACKED, "'a' is of type bool"),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint8()), pa.array(range(256))),
            None,
            "257 dictionary items",
        ),
    ],
    ids=str,
)
def test_types_that_the_version_lacks_are_refused(tmp_path: Path, array: pa.Array, metadata: dict[str, str] | None, complaint: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=complaint):
        write(tmp_path / "c.lance", array, 10, metadata)
