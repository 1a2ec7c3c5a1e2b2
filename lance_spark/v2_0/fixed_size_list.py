"""FixedSizeList: the items of all lists, concatenated, in an encoding of their own."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.reading.flat_buffers import fixed_size_list_array
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps
from lance_spark.v2_0.encoding import Encoding


@dataclass(frozen=True)
class FixedSizeList:
    """Lists of `dimension` items. Null lists are stored in a Nullable around this node, null items in one below it."""

    dimension: int
    items: Encoding

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The lists of the items."""
        if not pa.types.is_fixed_size_list(t) or t.list_size != self.dimension:
            raise CorruptFileError(f"found lists of {self.dimension} items in a column of {t}")
        if len(spans) and int(spans[-1, 1]) * self.dimension >= 2**63:
            raise CorruptFileError(f"{spans[-1, 1]} lists of {self.dimension} items are more than any file holds")
        items = yield from self.items.read(spans * self.dimension, t.value_type)
        return fixed_size_list_array(t, items)
