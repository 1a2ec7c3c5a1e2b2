"""The changes of a partitioned namespace between two versions: those of each table between the
versions of it that they name.

A row that moved to another table was deleted from one and inserted into the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep_rows
from lance_spark.arrow.stream import ArrowStream
from lance_spark.errors import (
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    check_type,
)
from lance_spark.metadata.row_columns import ROW_COLUMN_IDS
from lance_spark.namespace.partitioned.leaves import Leaf, Pin, leaves_of, matched, open_leaf
from lance_spark.namespace.partitioned.root import PartitionedVersion, open_partitioned, with_flags
from lance_spark.namespace.partitioned.scan import check_row_columns
from lance_spark.namespace.partitioned.spec import FIELD_ID
from lance_spark.predicate import Predicate, evaluate, parse
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.feed.changes import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    Changes,
)
from lance_spark.table.feed.columns import may_be_null
from lance_spark.table.feed.differences import Differences, differences, rows_of
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.own_rows import FindsItsRows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.snapshot import Snapshot, to_datetime


@dataclass(frozen=True)
class PartitionedChanges(ArrowStream):
    """The changes of the versions of a namespace after `begin`, up to `end`, in the columns of
    `version`.

    Rows are read on request.

    Without `updates`, an update is a delete and an insert.
    """

    version: PartitionedVersion
    begin: int
    end: int
    plan: ScanPlan
    predicate: Predicate | None = None
    updates: bool = True

    @cached_property
    def fields(self) -> Schema:
        """The columns of the result, which may be null, as rows of earlier versions may be."""
        own = self.plan.fields(self.version.shape)
        return Schema((*map(may_be_null, own.fields), *CHANGE_COLUMNS), own.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return self.fields.to_arrow()

    @cached_property
    def _whole(self) -> Schema:
        """All columns, of which the condition may use some."""
        return Schema((*map(may_be_null, self.version.shape.manifest.schema.fields), *CHANGE_COLUMNS))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, version by version, and table by table.

        Raises VersionNotFoundError if a version was removed, and UnsupportedFeatureError if nothing
        tells which rows have changed.
        """
        before = self._version(self.begin) if self.begin else None
        for number in range(self.begin + 1, self.end + 1):
            after = self._version(number)
            if after is not None:
                for batch in _of_version(self, before, after):
                    rows = self._chosen(batch)
                    if rows.num_rows:
                        yield rows
            before = after

    def _version(self, number: int) -> PartitionedVersion | None:
        """A version; None before the namespace had a spec."""
        found = open_partitioned(self.version.root, number)
        return None if found is None else with_flags(found, self.version.allow_other_stores, self.version.verify_checksums)

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.predicate is not None:
            batch = keep_rows(batch, pc.fill_null(evaluate(self.predicate, batch), False))
        return Projection.of(self.fields).project(batch)

    def complete(self, leaf: Leaf, table: Snapshot, commit: PartitionedVersion, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Changes of a table as those of the namespace: its columns, and the commit that made
        them."""
        found, snapshot = (
            matched(self.version.shape.manifest.schema, table.manifest.schema),
            commit.manifest.snapshot,
        )
        assert snapshot is not None, "a namespace has a version"
        told = {
            COMMIT_VERSION: commit.version,
            COMMIT_TIMESTAMP: to_datetime(snapshot.manifest.timestamp),
        }
        columns = []
        for f, target in zip(self._whole.fields, self._whole.to_arrow(), strict=True):
            if f.name in told:
                columns.append(pa.repeat(pa.scalar(told[f.name], target.type), batch.num_rows))
            elif f.name == CHANGE_TYPE:
                columns.append(batch.column(CHANGE_TYPE))
            elif f.name in found:
                columns.append(_cast(batch.column(found[f.name].name), f, target.type, table))
            else:
                columns.append(_missing(leaf, f, target.type, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self._whole.to_arrow())


def _of_version(changes: PartitionedChanges, before: PartitionedVersion | None, after: PartitionedVersion) -> Iterator[pa.RecordBatch]:
    """The changes from one version to the next one."""
    old = {} if before is None else _by_location(before)
    new = _by_location(after)
    for location in [*old, *(location for location in new if location not in old)]:
        was, is_now = old.get(location), new.get(location)
        if was is not None and is_now is not None and was.pin == is_now.pin:
            _check_pinned(after, is_now)
            continue
        leaf = is_now or was
        assert leaf is not None, "the table is in one of the versions"
        tables = [
            None if before is None or was is None else _opened(before, was),
            None if is_now is None else _opened(after, is_now),
        ]
        table = tables[1] or tables[0]
        if table is None:
            continue
        own = Changes(
            table,
            0 if tables[0] is None else tables[0].version,
            table.version,
            ScanPlan(),
            updates=changes.updates,
        )
        own = replace(own, plan=replace(own.plan, blob_handling=changes.plan.blob_handling))
        for batch in own.rows(_differences(tables[0], tables[1])):
            yield changes.complete(leaf, table, after, batch)


def _differences(before: Snapshot | None, after: Snapshot | None) -> Differences:
    """What happened to the rows of a table; None: it is not in a version of the namespace."""
    if after is not None:
        return differences(before, after)
    assert before is not None
    return Differences(before, before, deleted=rows_of(before, before.manifest.lazy_fragments.ids.tolist()))


def _opened(version: PartitionedVersion, leaf: Leaf) -> Snapshot | None:
    _check_pinned(version, leaf)
    return open_leaf(version, leaf)


def _by_location(version: PartitionedVersion) -> dict[str, Leaf]:
    return {leaf.location: leaf for leaf in leaves_of(version, version.leaves)}


def _check_pinned(version: PartitionedVersion, leaf: Leaf) -> None:
    if leaf.pin == Pin():
        what = "names no version of the table, so that nothing tells which rows have changed; read the changes of the table"
        raise UnsupportedFeatureError(f"{version}: {leaf.location}: the namespace {what}")


def _cast(values: pa.Array, field: Field, wanted: pa.DataType, table: Snapshot) -> pa.Array:
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SchemaMismatchError(
            f"{table}: the column {field.name!r} is {values.type} in the table and {wanted} in the namespace: {e}"
        ) from e


def _missing(leaf: Leaf, field: Field, wanted: pa.DataType, count: int) -> pa.Array:
    """A column that a table lacks: the partition's value, or nulls."""
    field_id = field.metadata.get(FIELD_ID, b"").decode()
    for own in leaf.spec.fields:
        if own.source_id == field_id and own.transform is not None and own.transform.kind == "identity":
            return pa.repeat(leaf.values[own.column].cast(wanted)[0], count)
    return pa.nulls(count, wanted)


def changes(
    version: PartitionedVersion,
    begin: int,
    plan: ScanPlan,
    filter: str | None,
    *,
    net: bool = False,
    updates: bool = True,
) -> PartitionedChanges:
    """The changes after the version `begin`, up to `version`, in the columns of `plan`.

    Raises InvalidOptionError for another `begin`, SchemaMismatchError for columns with the names of
    `CHANGE_COLUMNS`, and UnsupportedFeatureError for net changes: rows that moved have no identity.
    """
    check_type("begin", begin, Integral, "the number of a version")
    if not 0 <= begin <= version.version:
        raise InvalidOptionError(f"{version}: begin must be at least 0 and at most {version.version}, not {begin}")
    if net:
        what = "net changes of a partitioned namespace cannot be read, because a row that moved to another table is another one there"
        raise UnsupportedFeatureError(f"{version}: {what}; read all changes, or the net changes of a table")
    check_row_columns(plan, version)
    plan = plan.checked(version.shape)
    if taken := [f.name for f in plan.fields(version.shape).fields if f.name in {c.name for c in CHANGE_COLUMNS}]:
        raise SchemaMismatchError(f"{version}: the column {taken[0]!r} has the name of a column that the changes have; rename it")
    if any(f.id in ROW_COLUMN_IDS for f in plan.fields(version.shape).fields):
        raise UnsupportedFeatureError(f"{version}: changes of a partitioned namespace have no addresses; read those of its tables")
    known = version.shape.manifest.schema
    predicate = None if filter is None else parse(filter, Schema((*known.fields, *CHANGE_COLUMNS), known.metadata))
    return PartitionedChanges(version, int(begin), version.version, plan, predicate, updates)


@dataclass(frozen=True)
class PartitionedChangesTask(FindsItsRows):
    """The changes of some versions, as a part of a read; see `table.feed.task.ChangesTask`."""

    changes: PartitionedChanges
    num_rows: int
    num_bytes: int

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """The changes. They do not tell their cost."""
        batches: Iterator[pa.RecordBatch] = self.changes.to_batches()
        return batches

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The number of changes in each batch."""
        return (batch.num_rows for batch in self.read())


def changes_tasks(found: PartitionedChanges) -> list[PartitionedChangesTask]:
    """The tasks of changes, at least one: one for each version."""
    begins = range(found.begin, max(found.end, found.begin + 1))
    parts = [replace(found, begin=begin, end=min(begin + 1, found.end)) for begin in begins]
    return [PartitionedChangesTask(part, 1, 1) for part in parts]
