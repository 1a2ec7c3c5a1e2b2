"""Builds map arrays from entries of files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError


def map_array(t: pa.MapType, count: int, buffers: Sequence[pa.Buffer | None], entries: pa.StructArray, offset: int = 0) -> pa.MapArray:
    """`count` maps of type `t` around `entries`. Raises CorruptFileError for null entries and keys, for which Arrow would abort the
    process.
    """
    if entries.null_count or entries.field(0).null_count:
        raise CorruptFileError("a map has a null key")
    return pa.Array.from_buffers(t, count, buffers, offset=offset, children=[entries])
