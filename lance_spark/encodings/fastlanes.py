"""Bit-packing in FastLanes order, shared by the inline and the out-of-line encoding. Spec: "Bitpacking".

A block is 1024 values of T bits (T = 8, 16, 32, 64) packed to W bits each. It has 1024 / T lanes of T rows: row r of a lane takes W bits of
the lane's W words, starting at bit r * W, and word i of lane l is word i * lanes + l of the block. Lanes are packed side by side, so
compilers emit vector instructions. Row r of lane l is value ORDER[r // 8] * 16 + r % 8 * 128 + l.
"""

from __future__ import annotations

import numpy as np

from lance_spark.buffers.blocks import Chunks, FixedWidth
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings.flat import copy_together
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel

BLOCK = 1024
"""Values in a block; a shorter one is padded."""

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

_WORDS: dict[int, type[np.unsignedinteger]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def word_type(bits: int) -> type[np.unsignedinteger]:
    """The word of a block of `bits` wide values."""
    if bits not in _WORDS:
        raise CorruptFileError(f"bit-packed values have {bits} bits, expected 8, 16, 32 or 64")
    return _WORDS[bits]


def chunk_words(chunks: Chunks, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The single buffers of `chunks` as words of `bits` bits, and the word at which each starts."""
    size = bits // 8
    data, starts = chunks.data, chunks.starts[0]
    words = data[: len(data) // size * size].view(word_type(bits))
    if not words.flags.aligned or np.bitwise_or.reduce(starts) & (size - 1):
        data, starts = copy_together(data, starts, chunks.sizes[0] // size * size)
        words = data.view(word_type(bits))
    return words, starts // size


def block_words(bits: int, width: int | np.ndarray) -> int | np.ndarray:
    """The number of words that a block of `bits` wide values takes when packed to `width` bits."""
    return BLOCK // bits * width


def chunk_widths(block: FixedWidth, counts: np.ndarray) -> np.ndarray:
    """The bits needed by the largest value of each chunk, as unsigned numbers; `counts` are the values in each chunk (int64)."""
    words = block.view(word_type(block.bits))
    merged = np.empty(len(counts), words.dtype)
    _merge_bits(words, np.cumsum(counts), merged)
    powers = np.uint64(1) << np.arange(block.bits, dtype=np.uint64)
    return np.searchsorted(powers, merged.astype(np.uint64), side="right")


def unpack_blocks(words: np.ndarray, starts: np.ndarray, widths: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """An array of at least `count` values; block i, packed to `widths[i]` bits at word `starts[i]`, is unpacked to `at[i]`.

    Blocks are written in order, 1024 values each; if fewer are wanted, the next block overwrites the rest. The caller has checked that the
    blocks lie within `words`, and `at` within `count`.
    """
    check_bytes(count * words.itemsize, "bit-packed values")
    out = empty(count + BLOCK, words.dtype)
    _unpack(words, starts, widths, at, out)
    return out


def pick_values(
    words: np.ndarray, starts: np.ndarray, sizes: np.ndarray, counts: np.ndarray, block_of: np.ndarray, at: np.ndarray
) -> np.ndarray | None:
    """Single values: value `at[i]` of the block `block_of[i]`.

    Block j has `counts[j]` values in `sizes[j]` bytes after a word with its width.

    None if a block is invalid.
    """
    out = empty(len(at), words.dtype)
    return out if _pick(words, starts, sizes, counts, block_of, at, out) else None


def pack_blocks(
    values: np.ndarray, first: np.ndarray, counts: np.ndarray, widths: np.ndarray, starts: np.ndarray, words: np.ndarray
) -> None:
    """Pack block i, the `counts[i]` values from `first[i]`, to `widths[i]` bits into `words` at `starts[i]`, padded with zeros."""
    _pack(values, first, counts, widths, starts, words, np.zeros(BLOCK, values.dtype))


# Indices in the kernels are unsigned: for signed ones, numba adds a test for negative values, which prevents vectorisation.


@kernel
def _unpack(words: np.ndarray, starts: np.ndarray, widths: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    for block in range(len(starts)):
        unpack_block(words, starts[block], widths[block], at[block], out)


@kernel
def unpack_block(words: np.ndarray, start: int, width: int, target: int, out: np.ndarray) -> None:
    """Unpack the block at word `start` to the 1024 values of `out` at `target`."""
    word = out.dtype.type
    bits = np.iinfo(out.dtype).bits
    lanes = np.uint64(1024 // bits)
    if width == 0:
        out[target : target + 1024] = word(0)
        return
    mask = word(word(~word(0)) >> word(bits - width))
    for row in range(bits):
        source = np.uint64(start + row * width // bits * (1024 // bits))
        into = np.uint64(target + ORDER[row // 8] * 16 + row % 8 * 128)
        shift = row * width % bits
        # The mask tells the compiler that shifts are below the word's size, which avoids 64-bit arithmetic.
        down = word(word(shift) & word(bits - 1))
        if shift + width <= bits:
            for lane in range(lanes):
                out[into + lane] = word(words[source + lane] >> down) & mask
        else:
            up = word(word(bits - shift) & word(bits - 1))
            for lane in range(lanes):
                out[into + lane] = (word(words[source + lane] >> down) | word(words[source + lanes + lane] << up)) & mask


@kernel
def _pick(
    words: np.ndarray, starts: np.ndarray, sizes: np.ndarray, counts: np.ndarray, block_of: np.ndarray, at: np.ndarray, out: np.ndarray
) -> bool:
    """Store single values of blocks, each of which begins with its width. False if one has not the words and the values that it takes."""
    bits = np.iinfo(words.dtype).bits
    for i in range(len(starts)):
        if counts[i] > BLOCK or starts[i] < 0 or starts[i] >= len(words) or words[starts[i]] > bits:
            return False
        width = np.int64(words[starts[i]])
        taken = 1 + BLOCK // bits * width
        if sizes[i] < taken * (bits // 8) or starts[i] + taken > len(words):
            return False
    lanes = 1024 // bits
    for i in range(len(out)):
        width = np.int64(words[starts[block_of[i]]])
        if width == 0:
            out[i] = 0
            continue
        row = ORDER[at[i] % 128 // lanes * (lanes // 16)] * 8 + at[i] // 128
        shift = row * width % bits
        source = np.uint64(starts[block_of[i]] + 1 + row * width // bits * lanes + at[i] % lanes)
        value = np.uint64(words[source]) >> np.uint64(shift)
        if shift + width > bits:
            value |= np.uint64(words[source + np.uint64(lanes)]) << np.uint64(bits - shift)
        out[i] = value & (~np.uint64(0) >> np.uint64(64 - width))
    return True


@kernel
def _pack(
    values: np.ndarray,
    first: np.ndarray,
    counts: np.ndarray,
    widths: np.ndarray,
    starts: np.ndarray,
    words: np.ndarray,
    padded: np.ndarray,
) -> None:
    for block in range(len(starts)):
        if counts[block] == 1024:
            _pack_block(values, first[block], widths[block], starts[block], words)
        else:
            count = counts[block]
            padded[:count] = values[first[block] : first[block] + count]
            padded[count:] = 0
            _pack_block(padded, 0, widths[block], starts[block], words)


@kernel
def _pack_block(values: np.ndarray, first: int, width: int, start: int, words: np.ndarray) -> None:
    word = words.dtype.type
    bits = np.iinfo(words.dtype).bits
    lanes = np.uint64(1024 // bits)
    if width == 0:
        return
    for row in range(bits):
        target = np.uint64(start + row * width // bits * (1024 // bits))
        source = np.uint64(first + ORDER[row // 8] * 16 + row % 8 * 128)
        shift = row * width % bits
        up = word(word(shift) & word(bits - 1))
        # The first row to touch a word sets it: the row that begins it, or the one that spills into it.
        if shift == 0:
            for lane in range(lanes):
                words[target + lane] = values[source + lane]
        else:
            for lane in range(lanes):
                words[target + lane] |= word(values[source + lane] << up)
        if shift + width > bits:
            down = word(word(bits - shift) & word(bits - 1))
            for lane in range(lanes):
                words[target + lanes + lane] = word(values[source + lane] >> down)


@kernel
def _merge_bits(values: np.ndarray, stops: np.ndarray, merged: np.ndarray) -> None:
    word = values.dtype.type
    start = np.uint64(0)
    for chunk in range(len(stops)):
        stop = np.uint64(stops[chunk])
        bits = word(0)
        for i in range(start, stop):
            bits |= values[i]
        merged[chunk] = bits
        start = stop
