"""Pages of pylance decode to their values, and our encoders write the same bytes if the encoding is unambiguous."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.buffers.blocks import Block, Chunks, Encoding, FixedSizeList, FixedWidth, PackedStruct
from lance_spark.encodings import byte_stream_split, fixed_size_list, flat, inline_bitpacking, packed_struct, rle
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.encodings.rle import Rle
from tests.encodings.cases.numbers import bytes_of
from tests.encodings.cases.pages import value_chunks, zipped_values

RANDOM = np.random.default_rng(1)
ROWS = 3000


def small(dtype: str) -> pa.Array:
    return pa.array(RANDOM.integers(0, 100, ROWS).astype(dtype))


def runs(values: np.ndarray, longest: int) -> pa.Array:
    return pa.array(np.repeat(values, RANDOM.integers(1, longest, len(values)))[:ROWS])


# name, array, encoding of pylance
COLUMNS = [
    ("full range u32", pa.array(RANDOM.integers(0, 2**32, ROWS, dtype=np.uint32)), Flat(32)),
    ("booleans", pa.array(RANDOM.integers(0, 2, ROWS).astype(bool)), Flat(1)),
    ("bytes", pa.array([bytes([i % 251] * 7) for i in range(ROWS)], pa.binary(7)), Flat(56)),
    *[(f"small {dtype}", small(dtype), InlineBitpacking(8 * np.dtype(dtype).itemsize)) for dtype in ("u1", "i2", "i4")],
    ("rising i8", pa.array(np.arange(ROWS)), InlineBitpacking(64)),
    (
        "lists with null items",
        pa.array([[i, None, i + 1] for i in range(ROWS)], pa.list_(pa.int32(), 3)),
        FixedSizeListEncoding(3, True, Flat(32)),
    ),
    (
        "nested lists",
        pa.array([[[i, i], [i, None], None] for i in range(ROWS)], pa.list_(pa.list_(pa.int16(), 2), 3)),
        FixedSizeListEncoding(3, True, FixedSizeListEncoding(2, True, Flat(16))),
    ),
    ("lists of bits", pa.array([[i % 3 == 0] * 5 for i in range(ROWS)], pa.list_(pa.bool_(), 5)), FixedSizeListEncoding(5, False, Flat(1))),
]


def stored_bytes(block: Block, array: pa.Array) -> None:
    """Check `block` against the buffers of `array`, which has no offset."""
    if isinstance(block, FixedSizeList):
        items = array.values
        if block.validity is not None:
            valid = np.unpackbits(block.validity, count=len(items), bitorder="little")
            np.testing.assert_array_equal(valid, items.is_valid().to_numpy(zero_copy_only=False))
        stored_bytes(block.items, items)
        return
    assert isinstance(block, FixedWidth)
    expected = np.frombuffer(array.buffers()[1], np.uint8)[: len(block.data)]
    np.testing.assert_array_equal(block.data, expected)


def check_encoding(block: Block, node: Encoding, chunks: Chunks) -> None:
    """Check that `block` in the same chunks is encoded to the bytes that pylance wrote."""
    modules = {Flat: flat, InlineBitpacking: inline_bitpacking, Rle: rle, FixedSizeListEncoding: fixed_size_list}
    again = modules[type(node)].encode_chunks(block, chunks.counts)
    assert again.encoding == node
    for buffer, starts, sizes in zip(again.buffers, chunks.starts, chunks.sizes, strict=True):
        theirs = [chunks.data[start : start + size].tobytes() for start, size in zip(starts, sizes)]
        assert theirs == [buffer.data[start:stop].tobytes() for start, stop in pairwise(buffer.bounds)]


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize(("array", "node"), [c[1:] for c in COLUMNS], ids=[c[0] for c in COLUMNS])
def test_a_page_is_read_and_written_like_pylance(tmp_path: Path, array: pa.Array, node: object, version: str) -> None:
    found, chunks = value_chunks(tmp_path, array, version)
    assert found == node
    block = found.decode_chunks(chunks)
    stored_bytes(block, array)
    check_encoding(block, found, chunks)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("longest", [8, 600])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_runs_are_read_and_written_like_pylance(tmp_path: Path, dtype: str, longest: int, version: str) -> None:
    array = runs(RANDOM.integers(0, 256, ROWS * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype), longest)
    found, chunks = value_chunks(tmp_path, array, version)
    assert found == Rle(Flat(8 * np.dtype(dtype).itemsize), Flat(8))
    block = found.decode_chunks(chunks)
    stored_bytes(block, array)
    check_encoding(block, found, chunks)


ZSTD = {"compression": "zstd", "bss": "off"}
CYCLE = (np.arange(ROWS) % 99 / 7).astype("f4")

# name, array, settings, encoding in 2.3
ENCODED_RUNS = [
    ("lengths of two bytes", runs(RANDOM.random(ROWS, "f4"), 600), {}, Rle(Flat(32), Flat(16))),
    ("bit-packed lengths", runs(RANDOM.random(ROWS, "f4"), 5), {}, Rle(Flat(32), OutOfLineBitpacking(8, Flat(3)))),
    ("bit-packed values", runs(np.arange(ROWS, dtype="i4"), 10), {}, Rle(OutOfLineBitpacking(32, Flat(10)), Flat(8))),
    ("both compressed", runs(CYCLE, 3), ZSTD, Rle(General("zstd", None, Flat(32)), General("zstd", None, Flat(8)))),
    ("bit-packed and compressed", runs(CYCLE, 6), ZSTD, Rle(General("zstd", None, Flat(32)), OutOfLineBitpacking(8, Flat(3)))),
]


@pytest.mark.parametrize(("array", "metadata", "node"), [c[1:] for c in ENCODED_RUNS], ids=[c[0] for c in ENCODED_RUNS])
def test_encoded_runs_are_read_like_pylance(tmp_path: Path, array: pa.Array, metadata: dict[str, str], node: object) -> None:
    found, chunks = value_chunks(tmp_path, array, "2.3", metadata)
    assert found == node
    stored_bytes(found.decode_chunks(chunks), array)


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_a_packed_struct_is_read_and_written_like_pylance(tmp_path: Path, version: str) -> None:
    array = pa.StructArray.from_arrays([small("i4"), small("i8"), small("i1")], names=["a", "b", "c"])
    found, chunks = value_chunks(tmp_path, array, version, {"packed": "true"})
    assert found == PackedStructEncoding((32, 64, 8), Flat(104))
    block = found.decode_chunks(chunks)
    assert isinstance(block, PackedStruct)
    for child, field in zip(block.children, array.flatten(), strict=True):
        stored_bytes(child, field)
    (buffer,) = packed_struct.encode_chunks(block, chunks.counts).buffers
    assert bytes(buffer.data) == bytes_of(Flat(104).decode_chunks(chunks))


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_byte_streams_are_read_and_written_like_pylance(tmp_path: Path, dtype: str, version: str) -> None:
    array = pa.array(np.cumsum(RANDOM.normal(size=ROWS)).astype(dtype))
    found, chunks = value_chunks(tmp_path, array, version, {"compression": "zstd", "bss": "on"})
    bits = 8 * np.dtype(dtype).itemsize
    assert found == General("zstd", None, ByteStreamSplit(Flat(bits)))
    block = found.decode_chunks(chunks)
    stored_bytes(block, array)
    planes = General("zstd", None, Flat(bits)).decode_chunks(chunks)
    assert isinstance(block, FixedWidth)
    (buffer,) = byte_stream_split.encode_chunks(block, chunks.counts).buffers
    assert bytes(buffer.data) == bytes_of(planes)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("inner_nulls", [False, True])
def test_zipped_lists_are_read_and_written_like_pylance(tmp_path: Path, inner_nulls: bool, version: str) -> None:
    # Whole bytes of validity in both layers: pylance leaves in the bits that fill up a byte what was there.
    items = pa.array([None if i % 11 == 0 else i for i in range(50 * 24)], pa.int32())
    inner = pa.FixedSizeListArray.from_arrays(items, 3, mask=pa.array([inner_nulls and i % 7 == 0 for i in range(400)]))
    array = pa.FixedSizeListArray.from_arrays(inner, 8)
    found, values = zipped_values(tmp_path, array, version)
    assert found == FixedSizeListEncoding(8, inner_nulls, FixedSizeListEncoding(3, True, Flat(32)))
    block = found.decode_values(values)
    stored_bytes(block, array)
    node, again = fixed_size_list.encode_values(block)
    assert (node, again.bits, bytes_of(again)) == (found, values.bits, bytes_of(values))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_after_the_last_empty_list_have_levels_of_no_bits(tmp_path: Path, version: str) -> None:
    lists = pa.array([[], *[[1, 2]] * 30, *[list(range(20))] * 8000], pa.list_(pa.uint32()))
    lance.write_dataset(pa.table({"c": lists}), tmp_path / "t", data_storage_version=version)
    assert Dataset.open(tmp_path / "t").scan().to_table()["c"].combine_chunks() == lists
