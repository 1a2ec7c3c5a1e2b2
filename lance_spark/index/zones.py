"""Zones: runs of rows of one fragment, for which ZONEMAP and BLOOMFILTER indexes store a summary. A zone may span deleted rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.arrow.selection import joined
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Rows

FIELDS = (
    pa.field("fragment_id", pa.uint64(), nullable=False),
    pa.field("zone_start", pa.uint64(), nullable=False),
    pa.field("zone_length", pa.uint64(), nullable=False),
)
"""The columns that say where a zone is: it covers the offsets from `zone_start` up to, not including, `zone_start + zone_length`."""


@dataclass(frozen=True)
class Zone:
    """Rows of a fragment: their addresses (uint64), ascending, and their values."""

    addresses: np.ndarray
    values: pa.Array

    @property
    def place(self) -> tuple[int, int, int]:
        """The values of `FIELDS`."""
        first, last = self.addresses.item(0), self.addresses.item(-1)
        return first >> 32, first & 0xFFFFFFFF, last - first + 1


def zones(rows: Iterable[pa.RecordBatch], size: int) -> Iterator[Zone]:
    """The rows, in ascending order of their addresses, in zones of `size` rows; a fragment's last zone may be smaller.

    The batches have the columns "value" and "row".
    """
    waiting: list[Zone] = []
    count = 0
    for batch in rows:
        values, addresses = batch.column("value"), batch.column("row").to_numpy()
        at = end = 0
        while at < len(addresses):
            if at == end:  # a fragment begins
                fragment = addresses.item(at) >> 32
                end = int(addresses.searchsorted(np.uint64((fragment + 1) << 32)))
                if waiting and waiting[0].addresses.item(0) >> 32 != fragment:
                    yield _whole(waiting)
                    waiting, count = [], 0
            stop = min(at + size - count, end)
            waiting.append(Zone(addresses[at:stop], values.slice(at, stop - at)))
            count += stop - at
            at = stop
            if count == size:
                yield _whole(waiting)
                waiting, count = [], 0
    if waiting:
        yield _whole(waiting)


def _whole(parts: list[Zone]) -> Zone:
    return parts[0] if len(parts) == 1 else Zone(np.concatenate([p.addresses for p in parts]), joined([p.values for p in parts]))


def rows_in(places: pa.RecordBatch, kept: np.ndarray, sizes: Mapping[int, int], what: str, spans_deleted: bool = True) -> Rows:
    """The rows of the zones for which `kept` is true. `places` has the columns `FIELDS`; `sizes` are the rows of the fragments by id.

    Zones of other fragments are ignored. Raises CorruptFileError for a zone that ends after its fragment. Old writers (not
    `spans_deleted`) stored the number of live rows as the length of a zone, so the zones of a fragment with deleted rows are elsewhere:
    if they end early, all rows are kept.
    """
    columns = [places.column(f.name) for f in FIELDS]
    if any(c.type != pa.uint64() or c.null_count for c in columns):
        raise CorruptFileError(f"{what}: expected the places of zones as uint64 without nulls, found {[str(c.type) for c in columns]}")
    fragment, start, length = (c.to_numpy() for c in columns)
    known = kept & np.isin(fragment, np.fromiter(sizes, np.uint64, len(sizes)))
    fragment, start, length = fragment[known], start[known], length[known]
    if (start + length < start).any():
        raise CorruptFileError(f"{what}: a zone is longer than a fragment can be")
    stop = start + length
    # Adjacent zones are one range.
    first = np.ones(len(fragment), np.bool_)
    first[1:] = (fragment[1:] != fragment[:-1]) | (start[1:] != stop[:-1])
    last = np.append(first[1:], True) if len(first) else first
    rows: Rows = {}
    for f, a, b in zip(fragment[first].tolist(), start[first].tolist(), stop[last].tolist()):
        if b > sizes[f]:
            raise CorruptFileError(f"{what}: a zone of fragment {f} ends at row {b}, but the fragment has {sizes[f]} rows")
        rows.setdefault(f, BitMap()).add_range(a, b)
    return rows if spans_deleted else rows | {f: BitMap(range(sizes[f])) for f in _ending_early(places, sizes)}


def _ending_early(places: pa.RecordBatch, sizes: Mapping[int, int]) -> list[int]:
    """The fragments of `sizes` whose zones do not reach their last row."""
    fragment, start, length = (places.column(f.name).to_numpy() for f in FIELDS)
    ids, group = np.unique(fragment, return_inverse=True)
    ends = np.zeros(len(ids), np.uint64)
    np.maximum.at(ends, group, start + length)
    return [f for f, end in zip(ids.tolist(), ends.tolist()) if f in sizes and end < sizes[f]]


def without_zones(fragments: np.ndarray, sizes: Mapping[int, int]) -> frozenset[int]:
    """The fragments in `sizes` that have no zones, whose fragments are `fragments`.

    pylance leaves the files of zones as they are when rows have moved, but later may write the new fragments into the segment's bitmap.
    """
    return frozenset(sizes.keys() - np.unique(fragments).tolist())


def check_complete(fragments: np.ndarray, sizes: Mapping[int, int], what: str) -> None:
    """Raise CorruptFileError if one of the fragments in `sizes` has no zones, whose fragments are `fragments`."""
    if missing := without_zones(fragments, sizes):
        raise CorruptFileError(f"{what}: the index covers fragment {min(missing)}, but has no zones of it")
