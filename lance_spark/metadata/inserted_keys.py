"""The primary keys of inserted rows, as the filter that a transaction carries.

Implements KeyExistenceFilter of the transaction specification. Keys of integers, text and bytes go into a split-block bloom filter of fixed
size, as that of Parquet: the hash is XXH64 of the key's bytes, that of integers as 64 bits, little endian; in a key of several columns,
a zero byte follows each. pylance records no other types of keys. For these there are exact hashes, which conflict
with each of pylance's filters, so that it does not overlook them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.split_block import BLOCK_BYTES, hashes, insert, to_bytes
from lance_spark.arrow.types import is_bytes
from lance_spark.metadata.operations import InsertedKeys
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Field, Schema

ITEMS, PROBABILITY, BLOCKS = 8192, 0.00057, 1024
"""The size of a bloom filter, which is the same in all writers: filters of different sizes cannot be compared."""

_EXACT_BITS = 16
"""How much of a hash is kept where hashes are listed; it bounds their number."""
_EVERY_KEY = 0
"""The only hash where a key has no bytes to compare, such as a list: it conflicts with itself."""


def primary_key_in(schema: Schema, condition: str) -> tuple[Field, ...]:
    """The fields of the primary key if a condition, as text, names all of them; else ()."""
    key = primary_key(schema)
    return key if all(names_column(condition, f.name) for f in key) else ()


def names_column(condition: str, name: str) -> bool:
    """Whether a condition, as text, has this name in it."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", condition, re.IGNORECASE) is not None


class KeyFilter:
    """Collects the keys of inserted rows. Its memory is bounded. `nested` says that fields of structs are in the key."""

    def __init__(self, key: Sequence[Field], nested: bool = False) -> None:
        self._key = key
        self._comparable = not nested and all(_is_comparable(f) for f in key)
        self._as_bloom = self._comparable and all(_in_bloom(f) for f in key)
        self._words = np.zeros(BLOCKS * BLOCK_BYTES // 4 if self._as_bloom else 0, dtype=np.uint32)
        self._hashes = np.zeros(0, dtype=np.uint64)

    def add(self, rows: Callable[[Schema], pa.RecordBatch]) -> None:
        """Add the keys of rows, which `rows` returns as the columns of a schema. Keys with a null equal no other key."""
        if not self._comparable:
            self._hashes = np.array([_EVERY_KEY], dtype=np.uint64)
            return
        parts = [_bytes(column) for column in rows(Schema(tuple(self._key))).columns]
        end, separator = (pa.scalar(text, pa.large_binary()) for text in (b"", b"\0"))
        keys = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, end, separator)
        hashed = hashes(keys.drop_null())
        if self._as_bloom:
            insert(self._words, hashed)
        else:
            self._hashes = np.union1d(self._hashes, hashed & np.uint64((1 << _EXACT_BITS) - 1))

    def finish(self) -> InsertedKeys:
        """The filter with all keys."""
        ids = tuple(f.id for f in self._key)
        if not self._as_bloom:
            return InsertedKeys(ids, tuple(self._hashes.tolist()))
        return InsertedKeys(ids, None, to_bytes(self._words), BLOCKS * BLOCK_BYTES * 8, ITEMS, PROBABILITY)


def united(a: InsertedKeys, b: InsertedKeys) -> InsertedKeys:
    """The keys of both filters, which were made by a `KeyFilter` for the same key."""
    if a.hashes is not None and b.hashes is not None:
        return replace(a, hashes=tuple(sorted({*a.hashes, *b.hashes})))
    return replace(a, bloom=(np.frombuffer(a.bloom, np.uint8) | np.frombuffer(b.bloom, np.uint8)).tobytes())


def _in_bloom(field: Field) -> bool:
    t = field.type
    wide = pa.types.is_integer(t) and t.bit_width >= 32
    return _is_comparable(field) and (wide or is_bytes(t))


def _is_comparable(field: Field) -> bool:
    return not pa.types.is_nested(field.type) and not field.is_blob and field.logical_type != "json"


def _bytes(column: pa.Array) -> pa.Array:
    """The bytes of each value; equal values have equal bytes."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    t = column.type
    if pa.types.is_decimal(t):
        column = column.cast(pa.string())
    elif pa.types.is_floating(t):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 equals 0.0
        with_one_nan = np.where(np.isnan(values), np.nan, values)
        column = pa.array(with_one_nan, mask=np.asarray(column.is_null())).view(pa.int64())
    elif pa.types.is_temporal(t):
        column = column.view(pa.int32() if t.bit_width == 32 else pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        column = column.cast(pa.uint64() if pa.types.is_unsigned_integer(column.type) else pa.int64())
        words = column.fill_null(0).to_numpy(zero_copy_only=False)
        column = pc.if_else(column.is_valid(), _words(words), pa.scalar(None, pa.binary(8)))
    return column.cast(pa.binary()).cast(pa.large_binary())


def _words(values: np.ndarray) -> pa.Array:
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(values), [None, pa.py_buffer(little)])
