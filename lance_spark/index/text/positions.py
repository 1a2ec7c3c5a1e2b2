"""The positions at which documents have a token, for phrases.

New files have one stream of values for each block of a posting list: of each document the first position, and the distances of others.
Earlier ones have a list of blocks for each document.
"""

from __future__ import annotations

import numpy as np

from lance_spark.index.text.analysis.parameters import SMALL
from lance_spark.index.text.blocks import unpacked, varints
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import load32

U = np.uint64


def decode_streams(data: np.ndarray, starts: np.ndarray, frequencies: np.ndarray, block: int) -> np.ndarray | None:
    """The positions (uint32) of all documents of a posting list, whose blocks have `block` documents; None if they are invalid.

    The stream of block i starts at `starts[i]`. A document has as many positions as its frequency.
    """
    if len(starts) != -(-len(frequencies) // block) or not _is_plausible(frequencies, len(data)):
        return None
    ends = np.append(starts[1:], len(data)).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])
    out = np.empty(int(first[-1]), np.uint32)
    return out if _streams(data, starts.astype(np.int64), ends, first, block, out) else None


def decode_many_streams(
    data: np.ndarray,
    ends: np.ndarray,
    starts: np.ndarray,
    start_bounds: np.ndarray,
    bounds: np.ndarray,
    frequencies: np.ndarray,
    block: int,
) -> np.ndarray | None:
    """As `decode_streams`, for several lists: list i has `frequencies[bounds[i]:bounds[i + 1]]` and the stream `data[ends[i]:ends[i + 1]]`,
    whose blocks start at `starts[start_bounds[i]:start_bounds[i + 1]]`.
    """
    if (np.diff(start_bounds) != -(-np.diff(bounds) // block)).any() or not _is_plausible(frequencies, len(data)):
        return None
    first = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])
    out = np.empty(int(first[-1]), np.uint32)
    done = _many_streams(data, ends.astype(np.int64), starts.astype(np.int64), start_bounds, bounds, first, block, out)
    return out if done else None


def _is_plausible(frequencies: np.ndarray, size: int) -> bool:
    """Whether so many bytes can have as many positions: 128 of them may take one byte."""
    return bool(frequencies.sum(dtype=np.uint64) <= SMALL * size)


@kernel
def _many_streams(
    data: np.ndarray,
    ends: np.ndarray,
    starts: np.ndarray,
    start_bounds: np.ndarray,
    bounds: np.ndarray,
    first: np.ndarray,
    block: int,
    out: np.ndarray,
) -> bool:
    for i in range(len(bounds) - 1):
        own = starts[start_bounds[i] : start_bounds[i + 1]]
        stops = np.append(own[1:], ends[i + 1] - ends[i])
        frequencies = first[bounds[i] : bounds[i + 1] + 1]
        places = out[frequencies[0] : frequencies[-1]]
        if not _streams(data[ends[i] : ends[i + 1]], own, stops, frequencies - frequencies[0], block, places):
            return False
    return True


@kernel
def _streams(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, first: np.ndarray, block: int, out: np.ndarray) -> bool:
    for i in range(len(starts)):
        at, stop = starts[i], ends[i]
        if at > stop or stop > len(data):
            return False
        low, high = i * block, min((i + 1) * block, len(first) - 1)
        place = first[low]
        while first[high] - place >= SMALL:
            at = unpacked(data, at, stop, SMALL, out, place)
            if at < 0:
                return False
            place += SMALL
        if varints(data, at, stop, out, place, first[high] - place) != stop:
            return False
        for document in range(low, high):
            for k in range(first[document] + 1, first[document + 1]):
                out[k] += out[k - 1]
    return True


def decode_old_lists(data: np.ndarray, bounds: np.ndarray, lists: np.ndarray, frequencies: np.ndarray) -> np.ndarray | None:
    """The positions (uint32) of all documents of a posting list; None if they are invalid.

    Document i has the blocks `lists[i]` to `lists[i + 1]`, block k is `data[bounds[k]:bounds[k + 1]]`.
    """
    first = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])
    if len(lists) != len(first) or first[-1] > len(data) * SMALL:
        return None
    out = np.empty(int(first[-1]), np.uint32)
    return out if _lists(data, bounds, lists, first, out) else None


@kernel
def _lists(data: np.ndarray, bounds: np.ndarray, lists: np.ndarray, first: np.ndarray, out: np.ndarray) -> bool:
    for document in range(len(first) - 1):
        block, place, end = lists[document], first[document], first[document + 1]
        count = end - place
        if lists[document + 1] - block != 1 + -(-count // SMALL) or bounds[block + 1] - bounds[block] != 4:
            return False
        if load32(data, U(bounds[block])) != count:
            return False
        while place < end:
            block += 1
            at, stop = bounds[block], bounds[block + 1]
            if end - place < SMALL:
                if stop - at != 4 * (end - place):
                    return False
                for i in range(end - place):
                    out[place + i] = load32(data, U(at + 4 * i))
                break
            if stop - at < 5 or unpacked(data, at + 4, stop, SMALL, out, place) != stop:
                return False
            position = load32(data, U(at))
            for i in range(SMALL):
                position += out[place + i]
                out[place + i] = position
            place += SMALL
    return True
