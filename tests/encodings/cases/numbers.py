"""Numbers <-> blocks, for the tests of encodings of fixed-width values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Block, FixedWidth

SIZES = [0, 1, 2, 63, 1023, 1024, 1025, 2047, 4096]
"""Numbers of values around the sizes of blocks and chunks."""

WORDS = [np.uint8, np.uint16, np.uint32, np.uint64]


def block_of(values: np.ndarray) -> FixedWidth:
    """The block of `values`, booleans as bits."""
    if values.dtype == np.bool_:
        return FixedWidth(1, np.packbits(values, bitorder="little"), len(values))
    return FixedWidth(8 * values.dtype.itemsize, values.view(np.uint8), len(values))


def bytes_of(block: Block) -> bytes:
    """The bytes of a fixed-width `block`, after checks of the invariants of FixedWidth."""
    assert isinstance(block, FixedWidth)
    assert block.data.dtype == np.uint8
    assert len(block.data) == (block.count * block.bits + 7) // 8
    return block.data.tobytes()


def random_numbers(seed: int, word: type, width: int, count: int) -> np.ndarray:
    """`count` numbers of `width` bits; the first one uses all bits."""
    values = np.random.default_rng(seed).integers(0, 2**width - 1, count, dtype=word, endpoint=True)
    values[:1] = 2**width - 1
    return values


@st.composite
def numbers(draw: st.DrawFn, words: list[Any] = WORDS) -> np.ndarray:
    """Numbers of any width and of sizes around the block size."""
    word = draw(st.sampled_from(words))
    width = draw(st.integers(0, 8 * np.dtype(word).itemsize))
    count = draw(st.one_of(st.sampled_from(SIZES), st.integers(0, 1100)))
    return random_numbers(draw(st.integers(0, 9)), word, width, count)


@st.composite
def runs(draw: st.DrawFn, words: list[Any] = WORDS) -> np.ndarray:
    """Numbers in runs, some of them longer than 255."""
    word = draw(st.sampled_from(words))
    lengths = draw(st.lists(st.sampled_from([1, 2, 3, 17, 254, 255, 256, 511, 600]), max_size=9))
    return np.repeat(np.arange(len(lengths), dtype=word) % 3, lengths).astype(word)
