"""PackedStruct: rows of children, in chunks, in blocks and one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Block, PackedStruct, VariableWidth, split_evenly
from lance_spark.encodings import packed_struct
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import block_of, bytes_of, random_numbers
from tests.encodings.cases.strings import as_chunks, stored, strings_of

A = block_of(np.array([0x0201, 0x0403], "<u2"))
B = block_of(np.array([5, 6], "<u1"))
ROWS = b"\1\2\5\3\4\6"
NODE = PackedStructEncoding((16, 8), Flat(24))


def children(block: Block) -> list[bytes]:
    assert isinstance(block, PackedStruct)
    return [bytes_of(child) for child in block.children]


def test_rows_are_their_children_one_after_the_other() -> None:
    encoded = packed_struct.encode_chunks(PackedStruct((A, B)), np.array([2]))
    assert (encoded.encoding, encoded.buffers[0].data.tobytes()) == (NODE, ROWS)
    node, values = packed_struct.encode_values(PackedStruct((A, B)))
    assert (node, values.bits, values.data.tobytes()) == (NODE, 24, ROWS)


def test_rows_are_split_into_their_children() -> None:
    expected = [A.data.tobytes(), B.data.tobytes()]
    data = np.frombuffer(ROWS, np.uint8)
    assert children(NODE.decode_chunks(as_chunks([[ROWS[:3], ROWS[3:]]], [1, 1]))) == expected
    assert children(NODE.decode_block(data, 2)) == expected
    assert children(NODE.decode_values(packed_struct.encode_values(PackedStruct((A, B)))[1])) == expected


@given(st.lists(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]), min_size=1, max_size=5), st.sampled_from([0, 1, 1025]))
def test_structs_come_back_from_chunks(words: list[type], count: int) -> None:
    block = PackedStruct(tuple(block_of(random_numbers(i, word, 7, count)) for i, word in enumerate(words)))
    encoded = packed_struct.encode_chunks(block, split_evenly(count, 64))
    assert children(encoded.encoding.decode_chunks(stored(encoded))) == children(block)


def test_rows_of_another_width_than_their_children_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="24 bits"):
        PackedStructEncoding((16, 8), Flat(32)).decode_block(np.zeros(8, np.uint8), 2)
    with pytest.raises(CorruptFileError):
        NODE.decode_chunks(as_chunks([[ROWS]], [3]))


@pytest.mark.parametrize("bits", [(), (0, 8), (2**64,)])
def test_structs_without_content_or_of_absurd_width_are_refused(bits: tuple[int, ...]) -> None:
    with pytest.raises(CorruptFileError):
        PackedStructEncoding(bits, Flat(8)).decode_block(np.zeros(8, np.uint8), 2)


def test_children_that_are_not_whole_bytes_are_refused() -> None:
    strings = VariableWidth(np.zeros(3, np.int32), np.zeros(0, np.uint8))
    assert strings_of(strings) == [b"", b""]
    with pytest.raises(UnsupportedFeatureError):
        PackedStructEncoding((1, 7), Flat(8))
    for child in (strings, block_of(np.array([True, False]))):
        with pytest.raises(UnsupportedFeatureError):
            packed_struct.encode_values(PackedStruct((A, child)))
