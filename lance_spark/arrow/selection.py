"""Selecting and joining rows of Arrow data.

pyarrow's `take` and `filter` read out of bounds in nested fixed-size lists that do not start at offset 0 (as of pyarrow 26). Use these
functions to select rows of any column type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow import views
from lance_spark.errors import UnsupportedFeatureError


def row_positions(values: np.ndarray) -> pa.Array:
    """Positions of rows as an array of int64, without a copy. For `pa.array`, pyarrow would import pandas, which takes half a second."""
    numbers = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def take(array: pa.Array, numbers: pa.Array) -> pa.Array:
    """The values at these positions."""
    return _from_zero(array).take(numbers)


def take_rows(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """The rows at these positions. Raises UnsupportedFeatureError if the dictionaries of a column's chunks cannot be merged."""
    if not table.num_columns:
        return without_columns(len(numbers), table.schema)
    columns = [pa.chunked_array([_from_zero(chunk) for chunk in column.chunks], column.type) for column in table.columns]
    try:
        return pa.Table.from_arrays(columns, schema=table.schema).take(numbers)
    except pa.ArrowInvalid as e:
        if "dictionar" not in str(e):
            raise
        return pa.Table.from_arrays([joined(column.chunks) for column in columns], schema=table.schema).take(numbers)


def without_columns(rows: int, schema: pa.Schema) -> pa.Table:
    """A table of rows without columns, with the metadata of `schema`. Most functions of pyarrow forget the number of such rows."""
    return pa.table({"": pa.nulls(rows)}).replace_schema_metadata(schema.metadata).select([])


def keep(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """The values for which `mask` is true."""
    if views.are_views(array):
        return views.taken(array, np.flatnonzero(mask.to_numpy(zero_copy_only=False)))
    return _from_zero(array).filter(mask)


def keep_rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows for which `mask` is true."""
    return pa.RecordBatch.from_arrays([_from_zero(column) for column in batch.columns], schema=batch.schema).filter(mask)


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """The arrays, all of one type, concatenated. Raises UnsupportedFeatureError if their dictionaries cannot be merged."""
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid as e:
        if "dictionar" not in str(e):
            raise
        return _joined_dictionaries(arrays)


def _joined_dictionaries(arrays: Sequence[pa.Array]) -> pa.Array:
    """Like `joined`, with only the used items in the dictionary."""
    t = arrays[0].type
    refusal = UnsupportedFeatureError(f"values of {t} whose joined dictionaries have too many items for the index type")
    if not pa.types.is_dictionary(t):
        raise refusal
    encoded = pa.concat_arrays([array.dictionary_decode() for array in arrays]).dictionary_encode()
    if len(encoded.dictionary) > 1 << (t.index_type.bit_width - pa.types.is_signed_integer(t.index_type)):
        raise refusal
    return encoded.cast(t)


def _from_zero(array: pa.Array) -> pa.Array:
    """The same values, copied to offset 0 if their type requires it."""
    return pa.concat_arrays([array]) if _has_lists_in_lists(array.type) else array


def _has_lists_in_lists(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return _has_lists_in_lists(t.storage_type)
    if pa.types.is_fixed_size_list(t) and pa.types.is_fixed_size_list(t.value_type):
        return True
    return pa.types.is_nested(t) and any(_has_lists_in_lists(t.field(i).type) for i in range(t.num_fields))


def size_up_to(most: int, *parts: pa.Array | pa.RecordBatch) -> int:
    """The bytes of the rows of `parts`, or of all of their buffers if these are at most `most`, which takes less time to tell."""
    total = sum(part.get_total_buffer_size() for part in parts)
    return total if total <= most else sum(part.nbytes for part in parts)


def window(batches: Iterable[pa.RecordBatch], offset: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows from number `offset` on, at most `limit` of them, without empty batches. No batch is taken after the last row."""
    skip, left = offset, limit
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        part = batch.slice(skip, left)
        skip = 0
        if left is not None:
            left -= part.num_rows
        if part.num_rows:
            yield part
        if left == 0:
            return
