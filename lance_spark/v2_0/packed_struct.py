"""PackedStruct: the fixed-width children of a struct, stored row by row in one buffer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import bit_width, fixed_width_array, read_bits
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps


@dataclass(frozen=True)
class PackedStruct:
    """`bits` are the widths of the children, whole bytes each; neither the struct nor its children are ever null."""

    bits: tuple[int, ...]
    buffer: ByteRange

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The structs, their rows split into columns."""
        children = [t.field(i).type for i in range(t.num_fields)] if pa.types.is_struct(t) else []
        if tuple(bit_width(c) for c in children) != self.bits:
            raise CorruptFileError(f"found packed structs with children of {self.bits} bits in a column of {t}")
        data = yield from read_bits(self.buffer, sum(self.bits), spans)
        count = sp.count(spans)
        table = data.reshape(count, sum(self.bits) // 8)
        ends = np.cumsum(self.bits) // 8
        columns = [np.ascontiguousarray(table[:, end - b // 8 : end]).reshape(-1) for end, b in zip(ends.tolist(), self.bits)]
        arrays = [fixed_width_array(c, count, column) for c, column in zip(children, columns)]
        return pa.Array.from_buffers(t, count, [None], children=arrays)
