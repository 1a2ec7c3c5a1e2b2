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

from lance_spark.metadata.operations import InsertedKeys
from lance_spark.schema.field_messages import primary_key_position
from lance_spark.schema.schema import Field, Schema

ITEMS, PROBABILITY, BLOCKS = 8192, 0.00057, 1024
"""The size of a bloom filter, which is the same in all writers: filters of different sizes cannot be compared."""

_SALT = np.array([0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], dtype=np.uint32)
_WORD_BITS, _BLOCK_WORDS = 32, 8
_EXACT_BITS = 16
"""How much of a hash is kept where hashes are listed; it bounds their number."""
_EVERY_KEY = 0
"""The only hash where a key has no bytes to compare, such as a list: it conflicts with itself."""

_END, _SEPARATOR = pa.scalar(b"", pa.large_binary()), pa.scalar(b"\0", pa.large_binary())

_U = np.uint64
_P1, _P2, _P3 = _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F), _U(0x165667B19E3779F9)
_P4, _P5 = _U(0x85EBCA77C2B2AE63), _U(0x27D4EB2F165667C5)
_LANES = (0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579)


def primary_key(schema: Schema) -> tuple[Field, ...]:
    """The fields of the table's unenforced primary key, in its order; empty if there is none."""
    found = [(position or 2**32, f.id, f) for f in schema.walk() if (position := primary_key_position(f)) is not None]
    return tuple(f for _, _, f in sorted(found, key=lambda entry: entry[:2]))


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
        self._bits = np.zeros(BLOCKS * _BLOCK_WORDS * _WORD_BITS if self._as_bloom else 0, dtype=bool)
        self._hashes = np.zeros(0, dtype=np.uint64)

    def add(self, rows: Callable[[Schema], pa.RecordBatch]) -> None:
        """Add the keys of rows, which `rows` returns as the columns of a schema. Keys with a null equal no other key."""
        if not self._comparable:
            self._hashes = np.array([_EVERY_KEY], dtype=np.uint64)
            return
        parts = [_bytes(column) for column in rows(Schema(tuple(self._key))).columns]
        keys = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _END, _SEPARATOR)
        hashes = _hashed(keys.drop_null())
        if not self._as_bloom:
            self._hashes = np.union1d(self._hashes, hashes & _U((1 << _EXACT_BITS) - 1))
            return
        blocks = ((hashes >> _U(32)) * _U(BLOCKS) >> _U(32)).astype(np.int64)
        bits = hashes.astype(np.uint32)[:, None] * _SALT >> np.uint32(27)
        words = blocks[:, None] * _BLOCK_WORDS + np.arange(_BLOCK_WORDS)
        self._bits[words * _WORD_BITS + bits] = True

    def finish(self) -> InsertedKeys:
        """The filter with all keys."""
        ids = tuple(f.id for f in self._key)
        if not self._as_bloom:
            return InsertedKeys(ids, tuple(self._hashes.tolist()))
        return InsertedKeys(ids, None, np.packbits(self._bits, bitorder="little").tobytes(), len(self._bits), ITEMS, PROBABILITY)


def united(a: InsertedKeys, b: InsertedKeys) -> InsertedKeys:
    """The keys of both filters, which were made by a `KeyFilter` for the same key."""
    if a.hashes is not None and b.hashes is not None:
        return replace(a, hashes=tuple(sorted({*a.hashes, *b.hashes})))
    return replace(a, bloom=(np.frombuffer(a.bloom, np.uint8) | np.frombuffer(b.bloom, np.uint8)).tobytes())


def _in_bloom(field: Field) -> bool:
    t = field.type
    wide = pa.types.is_integer(t) and t.bit_width >= 32
    return _is_comparable(field) and (wide or _is_bytes(t))


def _is_bytes(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t))


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
        column = pa.array(np.where(np.isnan(values), np.nan, values), mask=np.asarray(column.is_null())).view(pa.int64())
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


def _hashed(keys: pa.LargeBinaryArray) -> np.ndarray:
    """XXH64, with seed 0, of each value. `keys` has no nulls."""
    if not len(keys):
        return np.zeros(0, dtype=np.uint64)
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, "<i8", len(keys) + 1, keys.offset * 8)
    starts, sizes = ends[:-1], np.diff(ends)
    padded = np.zeros((data.size if data else 0) + 32, dtype=np.uint8)
    padded[:-32] = np.frombuffer(data, np.uint8) if data else ()

    def words(at: np.ndarray, t: str) -> np.ndarray:
        found: np.ndarray = np.lib.stride_tricks.sliding_window_view(padded, np.dtype(t).itemsize)[at]
        return np.ascontiguousarray(found).view(t).ravel().astype(np.uint64)

    hashes: np.ndarray = _of_stripes(starts, sizes // 32, words) + sizes.astype(np.uint64)
    at, left = starts + sizes // 32 * 32, sizes % 32
    for size, t in ((8, "<u8"), (4, "<u4"), (1, "u1")):
        while len(on := np.flatnonzero(left >= size)):
            hashes[on] = _with_word(hashes[on], words(at[on], t), size)
            at[on] += size
            left[on] -= size
    for shift, prime in ((33, _P2), (29, _P3), (32, _U(1))):
        hashes = (hashes ^ hashes >> _U(shift)) * prime
    return hashes


def _of_stripes(starts: np.ndarray, stripes: np.ndarray, words: Callable[[np.ndarray, str], np.ndarray]) -> np.ndarray:
    """The state of each hash after the stripes of 32 bytes that its value has."""
    lanes = np.repeat(np.array([_LANES], dtype=np.uint64), len(starts), axis=0)
    for i in range(int(stripes.max())):
        on = np.flatnonzero(stripes > i)
        for lane in range(4):
            lanes[on, lane] = _round(lanes[on, lane], words(starts[on] + 32 * i + 8 * lane, "<u8"))
    state = np.zeros(len(starts), dtype=np.uint64)
    for lane, shift in enumerate((1, 7, 12, 18)):
        state += _rotated(lanes[:, lane], shift)
    for lane in range(4):
        state = (state ^ _round(np.zeros_like(state), lanes[:, lane])) * _P1 + _P4
    state[stripes == 0] = _P5
    return state


def _with_word(state: np.ndarray, word: np.ndarray, size: int) -> np.ndarray:
    if size == 8:
        return _rotated(state ^ _round(np.zeros_like(state), word), 27) * _P1 + _P4
    if size == 4:
        return _rotated(state ^ word * _P1, 23) * _P2 + _P3
    return _rotated(state ^ word * _P5, 11) * _P1


def _round(lane: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotated(lane + word * _P2, 31) * _P1


def _rotated(x: np.ndarray, by: int) -> np.ndarray:
    return x << _U(by) | x >> _U(64 - by)
