"""Bit-packing: the FastLanes order, compared with a second implementation that follows the definition bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.buffers.blocks import split_evenly
from lance_spark.encodings.fastlanes import chunk_widths, pack_blocks, unpack_blocks, word_type
from lance_spark.errors import CorruptFileError
from tests.encodings.cases.numbers import WORDS, block_of, random_numbers


def defined(values: np.ndarray, width: int) -> np.ndarray:
    """The packed words of 1024 `values`: bit b of row r of a lane is bit r * width + b of the lane's words."""
    bits = 8 * values.itemsize
    lanes = 1024 // bits
    row = np.arange(bits)
    order = np.array([0, 4, 2, 6, 1, 5, 3, 7])[row // 8] * 16 + row % 8 * 128
    by_lane = values[order[:, None] + np.arange(lanes)]
    as_bits = (by_lane[:, None, :] >> np.arange(width, dtype=values.dtype)[None, :, None]) & values.dtype.type(1)
    words = as_bits.reshape(width, bits, lanes) << np.arange(bits, dtype=values.dtype)[None, :, None]
    packed: np.ndarray = np.bitwise_or.reduce(words, axis=1).ravel()
    return packed


@pytest.mark.parametrize(("word", "width"), [(w, n) for w in WORDS for n in range(8 * np.dtype(w).itemsize + 1)])
def test_blocks_of_every_width_are_packed_as_defined(word: type, width: int) -> None:
    values = random_numbers(width, word, width, 1024)
    words: np.ndarray = np.empty(1024 * width // (8 * values.itemsize), word)
    zero, full = np.zeros(1, np.int64), np.full(1, 1024)
    pack_blocks(values, zero, full, np.array([width]), zero, words)
    np.testing.assert_array_equal(words, defined(values, width))
    np.testing.assert_array_equal(unpack_blocks(words, zero, np.array([width]), zero, 1024)[:1024], values)


def test_short_blocks_are_filled_up_with_zeros() -> None:
    values = np.full(1500, 7, np.uint16)
    words = np.empty(2 * 3 * 64, np.uint16)
    pack_blocks(values, np.array([0, 1024]), np.array([1024, 476]), np.array([3, 3]), np.array([0, 192]), words)
    padded = np.concatenate([values[1024:], np.zeros(548, np.uint16)])
    np.testing.assert_array_equal(words[192:], defined(padded, 3))


@pytest.mark.parametrize("word", WORDS)
def test_the_width_of_a_chunk_is_that_of_its_largest_value(word: type) -> None:
    bits = 8 * np.dtype(word).itemsize
    largest = [0, 1, 2, 3, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1]
    values: np.ndarray = np.array([v for n in largest for v in (0, n, 0)], word)
    assert chunk_widths(block_of(values), split_evenly(len(values), 3)).tolist() == [n.bit_length() for n in largest]
    assert chunk_widths(block_of(values[:0]), split_evenly(0, 3)).tolist() == []


def test_only_words_are_packed() -> None:
    with pytest.raises(CorruptFileError, match="128 bits"):
        word_type(128)
