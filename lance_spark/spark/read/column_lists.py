"""Batches for the reader of columns in the JVM (FlatVectors.java): one row, whose lists have the values of the columns.

So the parts of a column may differ in length: where a file has a dictionary of few values, these are sent once for each batch, and a byte
or two for each row, instead of the value of each row. Spark's reader of rows gets batches as Spark expects them instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

_MOST_ITEMS = 1 << 16
"""Codes have two bytes at most."""


@dataclass(frozen=True)
class ColumnLists:
    """Makes the batches of `schema`, which the JVM expects: the number of rows, then for each column a list of its values.

    For columns of texts, bytes and decimals, it is a struct of this list and of codes: if there are codes, they are the numbers, little
    endian and all of one or two bytes, of the values of the rows in the list.
    """

    schema: pa.Schema

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The row for a batch whose columns have the types of the lists, or dictionaries of them."""
        columns = [pa.array([batch.num_rows], pa.int32())]
        for field, array in zip(list(self.schema)[1:], batch.columns, strict=True):
            columns.append(_coded(array, field.type) if pa.types.is_struct(field.type) else _list(array, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _coded(array: pa.Array, t: pa.StructType) -> pa.Array:
    numbers = np.empty(0, np.uint8)
    if pa.types.is_dictionary(array.type):
        array, numbers = _items(array)
    codes = pa.Array.from_buffers(pa.binary(), 1, [None, _offsets(numbers.nbytes), pa.py_buffer(numbers)])
    return pa.StructArray.from_arrays([_list(array, t.field(0).type), codes], fields=list(t))


def _items(array: pa.DictionaryArray) -> tuple[pa.Array, np.ndarray]:
    """The items of a dictionary, and the number of that of each row. Nulls are an item."""
    items, numbers = array.dictionary, array.indices
    if numbers.null_count:
        numbers = numbers.fill_null(0) if not len(items) else numbers.cast(pa.int32()).fill_null(len(items))
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
    if len(items) > _MOST_ITEMS:
        return array.dictionary_decode(), np.empty(0, np.uint8)
    return items, numbers.to_numpy().astype(np.uint8 if len(items) <= 1 << 8 else "<u2", copy=False)


def _list(array: pa.Array, t: pa.ListType) -> pa.Array:
    return pa.Array.from_buffers(t, 1, [None, _offsets(len(array))], children=[array])


def _offsets(end: int) -> pa.Buffer:
    """The bounds of one value."""
    return pa.py_buffer(np.array([0, end], np.int32))
