"""The levels of a page, encoded for each mini-block chunk, and the repetition index.

Spec: file_encoding.md, "Mini Block Page Layout".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import EncodedBuffer, Encoding, FixedWidth
from lance_spark.encodings import out_of_line_bitpacking, rle
from lance_spark.kernels.kernel import kernel
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.nodes.version_grammar import Grammar

MAX_CHUNK_VALUES = 4096
MAX_LEVELS = 65535
"""Maximum number of levels of a chunk, and of their bytes, which are both u16."""


@dataclass(frozen=True)
class EncodedLevels:
    """Repetition or definition levels as one block in each chunk, all described by `encoding`."""

    encoding: Encoding
    buffer: EncodedBuffer


def event_bounds(page: Shredded, counts: np.ndarray) -> np.ndarray:
    """The first event of each chunk, and the end of the last, for chunks of `counts` values: int64, one more than chunks.

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
    for e in range(np.uint64(len(definition))):
        if definition[e] <= max_visible:
            visible += 1
            if visible == ends[chunk]:
                bounds[chunk] = e + np.uint64(1)
                chunk += 1
                if chunk == len(ends):
                    break
    bounds[-1] = len(definition)
    return bounds


def encode_levels(levels: np.ndarray, bounds: np.ndarray, grammar: Grammar) -> EncodedLevels:
    """The levels of all chunks in the smallest of the encodings that the grammar allows."""
    block = FixedWidth(16, levels.view(np.uint8), len(levels))
    counts = np.diff(bounds)
    packed = out_of_line_bitpacking.encode_blocks(block, counts)
    packed_size = len(packed.buffers[0].data)
    if grammar.run_levels and 3 * rle.count_runs(block) + 8 * len(counts) < packed_size:
        runs = rle.encode_blocks(block, counts)
        if grammar.packed_parts:
            long = rle.encode_blocks(block, counts, rle.LONGEST_LONG_RUN)
            runs = min(runs, long, key=lambda chunks: len(chunks.buffers[0].data))
        (buffer,) = runs.buffers
        if len(buffer.data) < packed_size and np.diff(buffer.bounds).max() <= MAX_LEVELS:
            return EncodedLevels(runs.encoding, buffer)
    return EncodedLevels(packed.encoding, packed.buffers[0])


def max_chunk_values(page: Shredded, grammar: Grammar) -> int:
    """The maximum number of values in a chunk whose levels fit: a power of two up to 4096, or 0 if even two values are too many.

    Only the last chunk may have a single value: a chunk stores the logarithm of its count, and readers treat 0 as an error.
    """
    if page.definition is None or page.num_visible == page.num_events:
        return MAX_CHUNK_VALUES
    # A chunk that is not large has up to 32 KiB. Half of that for levels leaves enough for the values of any encoding.
    limit = MAX_LEVELS if grammar.large_chunks else min(MAX_LEVELS, (8 << 14) // (page.bits_rep + page.bits_def))
    if page.num_events <= limit:
        return MAX_CHUNK_VALUES
    ends = np.flatnonzero(page.definition <= page.max_visible)  # a chunk's events end with its last value,
    ends[-1] = page.num_events - 1  # and those of the last chunk with the page
    ends = np.concatenate([np.full(1, -1), ends])
    count = MAX_CHUNK_VALUES
    while count > 1:
        events = ends[count:] - ends[:-count] if count < len(ends) else ends[-1:] + 1
        if events.max() <= limit:
            return count
        count //= 2
    return 0


def repetition_index(page: Shredded, bounds: np.ndarray) -> np.ndarray:
    """For each chunk the number of rows that end in it, and of events of a row that continues in the next chunk: uint64 pairs."""
    assert page.repetition is not None
    new_row = page.repetition == page.repetition[0]
    starts = np.flatnonzero(new_row)
    begun = np.searchsorted(starts, bounds)  # rows that start before each bound
    closed = np.append(new_row[bounds[1:-1]], True)  # the chunk ends with its row
    # A row that continues from the chunk before ends at the first start in this one: ends are counted, not starts.
    rows_ended = begun[1:] - 1 + closed
    rows = np.diff(rows_ended, prepend=0)
    last_start = np.maximum(starts[begun[1:] - 1], bounds[:-1])
    leftover = np.where(closed, 0, bounds[1:] - last_start)
    return np.stack([rows, leftover], axis=1).astype(np.uint64).reshape(-1)
