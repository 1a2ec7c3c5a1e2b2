"""Single rows by number or id, reading only the parts of the files that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import row_positions, take_rows, without_columns
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError, check_type
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.row_address import RowAddress
from lance_spark.metadata.row_columns import ROW_OFFSET
from lance_spark.metadata.row_ids import row_ids_of
from lance_spark.schema.schema import Schema
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.log_rows import without_addresses
from lance_spark.table.versions.snapshot import Snapshot


def take(snapshot: Snapshot, indices: Sequence[int] | np.ndarray, plan: ScanPlan) -> pa.Table:
    """The rows with these numbers (counting rows that are not deleted), in the given order, with duplicates.

    Of `plan`, only the columns are used. Raises IndexError for a number that no row has.
    """
    numbers = row_numbers("indices", indices)
    wanted, back = np.unique(numbers, return_inverse=True)
    fields, manifest = plan.fields(snapshot), snapshot.manifest
    ends = np.cumsum(all_live_rows(snapshot), dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < total:
        raise IndexError(f"{snapshot} has {total} rows; row {wanted[0] if wanted[0] < 0 else wanted[-1]} does not exist")
    bounds = np.searchsorted(wanted, np.concatenate([[0], ends]))
    chosen = [
        (manifest.fragments[i], wanted[bounds[i] : bounds[i + 1]] - (ends[i - 1] if i else 0), int(ends[i - 1]) if i else 0)
        for i in np.flatnonzero(np.diff(bounds)).tolist()
    ]
    return without_addresses(snapshot, take_rows(_read(snapshot, fields, chosen), row_positions(back.reshape(-1))), fields)


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
    asked = np.arange(len(fragments)) if stable else np.flatnonzero(np.isin(fragments.ids, (wanted >> np.uint64(32)).astype(np.int64)))
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
    return take_rows(_read(snapshot, fields, chosen), row_positions(places[back.reshape(-1)]))


def _offsets(fragment: Fragment, wanted: np.ndarray, locations: Locations, stable: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which of the sorted ids `wanted` the fragment has, and their row offsets (deleted rows included)."""
    total = fragment.physical_rows
    if not stable:
        start = np.uint64(RowAddress.of(fragment.id, 0))
        which = np.flatnonzero((wanted >= start) & (wanted < start + np.uint64(total or 2**32)))
        return which, (wanted[which] - start).astype(np.int64)
    return row_ids_of(fragment, locations).find(wanted)


def _read(snapshot: Snapshot, fields: Schema, chosen: Sequence[tuple[Fragment, np.ndarray, int | None]]) -> pa.Table:
    """The rows at these positions of these fragments, in this order; the last element is the number of the fragment's first row."""
    if not fields.fields:
        return without_columns(sum(len(positions) for _, positions, _ in chosen), fields.to_arrow())
    batches: list[pa.RecordBatch] = []
    columns = Projection.of(fields)
    for fragment, positions, first in chosen:
        reader = FragmentReader(fragment, snapshot.locations, snapshot.manifest.has_stable_row_ids, first)
        try:
            batches.extend(reader.read(positions, columns, BATCH_ROWS))
        except (CorruptFileError, UnsupportedFeatureError) as e:
            raise type(e)(f"{snapshot}: {e}") from e
    return pa.Table.from_batches(batches, schema=columns.target)
