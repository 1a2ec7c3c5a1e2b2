"""Flat: fixed-width values back to back in one buffer, which may be compressed as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from lance_spark.encodings.general import decompress

from lance_spark import spans as sp
from lance_spark.byte_ranges import ByteRange
from lance_spark.columns import Steps
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.plain import bit_width, cut_bits, fixed_width_array, read_bits
from lance_spark.spans import Spans


@dataclass(frozen=True)
class Flat:
    """Values of `bits` bits each, 1 or a multiple of 8. `compression` is the scheme of the buffer, None for raw bytes."""

    bits: int
    buffer: ByteRange
    compression: str | None = None

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values; only a compressed buffer is read whole."""
        if bit_width(t) != self.bits:
            raise CorruptFileError(f"values of {self.bits} bits in a column of {t}")
        if self.compression is None:
            data = yield from read_bits(self.buffer, self.bits, spans)
        else:
            (packed,) = yield [self.buffer]
            data = cut_bits(decompress(self.compression, packed), self.bits, spans)
        return fixed_width_array(t, sp.count(spans), data)
