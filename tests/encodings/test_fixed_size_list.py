"""FixedSizeList: nested lists and the validity of their items, in chunks, in blocks and one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Block, FixedSizeList, FixedWidth, VariableWidth, split_evenly
from lance_spark.encodings import fixed_size_list
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import block_of, random_numbers
from tests.encodings.cases.strings import as_chunks, stored


def lists(items: Block, dimension: int, validity: list[int] | None = None) -> FixedSizeList:
    bits = None if validity is None else np.packbits(np.array(validity, bool), bitorder="little")
    return FixedSizeList(items, dimension, bits)


def shape(block: Block) -> object:
    """Everything in `block`, as values that compare."""
    if isinstance(block, FixedSizeList):
        validity = None
        if block.validity is not None:
            validity = np.unpackbits(block.validity, count=block.items.count, bitorder="little").tolist()
        return block.dimension, validity, shape(block.items)
    assert isinstance(block, FixedWidth)
    return block.bits, block.count, block.data.tobytes()


SIX = block_of(np.arange(1, 7, dtype=np.uint8))
TWELVE = block_of(np.arange(1, 13, dtype=np.uint8))
BITS = block_of(np.array([1, 0, 1, 0, 0, 1], bool))

# name, block, lists in a chunk, the chunks of each buffer, the lists one by one
CASES = [
    ("no validity", lists(SIX, 3), 1, [[b"\1\2\3", b"\4\5\6"]], b"\1\2\3\4\5\6"),
    ("validity", lists(SIX, 3, [1, 0, 1, 1, 1, 0]), 1, [[b"\5", b"\3"], [b"\1\2\3", b"\4\5\6"]], b"\5\1\2\3\3\4\5\6"),
    ("validity in one chunk", lists(SIX, 3, [1, 0, 1, 1, 1, 0]), 2, [[b"\x1d"], [b"\1\2\3\4\5\6"]], b"\5\1\2\3\3\4\5\6"),
    ("bits", lists(BITS, 3), 1, [[b"\5", b"\4"]], b"\5\4"),
    (
        "nested, validity in both",
        lists(lists(TWELVE, 3, [1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1]), 2, [1, 0, 1, 1]),
        2,
        [[b"\x0d"], [b"\xe7\x0d"], [b"\1\2\3\4\5\6\7\x08\x09\x0a\x0b\x0c"]],
        b"\1\x27\1\2\3\4\5\6" + b"\3\x37\7\x08\x09\x0a\x0b\x0c",
    ),
]


def named() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("block", "size", "buffers", "single"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


@named()
def test_chunks_are_written_and_read_as_the_format_says(block: FixedSizeList, size: int, buffers: list[list[bytes]], single: bytes) -> None:
    counts = split_evenly(block.count, size)
    encoded = fixed_size_list.encode_chunks(block, counts)
    assert [b.data.tobytes() for b in encoded.buffers] == [b"".join(chunks) for chunks in buffers]
    assert encoded.encoding.num_buffers == len(buffers)
    assert shape(encoded.encoding.decode_chunks(as_chunks(buffers, counts.tolist()))) == shape(block)


@named()
def test_lists_are_written_and_read_one_by_one_as_the_format_says(block: FixedSizeList, size: int, buffers: object, single: bytes) -> None:
    node, values = fixed_size_list.encode_values(block)
    assert (values.data.tobytes(), values.count, values.bits) == (single, 2, 4 * len(single))
    assert shape(node.decode_values(values)) == shape(block)


@st.composite
def nested(draw: st.DrawFn) -> FixedSizeList:
    """Lists in lists in lists, some layers with validity."""
    dimensions = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    count = draw(st.sampled_from([0, 1, 7, 64]))
    total = int(count * np.prod(dimensions))
    leaf: Callable[[np.ndarray], np.ndarray] = draw(st.sampled_from([lambda v: v.astype(bool), lambda v: v, lambda v: v.view("S24")[::1]]))
    size = 3 if leaf(np.zeros(3, np.uint64)).dtype.itemsize == 24 else 1
    block: Block = block_of(leaf(random_numbers(1, np.uint64, 1, total * size)))
    for dimension in dimensions:
        validity = random_numbers(2, np.uint8, 1, block.count).tolist() if draw(st.booleans()) else None
        block = lists(block, dimension, validity)
    assert isinstance(block, FixedSizeList)
    return block


@given(nested(), st.sampled_from([1, 16]))
def test_lists_come_back_from_chunks(block: FixedSizeList, size: int) -> None:
    encoded = fixed_size_list.encode_chunks(block, split_evenly(block.count, size))
    assert shape(encoded.encoding.decode_chunks(stored(encoded))) == shape(block)


@given(nested())
def test_lists_come_back_one_by_one(block: FixedSizeList) -> None:
    node, values = fixed_size_list.encode_values(block)
    assert values.count == block.count
    assert shape(node.decode_values(values)) == shape(block)


def test_a_block_holds_items_only() -> None:
    node = FixedSizeListEncoding(3, False, Flat(8))
    assert shape(node.decode_block(np.arange(6, dtype=np.uint8), 2)) == shape(lists(block_of(np.arange(6, dtype=np.uint8)), 3))


@given(nested())
def test_lists_with_nulls_come_back_from_a_block(block: FixedSizeList) -> None:
    node, values = fixed_size_list.encode_values(block)
    if node.any_validity:
        assert shape(node.decode_block(values.data, block.count)) == shape(block)


def test_a_block_with_nulls_has_a_bitmap_before_each_list() -> None:
    data = np.array([0b101, 1, 2, 3, 0b011, 4, 5, 6], np.uint8)
    block = FixedSizeListEncoding(3, True, Flat(8)).decode_block(data, 2)
    assert isinstance(block, FixedSizeList)
    assert isinstance(block.items, FixedWidth)
    assert block.items.data.tolist() == [1, 2, 3, 4, 5, 6]
    assert block.validity is not None
    assert np.unpackbits(block.validity, bitorder="little")[:6].tolist() == [1, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("count", [2, 2**33, 2**62, 2**63 - 1])
@pytest.mark.parametrize("dimension", [2, 2**31 - 1])
@pytest.mark.parametrize("has_validity", [False, True])
def test_more_items_than_bytes_are_refused(has_validity: bool, dimension: int, count: int) -> None:
    node = FixedSizeListEncoding(dimension, has_validity, FixedSizeListEncoding(3, False, Flat(64)))
    buffers = [[b"\1"]] * has_validity + [[bytes(95)]]
    with pytest.raises(CorruptFileError, match="chunk 0 of 1"):
        node.decode_chunks(as_chunks(buffers, [count]))


@pytest.mark.parametrize("size", [0, 1, 11, 13])
def test_lists_of_another_size_than_their_items_are_refused(size: int) -> None:
    node = FixedSizeListEncoding(2, True, FixedSizeListEncoding(3, True, Flat(16)))
    node.decode_values(FixedWidth(8 * 14, np.zeros(14, np.uint8), 1))
    with pytest.raises(CorruptFileError):
        node.decode_values(FixedWidth(8 * size, np.zeros(size * 5, np.uint8), 5))


def test_unbounded_items_are_refused() -> None:
    node: Any = Flat(8)
    for _ in range(10):
        node = FixedSizeListEncoding(2**31 - 1, False, node)
    with pytest.raises(CorruptFileError):
        node.decode_values(FixedWidth(8, np.zeros(5, np.uint8), 5))
    with pytest.raises(CorruptFileError):
        node.decode_block(np.zeros(5, np.uint8), 5)


def test_other_types_than_fixed_size_lists_are_refused() -> None:
    strings = VariableWidth(np.zeros(3, np.int32), np.zeros(0, np.uint8))
    with pytest.raises(CorruptFileError):
        FixedSizeListEncoding(0, False, Flat(8))
    with pytest.raises(CorruptFileError):
        FixedSizeListEncoding(2, False, Flat(8)).decode_values(strings)
    with pytest.raises(UnsupportedFeatureError):
        FixedSizeListEncoding(2, False, Rle(Flat(8), Flat(8))).decode_values(SIX)
    with pytest.raises(UnsupportedFeatureError):
        FixedSizeListEncoding(2, True, Rle(Flat(8), Flat(8))).decode_block(np.zeros(8, np.uint8), 1)
    with pytest.raises(UnsupportedFeatureError):
        fixed_size_list.encode_values(lists(strings, 2))
