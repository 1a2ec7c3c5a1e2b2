"""Flat: fixed-width values back to back in one buffer, which may be compressed as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.blocks import VariableWidth
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.encodings import flat
from lance_spark.encodings.general import General, Scheme
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import bit_width, cut_bits, fixed_width_array, read_bits
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps


@dataclass(frozen=True)
class Flat:
    """Values of `bits` bits each, 1 or a multiple of 8. `compression` is the compression scheme of the buffer, None for raw bytes."""

    bits: int
    buffer: ByteRange
    compression: Scheme | None = None

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values; a compressed buffer is read completely."""
        if bit_width(t) != self.bits:
            raise CorruptFileError(f"found values of {self.bits} bits in a column of {t}")
        if self.compression is None:
            data = yield from read_bits(self.buffer, self.bits, spans)
        else:
            (packed,) = yield [self.buffer]
            data = cut_bits(_decompress(packed, self.compression), self.bits, spans)
        return fixed_width_array(t, sp.count(spans), data)


def _decompress(packed: Bytes, scheme: Scheme) -> Bytes:
    # For the general encoding the buffer is one value of unknown size.
    one_value = VariableWidth(np.array([0, len(packed)]), packed)
    block = General(scheme, None, Variable(flat.Flat(64))).decode_values(one_value)
    assert isinstance(block, VariableWidth)
    return block.data
