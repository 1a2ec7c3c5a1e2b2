"""Binary and FixedSizeBinary: byte strings and text, as offsets and bytes, or as bytes only if all values have the same length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.blocks import VariableWidth
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import binary_array, is_large, offsets_of, validity_of, values_of
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps
from lance_spark.v2_0.encoding import Encoding
from lance_spark.v2_0.extents import read_extents


@dataclass(frozen=True)
class Binary:
    """`offsets` holds the end of each value in `bytes`, plus `null_adjustment` for a null; they are integers of `offset_bits` bits."""

    offsets: Encoding
    offset_bits: int
    null_adjustment: int
    bytes: Encoding

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values; the bytes are read after the offsets."""
        block, validity = yield from self.read_block(spans, is_large(t))
        return binary_array(t, block.offsets, block.data, validity)

    def read_block(self, spans: Spans, large: bool) -> Steps[tuple[VariableWidth, pa.Buffer | None]]:
        """The values as stored and their validity bitmap, None if none is null."""
        extents = yield from read_extents(self.offsets, self.offset_bits, self.null_adjustment, spans)
        offsets = offsets_of(extents.lengths, large)
        data = yield from self.bytes.read(extents.content, pa.uint8())
        return VariableWidth(offsets, values_of(data)), validity_of(extents.valid)


@dataclass(frozen=True)
class FixedSizeBinary:
    """Values of `width` bytes each in a column of strings or binary; none is null."""

    width: int
    bytes: Encoding

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, with offsets for Arrow."""
        count, large = sp.count(spans), is_large(t)
        if count * self.width >= 2**31 and not large:
            raise CorruptFileError(f"found {count} values of {self.width} bytes in a column of {t}, expected another type or fewer bytes")
        data = yield from self.bytes.read(sp.merged(spans * self.width, 0), pa.uint8())
        offsets = np.arange(count + 1, dtype=np.int64 if large else np.int32) * self.width
        return binary_array(t, offsets, values_of(data), None)
