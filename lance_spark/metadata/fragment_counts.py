"""The ids and row counts of very many fragments, read from their serialised messages by compiled code.

Implements the wire format of DataFragment as far as `lazy_fragments` needs it. Whatever is not as all writers write it is left to the
protobuf library, which gives the same numbers where both read a message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.kernels.kernel import kernel

ENOUGH = 1 << 17
"""From so many fragments on, loading the compiled code takes less time than it saves."""

NO_FILE = -1
"""The number of deleted rows of a fragment without a deletion file."""

_VARINT, _BYTES = 0, 2
_LAST_FIELD = 11


def counted(messages: Sequence[bytes]) -> np.ndarray | None:
    """One int64 row for each DataFragment message, see `Fragments.counts`. None if they must be read in another way."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    found = np.empty((len(messages), 4), np.int64)
    return found if _count(np.frombuffer(b"".join(messages), np.uint8), lengths, found) else None


@kernel
def _number(data: np.ndarray, at: int, stop: int) -> tuple[np.int64, np.int64]:
    """The varint at `at` and the place after it; a negative place if it does not end before `stop`, or has more than 63 bits."""
    value = shift = np.int64(0)
    while at < stop and shift < 63:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, np.int64(at)
        shift += 7
    return value, np.int64(-1)


@kernel
def _deleted(data: np.ndarray, at: int, stop: int) -> np.int64:
    """`num_deleted_rows` of the DeletionFile message from `at` to `stop`; negative if it is not as expected."""
    deleted = np.int64(0)
    while at < stop:
        tag, at = _number(data, at, stop)
        if at < 0 or tag & 7 != _VARINT or not 1 <= tag >> 3 <= 7 or 5 <= tag >> 3 <= 6:
            return np.int64(-1)
        value, at = _number(data, at, stop)
        if at < 0:
            return np.int64(-1)
        if tag >> 3 == 4:
            deleted = value
    return deleted


@kernel
def _count(data: np.ndarray, lengths: np.ndarray, found: np.ndarray) -> bool:
    """Fill the rows of `found`. False if a message is not as expected, or a field that must be unique is there twice."""
    stop = np.int64(0)
    for i in range(len(lengths)):
        at, stop = stop, stop + lengths[i]
        found[i] = 0
        found[i, 2] = NO_FILE
        while at < stop:
            tag, at = _number(data, at, stop)
            if at < 0:
                return False
            field, kind = tag >> 3, tag & 7
            value, at = _number(data, at, stop)
            if at < 0:
                return False
            if field in (1, 4):
                if kind != _VARINT:
                    return False
                found[i, 0 if field == 1 else 1] = value
                continue
            if kind != _BYTES or value > stop - at or not 2 <= field <= _LAST_FIELD:
                return False
            if field == 2:
                found[i, 3] = 1
            elif field == 3:
                if found[i, 2] != NO_FILE:
                    return False
                found[i, 2] = _deleted(data, at, at + value)
                if found[i, 2] < 0:
                    return False
            at += value
    return True
