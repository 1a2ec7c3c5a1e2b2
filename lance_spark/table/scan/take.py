"""Single rows by number or id, reading only the parts of the files that contain them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined, row_positions, take_rows, without_columns
from lance_spark.arrow.views import are_views, copied_in_pieces, taken
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError, check_type
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.row_address import RowAddress
from lance_spark.metadata.row_columns import ROW_OFFSET
from lance_spark.metadata.row_ids import row_ids_of
from lance_spark.schema.schema import Field
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan
from lance_spark.table.scan.projection import Projection, projected
from lance_spark.table.versions.log_rows import without_addresses
from lance_spark.table.versions.snapshot import Snapshot

_KNOWN_FRAGMENTS = 64
"""Fragments whose readers are kept between calls."""


def take(snapshot: Snapshot, indices: Sequence[int] | np.ndarray, plan: ScanPlan) -> pa.Table:
    """The rows with these numbers (counting rows that are not deleted), in the given order, with duplicates.

    Of `plan`, only the columns are used. Raises IndexError for a number that no row has.
    """
    return RowReader(snapshot, plan).take(indices)


class RowReader:
    """The rows of a version by number, for calls that follow each other: what it knows of its files is kept.

    Of `plan`, only the columns are used. No file stays open between calls, and threads may not share a reader.
    """

    def __init__(self, snapshot: Snapshot, plan: ScanPlan) -> None:
        self._snapshot = snapshot
        self._fields = plan.fields(snapshot)
        self._columns = Projection.of(self._fields)
        self._ends = np.cumsum(all_live_rows(snapshot), dtype=np.int64)
        self._known: OrderedDict[int, FragmentReader] = OrderedDict()

    def take(self, indices: Sequence[int] | np.ndarray) -> pa.Table:
        """The rows with these numbers, see `take`."""
        numbers = row_numbers("indices", indices)
        wanted, back = np.unique(numbers, return_inverse=True)
        ends = self._ends
        total = int(ends[-1]) if len(ends) else 0
        if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < total:
            missing = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise IndexError(f"{self._snapshot} has {total} rows; row {missing} does not exist")
        rows = _read(self._snapshot, self._columns, self._places(wanted), back.reshape(-1))
        return without_addresses(self._snapshot, rows, self._fields)

    def _places(self, wanted: np.ndarray) -> Iterator[tuple[FragmentReader, np.ndarray]]:
        """The positions of rows, by their ascending numbers, in each fragment that has some of them."""
        bounds = np.searchsorted(wanted, np.concatenate([[0], self._ends]))
        for i in np.flatnonzero(np.diff(bounds)).tolist():
            before = int(self._ends[i - 1]) if i else 0
            yield self._reader(i, before), wanted[bounds[i] : bounds[i + 1]] - before

    def _reader(self, number: int, first_row: int) -> FragmentReader:
        """The reader of the fragment at this place in the manifest. Those that were used last are kept."""
        if number not in self._known:
            fragment = self._snapshot.manifest.fragments[number]
            self._known[number] = _fragment_reader(self._snapshot, fragment, first_row)
        self._known.move_to_end(number)
        if len(self._known) > _KNOWN_FRAGMENTS:
            self._known.popitem(last=False)
        return self._known[number]


def row_numbers(name: str, values: Sequence[int] | np.ndarray) -> np.ndarray:
    """The argument `name` as an array of integers. Raises TypeError or ValueError for anything else."""
    check_type(name, values, Iterable, "a sequence of integers")
    numbers = np.asarray(values)
    if numbers.dtype == np.float64 and not isinstance(values, np.ndarray) and all(isinstance(value, int) for value in values):
        # Of integers of which some are above 2^63, numpy makes floats.
        if wrong := [value for value in values if not 0 <= value < 2**64]:
            raise ValueError(f"{name} must be at least 0 and below 2^64, not {wrong[0]}")
        numbers = np.asarray(values, np.uint64)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"{name} must be integers of 64 bits, not {numbers.ravel()[0]!r}")
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be a flat sequence of integers")
    if name != "indices" and numbers.size and numbers.min() < 0:
        raise ValueError(f"{name} must be at least 0, not {numbers.min()}")
    return numbers if numbers.size else np.empty(0, np.int64)


def take_by_row_id(snapshot: Snapshot, row_ids: Sequence[int] | np.ndarray, plan: ScanPlan, *, are_addresses: bool = False) -> pa.Table:
    """The rows with these ids, in the given order, with duplicates. Raises IndexError for an id that no row has.

    Of `plan`, only the columns are used. The ids are those of the column `_rowid`: addresses in a table without stable row ids, or with
    `are_addresses` in any table.
    """
    wanted, back = np.unique(row_numbers("addresses" if are_addresses else "row_ids", row_ids).astype(np.uint64), return_inverse=True)
    fields, locations, manifest = plan.fields(snapshot), snapshot.locations, snapshot.manifest
    stable = manifest.has_stable_row_ids and not are_addresses
    places = np.full(len(wanted), -1, dtype=np.int64)
    chosen: list[tuple[Fragment, np.ndarray, int | None]] = []
    found = 0
    numbered = any(f.id == ROW_OFFSET for f in fields.fields)
    fragments = manifest.lazy_fragments
    # The fragment of an address is known, so that no other is parsed.
    if stable:
        asked = np.arange(len(fragments))
    else:
        of_addresses = (wanted >> np.uint64(32)).astype(np.int64)
        asked = np.flatnonzero(np.isin(fragments.ids, of_addresses))
    before = np.cumsum(all_live_rows(snapshot)) - all_live_rows(snapshot) if numbered else None
    for i in asked.tolist():
        fragment, first = fragments[i], None if before is None else int(before[i])
        which, offsets = _offsets(fragment, wanted, locations, stable)
        deleted = read_deletions(fragment, locations) if len(which) else np.empty(0, np.uint32)
        # If fragments share an id, an address refers to the first one's row.
        alive = ~np.isin(offsets, deleted) & (places[which] < 0)
        which, offsets = which[alive], offsets[alive]
        if len(which):
            order = np.argsort(offsets)
            places[which[order]] = np.arange(found, found + len(which))
            found += len(which)
            chosen.append((fragment, offsets[order] - np.searchsorted(deleted, offsets[order]), first))
    if (missing := np.flatnonzero(places < 0)).size:
        what, first = "address" if are_addresses else "id", wanted[missing[0]]
        raise IndexError(f"{missing.size} of the rows do not exist in {snapshot}, such as the one with the {what} {first}")
    opened = ((_fragment_reader(snapshot, fragment, first), positions) for fragment, positions, first in chosen)
    return _read(snapshot, Projection.of(fields), opened, places[back.reshape(-1)])


def _offsets(fragment: Fragment, wanted: np.ndarray, locations: Locations, stable: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which of the sorted ids `wanted` the fragment has, and their row offsets (deleted rows included)."""
    total = fragment.physical_rows
    if not stable:
        start = np.uint64(RowAddress.of(fragment.id, 0))
        which = np.flatnonzero((wanted >= start) & (wanted < start + np.uint64(total or 2**32)))
        return which, (wanted[which] - start).astype(np.int64)
    return row_ids_of(fragment, locations).find(wanted)


def _fragment_reader(snapshot: Snapshot, fragment: Fragment, first_row: int | None) -> FragmentReader:
    """The reader of a fragment whose first row has this number in the table; None if that is not known."""
    return FragmentReader(fragment, snapshot.locations, snapshot.manifest.has_stable_row_ids, first_row)


def _read(snapshot: Snapshot, columns: Projection, chosen: Iterable[tuple[FragmentReader, np.ndarray]], order: np.ndarray) -> pa.Table:
    """The rows at these positions of these fragments; `order` has the number, among these, of each row of the result."""
    if not columns.schema.fields:
        return without_columns(len(order), columns.target)
    batches: list[pa.RecordBatch] = []
    for reader, positions in chosen:
        try:
            batches.extend(reader.read(positions, columns, BATCH_ROWS, with_views=True))
        except (CorruptFileError, UnsupportedFeatureError) as e:
            raise type(e)(f"{snapshot}: {e}") from e
    target, positions = columns.target, row_positions(order)
    is_viewed = [any(are_views(batch.column(i)) for batch in batches) for i in range(len(columns.shown))]
    if not any(is_viewed):
        return take_rows(pa.Table.from_batches(batches, schema=target), positions)
    found = []
    for i, (field, t) in enumerate(columns.shown):
        chunks = [batch.column(i) for batch in batches]
        if is_viewed[i]:
            found.append(_in_order(chunks, field, t, order))
        else:
            found.append(take_rows(pa.table({"": pa.chunked_array(chunks, t)}), positions).column(0))
    return pa.Table.from_arrays(found, schema=target)


def _in_order(chunks: Sequence[pa.Array], field: Field, t: pa.DataType, order: np.ndarray) -> pa.ChunkedArray:
    """The values of a column of type `t`, some of which have views, in this order. They are copied once if all have views."""
    stored = pa.large_binary() if field.is_blob else field.type

    def as_shown(views: pa.Array) -> list[pa.Array]:
        return [projected(array, field, t, len(array)) for array in copied_in_pieces(views, stored)]

    if all(map(are_views, chunks)):
        return pa.chunked_array(as_shown(taken(joined(chunks), order)), t)
    shown = [array for chunk in chunks for array in (as_shown(chunk) if are_views(chunk) else [chunk])]
    return take_rows(pa.table({"": pa.chunked_array(shown, t)}), row_positions(order)).column(0)
