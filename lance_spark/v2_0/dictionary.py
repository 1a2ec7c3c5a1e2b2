"""Dictionary: indices into items, which each page stores.

For a column of dictionary type the indices are Arrow's. A string column whose values repeat uses the same encoding differently: index 0 is
null, index k is item k - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.values.to_arrow import look_up
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import dictionary_array, values_of
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps, side_by_side
from lance_spark.v2_0.encoding import Encoding


@dataclass(frozen=True)
class Dictionary:
    """`indices` are integers of `index_bits` bits, `items` has `num_items` values."""

    indices: Encoding
    index_bits: int
    items: Encoding
    num_items: int

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values: a dictionary array for a column of dictionary type, looked up otherwise."""
        by_user = pa.types.is_dictionary(t)
        index_type = pa.type_for_alias(f"uint{self.index_bits}")
        work = [self.indices.read(spans, index_type), self.items.read(sp.all_rows(self.num_items), t.value_type if by_user else t)]
        stored, items = yield from side_by_side(work)
        if by_user:
            return dictionary_array(t, stored, items)
        indices = values_of(stored)
        if len(indices) and int(indices.max()) > self.num_items:
            raise CorruptFileError(f"index {indices.max()} is out of bounds: the dictionary has {self.num_items} items")
        # Index 0 would wrap around to a huge item; as a null index it is not looked up.
        shifted = indices.astype(np.int64) - 1
        return look_up(items, pa.array(shifted, mask=indices == 0))
