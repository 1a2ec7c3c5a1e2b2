"""Merging a branch: its changes of rows and its new columns are committed to another branch as one version.

The transaction names the version that was merged, and the next merge starts there (see `metadata.branch_merges`).
A tag holds that version, so that no cleanup removes what the next merge compares with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import SchemaMismatchError
from lance_spark.metadata.branch_merges import MAIN, MERGE, NO_IDS, BranchMerge, IdRuns
from lance_spark.metadata.operations import CONSTRAINT, UpdateConfig
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.branches.heads import Heads, PickedHeads, id_of, latest_of, name_of
from lance_spark.table.branches.holds import held_for_merges
from lance_spark.table.branches.rows import ID, ByRowId, Identity, identity_of, new_columns, shared_columns
from lance_spark.table.branches.three_way import Changes, OnConflict, three_way
from lance_spark.table.changes.delta import DELETED, INSERTED, OPERATION, ROW_ADDRESS, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, Written, change_rows
from lance_spark.table.commit.commit import commit
from lance_spark.table.scan.plan import BATCH_ROWS
from lance_spark.table.scan.rows_at import rows_at, rows_in_order
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.merge_schema import widened
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.target import WriteTarget


def merge_branch(
    snapshot: Snapshot,
    branch: str,
    into: str = MAIN,
    on_conflict: OnConflict = "fail",
    options: WriteOptions = NO_OPTIONS,
) -> RowChanges:
    """Merge what has changed in `branch` since the last merge, or since it was made, into another branch.

    Raises BranchMergeConflictError, which has the table of conflicts, if `on_conflict` is "fail". Raises
    UnsupportedFeatureError if nothing tells which rows of the branches are the same, and SchemaMismatchError if
    `branch` has changed columns or constraints in another way than by adding columns.
    """
    theirs, ours = latest_of(snapshot, branch), latest_of(snapshot, into)
    Heads(theirs, ours).check_comparable()
    if Heads(theirs, ours).is_same:
        return RowChanges(ours.version)
    with held_for_merges(theirs, ours):
        return change_rows(ours, options, lambda now: _planned(Heads(theirs, now), on_conflict))


def cherry_pick(
    snapshot: Snapshot,
    version: int,
    branch: str,
    into: str = MAIN,
    on_conflict: OnConflict = "fail",
    options: WriteOptions = NO_OPTIONS,
) -> RowChanges:
    """Commit what the version `version` of `branch` has changed to another branch. Raises the errors of `merge_branch`."""
    latest, ours = latest_of(snapshot, branch), latest_of(snapshot, into)
    picked, before = reopened(latest, version), reopened(latest, version - 1)
    Heads(picked, ours).check_comparable()
    return change_rows(ours, options, lambda now: _planned(PickedHeads(picked, now, before), on_conflict))


def _planned(heads: Heads, on_conflict: OnConflict) -> RowPlan:
    identity = identity_of(heads)
    schema = merged_schema(heads)
    changes = three_way(heads, identity, on_conflict)
    record: BranchMerge | None = _record(heads, identity, changes)
    names = tuple(f.name for f in shared_columns(schema, heads.theirs.manifest.schema))
    rows = MergedRows(heads, names, changes, isinstance(identity, ByRowId))

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        return [write_rows(delta, rows.batches())]

    if isinstance(heads, PickedHeads):
        record = None
    intent = Intent(schema=schema if schema != heads.ours.manifest.schema else None)
    plan = DeltaPlan(heads.ours, parts, intent, names)
    return RowPlan(lambda target: WrittenMerge(plan.write(_with_numbers_of(names, target)), heads, record))


def _with_numbers_of(names: Sequence[str], target: WriteTarget) -> WriteTarget:
    """The target of rows that have their numbers already, if the columns `names` have an identity: all branches share its numbers."""
    generated = target.rules.generated
    identities = tuple(own for own in generated.identities if own.column.name not in names)
    return replace(target, rules=replace(target.rules, generated=replace(generated, identities=identities)))


@dataclass(frozen=True)
class WrittenMerge:
    """A merge whose rows have been written. `record` is what our branch will record of theirs; None: nothing."""

    rows: Written
    heads: Heads
    record: BranchMerge | None

    @property
    def changes(self) -> RowChanges:
        return self.rows.changes

    def commit(self, properties: Mapping[str, str]) -> Snapshot:
        ours = self.heads.ours
        if self.record is None:
            return self.rows.commit(properties)
        noted = {**properties, MERGE: self.record.to_json()}
        done = self.rows.commit(noted)
        if done.version != ours.version:
            return done
        # No row changes, but the next merge starts here: conflicts that were settled are not asked again.
        return commit(ours.store, Transaction(ours.version, UpdateConfig(), properties=noted), base=ours)


def _record(heads: Heads, identity: Identity, changes: Changes) -> BranchMerge:
    theirs, ids = heads.theirs, NO_IDS
    if isinstance(identity, ByRowId):
        inserted = np.sort(_ids_of(theirs, changes.inserted_from))
        # In the order in which the rows are written; the builder of the version adds its next free id.
        ids = IdRuns.of(inserted, np.arange(len(inserted), dtype=np.uint64))
    return BranchMerge(name_of(theirs), id_of(theirs), theirs.version, theirs.identity, 0, heads.same_below, ids)


def _ids_of(snapshot: Snapshot, addresses: np.ndarray) -> np.ndarray:
    ids: np.ndarray = rows_at(snapshot, addresses, [ID]).column(ID).to_numpy().astype(np.uint64)
    return ids


@dataclass(frozen=True)
class MergedRows:
    """The rows that a merge writes, as delta rows of our branch with the columns `names` of theirs.

    With `by_id`, inserted rows come in the order of their row ids.
    """

    heads: Heads
    names: Sequence[str]
    changes: Changes
    by_id: bool

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The delta rows, a bounded number at once."""
        changes, theirs = self.changes, self.heads.theirs
        for rows in _pieces(changes.deleted):
            yield _delta_rows(DELETED, rows)
        for some in _slices(len(changes.updated)):
            values = self._read(theirs, changes.updated_from[some], self.names)
            yield _delta_rows(UPDATED, changes.updated[some], values)
        for some in _slices(len(changes.completed)):
            yield _delta_rows(UPDATED, changes.completed[some], self._completed(some))
        inserted = changes.inserted_from
        if self.by_id:
            inserted = inserted[np.argsort(_ids_of(theirs, inserted))]
        for rows in _pieces(inserted):
            yield _delta_rows(INSERTED, rows, self._read(theirs, rows, self.names))

    def _completed(self, some: slice) -> pa.RecordBatch:
        """Our rows, with their values in the columns that only theirs has."""
        own = {f.name for f in self.heads.ours.manifest.schema.fields}
        kept = [name for name in self.names if name in own]
        ours = self._read(self.heads.ours, self.changes.completed[some], kept)
        new = [name for name in self.names if name not in own]
        theirs = self._read(self.heads.theirs, self.changes.completed_from[some], new)
        return pa.RecordBatch.from_arrays([*ours.columns, *theirs.columns], schema=pa.schema([*ours.schema, *theirs.schema]))

    @staticmethod
    def _read(snapshot: Snapshot, addresses: np.ndarray, names: Sequence[str]) -> pa.RecordBatch:
        fields = snapshot.manifest.schema.select([quoted([name]) for name in names])
        return rows_in_order(snapshot, addresses, fields)


def _delta_rows(operation: int, addresses: np.ndarray, values: pa.RecordBatch | None = None) -> pa.RecordBatch:
    operations = pa.repeat(pa.scalar(operation, pa.int32()), len(addresses))
    columns = [operations, pa.array(addresses)]
    fields = [pa.field(OPERATION, pa.int32()), pa.field(ROW_ADDRESS, pa.uint64())]
    if values is not None:
        columns += values.columns
        fields += list(values.schema)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, start + BATCH_ROWS) for start in range(0, count, BATCH_ROWS))


def _pieces(addresses: np.ndarray) -> Iterator[np.ndarray]:
    return (addresses[some] for some in _slices(len(addresses)))


def merged_schema(heads: Heads) -> Schema:
    """The columns of our branch, followed by those that theirs has got since the common version.

    Raises SchemaMismatchError if theirs has changed columns or constraints otherwise, and ours has not.
    """
    base, theirs, ours = (head.manifest.schema for head in (heads.base, heads.theirs, heads.ours))
    _check_constraints(heads)
    known = {f.name: f for f in base.fields}
    there, own = ({f.name: f for f in schema.fields} for schema in (theirs, ours))
    for name, field in known.items():
        if name not in there and name in own:
            raise _schema_conflict(heads, f"{name!r} was dropped or renamed")
        if name in there and name in own and _kind(there[name]) not in (_kind(field), _kind(own[name])):
            raise _schema_conflict(heads, f"{name!r} became {there[name].logical_type}")
        if name in there and name in own and _kind(own[name]) not in (_kind(field), _kind(there[name])):
            raise _schema_conflict(heads, f"{name!r} is {there[name].logical_type} there, and {own[name].logical_type} here")
    for name in there.keys() & own.keys() - known.keys():
        if _kind(there[name]) != _kind(own[name]):
            raise _schema_conflict(heads, f"{name!r} was added to both, with other types")
    added = [f.to_arrow() for f in new_columns(base, theirs) if f.name not in own]
    return widened(heads.ours, pa.schema(added)) if added else ours


def _kind(field: Field) -> tuple[object, ...]:
    """What must be equal in both branches for their values to be stored in ours."""
    return (field.logical_type, *(_kind(child) for child in field.children))


def _check_constraints(heads: Heads) -> None:
    def checks(snapshot: Snapshot) -> dict[str, str]:
        return {key: text for key, text in snapshot.manifest.config.items() if key.startswith(CONSTRAINT)}

    base, theirs, ours = map(checks, (heads.base, heads.theirs, heads.ours))
    if theirs not in (base, ours):
        raise _schema_conflict(heads, "its CHECK constraints have changed")


def _schema_conflict(heads: Heads, what: str) -> SchemaMismatchError:
    theirs, ours = name_of(heads.theirs), name_of(heads.ours)
    return SchemaMismatchError(
        f"{heads.ours.root.uri}: the columns of the branch {theirs!r} have changed in a way that a merge does not take over: "
        f"{what}; make the same change in {ours!r} first"
    )
