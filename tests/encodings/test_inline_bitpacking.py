"""InlineBitpacking: each chunk packed to its own width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from lance_spark.buffers.blocks import Chunks, split_evenly
from lance_spark.encodings import inline_bitpacking
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.errors import CorruptFileError
from tests.encodings.cases.numbers import WORDS, block_of, bytes_of, numbers, random_numbers
from tests.encodings.cases.strings import as_chunks, stored

# name, values, bytes of the only chunk
CASES = [
    ("zeros", np.zeros(5, "<u2"), b"\0\0"),
    ("one bit, first and last row", np.array([1, *[0] * 895, 1], "<u1"), b"\1\x81" + bytes(127)),
    ("one bit of the highest value", np.array([0, 2**31], "<u4"), b"\x20\0\0\0" + bytes(4) + b"\0\0\0\x80" + bytes(4088)),
    ("two bits", np.array([3], "<u8"), b"\2" + bytes(7) + b"\3" + bytes(255)),
]


@pytest.mark.parametrize(("values", "data"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_chunk_is_its_width_and_its_packed_values(values: np.ndarray, data: bytes) -> None:
    encoded = inline_bitpacking.encode_chunks(block_of(values), split_evenly(len(values), 1024))
    assert encoded.buffers[0].data.tobytes() == data
    assert bytes_of(encoded.encoding.decode_chunks(as_chunks([[data]], [len(values)]))) == values.tobytes()


@given(numbers())
def test_numbers_come_back_from_chunks(values: np.ndarray) -> None:
    encoded = inline_bitpacking.encode_chunks(block_of(values), split_evenly(len(values), 1024))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


@pytest.mark.parametrize("word", WORDS)
def test_numbers_come_back_from_short_chunks(word: type) -> None:
    values = random_numbers(5, word, 7, 100)
    encoded = inline_bitpacking.encode_chunks(block_of(values), split_evenly(100, 16))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


@pytest.mark.parametrize("count", [0, 1, 1023, 1024])
def test_numbers_come_back_from_a_block(count: int) -> None:
    values = random_numbers(1, np.uint16, 3, count)
    node, data = inline_bitpacking.encode_block(block_of(values))
    assert bytes_of(node.decode_block(data, count)) == values.tobytes()


def test_aligned_chunks_are_not_copied() -> None:
    words = np.zeros(300, np.uint64)
    words[[0, 10]] = 0, 2
    words[11:43] = np.uint64(2**64 - 1)
    chunks = Chunks(words.view(np.uint8), np.array([[0, 80]]), np.array([[8, 264]]), np.array([2, 3]))
    assert InlineBitpacking(64).decode_chunks(chunks).view(np.uint64).tolist() == [0, 0, 3, 3, 3]


BAD = [
    ("no room for the width", 32, b"\1\0\0", 1, "too short for its bit width"),
    ("an empty buffer", 8, b"", 1, "too short for its bit width"),
    ("a width above the type's", 16, b"\x11\0" + bytes(5000), 1, "packed width exceeds"),
    ("a width that would be negative", 64, b"\xff" * 3000, 1, "packed width exceeds"),
    ("a buffer that ends early", 32, b"\3\0\0\0" + bytes(3 * 128 - 1), 1, "too short for its packed width"),
    ("more than a block of values", 32, bytes(4), 1025, "expected at most 1024 values"),
    ("as many values as can be", 32, bytes(4), 2**63 - 1, "expected at most 1024 values"),
]


@pytest.mark.parametrize(("bits", "data", "count", "message"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_chunks_are_refused(bits: int, data: bytes, count: int, message: str) -> None:
    good = bytes(bits // 8)
    with pytest.raises(CorruptFileError, match=f"chunk 1 of 2.*{message}"):
        InlineBitpacking(bits).decode_chunks(as_chunks([[good, data]], [7, count]))
    with pytest.raises(CorruptFileError, match=f"chunk 1 of 2.*{message}"):
        InlineBitpacking(bits).pick_values(as_chunks([[good, data]], [7, count]), np.array([0]), np.array([3]))


def test_only_words_are_bit_packed() -> None:
    with pytest.raises(CorruptFileError):
        InlineBitpacking(12)
