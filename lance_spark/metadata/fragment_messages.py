"""The ids, row counts and data files of very many fragments, read from their serialised messages by compiled code.

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
_BASE_ID = 7
_LAST_FIELD = 11


def counted(messages: Sequence[bytes]) -> np.ndarray | None:
    """One int64 row for each DataFragment message, see `Fragments.counts`. None if they must be read in another way."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    found = np.empty((len(messages), 4), np.int64)
    return found if _count(np.frombuffer(b"".join(messages), np.uint8), lengths, found) else None


def own_files(messages: Sequence[bytes]) -> tuple[list[str], np.ndarray]:
    """The paths of the data files of DataFragment messages that name no other files, and which messages (bool) these are.

    Files below base paths, deletion files and files with sequences are other files.
    """
    lengths, data = np.fromiter(map(len, messages), np.int64, len(messages)), b"".join(messages)
    plain, values = np.empty(len(messages), np.bool_), np.frombuffer(data, np.uint8)
    spans = np.empty((_paths(values, lengths, plain, np.empty((0, 2), np.int64)), 2), np.int64)
    _paths(values, lengths, plain, spans)
    try:
        return [data[start:stop].decode() for start, stop in zip(*spans.T.tolist())], plain
    except UnicodeDecodeError:
        return [], np.zeros(len(messages), np.bool_)


@kernel
def _number(data: np.ndarray, at: np.int64, stop: np.int64) -> tuple[np.int64, np.int64]:
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
def _deleted(data: np.ndarray, at: np.int64, stop: np.int64) -> np.int64:
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


@kernel
def _path(data: np.ndarray, at: np.int64, stop: np.int64) -> tuple[np.int64, np.int64]:
    """Where the path of the DataFile message from `at` to `stop` is; -1 if it has a base path, or is not as expected."""
    first, last = np.int64(-1), np.int64(-1)
    while at < stop:
        tag, at = _number(data, at, stop)
        if at < 0:
            return np.int64(-1), np.int64(-1)
        field, kind = tag >> 3, tag & 7
        value, at = _number(data, at, stop)
        if at < 0 or kind not in (_VARINT, _BYTES) or not 1 <= field < _BASE_ID or (kind == _BYTES and (field > 3 or value > stop - at)):
            return np.int64(-1), np.int64(-1)
        if field == 1:
            if kind != _BYTES or first >= 0:
                return np.int64(-1), np.int64(-1)
            first, last = at, at + value
        if kind == _BYTES:
            at += value
    return first, last


@kernel
def _paths(data: np.ndarray, lengths: np.ndarray, plain: np.ndarray, spans: np.ndarray) -> np.int64:
    """Fill `plain`, and `spans` as far as it reaches with where the paths of the files of plain messages are. Returns their number."""
    found = stop = np.int64(0)
    for i in range(len(lengths)):
        at, stop = stop, stop + lengths[i]
        before = found
        plain[i] = True
        while at < stop and plain[i]:
            tag, at = _number(data, at, stop)
            if at < 0:
                plain[i] = False
                break
            field, kind = tag >> 3, tag & 7
            value, at = _number(data, at, stop)
            if at >= 0 and kind == _VARINT and field in (1, 4):
                continue
            if at < 0 or kind != _BYTES or value > stop - at or field not in (2, 5, 7, 9):
                plain[i] = False
                break
            if field == 2:
                first, last = _path(data, at, at + value)
                if first < 0:
                    plain[i] = False
                    break
                if found < len(spans):
                    spans[found, 0], spans[found, 1] = first, last
                found += 1
            at += value
        if not plain[i]:
            found = before
    return found
