"""Scans of a partitioned namespace: the tables that can match the predicate, then their fragments and pages as in a scan of one table.

A task may have rows of several tables. It is self-contained, like the tasks of `table.scan.plan` that it consists of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import window
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS
from lance_spark.namespace.partitioned.addresses import Addresses
from lance_spark.namespace.partitioned.leaves import Leaf, LeafView, leaves_of, open_leaves, view_of
from lance_spark.namespace.partitioned.pruning import may_match
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.predicate import Predicate, conjunction, evaluate
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import Part, Parts, left_by, whole_parts
from lance_spark.table.scan.plan import MAX_TASK_BYTES, ScanPlan, cut, decided, grouped, plan_parts, row_bytes, work_of
from lance_spark.table.scan.task import ScanTask, counted

_ADDRESS = "_rowaddr"
_FIRST_LEAVES = 32
"""The tables that are opened at a time until there are enough rows, with a limit and no predicate."""


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
    """Rows of one table; without `finish`, they already have the namespace's columns.

    `first_address` is added to their addresses, see `addresses`.
    """

    task: ScanTask
    finish: Finish | None = None
    first_address: int = 0


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
        """The tables that are read, and all that there are, like `ScanTask.tables`."""
        return (self.kept, self.total)

    @property
    def indexes(self) -> str:
        """No names, in contrast to `ScanTask.indexes`: those of tables are not known here."""
        return ""

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """Read like `ScanTask.read`: with rows with their number, one for each table. The rows of `cost` are those of the tables."""
        cost = Cost() if cost is None else cost
        yield from window((batch for leaf in self.leaves for batch in _read(leaf, cost)), self.offset, self.limit)

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The numbers of rows, like `ScanTask.row_counts`."""
        if self.limit is None and not self.offset and all(leaf.finish is None for leaf in self.leaves):
            for leaf in self.leaves:
                yield from leaf.task.row_counts(cost)
            return
        yield from (batch.num_rows for batch in self.read(cost))


def _read(leaf: LeafTask, cost: Cost) -> Iterator[pa.RecordBatch]:
    rows = _read_table(leaf, cost)
    return map(partial(_readdressed, first=leaf.first_address), rows) if leaf.first_address else rows


def _readdressed(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """The rows with their addresses in the namespace."""
    at = batch.schema.get_field_index(_ADDRESS)
    if at < 0:
        return batch
    addresses = pc.add(batch.column(at), pa.scalar(first, pa.uint64()))
    return batch.set_column(at, batch.schema.field(at), addresses)


def _read_table(leaf: LeafTask, cost: Cost) -> Iterator[pa.RecordBatch]:
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

    Row ids and the like are those of single tables and may repeat: UnsupportedFeatureError. Addresses are those of `addresses`.
    """
    shape = version.shape
    check_row_columns(plan, version)
    plan = decided(plan)
    leaves = kept_leaves(version, plan.predicate) if plan.fragments is None else []
    total = version.leaves.num_rows
    exact = plan.predicate is None
    limit = _least(plan.limit, None if plan.order else plan.task_limit) if exact else None
    views, parts = _opened(version, shape.manifest.schema, leaves, None if limit is None else plan.offset + limit)
    if plan.predicate is not None and plan.use_scalar_index:
        parts = _left_by_indexes(views, parts, plan.predicate)
    if exact:
        parts = _window(parts, plan.offset, limit)
    groups = _groups(views, parts, plan, cores, max_bytes)
    whole = ScanPlan(plan.columns, plan.predicate, None, 0, batch_size=plan.batch_size, blob_handling=plan.blob_handling)
    whole = replace(whole, with_row_address=plan.with_row_address)
    whole = replace(whole, counts_rows=plan.counts_rows, order=plan.order, task_limit=plan.task_limit)
    outer = (0, None) if exact else (plan.offset, plan.limit)
    return [PartitionedTask(_leaf_tasks(version, views, whole, group), len(leaves), total, *outer) for group in groups]


def check_row_columns(plan: ScanPlan, version: PartitionedVersion) -> None:
    """Raise UnsupportedFeatureError if the plan requests fragments, or row columns other than the address of rows that it returns."""
    given = plan.fields(version.shape)
    asked = {f.id for f in plan.fields_to_read(version.shape).fields} & ROW_COLUMN_IDS
    if plan.with_row_id or asked - {ROW_ADDRESS} or (asked and not any(f.id == ROW_ADDRESS for f in given.fields)):
        raise UnsupportedFeatureError(
            f"{version.root.uri} is a partitioned namespace: row ids and versions belong to single tables and repeat, and conditions "
            "cannot use addresses; open the table of a partition for them"
        )
    tested = () if plan.predicate is None else plan.known(version.shape).select(plan.predicate.columns).fields
    if any(f.id == ROW_ADDRESS for f in tested):
        raise UnsupportedFeatureError(
            f"{version.root.uri} is a partitioned namespace: conditions cannot use addresses; open the table of a partition for them"
        )
    if plan.fragments is not None:
        raise UnsupportedFeatureError(
            f"{version.root.uri} is a partitioned namespace: fragments belong to single tables; open the table of a partition for them"
        )


def _opened(version: PartitionedVersion, shape: Schema, leaves: Sequence[Leaf], enough: int | None) -> tuple[list[LeafView], list[Parts]]:
    """The views of the tables and the parts of each, for as many tables as are needed for `enough` rows."""
    views: list[LeafView] = []
    parts: list[Parts] = []
    step, rows_so_far = _FIRST_LEAVES if enough is not None else max(len(leaves), 1), 0
    for start in range(0, len(leaves), step):
        if enough is not None and rows_so_far >= enough:
            break
        chunk = leaves[start : start + step]
        for leaf, snapshot in zip(chunk, open_leaves(version, chunk)):
            if snapshot is None:
                continue
            parts.append(whole_parts(snapshot))
            rows_so_far += parts[-1].num_rows
            views.append(view_of(version, shape, leaf, snapshot))
    return views, parts


def _left_by_indexes(views: Sequence[LeafView], parts: Sequence[Parts], predicate: Predicate) -> list[Parts]:
    """The parts with the rows that the scalar indexes of their tables leave."""
    left = []
    for view, own in zip(views, parts):
        # Indexes have the values as the table has them, before they are cast.
        needed = view.snapshot.manifest.schema.select(predicate.columns).names
        answer = None if view.casts.intersection(needed) else look_up(view.snapshot, with_tests(view.snapshot, predicate))
        left.append(own if answer is None else left_by(answer, own))
    return left


def _window(parts: Sequence[Parts], offset: int, limit: int | None) -> list[Parts]:
    """The rows `offset` to `offset + limit` of the parts of all tables."""
    kept, before = [], 0
    for own in parts:
        rows = own.num_rows
        left = None if limit is None else max(offset + limit - max(before, offset), 0)
        kept.append(cut(own, max(offset - before, 0), left))
        before += rows
    return kept


_Group = dict[int, Parts]
"""Parts of some tables, by the number of the table."""


def _groups(views: Sequence[LeafView], parts: Sequence[Parts], plan: ScanPlan, cores: int, max_bytes: int) -> list[_Group]:
    numbered = {i: own for i, own in enumerate(parts) if len(own)}
    if plan.predicate is not None and (plan.limit is not None or plan.offset):
        return [numbered]
    if not numbered or (plan.counts_rows and plan.predicate is None):
        return [numbered]
    sizes, always = [], 0.0
    for i, own in numbered.items():
        fields = plan.fields_to_read(views[i].snapshot)
        sizes.append(work_of(own, row_bytes(own, fields)))
        if plan.predicate is not None:
            always += float((own.rows * row_bytes(own, fields.select(plan.predicate.columns))).sum())
    starts, stops = (np.concatenate([getattr(own, name) for own in numbered.values()]) for name in ("starts", "stops"))
    pieces = grouped(starts, stops, np.concatenate(sizes), cores, max_bytes, None if plan.predicate is None else always)
    ends = np.cumsum([len(own) for own in numbered.values()])
    which = np.searchsorted(ends, pieces.places, "right")
    tables, groups = list(numbered), []
    for first, last in itertools.pairwise(pieces.bounds.tolist()):
        group = {}
        for table in np.unique(which[first:last]).tolist():
            own = np.arange(first, last)[which[first:last] == table]
            number = tables[table]
            places = pieces.places[own] - (ends[table] - len(numbered[number]))
            group[number] = numbered[number].chosen(places, pieces.starts[own], pieces.stops[own])
        groups.append(group)
    return groups


def _leaf_tasks(version: PartitionedVersion, views: Sequence[LeafView], plan: ScanPlan, group: _Group) -> tuple[LeafTask, ...]:
    if plan.counts_rows and (not group or not plan.fields_to_read(version.shape).fields):
        # The result is one row for all tables, and also if there are none. Nothing is read of their fragments.
        parts = [Part(part.fragment, part.start, part.stop) for own in group.values() for part in own]
        return (LeafTask(plan_parts(version.shape, plan, parts)),)
    tasks = tuple(_leaf_task(version, views[i], plan, parts) for i, parts in group.items())
    if not any(f.id == ROW_ADDRESS for f in plan.fields_to_read(version.shape).fields):
        return tasks
    addresses, numbers = Addresses.of(version), version.numbers
    firsts = [addresses.first(numbers[views[i].location], views[i].snapshot) for i in group]
    return tuple(replace(task, first_address=first) for task, first in zip(tasks, firsts, strict=True))


def _leaf_task(version: PartitionedVersion, view: LeafView, plan: ScanPlan, parts: Sequence[Part]) -> LeafTask:
    needed = plan.fields_to_read(version.shape)
    apart = {f.name for f in needed.fields} & (view.constants.keys() | view.casts)
    if not apart:
        return LeafTask(plan_parts(view.snapshot, plan, parts))
    constants = {name: value for name, value in view.constants.items() if name in apart}
    known = plan.known(version.shape)
    paths = [quoted([f.name]) for f in needed.fields]
    if plan.columns is not None:
        paths = [*plan.columns, *(plan.predicate.columns if plan.predicate else ())]
    read = tuple(dict.fromkeys(path for path in paths if known.resolve(path)[0].name not in constants))
    pushed = None if plan.predicate is None else _without(plan.predicate, apart)
    inner = ScanPlan(read, pushed, batch_size=plan.batch_size, blob_handling=plan.blob_handling)
    inner = replace(inner, with_row_address=plan.with_row_address)
    given = tuple(f.name for f in plan.fields(version.shape).fields)
    finish = Finish(needed.to_arrow(), constants, with_tests(view.snapshot, plan.predicate), plan.counts_rows, given, str(view.snapshot))
    return LeafTask(plan_parts(view.snapshot, inner, parts), finish)


def _without(predicate: Predicate, names: set[str]) -> Predicate | None:
    """The conjuncts that use none of these columns."""
    root = predicate.root
    conditions = root.operands if isinstance(root, And) else (root,)
    free = []
    for condition in conditions:
        used = {node.path[0] for node in walk(condition) if isinstance(node, Column)}
        if used.isdisjoint(names):
            free.append(Predicate(condition, predicate.text))
    return conjunction(free) if free else None


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)
