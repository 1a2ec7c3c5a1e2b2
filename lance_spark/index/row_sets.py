"""The two serialised forms of sets of rows in index files.

RowAddrTreeMap: u32 count, then for each fragment u32 id, u32 size, and `size` bytes of a portable roaring bitmap of row offsets; size 0
stands for all rows of the fragment. RoaringTreemap: u64 count, then for each high half u32 and the portable roaring bitmap of the low
halves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from pyroaring import BitMap, BitMap64

from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Rows, numbers_of, of_numbers
from lance_spark.metadata.bitmaps import read_bitmap

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_ALL = 1 << 32
_PIECE_BYTES = 4 << 20


def parse_row_addresses(data: bytes, sizes: Mapping[int, int], what: str) -> Rows:
    """The rows of a RowAddrTreeMap; `sizes` are the numbers of rows of fragments. `what` names it in errors."""
    if len(data) < _COUNT.size:
        raise CorruptFileError(f"{what}: expected at least {_COUNT.size} bytes, found {len(data)}")
    (count,) = _COUNT.unpack_from(data)
    if count * _ENTRY.size > len(data):
        raise CorruptFileError(f"{what}: {len(data)} bytes cannot hold the rows of {count} fragments")
    rows: Rows = {}
    at = _COUNT.size
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise CorruptFileError(f"{what}: the {len(data)} bytes end in the entry at byte {at}")
        fragment, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if fragment in rows or at + size > len(data):
            reason = "is duplicated" if fragment in rows else f"has {size} bytes, but {len(data) - at} are left"
            raise CorruptFileError(f"{what}: the bitmap of fragment {fragment} {reason}")
        rows[fragment] = read_bitmap(data[at : at + size], what) if size else BitMap(range(sizes.get(fragment, _ALL)))
        at += size
    if at != len(data):
        raise CorruptFileError(f"{what}: expected {at} bytes, found {len(data)}")
    return rows


def serialise_row_addresses(rows: Rows) -> bytes:
    """The RowAddrTreeMap of `rows`."""
    parts = [_COUNT.pack(len(rows))]
    for fragment, found in sorted(rows.items()):
        data = found.serialize()
        parts += [_ENTRY.pack(fragment, len(data)), data]
    return b"".join(parts)


def parse_treemap(data: bytes, what: str) -> Rows:
    """The rows of a RoaringTreemap. `what` names it in errors."""
    try:
        found = BitMap64.deserialize(data)
    except (ValueError, IndexError) as e:
        raise CorruptFileError(f"{what} is not a roaring treemap: {e}") from e
    check_bytes(8 * len(found), what)
    return of_numbers(np.frombuffer(found.to_array(), dtype=np.uint64))


def serialise_treemap(rows: Rows) -> bytes:
    """The RoaringTreemap of `rows`."""
    data: bytes = BitMap64(numbers_of(rows)).serialize()
    return data


def in_pieces(sets: Iterable[tuple[int, Rows]], serialise: Callable[[Rows], bytes]) -> Iterator[tuple[list[int], list[bytes]]]:
    """The numbers and the serialised rows of numbered sets, some megabytes at a time. Sets without rows are left out."""
    numbers: list[int] = []
    data: list[bytes] = []
    size = 0
    for number, rows in sets:
        if any(rows.values()):
            numbers.append(number)
            data.append(serialise(rows))
            size += len(data[-1])
        if size >= _PIECE_BYTES:
            yield numbers, data
            numbers, data, size = [], [], 0
    yield numbers, data
