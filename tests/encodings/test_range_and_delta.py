"""Range, Delta and Dictionary: the number encodings of 2.3."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Encoding
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.dictionary import Dictionary
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import bytes_of
from tests.encodings.cases.strings import as_chunks


def little(dtype: str, *values: int) -> bytes:
    return np.array(values, dtype).tobytes()


def dictionary_block(indices: bytes, items: bytes) -> bytes:
    return little("<u8", len(indices), len(items)) + indices + items


# name, encoding, block, values, their type
BLOCKS = [
    ("range", Range(64, 5, 50), b"", [5, 55, 105], "<u8"),
    ("range that falls", Range(32, 9, 2**32 - 3), b"", [9, 6, 3, 0], "<u4"),
    ("range of no values", Range(8, 9, 1), b"", [], "<u1"),
    ("delta", Delta(64, 3, Flat(64)), little("<u8", 4, 0, 1), [3, 7, 7, 8], "<u8"),
    ("delta of one value", Delta(32, 3, Flat(32)), b"", [3], "<u4"),
    ("delta of no values", Delta(32, 3, Flat(32)), b"", [], "<u4"),
    ("delta that wraps around", Delta(8, 250, Flat(8)), little("<u1", 10, 255), [250, 4, 3], "<u1"),
    ("delta of a range", Delta(64, 0, Range(64, 1, 1)), b"", [0, 1, 3, 6, 10], "<u8"),
    ("dictionary", Dictionary(Flat(8), Flat(64), 2), dictionary_block(b"\1\0\1", little("<u8", 9, 2**40)), [2**40, 9, 2**40], "<u8"),
    ("dictionary of a range", Dictionary(Flat(32), Range(64, 1, 1), 4), dictionary_block(little("<u4", 3, 0), b""), [4, 1], "<u8"),
]


@pytest.mark.parametrize(("node", "data", "values", "dtype"), [c[1:] for c in BLOCKS], ids=[c[0] for c in BLOCKS])
def test_a_block_is_read_as_the_format_says(node: Encoding, data: bytes, values: list[int], dtype: str) -> None:
    assert bytes_of(node.decode_block(np.frombuffer(data, np.uint8), len(values))) == little(dtype, *values)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5)), st.integers(0, 2**64 - 1))
def test_differences_are_added_up_in_each_chunk_by_itself(chunks: list[list[int]], base: int) -> None:
    node = Delta(64, base, Flat(64))
    stored = as_chunks([[little("<u8", *deltas) for deltas in chunks]], [len(deltas) + 1 for deltas in chunks])
    expected = [(base + sum(deltas[:i])) % 2**64 for deltas in chunks for i in range(len(deltas) + 1)]
    assert bytes_of(node.decode_chunks(stored)) == little("<u8", *expected)
    assert bytes_of(node.decode_blocks(stored)) == little("<u8", *expected)


def test_chunks_without_values_have_no_first_value() -> None:
    stored = as_chunks([[b"", little("<u4", 2), b"", b""]], [0, 2, 0, 1])
    assert bytes_of(Delta(32, 7, Flat(32)).decode_chunks(stored)) == little("<u4", 7, 9, 7)


BAD = [
    ("a range of too many", Range(64, 0, 1), b"", 2**40),
    ("a range of far too many", Range(64, 0, 1), b"", 2**63 - 1),
    ("differences of too many", Delta(8, 0, Constant(b"\0")), b"", 2**30),
    ("differences of another width", Delta(64, 0, Flat(32)), bytes(8), 3),
    ("too few differences", Delta(32, 0, Flat(32)), bytes(8), 4),
    ("a dictionary without sizes", Dictionary(Flat(8), Flat(8), 1), bytes(15), 1),
    ("a dictionary with too large parts", Dictionary(Flat(8), Flat(8), 1), little("<u8", 2**64 - 1, 1) + b"\0a", 1),
    ("an index behind the items", Dictionary(Flat(8), Flat(8), 1), dictionary_block(b"\0\1", b"a"), 2),
    ("an index without items", Dictionary(Flat(8), Flat(8), 0), dictionary_block(b"\0", b""), 1),
    ("too few items", Dictionary(Flat(8), Flat(64), 2), dictionary_block(b"\0", bytes(8)), 1),
]


@pytest.mark.parametrize(("node", "data", "count"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_blocks_are_refused(node: Encoding, data: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError):
        node.decode_block(np.frombuffer(data, np.uint8), count)


def test_unknown_encodings_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError):
        Range(12, 0, 1)
    with pytest.raises(UnsupportedFeatureError):
        Delta(128, 0, Flat(128))
    strings = dictionary_block(b"\0", little("<u4", 32, 16, 0, 1) + b"a")
    with pytest.raises(UnsupportedFeatureError):
        Dictionary(Flat(8), Variable(Flat(32)), 1).decode_block(np.frombuffer(strings, np.uint8), 1)
