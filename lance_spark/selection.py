"""Choosing rows of Arrow data.

pyarrow's `take` and `filter` read memory that is not theirs in fixed-size lists of fixed-size lists that do not start at offset 0 (seen in
pyarrow 26). Whoever chooses rows of columns of any type does it with what is here.
"""

from __future__ import annotations

import pyarrow as pa


def take(array: pa.Array, numbers: pa.Array) -> pa.Array:
    """The values with these numbers."""
    return _from_zero(array).take(numbers)


def take_rows(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """The rows with these numbers."""
    columns = [pa.chunked_array([_from_zero(chunk) for chunk in column.chunks], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema).take(numbers)


def keep(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """The values for which `mask` is true."""
    return _from_zero(array).filter(mask)


def keep_rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows for which `mask` is true."""
    return pa.RecordBatch.from_arrays([_from_zero(column) for column in batch.columns], schema=batch.schema).filter(mask)


def _from_zero(array: pa.Array) -> pa.Array:
    """The same values; copied to the start of new memory if they are of a type that needs it."""
    return pa.concat_arrays([array]) if _has_lists_in_lists(array.type) else array


def _has_lists_in_lists(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return _has_lists_in_lists(t.storage_type)
    if pa.types.is_fixed_size_list(t) and pa.types.is_fixed_size_list(t.value_type):
        return True
    return pa.types.is_nested(t) and any(_has_lists_in_lists(t.field(i).type) for i in range(t.num_fields))
