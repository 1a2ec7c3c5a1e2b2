"""The levels of a page, cut and encoded for its mini-block chunks, and the repetition index. Spec: file_encoding.md, "Mini Block Page Layout".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.encodings.blocks import EncodedBuffer, Encoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.kernel import kernel
from lance_spark.layouts.shred import Shredded


@dataclass(frozen=True)
class EncodedLevels:
    """Repetition or definition levels as one block in each chunk, all described by `encoding`."""

    encoding: Encoding
    buffer: EncodedBuffer


def event_bounds(page: Shredded, counts: np.ndarray) -> np.ndarray:
    """Where the events of each chunk start and the last ones end, for chunks of `counts` values: int64, one more than chunks.

    A chunk ends right after its last value; the events without a value that follow belong to the next chunk, or to the last.
    """
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    if page.definition is None or page.num_visible == page.num_events:
        return ends
    return _visible_bounds(page.definition, page.max_visible, ends)


@kernel
def _visible_bounds(definition: np.ndarray, max_visible: int, ends: np.ndarray) -> np.ndarray:
    bounds = np.empty(len(ends), dtype=np.int64)
    bounds[0] = 0
    chunk, visible = 1, 0
    for e in range(len(definition)):
        if definition[e] <= max_visible:
            visible += 1
            if visible == ends[chunk]:
                bounds[chunk] = e + 1
                chunk += 1
                if chunk == len(ends):
                    break
    bounds[-1] = len(definition)
    return bounds


def encode_levels(levels: np.ndarray, bits: int, bounds: np.ndarray, version: tuple[int, int]) -> EncodedLevels:
    """The levels of all chunks, in the smallest of the forms that the version has for them."""
    return EncodedLevels(Flat(16), EncodedBuffer(levels.view(np.uint8), bounds * 2))


def repetition_index(page: Shredded, bounds: np.ndarray) -> np.ndarray:
    """For each chunk the number of rows that end in it and of the events of a row that goes on in the next chunk: uint64 pairs."""
    assert page.repetition is not None
    new_row = page.repetition == page.repetition[0]
    starts = np.flatnonzero(new_row)
    begun = np.searchsorted(starts, bounds)  # rows that start before each bound
    closed = np.append(new_row[bounds[1:-1]], True)  # the chunk ends with its row
    # A row that was open when the chunk began ends with the first start in it, so what counts are ends, not starts.
    rows_ended = begun[1:] - 1 + closed
    rows = np.diff(rows_ended, prepend=0)
    last_start = np.maximum(starts[begun[1:] - 1], bounds[:-1])
    leftover = np.where(closed, 0, bounds[1:] - last_start)
    return np.stack([rows, leftover], axis=1).astype(np.uint64).reshape(-1)
