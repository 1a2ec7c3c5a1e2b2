"""Random Arrow types and arrays: what property tests write and read. Small numbers choose the shape, a seed makes the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
FIXED_WIDTH = [
    *INTEGERS,
    pa.bool_(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(38, 3),
    pa.decimal256(50, 3),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
    pa.timestamp("us", "UTC"),
    pa.duration("s"),
    pa.binary(3),
    pa.binary(16),
    pa.binary(300),
]
STRINGS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
LEAVES = [
    *FIXED_WIDTH,
    *STRINGS,
    pa.null(),
    pa.list_(pa.float32(), 4),
    pa.list_(pa.float64(), 40),
    pa.list_(pa.bool_(), 5),
    pa.list_(pa.list_(pa.int16(), 3), 2),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.int64()),
]


def types(*, maps: bool) -> st.SearchStrategy[pa.DataType]:
    """Leaves, and up to three levels of lists, structs and (if `maps`) maps around them."""

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        kinds = [
            inner.map(pa.list_),
            inner.map(pa.large_list),
            st.lists(inner, min_size=1, max_size=2).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])),
        ]
        if maps:
            kinds.append(inner.map(lambda t: pa.map_(pa.int32(), t)))
        return st.one_of(kinds)

    leaf = st.sampled_from(LEAVES)
    one = nested(leaf)
    two = nested(st.one_of(leaf, one))
    return st.one_of(leaf, one, two, nested(two))


class ArrayMaker:
    """Makes arrays of a type. `null_share` of the slots are null; `variety` is 0 for one value, 1 for few in runs, 2 for any."""

    def __init__(self, seed: int, null_share: float, variety: int, string_length: int = 12) -> None:
        self._rng = np.random.default_rng(seed)
        self._null_share = null_share
        self._variety = variety
        self._string_length = string_length

    def sliced(self, t: pa.DataType, count: int) -> pa.Array:
        """An array of `count` values that is a slice from the middle of a larger one."""
        before, after = (int(n) for n in self._rng.integers(0, 11, 2))
        return self.array(t, before + count + after).slice(before, count)

    def array(self, t: pa.DataType, count: int) -> pa.Array:
        if pa.types.is_null(t):
            return pa.nulls(count)
        mask = self._rng.random(count) < self._null_share
        if pa.types.is_map(t):
            offsets = self._offsets(count)
            keys, items = self._keys(t.key_type, offsets), self.array(t.item_type, int(offsets[-1]))
            plain = pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, items, t)
            return pa.Array.from_buffers(t, count, [_validity(mask), plain.buffers()[1]], children=[_entries(t, keys, items)])
        if pa.types.is_list(t) or pa.types.is_large_list(t):
            offsets = self._offsets(count).astype(np.int64 if pa.types.is_large_list(t) else np.int32)
            # Null lists keep their items, which a writer has to leave out.
            children = [self.array(t.value_type, int(offsets[-1]))]
            return pa.Array.from_buffers(t, count, [_validity(mask), pa.py_buffer(offsets)], children=children)
        if pa.types.is_struct(t):
            children = [self.array(f.type, count) for f in t]
            return pa.Array.from_buffers(t, count, [_validity(mask)], children=children)
        if pa.types.is_fixed_size_list(t):
            items = self.array(t.value_type, count * t.list_size)
            return pa.Array.from_buffers(t, count, [_validity(mask)], children=[items])
        if pa.types.is_dictionary(t):
            items = ArrayMaker(1, 0.2 * (self._null_share > 0), 2).array(t.value_type, 20)
            indices = self._choice(count, 20).astype(t.index_type.to_pandas_dtype())
            return pa.DictionaryArray.from_arrays(pa.array(indices, mask=mask), items)
        if t in STRINGS:
            return self._strings(t, count, mask)
        return self._fixed_width(t, count, mask)

    def _choice(self, count: int, most: int) -> np.ndarray:
        """Numbers below `most`, as varied as the values are to be."""
        if self._variety == 0:
            return np.zeros(count, dtype=np.int64)
        if self._variety == 1:
            return np.repeat(self._rng.integers(0, most, count // 7 + 1), 7)[:count]
        return self._rng.integers(0, most, count)

    def _offsets(self, count: int) -> np.ndarray:
        lengths = self._rng.integers(0, 5, count) * (self._rng.random(count) < 0.7)
        return np.concatenate([[self._rng.integers(0, 3)], lengths]).cumsum()

    def _keys(self, t: pa.DataType, offsets: np.ndarray) -> pa.Array:
        return pa.array(np.arange(offsets[-1]), t)

    def _strings(self, t: pa.DataType, count: int, mask: np.ndarray) -> pa.Array:
        lengths = self._choice(count, self._string_length + 1)
        offsets = np.concatenate([[0], lengths.cumsum()])
        data = self._choice(int(offsets[-1]), 26).astype(np.uint8) + 97
        wide = t in (pa.large_string(), pa.large_binary())
        buffers = [_validity(mask), pa.py_buffer(offsets.astype(np.int64 if wide else np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(t, count, buffers)

    def _fixed_width(self, t: pa.DataType, count: int, mask: np.ndarray) -> pa.Array:
        if pa.types.is_boolean(t):
            bits = np.packbits(self._choice(count, 2).astype(np.uint8), bitorder="little")
            return pa.Array.from_buffers(t, count, [_validity(mask), pa.py_buffer(bits)])
        width = t.bit_width // 8
        rows = np.zeros((count, width), dtype=np.uint8)
        used = min(width, int(self._rng.integers(1, width + 1)))
        if pa.types.is_time(t) or pa.types.is_date64(t) or pa.types.is_floating(t) or pa.types.is_decimal(t):
            used = min(used, 2)  # so that all bits make a valid value
        if pa.types.is_duration(t) or pa.types.is_timestamp(t):
            used = min(used, 5)  # so that Python has a name for it
        rows[:, :used] = self._choice(count * used, 256).astype(np.uint8).reshape(count, used)
        if pa.types.is_date64(t):
            rows = (rows[:, :1].astype(np.int64) * 86_400_000).view(np.uint8)
        if pa.types.is_float16(t):
            rows[:, 1] &= 0x3F  # no infinity, no NaN
        return pa.Array.from_buffers(t, count, [_validity(mask), pa.py_buffer(np.ascontiguousarray(rows))])


def _validity(mask: np.ndarray) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~mask, bitorder="little")) if mask.any() else None


def _entries(t: pa.MapType, keys: pa.Array, items: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([keys, items], fields=[t.key_field, t.item_field])
