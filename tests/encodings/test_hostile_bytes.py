"""Any bytes with any tree of encodings result in values, CorruptFileError or UnsupportedFeatureError, and never in a crash."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers import limits
from lance_spark.buffers.blocks import Block, Chunks, Encoding, FixedSizeList, FixedWidth, PackedStruct, VariableWidth
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.dictionary import Dictionary
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.fsst_symbols import SymbolTable
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.tree import decode_message, encode_message
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import PackedField, VariablePackedStruct
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.sample import examples

WIDTHS = st.sampled_from([8, 16, 32, 64])
COUNTS = st.one_of(st.integers(0, 70), st.sampled_from([1023, 1024, 1025, 5000, 2**31, 2**40, 2**62, 2**63 - 1]))
BYTES = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 4000).map(bytes),
    # Small numbers: widths and lengths that could be true.
    st.lists(st.integers(0, 9), max_size=60).map(bytes),
    st.tuples(WIDTHS, st.lists(st.integers(0, 70), max_size=8)).map(lambda w: np.array(w[1], f"u{w[0] // 8}").tobytes() + bytes(300)),
)

NUMBERS = st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1))
SYMBOLS = SymbolTable(np.array([0x6F6C6C6568, 0x61, 0x6162636465666768], np.uint64), np.array([5, 1, 8], np.uint8)).to_bytes()

LEAVES: st.SearchStrategy[Encoding] = st.one_of(
    st.sampled_from([1, 8, 12, 16, 24, 32, 64, 128, 4096, 2**32 - 8]).map(Flat),
    WIDTHS.map(InlineBitpacking),
    st.builds(lambda bits, width: OutOfLineBitpacking(bits, Flat(1 + width % bits)), WIDTHS, st.integers(0, 63)),
    st.builds(Constant, st.one_of(st.none(), st.binary(max_size=9))),
    st.builds(Range, WIDTHS, NUMBERS, NUMBERS),
    st.sampled_from([32, 64]).map(lambda bits: Variable(Flat(bits))),
)
TREES: st.SearchStrategy[Encoding] = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.builds(Rle, trees, trees),
        st.builds(ByteStreamSplit, trees),
        st.builds(FixedSizeListEncoding, st.sampled_from([1, 2, 3, 9, 2**31 - 1]), st.booleans(), trees),
        st.builds(PackedStructEncoding, st.lists(WIDTHS, min_size=1, max_size=3).map(tuple), trees),
        st.builds(Variable, trees.filter(lambda offsets: not isinstance(offsets, Flat))),
        st.builds(Fsst, st.one_of(st.just(SYMBOLS), st.binary(max_size=40).map(lambda end: SYMBOLS[:8] + end)), trees),
        st.builds(Delta, WIDTHS, NUMBERS, trees),
        st.builds(Dictionary, trees, trees, st.integers(0, 2**32 - 1)),
        st.lists(st.builds(PackedField, trees, st.sampled_from([32, 64]), st.booleans()), min_size=1, max_size=3).map(
            lambda fields: VariablePackedStruct(tuple(fields))
        ),
        st.builds(General, st.sampled_from(["lz4", "zstd"]), st.none(), trees),
    ),
    max_leaves=4,
)


@pytest.fixture(autouse=True, scope="module")
def _small_limits() -> Iterator[None]:
    """Low memory limits for values without stored bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_BYTES", 2**20)
        yield


def check(block: Block) -> None:
    """Read all of `block` and check the invariants of its kind."""
    if isinstance(block, FixedSizeList):
        assert block.validity is None or len(block.validity) == (block.items.count + 7) // 8
        check(block.items)
    elif isinstance(block, PackedStruct):
        for child in block.children:
            check(child)
            assert child.count == block.count
    elif isinstance(block, VariableWidth):
        assert block.offsets[0] == 0
        assert block.offsets[-1] == len(block.data)
        assert (np.diff(block.offsets) >= 0).all()
        block.data.sum()
    elif isinstance(block, FixedWidth):
        assert len(block.data) == (block.count * block.bits + 7) // 8
        block.data.sum()


@settings(max_examples=examples(400))
@given(TREES, st.data())
def test_chunks_of_any_bytes_are_read_or_refused(tree: Encoding, data: st.DataObject) -> None:
    num_chunks = data.draw(st.integers(0, 3))
    buffers = [data.draw(st.lists(BYTES, min_size=num_chunks, max_size=num_chunks)) for _ in range(tree.num_buffers)]
    sizes = np.array([[len(b) for b in row] for row in buffers], np.int64).reshape(len(buffers), num_chunks)
    starts = (np.cumsum(sizes.ravel()) - sizes.ravel()).reshape(sizes.shape)
    counts = np.array(data.draw(st.lists(COUNTS, min_size=num_chunks, max_size=num_chunks)), np.int64)
    everything = np.frombuffer(b"".join(b for row in buffers for b in row), np.uint8)
    try:
        block = tree.decode_chunks(Chunks(everything, starts, sizes, counts))
    except (CorruptFileError, UnsupportedFeatureError):
        return
    check(block)
    assert block.count == counts.sum()


@settings(max_examples=examples(300))
@given(LEAVES, st.data())
def test_values_picked_from_chunks_of_any_bytes_are_read_or_refused(tree: Encoding, data: st.DataObject) -> None:
    buffers = [data.draw(st.lists(BYTES, min_size=2, max_size=2)) for _ in range(tree.num_buffers)]
    counts = np.array([data.draw(COUNTS), data.draw(COUNTS)], np.int64)
    of = np.array(data.draw(st.lists(st.sampled_from(np.flatnonzero(counts).tolist()), max_size=9)) if counts.any() else [], np.int64)
    at = np.array([data.draw(st.integers(0, int(counts[i]) - 1)) for i in of], np.int64)
    sizes = np.array([[len(b) for b in row] for row in buffers], np.int64).reshape(len(buffers), 2)
    starts = (np.cumsum(sizes.ravel()) - sizes.ravel()).reshape(sizes.shape)
    everything = np.frombuffer(b"".join(b for row in buffers for b in row), np.uint8)
    try:
        block = tree.pick_values(Chunks(everything, starts, sizes, counts), of, at)
    except (CorruptFileError, UnsupportedFeatureError):
        return
    if block is not None:
        check(block)
        assert block.count == len(at)


@settings(max_examples=examples(400))
@given(TREES, BYTES, COUNTS)
def test_blocks_of_any_bytes_are_read_or_refused(tree: Encoding, data: bytes, count: int) -> None:
    try:
        block = tree.decode_block(np.frombuffer(data, np.uint8), count)
    except (CorruptFileError, UnsupportedFeatureError):
        return
    check(block)
    assert block.count == count


@settings(max_examples=examples(200))
@given(TREES, st.sampled_from([0, 1, 3, 8]), st.integers(0, 9), st.booleans())
def test_single_values_of_any_width_are_read_or_refused(tree: Encoding, size: int, count: int, variable: bool) -> None:
    data = np.zeros(size * count, np.uint8)
    values = VariableWidth(np.arange(count + 1, dtype=np.int32) * size, data) if variable else FixedWidth(8 * size, data, count)
    try:
        block = tree.decode_values(values)
    except (CorruptFileError, UnsupportedFeatureError):
        return
    check(block)
    assert block.count == count


@settings(max_examples=examples(300))
@given(TREES, st.integers(0, 99), st.integers(0, 255))
def test_any_message_is_a_tree_or_refused(tree: Encoding, place: int, byte: int) -> None:
    data = bytearray(encode_message(tree).SerializeToString())
    data[place % len(data)] = byte
    try:
        decode_message(pb.CompressiveEncoding.FromString(bytes(data)))
    except (CorruptFileError, UnsupportedFeatureError, DecodeError):
        return
