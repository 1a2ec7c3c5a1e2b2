"""The wire format of protobuf messages, read of very many messages at once.

The protobuf library makes an object of each message, and a table may have a million fragments. Here, all messages are read side by side:
the first field of each, then the second. What is not as all writers write it is left to the library, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from lance_spark.buffers.byte_ranges import Bytes

NUMBER, BYTES = 0, 2
"""The wire types that occur."""

_OF_BYTES = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)

_BLOCK, AT_ONCE = 1 << 18, 1 << 14
"""The bytes, and the messages, that are looked at together: what is known of them stays in the cache of the processor."""

FEW = 32
"""So few messages, which are read anyway, are read one by one in less time than it takes to begin with many at once."""

_ROUNDS = 8
_LENGTH_BYTES, _LONGEST = 5, 9
"""Lengths have 32 bits. So many bytes of any varint fit into an int64, whose sign is not used."""


class Unusual(Exception):
    """The messages must be read in another way."""


def _varints(data: Bytes, at: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The varints at the places `at` and the places after them.

    Raises Unusual if one does not end before `stop`, or has more than 63 bits.
    """
    if (at >= stop).any():
        raise Unusual
    values = data[at].astype(np.int64)
    after = at + 1
    more = np.flatnonzero(values > 127)
    values[more] &= 127
    for i in range(1, _LONGEST):
        if not len(more):
            return values, after
        places = after[more]
        if (places >= stop[more]).any():
            raise Unusual
        byte = data[places].astype(np.int64)
        values[more] |= (byte & 127) << (7 * i)
        after[more] += 1
        more = more[byte > 127]
    if len(more):
        raise Unusual
    return values, after


def run(data: Bytes, at: int, field: int) -> tuple[np.ndarray, int]:
    """The consecutive fields of a message with this number (below 16), from `at` on, and the place after them.

    They are texts, bytes or messages; one row of two int64, start and end, for each. Raises Unusual.
    """
    tag = field << 3 | BYTES
    first, at = _few(data, at, tag)
    found = [first]
    while at < len(data) and data[at] == tag:
        # Whether a byte is a tag or content, only the fields before it tell. Bytes that look like the tag and follow no field that may be
        # one are content; when no more are left, each remaining one follows the one before it.
        block = data[at : at + _BLOCK]
        places = at + np.flatnonzero(block == tag)
        lengths, starts = _lengths(data, places + 1)
        after = starts + lengths
        for _ in range(_ROUNDS):
            reached = np.zeros(len(block), np.bool_)
            reached[0] = True
            reached[after[after < at + len(block)] - at] = True
            kept = reached[places - at]
            if kept.all():
                break
            places, starts, after = places[kept], starts[kept], after[kept]
        else:
            # Such content may be long. Its fields are followed one by one.
            numbers = np.full(len(block), -1)
            numbers[places - at] = np.arange(len(places))
            one_by_one, place = [], at
            while place < at + len(block) and (number := int(numbers[place - at])) >= 0:
                one_by_one.append(number)
                place = int(after[number])
            starts, after = starts[one_by_one], after[one_by_one]
        if after[-1] > len(data):
            raise Unusual
        found.append(np.stack([starts, after], axis=1))
        at = int(after[-1])
    return np.concatenate(found) if len(found) > 1 else first, at


def _few(data: Bytes, at: int, tag: int) -> tuple[np.ndarray, int]:
    """The first fields of a `run`, one by one."""
    spans: list[tuple[int, int]] = []
    while at < len(data) and data.item(at) == tag and len(spans) < FEW:
        at += 1
        size = shift = 0
        while True:
            if at == len(data) or shift == 7 * _LENGTH_BYTES:
                raise Unusual
            byte = data.item(at)
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if size > len(data) - at:
            raise Unusual
        spans.append((at, at + size))
        at += size
    return np.array(spans, np.int64).reshape(-1, 2), at


def _lengths(data: Bytes, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The varints at these places, and the places after them. What is none that a length may be becomes one behind the end of the data."""
    values = data[np.minimum(at, len(data) - 1)].astype(np.int64)
    after, more = at + 1, np.flatnonzero(values > 127)
    values[more] &= 127
    for i in range(1, _LENGTH_BYTES):
        if not len(more):
            break
        byte = data[np.minimum(after[more], len(data) - 1)].astype(np.int64)
        values[more] |= (byte & 127) << (7 * i)
        after[more] += 1
        more = more[byte > 127]
    values[more] = len(data)
    return values, after


@dataclass(frozen=True)
class Fields:
    """One field of each of some messages: the numbers of the messages and fields, and the values.

    A text, bytes or a message is at `spans`: rows of start and end. There, `values` are lengths.
    """

    messages: np.ndarray
    numbers: np.ndarray
    values: np.ndarray
    spans: np.ndarray


def kinds(message: type[Message]) -> np.ndarray:
    """The wire type of each field of a message, by number; -1 where it has none."""
    numbered = message.DESCRIPTOR.fields_by_number
    found = np.full(max(numbered, default=0) + 2, -1)
    for number, field in numbered.items():
        found[number] = BYTES if field.is_repeated or field.type in _OF_BYTES else NUMBER
    return found


def fields(data: Bytes, spans: np.ndarray, kinds: np.ndarray) -> Iterator[Fields]:
    """All fields of the messages at `spans`, those of a message in their order.

    Raises Unusual, also for fields that `kinds` does not have.
    """
    for first in range(0, len(spans), AT_ONCE):
        at, stop = spans[first : first + AT_ONCE].T
        messages = np.flatnonzero(at < stop)
        at, stop = at[messages], stop[messages]
        messages += first
        while len(messages):
            tags, at = _varints(data, at, stop)
            numbers, own = tags >> 3, tags & 7
            if (own != kinds[np.minimum(numbers, len(kinds) - 1)]).any():
                raise Unusual
            values, starts = _varints(data, at, stop)
            is_bytes = own == BYTES
            if (is_bytes & (values > stop - starts)).any():
                raise Unusual
            at = starts + values * is_bytes
            yield Fields(messages, numbers, values, np.stack([starts, at], axis=1))
            left = at < stop
            messages, at, stop = messages[left], at[left], stop[left]


def contents(data: Bytes, spans: np.ndarray) -> pa.LargeBinaryArray:
    """What is at `spans` of `data`, in their order."""
    # Every second value is one of them; what lies before, between and behind them is not looked at.
    offsets = np.concatenate([[0], spans.ravel(), [len(data)]])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    alternating = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return alternating.take(pa.array(np.arange(1, len(offsets) - 1, 2)))


def distinct(data: Bytes, spans: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
    """Which of the different contents, which follow, is at each of `spans`."""
    encoded = contents(data, spans).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def packed(content: bytes) -> np.ndarray:
    """The numbers (int64) of a packed field."""
    data = np.frombuffer(content, np.uint8)
    lasts = np.flatnonzero(data < 128)
    firsts = np.concatenate([[0], lasts[:-1] + 1]) if len(lasts) else lasts
    if not len(data) or data[-1] > 127 or (lasts - firsts > _LONGEST).any():
        raise Unusual
    shifts = 7 * (np.arange(len(data)) - np.repeat(firsts, lasts - firsts + 1))
    return np.add.reduceat((data & 127).astype(np.uint64) << shifts.astype(np.uint64), firsts).view(np.int64)


def varint(value: int) -> bytes:
    """A number that is not negative as a varint."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
