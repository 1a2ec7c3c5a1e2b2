"""Constant: one value for all slots, stored in the message. Spec: "Constant"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Chunks, Encoding, FixedWidth
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class Constant(Encoding):
    """Every value is `value`, little endian. None if there are no values, which then have 64 bits."""

    value: bytes | None

    @property
    def num_buffers(self) -> int:
        """0: the value is in the message."""
        return 0

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The value, repeated for every value of the chunks."""
        value = self.value or b""
        if not value and chunks.counts.any():
            raise CorruptFileError("a constant encoding of values has no value")
        # A float sum does not wrap around.
        check_bytes(chunks.counts.sum(dtype=np.float64) * len(value), "constant values")
        if not value:
            return FixedWidth(64, np.empty(0, np.uint8), 0)
        total = int(chunks.counts.sum())
        return FixedWidth(8 * len(value), np.tile(np.frombuffer(value, np.uint8), total), total)

    decode_blocks = decode_chunks
