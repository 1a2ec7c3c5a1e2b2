"""DELETE, UPDATE and MERGE of a partitioned namespace in this process, each as one commit over
its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import AmbiguousMergeError, CommitConflictError, check_texts
from lance_spark.namespace.manifest_table import ManifestTable, change
from lance_spark.namespace.partitioned.changes import (
    begin_changes,
    write_changes,
)
from lance_spark.namespace.partitioned.commit import commit_changes
from lance_spark.namespace.partitioned.leaves import Pin, leaves_of, open_leaf
from lance_spark.namespace.partitioned.root import (
    PIN_COLUMNS,
    READ_VERSION,
    PartitionedVersion,
    opened,
    parsed,
    with_columns,
    with_flags,
)
from lance_spark.namespace.partitioned.rows_at import LeafRows
from lance_spark.namespace.partitioned.scan import plan_partitioned
from lance_spark.predicate import Formula, Predicate, parse
from lance_spark.table.changes.delta import ADDRESS_PATHS, ROW_ADDRESS
from lance_spark.table.changes.merge.merge_insert import MergeInsert, check_actions, prepared
from lance_spark.table.changes.merge.rows import Table, ambiguous_values, delta_rows, merge_plan
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.changes.row_tasks import delta_rows as rows_of_scan
from lance_spark.table.changes.update import formulas_of
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.retry import CHANGE_TRIES
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.write.options import WriteOptions

Plan = Callable[[PartitionedVersion], RowChanges]
"""Makes a change of a version, and commits it."""


def pinned(version: PartitionedVersion) -> PartitionedVersion:
    """The version, or if it names no version of some of its tables, a new one that names their
    latest.

    Addresses of rows must belong to the version that is changed.
    """
    if all(leaf.pin != Pin() for leaf in leaves_of(version, version.leaves)):
        return version

    def edit(table: ManifestTable) -> pa.Table | None:
        now = parsed(table)
        found = leaves_of(now, now.leaves) if now is not None else []
        snapshots = {leaf.location: open_leaf(now, leaf) for leaf in found if leaf.pin == Pin()} if now is not None else {}
        latest = {location: snapshot.version for location, snapshot in snapshots.items() if snapshot is not None}
        if not latest:
            return None
        rows = with_columns(table.rows, list(PIN_COLUMNS))
        at = rows.schema.get_field_index(READ_VERSION)
        pairs = zip(rows["location"].to_pylist(), rows[READ_VERSION].to_pylist(), strict=True)
        versions = [latest.get(location, old) for location, old in pairs]
        return rows.set_column(at, rows.schema.field(at), pa.array(versions, rows.schema.field(at).type))

    change(version.root, edit)
    return with_flags(opened(version.root), version.allow_other_stores, version.verify_checksums)


def changed(version: PartitionedVersion, options: WriteOptions, plan: Plan) -> RowChanges:
    """Run `plan` for the latest version; after a conflict with another writer, again for the then
    latest one.

    Raises CommitConflictError after `CHANGE_TRIES` tries.
    """
    for attempt in range(CHANGE_TRIES):
        latest = with_flags(opened(version.root), version.allow_other_stores, version.verify_checksums)
        if done_before(latest.manifest.store, options.noted):
            return RowChanges(latest.version)
        try:
            return plan(pinned(latest))
        except CommitConflictError as e:
            if not e.retryable or attempt == CHANGE_TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


def ambiguous(error: AmbiguousMergeError, version: PartitionedVersion, keys: Sequence[str]) -> AmbiguousMergeError:
    """The error for a row that several rows of the source of a merge change, with its values in
    these columns."""
    values = LeafRows(version).at(np.array([error.address], np.uint64), keys).to_pylist()[0] if keys else {}
    return ambiguous_values(error.address, str(version), values)


def delete(version: PartitionedVersion, predicate: str, options: WriteOptions) -> RowChanges:
    """Delete the rows that satisfy `predicate`, a Spark SQL condition."""

    def plan(latest: PartitionedVersion) -> RowChanges:
        target = begin_changes(latest, (), options)
        condition = parse(predicate, latest.shape.manifest.schema)
        part = write_changes(target, _rows(latest, condition, None))
        return commit_changes(target, [part], options.noted)

    return changed(version, options, plan)


def update(version: PartitionedVersion, values: Mapping[str, str], where: str | None, options: WriteOptions) -> RowChanges:
    """Set columns to new values (SQL text by name) in the rows that satisfy `where`, or in all
    rows."""

    def plan(latest: PartitionedVersion) -> RowChanges:
        condition = None if where is None else parse(where, latest.shape.manifest.schema)
        formulas = formulas_of(latest.shape, values)
        target = begin_changes(latest, tuple(formulas), options)
        part = write_changes(target, _rows(latest, condition, formulas))
        return commit_changes(target, [part], options.noted)

    check_texts("updates", values, '{"v": "v + 1"}')
    if not values:
        raise ValueError("an update needs new values: {column: value}")
    return changed(version, options, plan)


def merge_insert(version: PartitionedVersion, merge: MergeInsert, source: pa.Table, options: WriteOptions) -> RowChanges:
    """Merge the rows of `source`, which are in memory; see `table.changes.merge.merge_insert`."""

    def plan(latest: PartitionedVersion) -> RowChanges:
        found = prepared(merge, source, latest.shape)
        target = begin_changes(latest, found.assigned, options, inserts=merge.insert)
        rows = LeafRows(latest)
        table = Table(rows.shape, rows.at)
        tasks = plan_partitioned(latest, merge_plan(found.rows))
        try:
            part = write_changes(target, delta_rows(found.rows, table, tasks))
        except AmbiguousMergeError as e:
            raise ambiguous(e, latest, found.keys) from e
        return commit_changes(target, [part], options.noted, has_keys=bool(found.primary_key))

    check_actions(merge)
    return changed(version, options, plan)


def _rows(version: PartitionedVersion, predicate: Predicate | None, values: Mapping[str, Formula] | None) -> Iterator[pa.RecordBatch]:
    """The delta rows that delete the rows that satisfy `predicate` or, with `values`, update
    them."""
    needed = [column for formula in (values or {}).values() for column in formula.columns if column not in ADDRESS_PATHS]
    plan = ScanPlan(columns=(ROW_ADDRESS, *dict.fromkeys(needed)), predicate=predicate)
    for task in plan_partitioned(version, plan):
        yield from (rows_of_scan(batch, values) for batch in task.read())
