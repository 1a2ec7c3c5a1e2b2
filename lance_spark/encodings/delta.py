"""Delta: numbers as the differences between neighbours. Storage version 2.3; no specification is published.

The n - 1 differences of n values are stored in another encoding; the first value is in the message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, Encoding, FixedWidth
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


@dataclass(frozen=True)
class Delta(Encoding):
    """Each chunk or block begins with `base`; every other value is its predecessor plus a value of `deltas`, modulo 2 ** `bits`."""

    bits: int
    base: int
    deltas: Encoding

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def num_buffers(self) -> int:
        """The number of buffers of the differences."""
        return self.deltas.num_buffers

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values of all chunks."""
        return self._sum(self.deltas.decode_chunks(_without_first(chunks)), chunks.counts)

    def decode_blocks(self, chunks: Chunks) -> FixedWidth:
        """The values of several blocks."""
        return self._sum(self.deltas.decode_blocks(_without_first(chunks)), chunks.counts)

    def _sum(self, deltas: Block, counts: np.ndarray) -> FixedWidth:
        if not isinstance(deltas, FixedWidth) or deltas.bits != self.bits:
            raise CorruptFileError(f"expected differences of {self.bits} bits, found another width")
        dtype = np.dtype(f"<u{self.bits // 8}")
        sums = np.zeros(len(deltas.view(dtype)) + 1, np.uint64)
        np.cumsum(deltas.view(dtype), dtype=np.uint64, out=sums[1:])
        # Value i of chunk c is the base plus the first i differences of the chunk: a running sum over all chunks, minus the sum before
        # the chunk. Unsigned sums wrap around, so the result is correct at any size.
        number = numbers_within_chunks(counts)
        stored = np.maximum(counts - 1, 0)
        before = np.cumsum(stored) - stored
        running = sums[np.repeat(before, counts) + number.astype(np.int64)]
        values = running - np.repeat(sums[before], counts) + np.uint64(self.base)
        return FixedWidth(self.bits, values.astype(dtype).view(np.uint8), len(values))


def _without_first(chunks: Chunks) -> Chunks:
    check_counts(chunks.counts)
    return replace(chunks, counts=np.maximum(chunks.counts - 1, 0))


def numbers_within_chunks(counts: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... for the values of each chunk, as uint64."""
    starts = (np.cumsum(counts) - counts).astype(np.uint64)
    numbers: np.ndarray = np.arange(int(counts.sum()), dtype=np.uint64)
    numbers -= np.repeat(starts, counts)
    return numbers


def check_counts(counts: np.ndarray) -> None:
    """Raise CorruptFileError for more numbers than a page may have: ranges and differences need no stored bytes."""
    check_bytes(counts.sum(dtype=np.float64) * 8, "ranges or differences")  # floats do not wrap around


def check_bits(bits: int) -> None:
    """Raise UnsupportedFeatureError unless numbers have 8, 16, 32 or 64 bits."""
    if bits not in (8, 16, 32, 64):
        raise UnsupportedFeatureError(f"ranges and differences of {bits}-bit numbers are not supported")
