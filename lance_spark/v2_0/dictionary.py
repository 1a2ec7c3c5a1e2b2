"""Dictionary: indices into items that each page stores for itself.

For a column of dictionary type the indices are Arrow's. A string column that the writer found to repeat uses the same encoding
otherwise: index 0 is null, index k is item k - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark import spans as sp
from lance_spark.columns import Steps, side_by_side
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.plain import values_of
from lance_spark.spans import Spans
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
        work = [self.indices.read(spans, index_type), self.items.read(sp.whole(self.num_items), t.value_type if by_user else t)]
        stored, items = yield from side_by_side(work)
        limit = self.num_items - 1 if by_user else self.num_items
        if len(stored) and stored.null_count < len(stored) and (largest := int(pa.compute.max(stored).as_py())) > limit:
            raise CorruptFileError(f"index {largest} into a dictionary of {self.num_items} items")
        if by_user:
            return _dictionary_array(t, stored, items)
        indices = values_of(stored)
        # Item k - 1 of index 0 would be far beyond the end; as a null index it is not looked at.
        shifted = indices.astype(np.int64) - 1
        return items.take(pa.array(shifted, mask=indices == 0))


def _dictionary_array(t: pa.DataType, indices: pa.Array, items: pa.Array) -> pa.Array:
    """The dictionary array, its nulls in the indices: Arrow does not join dictionaries in which items are null."""
    if items.null_count:
        valid = items.is_valid().to_numpy(zero_copy_only=False)
        moved = pa.array(np.cumsum(valid) - 1, mask=~valid)
        indices, items = moved.take(indices), items.drop_null()
    return pa.DictionaryArray.from_arrays(indices.cast(t.index_type), items, ordered=t.ordered)
