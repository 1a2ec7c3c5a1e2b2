"""Fsst: a Binary whose bytes are compressed value by value with one symbol table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.columns import Steps
from lance_spark.encodings import fsst
from lance_spark.spans import Spans
from lance_spark.v2_0.binary import Binary, binary_array, is_large


@dataclass(frozen=True)
class Fsst:
    """`values` are the compressed strings, `symbol_table` is as in the FSST encoding of later versions."""

    values: Binary
    symbol_table: bytes

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, decompressed."""
        large = is_large(t)
        block, validity = yield from self.values.read_block(spans, large)
        plain = fsst.decompress(self.symbol_table, block)
        return binary_array(t, plain, validity)
