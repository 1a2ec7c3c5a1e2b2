"""JSON columns: JSONB, as stored in data files, <-> JSON text, as users see it.

Implements the JSONB page of the table specification: a container is a header (kind and count, u32), an entry for each value (kind and
length, u32; an object's keys come first), and the concatenated payloads; all numbers are big endian. Decimals and extension types, which
JSON text cannot produce, are not supported.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.validity import validity_of
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel

_SCALAR, _OBJECT, _ARRAY = 0x20000000, 0x40000000, 0x80000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = 0, 0x10000000, 0x20000000, 0x30000000, 0x40000000, 0x50000000
_ZERO, _NAN, _INFINITY, _MINUS_INFINITY, _SIGNED, _UNSIGNED, _DOUBLE = 0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60
_MAX_DEPTH = 512
_OK, _CORRUPT, _UNSUPPORTED = 0, 1, 2
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_LITERALS = np.frombuffer(b"nulltruefalse", dtype=np.uint8)
# The letter after the backslash of control characters with a short escape.
_SHORT = np.zeros(128, dtype=np.uint8)
_SHORT[[8, 9, 10, 12, 13, 34, 92]] = np.frombuffer(b'btnfr"\\', dtype=np.uint8)


def to_text(array: pa.Array) -> pa.StringArray:
    """The JSON text of each JSONB value, without spaces, keys in the stored order; nulls stay null."""
    binary = array.cast(pa.large_binary())
    if not len(binary):
        return pa.array([], pa.string())
    offsets = _read_only(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = _read_only(binary.buffers()[2], np.uint8)
    valid = binary.is_valid().to_numpy(zero_copy_only=False)
    starts, stops = offsets[:-1], offsets[1:]
    # A double takes 13 bytes of JSONB; all doubles are formatted at once between the two passes.
    doubles = np.empty(int((stops - starts)[valid].sum()) // 13 + 1, dtype=np.float64)
    sizes = np.zeros(len(binary), dtype=np.int64)
    nothing = np.zeros(1, np.int64)
    no_texts, no_output = _read_only(None, np.uint8), np.empty(0, np.uint8)
    at, status, count = _render(data, starts, stops, valid, doubles, nothing, no_texts, sizes, no_output, False)
    if status == _CORRUPT:
        raise CorruptFileError(f"value {at} of a JSON column is not valid JSONB")
    if status != _OK:
        raise UnsupportedFeatureError(
            f"value {at} of a JSON column has a decimal, an extension value or more than {_MAX_DEPTH} levels, which are not supported"
        )
    texts = _double_texts(doubles[:count])
    text_offsets = _read_only(texts.buffers()[1], np.int32)[: count + 1].astype(np.int64)
    out = np.empty(int(sizes.sum()) + int(text_offsets[-1]), dtype=np.uint8)
    text_data = _read_only(texts.buffers()[2], np.uint8)
    _render(data, starts, stops, valid, doubles, text_offsets, text_data, sizes, out, True)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if ends[-1] >= 2**31:
        raise UnsupportedFeatureError(f"{ends[-1]} bytes of JSON text in one batch are not supported; read fewer rows at a time")
    buffers = [validity_of(binary), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out)]
    result = pa.Array.from_buffers(pa.string(), len(binary), buffers)
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as e:
        raise CorruptFileError(f"a JSON column has a string that is not UTF-8: {e}") from e
    return result


def _read_only(buffer: pa.Buffer | None, dtype: type) -> np.ndarray:
    """A buffer as a read-only array: a writable one is a different type, for which the kernels would compile again."""
    array: np.ndarray = np.frombuffer(buffer or b"", dtype=dtype)
    array.flags.writeable = False
    return array


def _double_texts(doubles: np.ndarray) -> pa.StringArray:
    """The shortest text of each double that parses back to it: Arrow's, but always with a point or an exponent.

    Decimal notation is used from 1e-5 to below 1e16; Arrow uses it from 1e-6 to below 1e10, numpy from 1e-4 to below 1e16.
    """
    texts = pa.array(doubles).cast(pa.string())
    plain = pc.invert(pc.match_substring_regex(texts, "[.e]"))
    texts = pc.if_else(plain, pc.binary_join_element_wise(texts, ".0", ""), texts)
    size = np.abs(doubles)
    other = ((size >= 1e10) & (size < 1e16)) | ((size >= 1e-6) & (size < 1e-5))
    if not other.any():
        return texts
    replacements = pc.replace_substring(pa.array(doubles[other].astype(str), pa.string()), "e-0", "e-")
    return pc.replace_with_mask(texts, pa.array(other), replacements)


@kernel
def _u32(data: Bytes, at: int) -> int:
    return int((np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16) | (np.int64(data[at + 2]) << 8) | np.int64(data[at + 3]))


@kernel
def _literal(which: int, out: Bytes, at: int, write: bool) -> int:
    """Write null, true or false (0, 1, 2) to `out`; returns the position after it."""
    start, stop = (0, 4) if which == 0 else ((4, 8) if which == 1 else (8, 13))
    if write:
        for i in range(start, stop):
            out[at + i - start] = _LITERALS[i]
    return at + stop - start


@kernel
def _string(data: Bytes, start: int, stop: int, out: Bytes, at: int, write: bool) -> int:
    """Write bytes as a quoted JSON string to `out`; returns the position after it."""
    if write:
        out[at] = 34
    at += 1
    for i in range(start, stop):
        c = data[i]
        if c < 128 and _SHORT[c] != 0:
            if write:
                out[at], out[at + 1] = 92, _SHORT[c]
            at += 2
        elif c < 32:
            if write:
                out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = 92, 117, 48, 48, _HEX[c >> 4], _HEX[c & 15]
            at += 6
        else:
            if write:
                out[at] = c
            at += 1
    if write:
        out[at] = 34
    return at + 1


@kernel
def _integer(data: Bytes, start: int, stop: int, signed: bool, out: Bytes, at: int, write: bool) -> int:
    """Write a big-endian integer as decimal digits to `out`; returns the position after it."""
    value = np.uint64(0)
    if signed and data[start] >= 128:
        value = ~value
    negative = value != np.uint64(0)
    for i in range(start, stop):
        value = (value << np.uint64(8)) | np.uint64(data[i])
    if negative:
        value = ~value + np.uint64(1)
        if write:
            out[at] = 45
        at += 1
    digits = 1
    rest = value // np.uint64(10)
    while rest != np.uint64(0):
        rest = rest // np.uint64(10)
        digits += 1
    if write:
        for i in range(digits - 1, -1, -1):
            out[at + i] = np.uint8(48) + np.uint8(value % np.uint64(10))
            value = value // np.uint64(10)
    return at + digits


@kernel
def _double_bits(data: Bytes, start: int) -> np.uint64:
    bits = np.uint64(0)
    for i in range(start, start + 8):
        bits = (bits << np.uint64(8)) | np.uint64(data[i])
    return bits


@kernel
def _scalar(
    data: Bytes,
    kind: int,
    start: int,
    stop: int,
    doubles: np.ndarray,
    count: int,
    text_offsets: np.ndarray,
    texts: Bytes,
    out: Bytes,
    at: int,
    write: bool,
) -> tuple[int, int, int]:
    """Write a scalar to `out`; returns the position after it, the doubles so far, and a status."""
    if kind in (_NULL, _FALSE, _TRUE):
        which = 0 if kind == _NULL else (1 if kind == _TRUE else 2)
        return _literal(which, out, at, write), count, _OK if start == stop else _CORRUPT
    if kind == _STRING:
        return _string(data, start, stop, out, at, write), count, _OK
    if kind != _NUMBER:
        return at, count, _UNSUPPORTED
    if start == stop:
        return at, count, _CORRUPT
    tag, size = data[start], stop - start - 1
    if tag == 0x70:
        return at, count, _UNSUPPORTED
    if tag == _ZERO and size == 0:
        if write:
            out[at] = 48
        return at + 1, count, _OK
    if tag in (_NAN, _INFINITY, _MINUS_INFINITY) and size == 0:
        return _literal(int(np.int64(0)), out, at, write), count, _OK
    if tag in (_SIGNED, _UNSIGNED) and size in (1, 2, 4, 8):
        return _integer(data, start + 1, stop, tag == _SIGNED, out, at, write), count, _OK
    if tag != _DOUBLE or size != 8:
        return at, count, _CORRUPT
    bits = _double_bits(data, start + 1)
    if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return _literal(int(np.int64(0)), out, at, write), count, _OK  # infinity or NaN
    if not write:
        doubles.view(np.uint64)[count] = bits
        return at, count + 1, _OK
    first, last = text_offsets[count], text_offsets[count + 1]
    for i in range(first, last):
        out[at + i - first] = texts[i]
    return at + last - first, count + 1, _OK


@kernel
def _open(data: Bytes, start: int, stop: int, frame: np.ndarray) -> int:
    """Fill a container's frame: whether it is an object, number of entries, next entry, entry table, next key, next value, end."""
    if stop - start < 4:
        return _CORRUPT
    header = _u32(data, start)
    kind, entries = header & 0xE0000000, header & 0x1FFFFFFF
    if kind not in (_ARRAY, _OBJECT):
        return _CORRUPT
    width = 8 if kind == _OBJECT else 4
    if entries * width > stop - start - 4:
        return _CORRUPT
    payload = start + 4 + entries * width
    frame[0], frame[1], frame[2], frame[3], frame[4], frame[5], frame[6] = kind == _OBJECT, entries, 0, start + 4, payload, payload, stop
    if kind == _OBJECT:
        for i in range(entries):
            entry = _u32(data, start + 4 + 4 * i)
            if entry & 0xF0000000 != _STRING:
                return _CORRUPT
            frame[5] += entry & 0x0FFFFFFF
    return _OK if frame[5] <= stop else _CORRUPT


@kernel
def _document(
    data: Bytes,
    start: int,
    stop: int,
    stack: np.ndarray,
    doubles: np.ndarray,
    count: int,
    text_offsets: np.ndarray,
    texts: Bytes,
    out: Bytes,
    at: int,
    write: bool,
) -> tuple[int, int, int]:
    """Write one complete value to `out`; returns the position after it, the doubles so far, and a status."""
    if stop - start >= 8 and _u32(data, start) == _SCALAR:
        entry = _u32(data, start + 4)
        if start + 8 + (entry & 0x0FFFFFFF) != stop or entry & 0x80000000:
            return at, count, _CORRUPT
        return _scalar(data, entry & 0x70000000, start + 8, stop, doubles, count, text_offsets, texts, out, at, write)
    depth = 0
    status = _open(data, start, stop, stack[0])
    opened = True
    while status == _OK and depth >= 0:
        frame = stack[depth]
        if opened:
            if write:
                out[at] = 123 if frame[0] else 91
            at, opened = at + 1, False
        if frame[2] == frame[1]:
            if frame[5] != frame[6]:
                return at, count, _CORRUPT
            if write:
                out[at] = 125 if frame[0] else 93
            at, depth = at + 1, depth - 1
            continue
        if frame[2]:
            if write:
                out[at] = 44
            at += 1
        table = frame[3] + 4 * frame[2]
        if frame[0]:
            length = _u32(data, table) & 0x0FFFFFFF
            at = _string(data, frame[4], frame[4] + length, out, at, write)
            if write:
                out[at] = 58
            at, frame[4], table = at + 1, frame[4] + length, table + 4 * frame[1]
        entry = _u32(data, table)
        first, last = frame[5], frame[5] + (entry & 0x0FFFFFFF)
        if last > frame[6] or entry & 0x80000000:
            return at, count, _CORRUPT
        frame[5], frame[2] = last, frame[2] + 1
        if entry & 0x70000000 != _CONTAINER:
            at, count, status = _scalar(data, entry & 0x70000000, first, last, doubles, count, text_offsets, texts, out, at, write)
        elif depth + 1 == len(stack):
            return at, count, _UNSUPPORTED
        else:
            depth, opened = depth + 1, True
            status = _open(data, first, last, stack[depth])
    return at, count, status


@kernel
def _render(
    data: Bytes,
    starts: np.ndarray,
    stops: np.ndarray,
    valid: np.ndarray,
    doubles: np.ndarray,
    text_offsets: np.ndarray,
    texts: Bytes,
    sizes: np.ndarray,
    out: Bytes,
    write: bool,
) -> tuple[int, int, int]:
    """All values as text. The first pass (`write` False) finds the doubles, and `sizes` without them; the second writes the text.

    Returns where it stopped, a status, and the number of doubles. The second pass relies on the checks of the first.
    """
    stack = np.zeros((_MAX_DEPTH, 7), np.int64)
    # A typed zero: numba would compile the functions again for a literal 0.
    at, count = int(np.int64(0)), int(np.int64(0))
    for i in range(len(starts)):
        begin = at
        if valid[i]:
            at, count, status = _document(data, starts[i], stops[i], stack, doubles, count, text_offsets, texts, out, at, write)
            if status != _OK:
                return i, status, count
        sizes[i] = at - begin
    return len(starts), _OK, count


def from_text(array: pa.Array) -> pa.LargeBinaryArray:
    """The JSONB of each JSON text; nulls stay null. Raises SchemaMismatchError for text that is not JSON."""
    out: list[bytes | None] = []
    for i, text in enumerate(array.cast(pa.large_string()).to_pylist()):
        try:
            out.append(None if text is None else _document_bytes(json.loads(text, object_pairs_hook=_object)))
        except (ValueError, RecursionError) as e:
            raise SchemaMismatchError(f"value {i} of a JSON column cannot be stored as JSON: {e}") from e
    return pa.array(out, pa.large_binary())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for duplicate keys, whose value would be ambiguous."""
    if len(made := dict(pairs)) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return made


def _document_bytes(value: Any) -> bytes:
    if isinstance(value, (dict, list)):
        return _encode(value)[1]
    kind, payload = _encode(value)
    return struct.pack(">II", _SCALAR, kind | len(payload)) + payload


def _encode(value: Any) -> tuple[int, bytes]:
    """The kind of a value in its entry, and its payload."""
    for kind, constant in ((_NULL, None), (_TRUE, True), (_FALSE, False)):
        if value is constant:
            return kind, b""
    if isinstance(value, str):
        return _STRING, value.encode()
    if isinstance(value, (int, float)):
        return _NUMBER, _number(value)
    if isinstance(value, list):
        header, parts = _ARRAY | len(value), [_encode(v) for v in value]
    else:
        items = sorted(((key.encode(), v) for key, v in value.items()), key=lambda item: item[0])
        header = _OBJECT | len(items)
        parts = [(_STRING, key) for key, _ in items]
        parts += [_encode(v) for _, v in items]
    if any(len(payload) > 0x0FFFFFFF for _, payload in parts):
        raise ValueError("a part of the value is larger than 256 MiB")
    words = [kind | len(payload) for kind, payload in parts]
    entries = struct.pack(f">{len(parts) + 1}I", header, *words)
    return _CONTAINER, b"".join([entries, *(payload for _, payload in parts)])


def _number(value: int | float) -> bytes:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value) if abs(value) < 2**1024 else math.copysign(math.inf, value)
    if isinstance(value, int):
        if value == 0:
            return bytes([_ZERO])
        tag, bits = (_UNSIGNED, value.bit_length()) if value > 0 else (_SIGNED, (-value - 1).bit_length() + 1)
        size = next(s for s in (1, 2, 4, 8) if bits <= 8 * s)
        return bytes([tag]) + value.to_bytes(size, "big", signed=value < 0)
    if math.isnan(value):
        return bytes([_NAN])
    if math.isinf(value):
        return bytes([_INFINITY if value > 0 else _MINUS_INFINITY])
    return bytes([_DOUBLE]) + struct.pack(">d", value)
