"""Scans of a partitioned namespace: the tables that can match the predicate, then their fragments and pages as in a scan of one table.

A task may have rows of several tables. It is self-contained, like the tasks of `table.scan.plan` that it consists of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import window
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.row_columns import ROW_COLUMN_IDS
from lance_spark.namespace.partitioned.leaves import Leaf, LeafView, leaves_of, open_leaves, view_of
from lance_spark.namespace.partitioned.pruning import may_match
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.predicate import Predicate, conjunction, evaluate
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import Part, all_live_rows, left_by
from lance_spark.table.scan.plan import MAX_TASK_BYTES, ScanPlan, cut, grouped, plan_parts, row_bytes
from lance_spark.table.scan.task import ScanTask, counted

_FIRST_LEAVES = 32
"""With a limit and no predicate, this many tables are opened at a time until there are enough rows."""


@dataclass(frozen=True)
class Finish:
    """The remaining steps for the rows of a table that lacks columns or has other types."""

    schema: pa.Schema
    constants: dict[str, pa.Scalar]
    predicate: Predicate | None
    counts_rows: bool
    given: tuple[str, ...]
    table: str

    def complete(self, batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        """The rows that satisfy the predicate, with the columns of `schema`."""
        columns = []
        for f in self.schema:
            if f.name in self.constants:
                columns.append(pa.repeat(self.constants[f.name], rows))
                continue
            try:
                columns.append(batch.column(f.name).cast(f.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                what = f"the column {f.name!r} is {batch.schema.field(f.name).type} in the table and {f.type} in the namespace"
                raise SchemaMismatchError(f"{self.table}: {what}: {e}") from e
        whole = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if self.predicate is None:
            return whole
        return whole.filter(evaluate(self.predicate, whole))


@dataclass(frozen=True)
class LeafTask:
    """Rows of one table; without `finish`, they already have the namespace's columns."""

    task: ScanTask
    finish: Finish | None = None


@dataclass(frozen=True)
class PartitionedTask:
    """Part of a scan: rows of some tables, without the first `offset` and at most `limit` of them.

    The whole scan reads `kept` of `total` partitions.
    """

    leaves: tuple[LeafTask, ...]
    kept: int
    total: int
    offset: int = 0
    limit: int | None = None

    @property
    def num_rows(self) -> int:
        """An estimate of the number of rows, as `ScanTask.num_rows`."""
        rows = sum(leaf.task.num_rows for leaf in self.leaves)
        return rows if self.limit is None else min(rows, self.limit)

    @property
    def num_bytes(self) -> int:
        """An estimate of the bytes to read."""
        return sum(leaf.task.num_bytes for leaf in self.leaves)

    @property
    def scans(self) -> tuple[ScanTask, ...]:
        """The task of each table."""
        return tuple(leaf.task for leaf in self.leaves)

    @property
    def tables(self) -> tuple[int, int]:
        """As `ScanTask.tables`."""
        return (self.kept, self.total)

    @property
    def indexes(self) -> str:
        """As `ScanTask.indexes`; those of tables are not named."""
        return ""

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """As `ScanTask.read`: with rows with their number, one for each table. The rows of `cost` are those of the tables."""
        cost = Cost() if cost is None else cost
        yield from window((batch for leaf in self.leaves for batch in _read(leaf, cost)), self.offset, self.limit)

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """As `ScanTask.row_counts`."""
        if self.limit is None and not self.offset and all(leaf.finish is None for leaf in self.leaves):
            for leaf in self.leaves:
                yield from leaf.task.row_counts(cost)
            return
        yield from (batch.num_rows for batch in self.read(cost))


def _read(leaf: LeafTask, cost: Cost) -> Iterator[pa.RecordBatch]:
    finish, task = leaf.finish, leaf.task
    if finish is None:
        yield from task.read(cost)
        return
    batches = (finish.complete(batch, rows) for batch, rows in _raw(task, cost))
    if finish.counts_rows:
        yield counted(sum(batch.num_rows for batch in batches))
        return
    yield from (batch.select(list(finish.given)) for batch in batches if batch.num_rows)


def _raw(task: ScanTask, cost: Cost) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batches of a task and their numbers of rows, which batches without columns do not have."""
    if task.fields.fields:
        yield from ((batch, batch.num_rows) for batch in task.read(cost))
    else:
        yield from ((pa.record_batch({}), rows) for rows in task.row_counts(cost))


@dataclass(frozen=True)
class _LeafPart(Part):
    """A part of a fragment of the table with this number."""

    leaf: int = 0


def kept_leaves(version: PartitionedVersion, predicate: Predicate | None) -> list[Leaf]:
    """The tables that can have rows that satisfy the predicate. No table is opened."""
    rows = version.leaves
    if predicate is None:
        return leaves_of(version, rows)
    numbers, keep = rows["spec"].to_numpy(), np.zeros(rows.num_rows, bool)
    for spec in version.specs.values():
        here = np.flatnonzero(numbers == spec.id)
        if len(here):
            keep[here] = may_match(predicate, spec, version.schema, rows.take(pa.array(here)))
    return leaves_of(version, rows.take(pa.array(np.flatnonzero(keep))))


def plan_partitioned(version: PartitionedVersion, plan: ScanPlan, cores: int = 1, max_bytes: int = MAX_TASK_BYTES) -> list[PartitionedTask]:
    """Split a scan into one or more tasks, as `table.scan.plan.plan_tasks`.

    Row ids and addresses are those of single tables and may repeat: UnsupportedFeatureError.
    """
    shape = version.shape
    check_no_row_columns(plan, version)
    leaves = kept_leaves(version, plan.predicate)
    total = version.leaves.num_rows
    exact = plan.predicate is None
    limit = _least(plan.limit, None if plan.order else plan.task_limit) if exact else None
    views, parts = _opened(version, shape.manifest.schema, leaves, None if limit is None else plan.offset + limit)
    if plan.predicate is not None and plan.use_scalar_index:
        parts = _left_by_indexes(views, parts, plan.predicate)
    if exact:
        parts = [p for p in cut(parts, plan.offset, limit) if isinstance(p, _LeafPart)]
    groups = _groups(views, parts, plan, cores, max_bytes)
    whole = ScanPlan(plan.columns, plan.predicate, None, 0, batch_size=plan.batch_size, blob_handling=plan.blob_handling)
    whole = replace(whole, counts_rows=plan.counts_rows, order=plan.order, task_limit=plan.task_limit)
    outer = (0, None) if exact else (plan.offset, plan.limit)
    return [
        PartitionedTask(_leaf_tasks(version, shape.manifest.schema, views, whole, group), len(leaves), total, *outer) for group in groups
    ]


def check_no_row_columns(plan: ScanPlan, version: PartitionedVersion) -> None:
    """Raise UnsupportedFeatureError if the plan requests row ids, addresses or other row columns."""
    if plan.with_row_id or plan.with_row_address or any(f.id in ROW_COLUMN_IDS for f in plan.fields_to_read(version.shape).fields):
        raise UnsupportedFeatureError(
            f"{version.root.uri} is a partitioned namespace: row ids, addresses and versions belong to single tables and repeat; "
            "open the table of a partition for them"
        )


def _opened(version: PartitionedVersion, shape: Schema, leaves: Sequence[Leaf], enough: int | None) -> tuple[list[LeafView], list[Part]]:
    """The views of the tables and all parts with rows, for as many tables as are needed for `enough` rows."""
    views: list[LeafView] = []
    parts: list[Part] = []
    step, rows_so_far = _FIRST_LEAVES if enough is not None else max(len(leaves), 1), 0
    for start in range(0, len(leaves), step):
        if enough is not None and rows_so_far >= enough:
            break
        chunk = leaves[start : start + step]
        for leaf, snapshot in zip(chunk, open_leaves(version, chunk)):
            if snapshot is None:
                continue
            for fragment, rows in zip(snapshot.manifest.fragments, all_live_rows(snapshot).tolist()):
                rows_so_far += rows
                if rows:
                    parts.append(_LeafPart(fragment, 0, rows, leaf=len(views)))
            views.append(view_of(version, shape, leaf, snapshot))
    return views, parts


def _left_by_indexes(views: Sequence[LeafView], parts: Sequence[Part], predicate: Predicate) -> list[Part]:
    """The parts with the rows that the scalar indexes of their tables leave."""
    own = [p for p in parts if isinstance(p, _LeafPart)]
    left: list[Part] = []
    at = 0
    for i, view in enumerate(views):
        of_leaf = _of(own, i, at)
        at += len(of_leaf)
        # Indexes have the values as the table has them, before they are cast.
        needed = view.snapshot.manifest.schema.select(predicate.columns).names
        answer = None if view.casts.intersection(needed) else look_up(view.snapshot, with_tests(view.snapshot, predicate))
        left += of_leaf if answer is None else left_by(answer, of_leaf)
    return left


def _groups(views: Sequence[LeafView], parts: Sequence[Part], plan: ScanPlan, cores: int, max_bytes: int) -> list[list[_LeafPart]]:
    own = [p for p in parts if isinstance(p, _LeafPart)]
    if plan.predicate is not None and (plan.limit is not None or plan.offset):
        return [own]
    if plan.counts_rows and plan.predicate is None:
        return [own]
    sizes: list[float] = []
    first: list[float] = []
    for i, view in enumerate(views):
        of_leaf = _of(own, i, len(sizes))
        fields = plan.fields_to_read(view.snapshot)
        sizes += row_bytes(of_leaf, fields)
        if plan.predicate is not None:
            first += row_bytes(of_leaf, fields.select(plan.predicate.columns))
    groups = grouped(own, sizes, cores, max_bytes, first if plan.predicate is not None else None)
    return [[p for p in group if isinstance(p, _LeafPart)] for group in groups] or [[]]


def _of(parts: Sequence[_LeafPart], leaf: int, start: int) -> list[_LeafPart]:
    """The parts of a table, which begin at `start`. Parts are in the order of their tables."""
    stop = start
    while stop < len(parts) and parts[stop].leaf == leaf:
        stop += 1
    return list(parts[start:stop])


def _leaf_tasks(
    version: PartitionedVersion, shape: Schema, views: Sequence[LeafView], plan: ScanPlan, group: Sequence[_LeafPart]
) -> tuple[LeafTask, ...]:
    by_leaf: dict[int, list[Part]] = {}
    for part in group:
        by_leaf.setdefault(part.leaf, []).append(part)
    if plan.counts_rows and (not group or not plan.fields_to_read(version.shape).fields):
        # The result is one row for all tables, and also if there are none.
        return (LeafTask(plan_parts(version.shape, plan, list(group))),)
    return tuple(_leaf_task(version, views[i], plan, parts) for i, parts in by_leaf.items())


def _leaf_task(version: PartitionedVersion, view: LeafView, plan: ScanPlan, parts: Sequence[Part]) -> LeafTask:
    needed = plan.fields_to_read(version.shape)
    apart = {f.name for f in needed.fields} & (view.constants.keys() | view.casts)
    if not apart:
        return LeafTask(plan_parts(view.snapshot, plan, parts))
    constants = {name: value for name, value in view.constants.items() if name in apart}
    known = version.shape.manifest.schema
    paths = [quoted([f.name]) for f in needed.fields]
    if plan.columns is not None:
        paths = [*plan.columns, *(plan.predicate.columns if plan.predicate else ())]
    read = tuple(dict.fromkeys(path for path in paths if known.resolve(path)[0].name not in constants))
    pushed = None if plan.predicate is None else _without(plan.predicate, apart)
    inner = ScanPlan(read, pushed, batch_size=plan.batch_size, blob_handling=plan.blob_handling)
    given = tuple(f.name for f in plan.fields(version.shape).fields)
    finish = Finish(needed.to_arrow(), constants, with_tests(view.snapshot, plan.predicate), plan.counts_rows, given, str(view.snapshot))
    return LeafTask(plan_parts(view.snapshot, inner, parts), finish)


def _without(predicate: Predicate, names: set[str]) -> Predicate | None:
    """The conjuncts that use none of these columns."""
    root = predicate.root
    conditions = root.operands if isinstance(root, And) else (root,)
    free = [c for c in conditions if not any(isinstance(n, Column) and n.path[0] in names for n in walk(c))]
    return conjunction([Predicate(c, predicate.text) for c in free]) if free else None


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)
