"""Fsst: a Binary whose bytes are compressed value by value with one symbol table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings import fsst
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.variable import Variable
from lance_spark.reading.flat_buffers import binary_array, is_large, offsets_of
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps
from lance_spark.v2_0.binary import Binary


@dataclass(frozen=True)
class Fsst:
    """`values` are the compressed strings; `symbol_table` is that of the FSST encoding of later versions."""

    values: Binary
    symbol_table: bytes

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, decompressed."""
        large = is_large(t)
        compressed, validity = yield from self.values.read_block(spans, large)
        codec = fsst.Fsst(self.symbol_table, Variable(Flat(8 * compressed.offsets.itemsize)))
        plain = codec.decode_values(compressed)
        return binary_array(t, offsets_of(np.diff(plain.offsets), large), plain.data, validity)
