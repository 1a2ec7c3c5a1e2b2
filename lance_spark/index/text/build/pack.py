"""Writing the blocks of posting lists; see `blocks` for their form."""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.index.text.analysis.parameters import SMALL
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, store32

_BLOCK_BYTES, _DOCUMENT_BYTES = 32, 10
"""At most so many bytes are in a block, and for each of its documents."""


def packed_lists(
    bounds: np.ndarray, documents: np.ndarray, frequencies: np.ndarray, scores: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The blocks, of `size` documents, of posting lists: their bytes and the bounds of each, the bounds of the lists, counted in blocks,
    and the largest score in each list. `scores` (float32) are those of each document.
    """
    blocks = -(-np.diff(bounds) // size)
    block_bounds = np.zeros(int(blocks.sum()) + 1, np.int64)
    out = np.empty(_BLOCK_BYTES * len(block_bounds) + _DOCUMENT_BYTES * len(documents), np.uint8)
    largest = np.zeros(len(bounds) - 1, np.float32)
    used = _pack(bounds, documents, frequencies, scores, size, out, block_bounds, largest)
    return out[:used], block_bounds, np.concatenate([[0], np.cumsum(blocks)]), largest


@kernel
def _pack(
    bounds: np.ndarray,
    documents: np.ndarray,
    frequencies: np.ndarray,
    scores: np.ndarray,
    size: int,
    out: np.ndarray,
    block_bounds: np.ndarray,
    largest: np.ndarray,
) -> Any:
    at: Any = 0
    block = 0
    deltas = np.empty(size, np.uint32)
    score_bytes = np.empty(1, np.float32)
    for token in range(len(bounds) - 1):
        for low in range(bounds[token], bounds[token + 1], size):
            high = min(low + size, bounds[token + 1])
            score_bytes[0] = scores[low:high].max()
            largest[token] = max(largest[token], score_bytes[0])
            if size == SMALL:
                store32(out, U(at), score_bytes.view(np.uint32)[0])
                at += 4
            for i in range(low + 1, high):
                deltas[i - low] = documents[i] - documents[i - 1]
            if high - low == size:
                deltas[0] = 0
                store32(out, U(at), documents[low])
                at = pack(deltas, 0, size, out, at + 4)
                if size == SMALL:
                    at = pack(frequencies, low, size, out, at)
                else:
                    # No frequency is an exception, whose count follows the width.
                    end = pack(frequencies, low, size, out, at + 1)
                    out[at] = out[at + 1]
                    out[at + 1] = 0
                    at = end
            else:
                deltas[0] = documents[low]
                at = put_varints(deltas, 0, high - low, out, at)
                at = put_varints(frequencies, low, high - low, out, at)
            block += 1
            block_bounds[block] = at
    return at


@kernel
def pack(values: np.ndarray, start: int, size: int, out: np.ndarray, at: int) -> int:
    """Write the width of `size` values from `start`, and the values in lanes; where they end."""
    united = np.uint32(0)
    for i in range(start, start + size):
        united |= values[i]
    width: Any = 0
    while united >> np.uint32(width) and width < 32:
        width += 1
    out[at] = width
    at += 1
    lanes = size // 32
    end: int = at + 4 * lanes * width
    for i in range(at, end):
        out[i] = 0
    for k in range(32 if width else 0):
        word, shift = k * width // 32, k * width % 32
        for lane in range(lanes):
            value = np.uint64(values[start + k * lanes + lane]) << np.uint64(shift)
            place = at + 4 * (lanes * word + lane)
            for b in range(4):
                out[place + b] |= np.uint8(value >> np.uint64(8 * b) & np.uint64(255))
            if shift + width > 32:
                place += 4 * lanes
                for b in range(4):
                    out[place + b] |= np.uint8(value >> np.uint64(8 * b + 32) & np.uint64(255))
    return end


@kernel
def put_varints(values: np.ndarray, start: int, count: int, out: np.ndarray, at: int) -> int:
    """Write values as varints; where they end."""
    for i in range(start, start + count):
        at = put_varint(np.uint64(values[i]), out, at)
    return at


@kernel
def put_varint(value: np.uint64, out: np.ndarray, at: int) -> int:
    """Write a value as a varint; where it ends."""
    while value >= np.uint64(128):
        out[at] = np.uint8(value & np.uint64(127) | np.uint64(128))
        value >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(value)
    return at + 1


def packed_positions(
    bounds: np.ndarray, frequencies: np.ndarray, positions: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The positions of posting lists: the bytes, the bounds of each list, the starts of its blocks, and the bounds of these starts."""
    blocks = -(-np.diff(bounds) // size)
    starts = np.zeros(int(blocks.sum()), np.uint32)
    list_bounds = np.zeros(len(bounds), np.int64)
    out = np.empty(5 * len(positions) + len(starts) + 1, np.uint8)
    used = _pack_positions(bounds, frequencies, positions, size, out, starts, list_bounds)
    return out[:used], list_bounds, starts, np.concatenate([[0], np.cumsum(blocks)])


@kernel
def _pack_positions(
    bounds: np.ndarray,
    frequencies: np.ndarray,
    positions: np.ndarray,
    size: int,
    out: np.ndarray,
    starts: np.ndarray,
    list_bounds: np.ndarray,
) -> Any:
    at: Any = 0
    block = 0
    first: Any = 0
    deltas = np.empty(SMALL, np.uint32)
    for token in range(len(bounds) - 1):
        for low in range(bounds[token], bounds[token + 1], size):
            starts[block] = at - list_bounds[token]
            block += 1
            waiting = 0
            for document in range(low, min(low + size, bounds[token + 1])):
                end = first + np.int64(frequencies[document])
                for i in range(first, end):
                    deltas[waiting] = positions[i] - (positions[i - 1] if i > first else np.uint32(0))
                    waiting += 1
                    if waiting == SMALL:
                        at = pack(deltas, 0, SMALL, out, at)
                        waiting = 0
                first = end
            at = put_varints(deltas, 0, waiting, out, at)
        list_bounds[token + 1] = at
    return at
