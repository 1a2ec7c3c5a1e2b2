"""Changing rows of a partitioned namespace: executors write what leaves and enters each table.

target = begin_changes(version, assigned, options)  # driver: the version that has the addresses
part = write_changes(target, delta_rows)            # executors, any number of times
commit.commit_changes(target, parts, properties)    # driver: all or nothing

Delta rows are those of `table.changes.delta`, with the addresses and the columns of the namespace.
An updated row whose partition values stay the same is updated in its table. Else it leaves its
table and is written by the newest spec, as a new row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep_rows
from lance_spark.errors import AmbiguousMergeError, on_failure
from lance_spark.file.supported_types import WRITABLE
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import check_writable
from lance_spark.namespace.partitioned.addresses import Addresses
from lance_spark.namespace.partitioned.destinations import groups, keys
from lance_spark.namespace.partitioned.leaves import Leaf, leaves_of, matched, open_leaf
from lance_spark.namespace.partitioned.root import PartitionedVersion, with_flags
from lance_spark.namespace.partitioned.rows_at import LeafRows
from lance_spark.namespace.partitioned.spec import FIELD_ID
from lance_spark.namespace.partitioned.write import (
    PartitionedTarget,
    PartitionWriter,
    WrittenPartition,
    as_field,
    check_divides,
    partition_values,
    sources,
    widened,
)
from lance_spark.schema.schema import Schema
from lance_spark.table.changes.delta import (
    DELETED,
    INSERTED,
    OPERATION,
    REINSERTED,
    ROW_ADDRESS,
    UPDATED,
    DeltaPart,
    DeltaTarget,
)
from lance_spark.table.changes.delta_writer import DeltaWriter
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.rules import Kind, rules_of
from lance_spark.table.write.write import discard, rewrite_target

OPEN_TABLES = 8
"""Maximum number of tables of which a task has updated rows in memory and open files."""


@dataclass(frozen=True)
class ChangeTarget:
    """The target of tasks that change rows of one version.

    Its pickle is small, because tasks open the version themselves.

    `assigned` are the columns with new values in updated rows. With `repeats`, delta rows may
    delete a row more than once.
    """

    write: PartitionedTarget
    assigned: tuple[str, ...]
    repeats: bool = False
    allow_other_stores: bool = False
    verify_checksums: bool = True

    def open(self) -> PartitionedVersion:
        """The version of the namespace that the row addresses refer to."""
        return with_flags(self.write.open(), self.allow_other_stores, self.verify_checksums)


@dataclass(frozen=True)
class ChangedLeaf:
    """What a task has done to rows of a table: `part` is as for a change of the table alone, based
    on its version `read_version`.

    `schema` is that of the table if it needs new columns for the rows, and `number` its place among
    the namespace's tables.
    """

    number: int
    read_version: int
    part: DeltaPart
    schema: Schema | None


@dataclass(frozen=True)
class ChangePart:
    """The result of one task.

    `moved` updated rows are among those that left tables and among the new ones of `partitions`.
    """

    leaves: tuple[ChangedLeaf, ...]
    partitions: tuple[WrittenPartition, ...]
    moved: int = 0

    @property
    def fragments(self) -> list[Fragment]:
        """The new fragments."""
        moved = [f for leaf in self.leaves for f in leaf.part.moved]
        return moved + [f for p in self.partitions for f in p.fragments]

    @property
    def num_deleted(self) -> int:
        """The number of rows that the task has deleted; those that moved are none of these."""
        return sum(leaf.part.num_deleted for leaf in self.leaves) - self.moved

    @property
    def num_updated(self) -> int:
        """The number of rows that it has updated."""
        return sum(leaf.part.num_updated for leaf in self.leaves) + self.moved

    @property
    def num_inserted(self) -> int:
        """The number of new rows."""
        return sum(f.physical_rows for p in self.partitions for f in p.fragments) - self.moved


def begin_changes(
    version: PartitionedVersion,
    assigned: Sequence[str],
    options: WriteOptions,
    *,
    inserts: bool = False,
    repeats: bool = False,
) -> ChangeTarget:
    """Prepare to change rows of `version`; nothing is written yet.

    With `inserts`, there may be new rows.

    Raises UnsupportedFeatureError if rows would have to be divided by a spec that cannot be
    written, and for columns whose new values may move rows out of partitions of such a spec.
    """
    shape = version.shape.manifest.schema
    check_writable(version.shape.manifest, version.root.uri)
    moves = False
    for spec in version.specs.values():
        ids = {i for f in spec.fields for i in f.source_ids}
        if any(f.name in assigned and f.metadata.get(FIELD_ID, b"").decode() in ids for f in shape.fields):
            check_divides(version, spec)
            moves = True
    if inserts or moves:
        check_divides(version, version.spec)
        options = _as_others(version, options)
    names = tuple(shape.names) if inserts or moves else tuple(assigned)
    rules = rules_of(shape, {})
    write = PartitionedTarget(
        version.root,
        version.version,
        version.spec.id,
        "append",
        names,
        options,
        rules,
        identity=version.identity,
    )
    return ChangeTarget(write, tuple(assigned), repeats, version.allow_other_stores, version.verify_checksums)


def _as_others(version: PartitionedVersion, options: WriteOptions) -> WriteOptions:
    """The options for new tables: without others, they have the storage version and the stable
    row ids of the last table that is there."""
    count = version.leaves.num_rows
    last = open_leaf(version, leaves_of(version, version.leaves.slice(count - 1))[0]) if count else None
    if last is None:
        return options
    known = last.manifest.data_format if last.manifest.data_format in WRITABLE else None
    stable = options.stable_row_ids or last.manifest.has_stable_row_ids
    return replace(options, data_storage_version=options.data_storage_version or known, stable_row_ids=stable)


def write_changes(target: ChangeTarget, batches: Iterable[pa.RecordBatch]) -> ChangePart:
    """Write the delta rows of one task. If this fails, the written files are deleted."""
    writer = _ChangeWriter(target)
    with on_failure(writer.abort):
        for batch in batches:
            if batch.num_rows:
                writer.write(batch)
        return writer.finish()


@dataclass(frozen=True)
class _Table:
    """A table whose rows change: `assigned` are its fields with new values, by the namespace's
    name."""

    leaf: Leaf
    snapshot: Snapshot
    target: DeltaTarget
    assigned: Mapping[str, str]
    schema: Schema | None


class _ChangeWriter:
    """Divides delta rows among tables, with bounded memory and open files in any order of the
    rows."""

    def __init__(self, target: ChangeTarget) -> None:
        self._target = target
        self._rows = LeafRows(target.open())
        self._shape = self._rows.shape
        self._inserts = PartitionWriter(target.write)
        self._tables: dict[int, _Table] = {}
        self._open: dict[int, DeltaWriter] = {}
        self._finished: list[ChangedLeaf] = []
        self._moved = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add delta rows."""
        operations = batch.column(OPERATION).cast(pa.int32())
        for operation in pc.unique(operations).to_pylist():
            rows = keep_rows(batch, pc.equal(operations, operation))
            if operation in (INSERTED, REINSERTED):
                self._inserts.add(rows.select([f.name for f in self._shape.fields if f.name in rows.schema.names]))
            elif operation in (DELETED, UPDATED):
                self._change(operation, rows)
            else:
                raise ValueError(f"invalid row operation {operation}; expected 1 (delete), 2 (update), 3 (insert) or 4 (reinsert)")

    def finish(self) -> ChangePart:
        """Complete the files and return the result."""
        for number in list(self._open):
            self._close(number)
        return ChangePart(tuple(self._finished), tuple(self._inserts.finish()), self._moved)

    def abort(self) -> None:
        """Delete the files that were written. Best effort."""
        for writer in self._open.values():
            writer.abort()
        for changed in self._finished:
            discard(self._tables[changed.number].target.write, changed.part.moved)
        self._inserts.abort()

    def _change(self, operation: int, rows: pa.RecordBatch) -> None:
        """Delete or update rows of any tables."""
        addresses = rows.column(ROW_ADDRESS)
        if addresses.null_count:
            raise ValueError(f"a deleted or updated row lacks its {ROW_ADDRESS}")
        numbers = np.asarray(addresses.to_numpy()).astype(np.uint64, copy=False)
        for number, positions, own in self._rows.addresses.by_table(numbers):
            if operation == DELETED:
                self._leave(number, own)
            else:
                self._update(number, own, rows.take(pa.array(positions)))

    def _update(self, number: int, addresses: np.ndarray, rows: pa.RecordBatch) -> None:
        """Update rows of one table: those whose partition values change move to another one."""
        assigned = Schema(tuple(f for f in self._shape.fields if f.name in self._target.assigned))
        values = self._target.write.rules.apply(rows.select(assigned.names), assigned, Kind.VALUES)
        stays = self._stays(number, addresses, values)
        if not stays.all():
            left = np.flatnonzero(~stays)
            self._move(number, addresses[left], values.take(pa.array(left)))
            stay = np.flatnonzero(stays)
            addresses, values = addresses[stay], values.take(pa.array(stay))
        if len(addresses):
            self._stay(number, addresses, values)

    def _stays(self, number: int, addresses: np.ndarray, values: pa.RecordBatch) -> np.ndarray:
        """Whether each row has the partition values of its table with its new values."""
        leaf = self._rows.table(number)[0]
        stays = np.ones(len(addresses), bool)
        if not set(values.schema.names) & set(_sources(leaf, self._shape)):
            return stays
        needed = list(dict.fromkeys(sources(leaf.spec, self._shape)))
        kept = [name for name in needed if name not in values.schema.names]
        known = self._rows.values(number, addresses, kept)
        columns = [known.column(name) if name in kept else values.column(name) for name in needed]
        found = partition_values(leaf.spec, self._shape, pa.RecordBatch.from_arrays(columns, names=needed))
        (own,) = keys([leaf.values[f.column] for f in leaf.spec.fields], 1)
        for positions in groups(found.columns, found.num_rows):
            (key,) = keys(found.slice(int(positions[0]), 1).columns, 1)
            stays[positions] = key == own
        return stays

    def _stay(self, number: int, addresses: np.ndarray, values: pa.RecordBatch) -> None:
        table = self._table(number)
        fields = {f.name: f for f in table.target.write.schema.fields}
        columns = {OPERATION: _repeated(UPDATED, len(addresses)), ROW_ADDRESS: pa.array(addresses)}
        for name, own in table.assigned.items():
            if name in values.schema.names:
                columns[own] = as_field(values.column(name), fields[own])
            else:
                columns[own] = pa.nulls(len(addresses), fields[own].to_arrow().type)
        self._write(number, columns)

    def _move(self, number: int, addresses: np.ndarray, values: pa.RecordBatch) -> None:
        """Rows leave a table, and are written anew with all columns."""
        self._leave(number, addresses)
        kept = [name for name in self._shape.names if name not in values.schema.names]
        known = self._rows.values(number, addresses, kept)
        columns = [known.column(name) if name in kept else values.column(name) for name in self._shape.names]
        self._inserts.add(pa.RecordBatch.from_arrays(columns, names=self._shape.names))
        self._moved += len(addresses)

    def _leave(self, number: int, addresses: np.ndarray) -> None:
        self._write(
            number,
            {OPERATION: _repeated(DELETED, len(addresses)), ROW_ADDRESS: pa.array(addresses)},
        )

    def _write(self, number: int, columns: Mapping[str, pa.Array]) -> None:
        """Add delta rows of one table; the table that was used least lately is finished first,
        if too many are open."""
        table = self._table(number)
        if number not in self._open:
            while len(self._open) >= OPEN_TABLES:
                self._close(next(iter(self._open)))
            self._open[number] = DeltaWriter(table.target)
        writer = self._open[number] = self._open.pop(number)
        try:
            writer.write(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        except AmbiguousMergeError as e:
            raise in_namespace(e, self._rows.addresses, number, table.snapshot) from e

    def _close(self, number: int) -> None:
        table, writer = self._tables[number], self._open[number]
        part = writer.finish()
        del self._open[number]
        self._finished.append(ChangedLeaf(number, table.snapshot.version, part, table.schema))

    def _table(self, number: int) -> _Table:
        if number not in self._tables:
            self._tables[number] = _table(self._target, self._rows, number)
        return self._tables[number]


def _table(target: ChangeTarget, rows: LeafRows, number: int) -> _Table:
    leaf, snapshot = rows.table(number)
    # Those of new tables do not matter here.
    options = replace(
        target.write.options,
        stable_row_ids=False,
        txn_app_id=None,
        txn_version=None,
        storage_options={},
    )
    names = target.write.names
    write = rewrite_target(snapshot, options, adds_rows=bool(names))
    write = replace(write, job=target.write.job, since=target.write.since)
    schema = snapshot.manifest.schema
    whole = widened(rows.shape, schema, leaf, names, lambda: next_field_id(snapshot)) if names else schema
    added = {f.name for f in whole.fields[len(schema.fields) :]}
    found = matched(rows.shape, whole)
    # A column of the partition's value is in no file of a table of other writers, and stays as it is.
    assigned = {name: f.name for name, f in found.items() if name in target.assigned or f.name in added}
    delta = DeltaTarget(
        replace(write, schema=whole, rules=rules_of(whole, snapshot.manifest.config)),
        tuple(assigned.values()),
        target.allow_other_stores,
        target.verify_checksums,
        repeats=target.repeats,
    )
    return _Table(leaf, snapshot, delta, assigned, whole if added else None)


def _sources(leaf: Leaf, shape: Schema) -> list[str]:
    """The columns that the partition values of a table depend on."""
    ids = {i for f in leaf.spec.fields for i in f.source_ids}
    return [f.name for f in shape.fields if f.metadata.get(FIELD_ID, b"").decode() in ids]


def _repeated(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int32))


def in_namespace(error: AmbiguousMergeError, addresses: Addresses, number: int, table: Snapshot) -> AmbiguousMergeError:
    """The error for a row of a table that is changed more than once, with the row's address in
    the namespace."""
    return AmbiguousMergeError(str(error), addresses.first(number, table) + error.address)
