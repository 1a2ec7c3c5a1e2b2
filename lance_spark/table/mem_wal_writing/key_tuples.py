"""Primary keys as values of an index: one column as it is, several as bytes in their order.

Implements "SSTable Primary-Key Sidecars" of the MemTable and WAL specification.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark.arrow.selection import joined
from lance_spark.errors import UnsupportedFeatureError

_SIGN = np.uint64(1 << 63)


def key_values(keys: pa.Table) -> pa.Array:
    """The key of each row. Raises UnsupportedFeatureError for a column of several that has no such bytes."""
    columns = [joined(column.chunks) for column in keys.columns]
    if len(columns) == 1:
        return columns[0]
    check_key_types(keys.schema)
    parts: list[pa.Array | bytes] = []
    for column in columns:
        parts += [b"\x01", _encoded(column)]
    scalars = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def check_key_types(keys: pa.Schema) -> None:
    """Raise UnsupportedFeatureError for a primary key of several columns one of which has no bytes that keep its order."""
    if len(keys) == 1:
        return
    for field in keys:
        if not _is_encoded(field.type):
            raise UnsupportedFeatureError(
                f"the column {field.name!r} of type {field.type} cannot be in a primary key of several columns of a table with a "
                "write-ahead log; integers, dates, booleans, strings and bytes can"
            )


def _is_encoded(t: pa.DataType) -> bool:
    is_text = types.is_string(t) or types.is_large_string(t) or types.is_binary(t) or types.is_large_binary(t)
    return bool(is_text or types.is_integer(t) or types.is_date(t) or types.is_boolean(t))


def _encoded(values: pa.Array) -> pa.Array:
    """Bytes in the order of the values, which are not null."""
    t = values.type
    if types.is_boolean(t):
        return pc.if_else(values, pa.scalar(b"\x01", pa.binary()), pa.scalar(b"\x00", pa.binary()))
    if types.is_integer(t) or types.is_date(t):
        return _of_integers(values)
    escaped = pc.replace_substring(values.cast(pa.binary()), pattern=b"\x00", replacement=b"\x00\xff")
    return pc.binary_join_element_wise(escaped, pa.scalar(b"\x00\x00", pa.binary()), pa.scalar(b"", pa.binary()))


def _of_integers(values: pa.Array) -> pa.Array:
    """Eight bytes, the most significant first; of signed numbers, the first bit is inverted."""
    t = values.type
    if types.is_date(t):
        values = values.view(pa.int32() if types.is_date32(t) else pa.int64())
    if types.is_unsigned_integer(t):
        words = values.to_numpy().astype(np.uint64)
    else:
        words = values.to_numpy().astype(np.int64).view(np.uint64) ^ _SIGN
    data = pa.py_buffer(words.astype(">u8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(words), [None, data]).cast(pa.binary())
