"""Making map arrays of what files hold."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError


def map_array(t: pa.MapType, count: int, buffers: Sequence[pa.Buffer | None], entries: pa.StructArray, offset: int = 0) -> pa.MapArray:
    """`count` maps of type `t` around `entries`. Raises CorruptFileError for entries and keys that are null: Arrow ends the process."""
    if entries.null_count or entries.field(0).null_count:
        raise CorruptFileError("a map with a key that is null")
    return pa.Array.from_buffers(t, count, buffers, offset=offset, children=[entries])
