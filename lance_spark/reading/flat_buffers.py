"""Values of files of versions 0.1 and 2.0 -> Arrow arrays: ranges of flat buffers, bitmaps, byte strings with offsets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps

GAP = 4096
"""Gaps of up to this many bytes between values are read, not skipped."""

_LARGE = (pa.large_string(), pa.large_binary())
_SMALL = (pa.string(), pa.binary())


def bit_width(t: pa.DataType) -> int | None:
    """Bits of a value of `t` in a flat buffer, None if `t` is not of fixed width."""
    if pa.types.is_primitive(t):
        return int(t.bit_width)
    if pa.types.is_fixed_size_list(t):
        item = bit_width(t.value_type)
        return None if item is None else item * t.list_size
    if pa.types.is_null(t) or pa.types.is_dictionary(t) or pa.types.is_nested(t):
        return None
    try:
        return int(t.bit_width)
    except ValueError:
        return None


def fixed_width_array(t: pa.DataType, length: int, data: Bytes) -> pa.Array:
    """The array of `length` values of the fixed-width type `t` in `data`; bits are packed, starting with the first bit."""
    if pa.types.is_fixed_size_list(t):
        return fixed_size_list_array(t, fixed_width_array(t.value_type, length * t.list_size, data))
    width = bit_width(t)
    if width is None or (length * width + 7) // 8 > len(data):
        raise CorruptFileError(f"expected {length} values of {t}, found {len(data)} bytes")
    # Compute kernels and the JVM expect aligned values, but ranges of a file may start at any byte.
    if width > 8 and data.ctypes.data % min(width // 8 & -(width // 8), 8):
        data = data.copy()
    return pa.Array.from_buffers(t, length, [None, pa.py_buffer(data)])


def fixed_size_list_array(t: pa.DataType, items: pa.Array) -> pa.Array:
    """The array of fixed-size lists without nulls that has these items."""
    return pa.Array.from_buffers(t, len(items) // t.list_size, [None], children=[items])


def values_of(array: pa.Array) -> np.ndarray:
    """The values of an array of numbers without nulls, zero-copy."""
    if array.null_count:
        raise CorruptFileError(f"found {array.null_count} nulls, expected none")
    values: np.ndarray = array.to_numpy(zero_copy_only=True)
    return values


def _bytes_with(spans: Spans, bits: int) -> tuple[list[int], list[int]]:
    """Where the bytes with the values of each span begin and end."""
    return (spans[:, 0] * bits // 8).tolist(), ((spans[:, 1] * bits + 7) // 8).tolist()


def read_bits(buffer: ByteRange, bits: int, spans: Spans) -> Steps[Bytes]:
    """The bytes of the values of `spans`, joined; bits are shifted so that the first value is bit 0."""
    check_spans(bits, spans, buffer.stop - buffer.start)
    starts, stops = _bytes_with(spans, bits)
    parts = yield [ByteRange(buffer.start + a, buffer.start + b) for a, b in zip(starts, stops)]
    if bits % 8 == 0:
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    return join_bits(parts, bits, spans)


def cut_bits(data: Bytes, bits: int, spans: Spans) -> Bytes:
    """Like `read_bits`, from a buffer in memory."""
    check_spans(bits, spans, len(data))
    starts, stops = _bytes_with(spans, bits)
    parts = [data[start:stop] for start, stop in zip(starts, stops)]
    if bits % 8 == 0:
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    return join_bits(parts, bits, spans)


def check_spans(bits: int, spans: Spans, size: int) -> None:
    """Raise CorruptFileError unless the values of `spans` are within a buffer of `size` bytes."""
    last = int(spans[-1, 1]) if len(spans) else 0
    if (last * bits + 7) // 8 > size:
        raise CorruptFileError(f"expected {last} values of {bits} bits, found a buffer of {size} bytes")


def join_bits(parts: Sequence[Bytes], bits: int, spans: Spans) -> Bytes:
    """The bits of `spans`, concatenated; `parts` are the bytes that contain each span."""
    skip = (spans[:, 0] * bits % 8).tolist()
    if len(parts) == 1 and skip == [0]:
        return parts[0]
    lengths = ((spans[:, 1] - spans[:, 0]) * bits).tolist()
    pieces = []
    for part, start, length in zip(parts, skip, lengths):
        pieces.append(np.unpackbits(part, bitorder="little")[start : start + length])
    return np.packbits(np.concatenate([*pieces, np.empty(0, np.uint8)]), bitorder="little")


def is_large(t: pa.DataType) -> bool:
    """Whether the string or binary type `t` has 64-bit offsets. Raises CorruptFileError for any other type."""
    if t not in _LARGE and t not in _SMALL:
        raise CorruptFileError(f"found byte strings in a column of {t}")
    return t in _LARGE


def offsets_of(lengths: np.ndarray, large: bool) -> np.ndarray:
    """The offsets of an Arrow array of values (strings or lists) of these lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if large:
        return offsets
    if offsets[-1] >= 2**31:
        raise CorruptFileError(f"a page has {offsets[-1]} bytes or items, too many for 32-bit offsets")
    return offsets.astype(np.int32)


def validity_of(valid: np.ndarray) -> pa.Buffer | None:
    """The Arrow validity bitmap of an array of booleans, None if nothing is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def binary_array(t: pa.DataType, offsets: np.ndarray, data: Bytes, validity: pa.Buffer | None) -> pa.Array:
    """The Arrow array of strings or binary that has these buffers. Raises CorruptFileError when text is not UTF-8."""
    array = pa.Array.from_buffers(t, len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
    if t in (pa.string(), pa.large_string()):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise CorruptFileError(str(e)) from e
    return array


def dictionary_array(t: pa.DataType, indices: pa.Array, items: pa.Array) -> pa.Array:
    """The array of dictionary type `t` with nulls in the indices only: Arrow does not join dictionaries with null items."""
    largest = pc.max(indices).as_py()
    if largest is not None and not 0 <= pc.min(indices).as_py() <= largest < len(items):
        raise CorruptFileError(f"index {largest} is out of bounds: the dictionary has {len(items)} items")
    if items.null_count:
        valid = items.is_valid().to_numpy(zero_copy_only=False)
        moved = pa.array(np.cumsum(valid) - 1, mask=~valid)
        indices, items = moved.take(indices), items.drop_null()
    return pa.DictionaryArray.from_arrays(indices.cast(t.index_type), items, ordered=t.ordered)
