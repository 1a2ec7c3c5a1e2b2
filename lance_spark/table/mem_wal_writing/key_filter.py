"""The bloom filter of the primary keys of an SSTable, by which readers of pylance leave SSTables out.

Implements "SSTable Primary-Key Sidecars" of the MemTable and WAL specification: a split-block filter. pylance hashes the columns of
a key as Rust does: for each, a byte that says that it is not null, and the value.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import joined
from lance_spark.arrow.sip_hash import sip_hashes
from lance_spark.arrow.split_block import filter_bytes, make_filter

_LEAST_KEYS, _PROBABILITY = 8192, 0.00057
"""A filter of pylance is for so many keys, also if there are more; it has 32 KiB."""
_ALL_KEYS = b"\xff" * 32
"""A filter that contains every key: readers then look into the index of the keys."""
_FIXED = (pa.int32(), pa.int64())
_NOT_NULL = b"\x00"


def key_filter(keys: pa.Table) -> bytes:
    """The filter of these keys.

    It contains all keys if a column has a type whose values pylance does not hash.
    """
    parts: list[pa.Array | bytes] = []
    for column in keys.columns:
        values = _hashed(joined(column.chunks) if column.num_chunks else pa.array([], column.type))
        if values is None:
            return _ALL_KEYS
        parts += [_NOT_NULL, *values]
    binary = pa.large_binary()
    scalars = [pa.scalar(part, binary) if isinstance(part, bytes) else part.cast(binary) for part in parts]
    messages = pc.binary_join_element_wise(*scalars, pa.scalar(b"", binary))
    return make_filter(sip_hashes(messages), filter_bytes(max(keys.num_rows, _LEAST_KEYS), _PROBABILITY))


def _hashed(values: pa.Array) -> list[pa.Array | bytes] | None:
    """The bytes of values which are not null, as parts; None if pylance does not hash this type."""
    if values.type in _FIXED:
        return [_raw(values)]
    if values.type == pa.string():
        return [values, b"\xff"]
    if values.type == pa.binary():
        return [_raw(pc.binary_length(values).cast(pa.int64())), values]
    return None


def _raw(numbers: pa.Array) -> pa.Array:
    """The little-endian bytes of numbers."""
    width = numbers.type.bit_width // 8
    data = np.ascontiguousarray(numbers.to_numpy(), numbers.type.to_pandas_dtype()).tobytes()
    return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(data)])
