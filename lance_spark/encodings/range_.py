"""Range: numbers a fixed step apart, with nothing stored. Storage version 2.3; no specification is published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Chunks, Encoding, FixedWidth
from lance_spark.encodings.delta import check_bits, check_counts, numbers_within_chunks


@dataclass(frozen=True)
class Range(Encoding):
    """Value i of a chunk or block is `start + step * i`, modulo 2 ** `bits`."""

    bits: int
    start: int
    step: int

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def num_buffers(self) -> int:
        """0: nothing is stored."""
        return 0

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values of all chunks, each of which begins with `start`."""
        check_counts(chunks.counts)
        values = numbers_within_chunks(chunks.counts) * np.uint64(self.step) + np.uint64(self.start)
        return FixedWidth(self.bits, values.astype(f"<u{self.bits // 8}").view(np.uint8), len(values))

    decode_blocks = decode_chunks
