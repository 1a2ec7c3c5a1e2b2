"""Which rows two versions have in common, and how they differ.

Rows are known by the primary key or, without one, by their stable row ids. Fragments that both versions
share are not read. Of rows that have moved, as by a compaction, the values are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_spark.arrow.equal_keys import equal_keys
from lance_spark.errors import AmbiguousMergeError
from lance_spark.metadata.branch_merges import IdRuns
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.operations import Unknown
from lance_spark.metadata.row_address import RowAddress, addresses_of
from lance_spark.metadata.row_ids import row_ids_of
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.branches.heads import Heads
from lance_spark.table.changes.merge.pairing import ByKeys
from lance_spark.table.feed.differences import Touched, differing, rows_of, touched
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan, plan_tasks
from lance_spark.table.scan.rows_at import rows_at, rows_in_order
from lance_spark.table.versions.snapshot import Snapshot

ADDRESS, ID = "_rowaddr", "_rowid"
ABSENT = -1
"""Instead of the address of a row that a version does not have."""
_OWN = np.uint64(1 << 63)
"""Added to the ids of rows that only our branch has, so that they equal no id of theirs."""


class Identity(Protocol):
    """What tells which rows of two branches are the same."""

    def keys(self, snapshot: Snapshot, addresses: np.ndarray) -> pa.Table:
        """The keys of the rows at these addresses, in their order."""

    def find(self, snapshot: Snapshot, keys: pa.Table) -> np.ndarray:
        """The addresses (int64) of the rows with these keys, in their order; `ABSENT` where there is none."""


@dataclass(frozen=True)
class ByPrimaryKey:
    """Rows are the same if they have the same primary key."""

    names: tuple[str, ...]

    def keys(self, snapshot: Snapshot, addresses: np.ndarray) -> pa.Table:
        """The values of the key. Raises AmbiguousMergeError if two of the rows have the same one."""
        found = pa.Table.from_batches([rows_at(snapshot, addresses, self.names)])
        first = equal_keys(found, found, self.names)[0]
        if len(first) > len(addresses):
            twice = int(np.flatnonzero(np.bincount(first, minlength=len(addresses)) > 1)[0])
            raise self._ambiguous(snapshot, found, twice, int(addresses[twice]))
        return found

    def find(self, snapshot: Snapshot, keys: pa.Table) -> np.ndarray:
        """The addresses of the rows with these keys. Raises AmbiguousMergeError if two rows have the same one."""
        found = np.full(keys.num_rows, ABSENT, np.int64)
        if not keys.num_rows:
            return found
        pairing = ByKeys(keys, self.names, snapshot.manifest.schema)
        columns = (*(quoted([name]) for name in self.names), ADDRESS)
        for task in plan_tasks(snapshot, ScanPlan(columns=columns), 1):
            for batch in task.read():
                rows = pa.RecordBatch.from_arrays(batch.columns, names=[*self.names, ADDRESS])
                addresses = rows.column(ADDRESS).to_numpy().astype(np.int64)
                for at, source in pairing.pairs(rows):
                    twice = (found[source] != ABSENT) | (np.bincount(source, minlength=len(found))[source] > 1)
                    if twice.any():
                        place = int(source[twice][0])
                        raise self._ambiguous(snapshot, keys, place, int(addresses[at[twice][0]]))
                    found[source] = addresses[at]
        return found

    def _ambiguous(self, snapshot: Snapshot, keys: pa.Table, row: int, address: int) -> AmbiguousMergeError:
        values = {name: keys[name][row].as_py() for name in self.names}
        return AmbiguousMergeError(
            f"{snapshot}: two rows have the primary key {values}; delete one of them before branches are compared",
            RowAddress(address),
        )


@dataclass(frozen=True)
class ByRowId:
    """Rows are the same if they have ids that a merge has recorded as the same or, without a record, the same stable row id.

    Keys are the ids in their branch. `ours` is the name of our branch (None: the main one).
    """

    ours: str | None
    same_below: int
    ids: IdRuns

    def keys(self, snapshot: Snapshot, addresses: np.ndarray) -> pa.Table:
        """The ids of the rows."""
        ids = rows_at(snapshot, addresses, [ID]).column(ID).to_numpy().astype(np.uint64)
        if snapshot.manifest.branch == self.ours:
            theirs, known = self.ids.swapped.ours_of(ids)
            ids = np.where(known, theirs, np.where(ids < self.same_below, ids, ids + _OWN))
        return pa.table({ID: ids})

    def find(self, snapshot: Snapshot, keys: pa.Table) -> np.ndarray:
        """The addresses of the rows with these ids."""
        ids = keys[ID].to_numpy()
        there = np.ones(len(ids), bool)
        if snapshot.manifest.branch == self.ours:
            ours, known = self.ids.ours_of(ids)
            is_own = ids >= _OWN
            there = (ids < self.same_below) | known | is_own
            ids = np.where(known, ours, np.where(is_own, ids - _OWN, ids))
        found = np.full(len(ids), ABSENT, np.int64)
        order = np.flatnonzero(there)
        order = order[np.argsort(ids[order])]
        wanted = ids[order]
        for fragment in snapshot.manifest.fragments if len(wanted) else ():
            which, offsets = row_ids_of(fragment, snapshot.locations).find(wanted)
            alive = ~np.isin(offsets, read_deletions(fragment, snapshot.locations))
            found[order[which[alive]]] = addresses_of(fragment.id, offsets[alive]).astype(np.int64)
        return found


def identity_of(heads: Heads) -> Identity:
    """What tells which rows of two branches are the same. Raises UnsupportedFeatureError if nothing does."""
    heads.check_comparable()
    if heads.key:
        return ByPrimaryKey(heads.key)
    return ByRowId(heads.ours.manifest.branch, heads.same_below, heads.ids)


@dataclass(frozen=True)
class RowDifferences:
    """How to get from the rows of `before` to those of `after`; addresses (uint64) of rows in them.

    `updated_before[i]` and `updated_after[i]` are the same row.
    """

    before: Snapshot
    after: Snapshot
    deleted: np.ndarray
    inserted: np.ndarray
    updated_before: np.ndarray
    updated_after: np.ndarray


def row_differences(before: Snapshot, after: Snapshot, identity: Identity) -> RowDifferences:
    """Compare two versions whose manifests name files in the same way (see `heads.seen_from`)."""
    found = touched(before, after, Unknown(b""))
    in_place = [*found.updated, _completed(before, after, found)]
    left = _sorted([*(part.addresses for part in found.left), *in_place])
    came = _sorted([*(part.addresses for part in found.came), *in_place])
    keys_left, keys_came = identity.keys(before, left), identity.keys(after, came)
    at_left, at_came = equal_keys(keys_left, keys_came, keys_left.column_names)
    order = np.argsort(at_came)
    at_left, at_came = at_left[order], at_came[order]
    is_gone, is_new = np.ones(len(left), bool), np.ones(len(came), bool)
    is_gone[at_left], is_new[at_came] = False, False
    old, new = left[at_left], came[at_came]
    changed = differ(Rows(before, old), Rows(after, new))
    return RowDifferences(before, after, left[is_gone], came[is_new], old[changed], new[changed])


def _completed(before: Snapshot, after: Snapshot, found: Touched) -> np.ndarray:
    """The addresses of other rows, at the same place in both versions, that have a value in a new column."""
    names = [f.name for f in new_columns(before.manifest.schema, after.manifest.schema)]
    if not names:
        return np.empty(0, np.uint64)
    known = np.concatenate([np.empty(0, np.uint64), *found.updated, *(part.addresses for part in found.came)])
    parts = rows_of(after, after.manifest.lazy_fragments.ids.tolist())
    there = [part.addresses[~np.isin(part.addresses, known)] for part in parts]
    return np.concatenate([np.empty(0, np.uint64), *(rows[have_values(Rows(after, rows), names)] for rows in there)])


def _sorted(addresses: Sequence[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([np.empty(0, np.uint64), *addresses]))


@dataclass(frozen=True)
class Rows:
    """Rows of a version, by their addresses."""

    snapshot: Snapshot
    addresses: np.ndarray


def differ(a: Rows, b: Rows) -> np.ndarray:
    """Which of the rows, pair by pair, differ in a column that both versions have, or have a value in a new column of `b`."""
    names = [f.name for f in shared_columns(a.snapshot.manifest.schema, b.snapshot.manifest.schema)]
    found = differ_in(names, a, b)
    more = new_columns(a.snapshot.manifest.schema, b.snapshot.manifest.schema)
    either: np.ndarray = found | have_values(b, [f.name for f in more])
    return either


def differ_in(names: Sequence[str], a: Rows, b: Rows) -> np.ndarray:
    """Which of the rows, pair by pair, differ in one of these columns."""
    masks = [np.empty(0, bool)]
    for start in range(0, len(a.addresses), BATCH_ROWS):
        some = slice(start, start + BATCH_ROWS)
        left, right = (_columns(rows, some, names) for rows in (a, b))
        masks.append(differing(left.columns, right.columns) if names else np.zeros(left.num_rows, bool))
    return np.concatenate(masks)


def have_values(rows: Rows, names: Sequence[str]) -> np.ndarray:
    """Which of the rows have a value, and not null, in one of these columns."""
    found = np.zeros(len(rows.addresses), bool)
    for start in range(0, len(rows.addresses) if names else 0, BATCH_ROWS):
        some = slice(start, start + BATCH_ROWS)
        for column in _columns(rows, some, names).columns:
            found[some] |= column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _columns(rows: Rows, some: slice, names: Sequence[str]) -> pa.RecordBatch:
    schema = rows.snapshot.manifest.schema.select([quoted([name]) for name in names])
    return rows_in_order(rows.snapshot, rows.addresses[some].astype(np.uint64), schema)


def shared_columns(a: Schema, b: Schema) -> list[Field]:
    """The columns of `b` whose names `a` has, too."""
    known = {f.name for f in a.fields}
    return [f for f in b.fields if f.name in known]


def new_columns(a: Schema, b: Schema) -> list[Field]:
    """The columns of `b` whose names `a` lacks."""
    known = {f.name for f in a.fields}
    return [f for f in b.fields if f.name not in known]
