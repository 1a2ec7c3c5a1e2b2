"""The two serialised forms of sets of rows in index files.

RowAddrTreeMap: u32 count, then for each fragment u32 id, u32 size, and `size` bytes of a portable roaring bitmap of row offsets; size 0
stands for all rows of the fragment. RoaringTreemap: u64 count, then for each high half u32 and the portable roaring bitmap of the low
halves.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from lance_spark.arrow.texts import bytes_of
from lance_spark.arrow.types import is_binary
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Rows, numbers_of, of_numbers
from lance_spark.kernels import roaring
from lance_spark.metadata.bitmaps import read_bitmap

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_PIECE_NUMBERS = 4 << 20
"""Row numbers (32 MiB) that are in memory at once."""


def parse_row_addresses(data: bytes, sizes: Mapping[int, int], what: str) -> Rows:
    """The rows of a RowAddrTreeMap; `sizes` are the numbers of rows of fragments, empty for row ids. `what` names it in errors.

    A fragment that is not in `sizes` and has all its rows in the set does not exist any more, and is left out.
    """
    if len(data) < _COUNT.size:
        raise CorruptFileError(f"{what}: expected at least {_COUNT.size} bytes, found {len(data)}")
    (count,) = _COUNT.unpack_from(data)
    if count * _ENTRY.size > len(data):
        raise CorruptFileError(f"{what}: {len(data)} bytes cannot hold the rows of {count} fragments")
    rows: Rows = {}
    named = set()
    at = _COUNT.size
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise CorruptFileError(f"{what}: the {len(data)} bytes end in the entry at byte {at}")
        fragment, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if fragment in named or at + size > len(data):
            reason = "is duplicated" if fragment in named else f"has {size} bytes, but {len(data) - at} are left"
            raise CorruptFileError(f"{what}: the bitmap of fragment {fragment} {reason}")
        named.add(fragment)
        if size:
            rows[fragment] = read_bitmap(data[at : at + size], what)
        elif fragment in sizes:
            rows[fragment] = BitMap(range(sizes[fragment]))
        elif not sizes:
            raise CorruptFileError(f"{what}: all row ids from {fragment} * 2^32 on, but the set is one of single ids")
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
    return common_rows([read_treemap(data, what)], what)


def read_treemap(data: bytes, what: str) -> BitMap64:
    """The numbers of the rows of a RoaringTreemap. `what` names it in errors."""
    try:
        return BitMap64.deserialize(data)
    except (ValueError, IndexError) as e:
        raise CorruptFileError(f"{what} is not a roaring treemap: {e}") from e


def common_rows(sets: Sequence[BitMap64], what: str) -> Rows:
    """The rows whose numbers are in all of several sets. `what` names them in errors."""
    common = reduce(BitMap64.intersection, sets)
    check_bytes(8 * len(common), what)
    return of_numbers(np.frombuffer(common.to_array(), dtype=np.uint64))


def serialise_treemap(rows: Rows) -> bytes:
    """The RoaringTreemap of `rows`."""
    data: bytes = BitMap64(numbers_of(rows)).serialize()
    return data


@dataclass(frozen=True)
class Form:
    """One of the two forms: a RowAddrTreeMap has the size of each bitmap (`sized`). Reads and writes many sets at once."""

    sized: bool

    def serialise(self, sets: pa.LargeListArray) -> pa.LargeBinaryArray:
        """The bytes of each set, whose numbers (uint64) are ascending."""
        bounds, numbers = bounds_of(sets), numbers_in(sets)
        sizes = np.empty(len(sets), np.int64)
        roaring.measure(numbers, bounds, self.sized, sizes)
        places = np.concatenate([[0], np.cumsum(sizes)])
        out = np.zeros(int(places[-1]), np.uint8)
        roaring.write(numbers, bounds, self.sized, places, out)
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sets), [None, pa.py_buffer(places), pa.py_buffer(out)])

    def parse(self, data: pa.Array, rows: Mapping[int, int], what: str) -> Iterator[pa.LargeListArray]:
        """The numbers (uint64, ascending) of serialised sets, some million numbers at a time. `rows` are the rows of fragments by id.

        Raises CorruptFileError; `what` names the file.
        """
        if not is_binary(data.type) or data.null_count:
            raise CorruptFileError(f"{what}: expected bitmaps without nulls, found {data.null_count} nulls in {data.type}")
        content, bounds = bytes_of(data)
        ids = np.array(sorted(rows), np.int64)
        known = (ids, np.array([rows[i] for i in ids.tolist()], np.int64))
        counts = np.zeros(len(data), np.int64)
        self._read(content, bounds, known, counts, np.empty(0, np.uint64), what)
        ends = np.cumsum(counts)
        at = done = 0
        while at < len(data):
            stop = max(at + 1, int(np.searchsorted(ends, done + _PIECE_NUMBERS, side="right")))
            check_bytes(8 * int(ends[stop - 1] - done), what)
            numbers = np.empty(int(ends[stop - 1] - done), np.uint64)
            self._read(content, bounds[at : stop + 1], known, counts[at:stop], numbers, what)
            yield sets_of(np.concatenate([[0], ends[at:stop] - done]), numbers)
            at, done = stop, int(ends[stop - 1])

    def _read(
        self, content: np.ndarray, bounds: np.ndarray, known: tuple[np.ndarray, np.ndarray], counts: np.ndarray, out: np.ndarray, what: str
    ) -> None:
        wrong = roaring.read(content, bounds, self.sized, *known, counts, out)
        if wrong >= 0:
            raise CorruptFileError(f"{what}: a serialised set of {bounds[wrong + 1] - bounds[wrong]} bytes is invalid")


ROW_ADDRESSES, TREEMAP = Form(sized=True), Form(sized=False)


def sets_of(bounds: np.ndarray, numbers: np.ndarray) -> pa.LargeListArray:
    """Set i is `numbers[bounds[i]:bounds[i + 1]]`."""
    return pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(numbers, pa.uint64()))


def bounds_of(sets: pa.LargeListArray) -> np.ndarray:
    """Where each set begins and ends in `numbers_in(sets)`."""
    offsets: np.ndarray = sets.offsets.to_numpy()
    offsets = offsets - offsets[0]
    return offsets


def numbers_in(sets: pa.LargeListArray) -> np.ndarray:
    """The numbers of all sets."""
    numbers: np.ndarray = sets.flatten().to_numpy()
    return numbers
