"""Delta: numbers as the differences between neighbours. Of 2.3; there is no published specification.

Of n values only n - 1 differences are stored, as another encoding says; the first value is in the message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, Encoding, FixedWidth
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


@dataclass(frozen=True)
class Delta(Encoding):
    """Each chunk or block begins with `base`; every other value is the one before it plus a number of `deltas`, modulo 2 ** `bits`."""

    bits: int
    base: int
    deltas: Encoding

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def num_buffers(self) -> int:
        """As many as the differences take."""
        return self.deltas.num_buffers

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values of all chunks."""
        return self._sum(self.deltas.decode_chunks(_without_first(chunks)), chunks.counts)

    def decode_blocks(self, chunks: Chunks) -> FixedWidth:
        """The values of many blocks."""
        return self._sum(self.deltas.decode_blocks(_without_first(chunks)), chunks.counts)

    def _sum(self, deltas: Block, counts: np.ndarray) -> FixedWidth:
        if not isinstance(deltas, FixedWidth) or deltas.bits != self.bits:
            raise CorruptFileError(f"differences of {self.bits}-bit numbers are not of {self.bits} bits")
        dtype = np.dtype(f"<u{self.bits // 8}")
        sums = np.zeros(len(deltas.view(dtype)) + 1, np.uint64)
        np.cumsum(deltas.view(dtype), dtype=np.uint64, out=sums[1:])
        # Value i of chunk c is the base and the sum of the first i differences of the chunk: what has been added up before it goes
        # away again. Unsigned sums wrap around, so that is right however large they are.
        number = numbers_within_chunks(counts)
        held = np.maximum(counts - 1, 0)
        before = np.cumsum(held) - held
        values = sums[np.repeat(before, counts) + number.astype(np.int64)] - np.repeat(sums[before], counts) + np.uint64(self.base)
        return FixedWidth(self.bits, values.astype(dtype).view(np.uint8), len(values))


def _without_first(chunks: Chunks) -> Chunks:
    check_counts(chunks.counts)
    return replace(chunks, counts=np.maximum(chunks.counts - 1, 0))


def numbers_within_chunks(counts: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... for the values of each chunk, as uint64."""
    starts = np.cumsum(counts) - counts
    numbers: np.ndarray = np.arange(int(counts.sum()), dtype=np.uint64) - np.repeat(starts.astype(np.uint64), counts)
    return numbers


def check_counts(counts: np.ndarray) -> None:
    """Refuse more numbers than fit a page: neither ranges nor differences need any stored bytes, which would limit them."""
    check_bytes(counts.sum(dtype=np.float64) * 8, "ranges or differences")  # floats do not wrap around


def check_bits(bits: int) -> None:
    """Refuse numbers that are not of 8, 16, 32 or 64 bits."""
    if bits not in (8, 16, 32, 64):
        raise UnsupportedFeatureError(f"ranges or differences of {bits}-bit numbers")
