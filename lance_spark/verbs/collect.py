"""Collecting a DataFrame that is expected to be small, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from lance_spark.schema.schema import quoted
from lance_spark.spark.columns.types import stored

MAX_BYTES = 64 << 20
"""The most bytes, in Arrow, that are returned: they are in the memory of the driver and of each worker that uses them."""

_TRANSFERRED_BYTES = 512 << 20
"""The most bytes that may pass from the JVM, which cannot tell them before."""

_TEXT, _ARRAY, _PLAIN = 2 << 10, 16 << 10, 16
"""The bytes of the largest text and array that are transferred, and of other values."""


def collected(df: DataFrame, names: Sequence[str]) -> pa.RecordBatch | None:
    """Some columns of all rows, in Spark's Arrow types; None if they have more than `MAX_BYTES`, or large or nested values."""
    fields = stored(df.schema, {})
    types = [fields.field(name).type for name in names]
    sizes = [_most_bytes(t) for t in types]
    if None in sizes:
        return None
    most_rows = _TRANSFERRED_BYTES // max(sum(size or 0 for size in sizes), 1)
    columns = [quoted([name]) for name in names]
    large = " OR ".join(_is_large(column, t) for column, t in zip(columns, types) if _varies(t)) or "false"
    shown = [f"IF({large}, NULL, {column})" if _varies(t) else column for column, t in zip(columns, types)]
    # As text, since each Column takes many calls of the JVM.
    selected = [f"{column} AS c{i}" for i, column in enumerate(shown)]
    rows = df.selectExpr(*selected, f"{large} AS large").limit(most_rows + 1).toArrow()
    if rows.num_rows > most_rows or rows.nbytes > MAX_BYTES or pc.any(rows["large"]).as_py():
        return None
    arrays = []
    for column in rows.columns[:-1]:
        arrays.append(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type))
    return pa.RecordBatch.from_arrays(arrays, names=list(names)) if names else None


def _most_bytes(t: pa.DataType) -> int | None:
    """The bytes of the largest value that is transferred; None for types whose values have no simple size."""
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _TEXT
    if _is_array(t):
        return _ARRAY if pa.types.is_primitive(t.value_type) else None
    return None if pa.types.is_nested(t) else _PLAIN


def _is_array(t: pa.DataType) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_fixed_size_list(t))


def _varies(t: pa.DataType) -> bool:
    return _most_bytes(t) != _PLAIN


def _is_large(column: str, t: pa.DataType) -> str:
    large = f"size({column}) > {_ARRAY * 8 // t.value_type.bit_width}" if _is_array(t) else f"octet_length({column}) > {_TEXT}"
    return f"coalesce({large}, false)"
