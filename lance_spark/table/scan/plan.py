"""Scanning a version: the plan of what to read, and how the driver splits it into tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, check_at_least, check_type
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_ID, with_row_columns
from lance_spark.predicate import Predicate
from lance_spark.schema.blobs import BLOB_HANDLINGS, BlobHandling, handled
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import Part, all_live_rows, left_by, live_rows, may_have, with_own_rows, without_deleted
from lance_spark.table.scan.selection import with_matching_pages
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.scan.top_n import SortKey
from lance_spark.table.versions.snapshot import Snapshot

BATCH_ROWS = 32 << 10
TASKS_PER_CORE = 3
MIN_TASK_BYTES = 12 << 20
MAX_TASK_BYTES = 128 << 20
"""As in Spark's own sources (`spark.sql.files.maxPartitionBytes`)."""
_RARELY_READ = 8
"""Columns that are read of matching rows only count as this fraction, since a condition usually leaves few rows."""

_OPEN_BYTES = 256 << 10
"""What could be read in the time that it takes to open a fragment: many small ones are work by their number."""

_CHUNK_BYTES = 4 << 10
"""What is read for a single row that an index found."""

_FIELD_BYTES = 1 << 10
"""About the memory of a field of a schema that stays in memory, with its Arrow field."""

_MAX_PIECES = 1 << 14
_UNKNOWN_ROW_BYTES = 64
"""A part has at most so many tasks. A row of a file whose size is unknown counts as a few numbers and a short text."""


def names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The `columns` that a user requests. Raises SchemaMismatchError for one that is named twice, and TypeError for text."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, not text; pass [{columns!r}]")
    if columns is not None:
        check_type("columns", columns, Iterable, "a sequence of names")
        for name in columns:
            check_type("the name of a column", name, str, "text")
    if columns is not None and len(set(columns)) < len(columns):
        twice = next(name for name in columns if list(columns).count(name) > 1)
        raise SchemaMismatchError(f"the column {twice!r} is requested twice; name each column once")
    return None if columns is None else tuple(columns)


@dataclass(frozen=True)
class ScanPlan:
    """What a scan returns.

    `columns` are names (None: all), nested ones as for `Schema.select`; the columns of `row_columns` can be among them. The row
    id and address come last if requested by flag. `limit` and `offset` count rows of the result, exactly.
    `blob_handling` says how blob columns are returned, see `blobs.handled`.

    `fragments` are the ids of the fragments to be read (None: all, as is best); each is then read by one task, in the order of its rows,
    and a task has its fragments in the order of their ids.

    `use_scalar_index`: whether the rows that satisfy the predicate are looked up in the indexes of the table where this helps.

    The rest is for an engine that does the final step itself, and excludes `limit` and `offset`. `task_limit`: the number of rows
    needed from each task. `order`: which rows these are. `counts_rows`: each task returns one row with the number of its rows.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    offset: int = 0
    with_row_id: bool = False
    with_row_address: bool = False
    batch_size: int | None = None
    blob_handling: BlobHandling = "bytes"
    task_limit: int | None = None
    order: tuple[SortKey, ...] = ()
    counts_rows: bool = False
    fragments: frozenset[int] | None = None
    use_scalar_index: bool = True

    def __post_init__(self) -> None:
        for name, least in (("limit", 0), ("offset", 0), ("batch_size", 1), ("task_limit", 0)):
            value = getattr(self, name)
            if value is not None or name == "offset":
                check_at_least(name, value, least)
        if self.blob_handling not in BLOB_HANDLINGS:
            raise ValueError(f"blob_handling must be one of {', '.join(BLOB_HANDLINGS)}, not {self.blob_handling!r}")
        if (self.limit is not None or self.offset) and (self.task_limit is not None or self.counts_rows):
            raise ValueError("limit and offset cannot be combined with task_limit or counts_rows")

    def checked(self, snapshot: Snapshot) -> ScanPlan:
        """This plan, whose columns a user has named. Raises SchemaMismatchError if two names are those of one column."""
        known = self.known(snapshot)
        paths = [tuple(f.name for f in known.resolve(name)) for name in self.columns or ()]
        if len(set(paths)) < len(paths):
            twice = [name for name, path in zip(self.columns or (), paths) if paths.count(path) > 1]
            raise SchemaMismatchError(f"the columns {', '.join(map(repr, twice))} are the same one; name each column once")
        return self

    def known(self, snapshot: Snapshot) -> Schema:
        """All fields that the scan can return: the table's, and those of `row_columns`."""
        return _kept(snapshot, self.blob_handling, lambda: with_row_columns(handled(snapshot.manifest.schema, self.blob_handling)))

    def fields(self, snapshot: Snapshot) -> Schema:
        """The fields that the scan returns, in order."""

        def made() -> Schema:
            known = self.known(snapshot)
            chosen = handled(snapshot.manifest.schema, self.blob_handling) if self.columns is None else known.select(self.columns)
            asked = {ROW_ID: self.with_row_id, ROW_ADDRESS: self.with_row_address}
            return _and(chosen, Schema(tuple(f for f in known.fields if asked.get(f.id))))

        return _kept(snapshot, (*self._fields, "given"), made)

    @property
    def _fields(self) -> tuple[Hashable, ...]:
        """What determines the fields that the scan returns."""
        return self.columns, self.with_row_id, self.with_row_address, self.blob_handling

    def fields_to_read(self, snapshot: Snapshot) -> Schema:
        """The fields that must be read: those that the scan returns, and those that the predicate needs."""
        given, predicate = self.fields(snapshot), self.predicate
        if predicate is None:
            return given

        def made() -> Schema:
            known = self.known(snapshot)
            if self.columns is not None:
                return _and(known.select((*self.columns, *predicate.columns)), given)
            return _and(given, known.select(predicate.columns))

        return _kept(snapshot, (*self._fields, predicate.columns), made)

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """The Arrow schema of every batch that the scan returns."""
        return self.fields(snapshot).to_arrow()


def _kept(snapshot: Snapshot, key: Hashable, make: Callable[[], Schema]) -> Schema:
    """A schema that stays in memory with the version, since a look-up takes less time than making its schemas."""
    return snapshot.locations.kept.get(("schema", key), make, lambda schema: _FIELD_BYTES * (1 + len(schema.fields)))


def _and(schema: Schema, more: Schema) -> Schema:
    """`schema` with the top-level fields of `more` that it lacks."""
    return Schema(fields_with(schema.fields, more.fields), schema.metadata)


def fields_with(fields: tuple[Field, ...], more: Iterable[Field]) -> tuple[Field, ...]:
    """`fields`, and those of `more` that are not among them."""
    there = {f.id for f in fields}
    return (*fields, *(f for f in more if f.id not in there))


def whole_parts(snapshot: Snapshot, chosen: np.ndarray, counts: np.ndarray) -> list[Part]:
    """All rows of fragments: a part for each place in `chosen`. `counts` are the rows of all fragments, from `all_live_rows`.

    Only these fragments are parsed: a table may have a million.
    """
    fragments = snapshot.manifest.lazy_fragments
    rows, firsts = counts[chosen], (np.cumsum(counts) - counts)[chosen]
    return [Part(fragments[i], 0, n, first_row=first) for i, n, first in zip(chosen.tolist(), rows.tolist(), firsts.tolist())]


def plan_tasks(snapshot: Snapshot, plan: ScanPlan, cores: int = 1, max_bytes: int = MAX_TASK_BYTES) -> list[ScanTask]:
    """Split a scan into one or more tasks; their rows in the order of the tasks are the scan's rows.

    `pack` decides the number of tasks. Without a predicate, `limit` and `offset` are applied here; with one there is a single task,
    because only reading shows which rows count.
    """
    plan = replace(plan, predicate=with_tests(snapshot, plan.predicate))
    counts = all_live_rows(snapshot)
    chosen = _fragments_of(snapshot, plan, counts)
    plan, parts, indexes = _left(snapshot, plan, chosen, counts)
    fields = plan.fields_to_read(snapshot)
    offset, limit = plan.offset, plan.limit
    if plan.predicate is None:
        window, offset, limit = _window(plan), 0, None
        parts = parts if window == (0, None) else cut(parts, *window)
    parts = [part for part in parts if part.num_rows]
    first = None if plan.predicate is None else fields.select(plan.predicate.columns)
    counting = plan.counts_rows and not fields.fields
    one, whole = offset or limit is not None or counting, plan.fragments is not None
    groups = [parts] if one else pack(parts, fields, cores, max_bytes, first, whole)
    task = _task(snapshot, plan, fields, indexes=indexes, offset=offset, limit=_least(limit, plan.task_limit))
    return [_with_parts(task, group, plan, snapshot) for group in groups or [[]]]


def _fragments_of(snapshot: Snapshot, plan: ScanPlan, counts: np.ndarray) -> np.ndarray:
    """The places in the manifest of the fragments of a plan that have rows, in the order in which they are read."""
    chosen = np.flatnonzero(counts if plan.predicate is None else (counts > 0) & may_have(snapshot, plan.predicate))
    if plan.fragments is None:
        return chosen
    ids = snapshot.manifest.lazy_fragments.ids[chosen]
    asked = np.isin(ids, list(plan.fragments))
    return chosen[asked][np.argsort(ids[asked], kind="stable")]


def _window(plan: ScanPlan) -> tuple[int, int | None]:
    """The number of the first row that a plan without a predicate needs, and how many; None for all.

    Any rows satisfy a task limit, so all tasks together need no more rows than that.
    """
    return plan.offset, plan.limit if plan.order else _least(plan.limit, plan.task_limit)


def _left(snapshot: Snapshot, plan: ScanPlan, chosen: np.ndarray, counts: np.ndarray) -> tuple[ScanPlan, list[Part], str]:
    """The parts of the chosen fragments, without those that the window or scalar indexes leave out, and what explain says of the indexes.

    Parts at the ends of the window are whole. The plan has no predicate any more if the indexes decide it for all parts.
    """
    if plan.predicate is None:
        offset, rows = _window(plan)
        ends = np.cumsum(counts[chosen])
        last = len(ends) if rows is None else int(np.searchsorted(ends, offset + rows)) + 1
        first = int(np.searchsorted(ends, offset, "right"))
        before = int(ends[first - 1]) if first else 0
        moved = replace(plan, offset=plan.offset - before) if before else plan
        return moved, whole_parts(snapshot, chosen[first:last], counts), ""
    answer = look_up(snapshot, plan.predicate) if plan.use_scalar_index and snapshot.manifest.indexes else None
    if answer is None:
        parts, skipped = left_by_bounds(snapshot, plan, whole_parts(snapshot, chosen, counts))
        return plan, parts, skipped
    ids = snapshot.manifest.lazy_fragments.ids[chosen]
    covered = np.isin(ids, offsets_of(answer.covered)) if len(answer.covered) < len(ids) else np.ones(len(ids), np.bool_)
    used = f"{', '.join(answer.names)}: {answer.count} of {counts[chosen][covered].sum()} rows"
    left = left_by(answer, whole_parts(snapshot, chosen[~covered | np.isin(ids, list(answer.rows))], counts))
    if not covered.all():
        scanned, skipped = left_by_bounds(snapshot, plan, [part for part in left if part.found is None])
        kept = {part.fragment.id for part in scanned}
        left = [part for part in left if part.found is not None or part.fragment.id in kept]
        used = f"{used}, {skipped}" if skipped else used
    if not all(part.exact for part in left):
        return plan, left, used
    plan = replace(plan, predicate=None)
    exact = plan.limit is not None or plan.offset or plan.task_limit is not None or not plan.fields_to_read(snapshot).fields
    return plan, [without_deleted(part, snapshot.locations) for part in left] if exact else left, used


def left_by_bounds(snapshot: Snapshot, plan: ScanPlan, parts: list[Part]) -> tuple[list[Part], str]:
    """The parts, whole fragments, that the bounds of pages leave for the predicate of the plan, and what explain says of it.

    With a limit, tasks look at the bounds: the first fragments may be enough.
    """
    if plan.predicate is None or plan.limit is not None or plan.task_limit is not None:
        return parts, ""
    fields = plan.fields_to_read(snapshot)
    size = sum(part.num_rows * width for part, width in zip(parts, row_bytes(parts, fields)))
    left = list(with_matching_pages(snapshot, plan.predicate, fields, parts, size))
    return left, f"bounds of pages: {len(left)} of {len(parts)} fragments" if len(left) < len(parts) else ""


def plan_fragments(snapshot: Snapshot, plan: ScanPlan, fragments: Collection[int]) -> list[ScanTask]:
    """Scan the fragments with these ids, without limits: one task for each fragment that has rows."""
    task = _task(snapshot, plan, plan.fields_to_read(snapshot))
    counts = all_live_rows(snapshot)
    chosen = np.flatnonzero((counts > 0) & np.isin(snapshot.manifest.lazy_fragments.ids, list(fragments)))
    return [_with_parts(task, [part], plan, snapshot) for part in whole_parts(snapshot, chosen, counts)]


def plan_group(snapshot: Snapshot, plan: ScanPlan, fragments: Sequence[Fragment]) -> ScanTask:
    """A single task for all rows of these fragments, in this order."""
    parts = [Part(fragment, 0, live_rows(fragment, snapshot.locations)) for fragment in fragments]
    return plan_parts(snapshot, plan, [p for p in parts if p.num_rows])


def plan_parts(snapshot: Snapshot, plan: ScanPlan, parts: Sequence[Part]) -> ScanTask:
    """A single task for these parts, with no limit but that of a task."""
    task = _task(snapshot, plan, plan.fields_to_read(snapshot), limit=plan.task_limit)
    return _with_parts(task, parts, plan, snapshot)


def _task(snapshot: Snapshot, plan: ScanPlan, fields: Schema, offset: int = 0, limit: int | None = None, indexes: str = "") -> ScanTask:
    """A task of the plan without rows."""
    return ScanTask(
        table=str(snapshot),
        pin=snapshot.pin,
        locations=snapshot.locations,
        parts=(),
        fields=fields,
        given=fields if plan.counts_rows else plan.fields(snapshot),
        predicate=with_tests(snapshot, plan.predicate),
        offset=offset,
        limit=limit,
        batch_rows=plan.batch_size or BATCH_ROWS,
        stable_row_ids=snapshot.manifest.has_stable_row_ids,
        counts_rows=plan.counts_rows,
        indexes=indexes,
    )


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _with_parts(task: ScanTask, parts: Sequence[Part], plan: ScanPlan, snapshot: Snapshot) -> ScanTask:
    """The task for these parts."""
    parts = [with_own_rows(part) for part in parts]
    rows = sum(part.num_rows for part in parts)
    size = int(sum(part.num_rows * width for part, width in zip(parts, row_bytes(parts, task.fields))))
    if plan.order and task.limit is not None and task.limit < rows:
        known = plan.known(snapshot)
        keys = [key.column.quoted for key in plan.order]
        first = known.select([*keys, *(() if plan.predicate is None else plan.predicate.columns)])
        task = replace(task, order=plan.order, first=first, fields=task.given)
    kept = tuple(parts) if task.fields.fields else ()
    return replace(task, parts=kept, num_rows=rows if task.limit is None else min(rows, task.limit), num_bytes=size)


def cut(parts: Sequence[Part], offset: int, limit: int | None) -> list[Part]:
    """The rows `offset` to `offset + limit` of `parts`."""
    kept, before = [], 0
    stop = None if limit is None else offset + limit
    for part in parts:
        first = max(offset - before, 0)
        last = part.num_rows if stop is None else min(part.num_rows, stop - before)
        if first < last:
            kept.append(replace(part, start=part.start + first, stop=part.start + last))
        before += part.num_rows
    return kept


def pack(
    parts: Sequence[Part], fields: Schema, cores: int, max_bytes: int, first: Schema | None = None, whole: bool = False
) -> list[list[Part]]:
    """`grouped` for parts of one table. The fields `first` (None: all) are read for every row."""
    return grouped(parts, row_bytes(parts, fields), cores, max_bytes, None if first is None else row_bytes(parts, first), whole)


def grouped(
    parts: Sequence[Part], widths: Sequence[float], cores: int, max_bytes: int, first: Sequence[float] | None = None, whole: bool = False
) -> list[list[Part]]:
    """The rows of `parts` in groups of about equal work, in order: small parts are joined, large ones are split.

    Normally there are `cores` times 1 to `TASKS_PER_CORE` groups, so that all cores finish at about the same time;
    fewer if starting a task would cost more than reading it, and more if one would read more than about `max_bytes`. `widths` are the
    bytes of a row of each part (see `row_bytes`); `first` (None: all) are those that are read of every row, while the others are
    read of rows that satisfy the predicate, which are assumed to be few. With
    `whole`, no part is split.
    """
    sizes = [_work(part, width) for part, width in zip(parts, widths)]
    work = sum(sizes) + _OPEN_BYTES * len(sizes)
    always = work if first is None else sum(int(p.num_rows * w) for p, w in zip(parts, first))
    rounds = min(max((always + (work - always) // _RARELY_READ) // (cores * MIN_TASK_BYTES), 1), TASKS_PER_CORE)
    target = min(max(-(-work // (cores * rounds)), MIN_TASK_BYTES), max_bytes)
    # Sizes in a manifest are untrusted: they must not make the number of tasks of a part unbounded.
    target = max(target, max(sizes, default=0) // _MAX_PIECES)
    slack = target // 16  # a task may be about 6% longer, which costs less than another task
    groups: list[list[Part]] = []
    room = 0
    for part, size in zip(parts, sizes):
        start = part.start
        while start < part.stop:
            rest = size * (part.stop - start) // part.num_rows + _OPEN_BYTES
            # Do not split off less than `slack`, neither from a group nor from a part.
            if room <= 0 or (room <= slack and rest > room + slack):
                groups.append([])
                room = target
            stop = part.stop if whole or rest <= room + slack else min(start + max(part.num_rows * room // size, 1), part.stop)
            groups[-1].append(part if (start, stop) == (part.start, part.stop) else replace(part, start=start, stop=stop))
            room -= size * (stop - start) // part.num_rows + _OPEN_BYTES
            start = stop
    return groups


def _work(part: Part, width: float) -> int:
    """The bytes that are read of a part; for rows that an index found, the chunks that they are in."""
    if part.found is None:
        return int(part.num_rows * max(width, 1))  # a row costs its reader at least a byte, even if no column is read
    return int(max(min(part.num_rows * _CHUNK_BYTES, part.fragment.physical_rows * width), part.num_rows))


def row_bytes(parts: Sequence[Part], fields: Schema) -> list[float]:
    """The estimated file bytes per row of these fields in each part; columns of a file are assumed to be of equal size."""
    ids = {f.id for f in fields.walk()}
    wanted: dict[tuple[int, ...], int] = {}  # most files have the same fields
    sizes = []
    for part in parts:
        size = 0.0
        rows = part.fragment.physical_rows
        for file in part.fragment.files:
            if file.fields not in wanted:
                wanted[file.fields] = sum(1 for f in file.fields if f in ids)
            if wanted[file.fields] and (file.size is None or not rows):
                size = _UNKNOWN_ROW_BYTES
                break
            size += (file.size or 0) * wanted[file.fields] / max(len(file.fields), 1) / max(rows, 1)
        sizes.append(size)
    return sizes
