"""Scanning a version: the plan of what to read, and how the driver splits it into tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, check_at_least, check_type
from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_ID, ROW_OFFSET, with_row_columns
from lance_spark.predicate import Filter, Predicate, evaluate, parse_filter
from lance_spark.schema.blobs import BLOB_HANDLINGS, BlobHandling, handled
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.scan.filter_log import note
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import (
    NO_PARTS,
    Part,
    Parts,
    all_live_rows,
    are_among,
    left_by,
    live_rows,
    may_have,
    with_own_rows,
    without_deleted,
)
from lance_spark.table.scan.selection import with_matching_pages
from lance_spark.table.scan.task import OPEN_BYTES, Common, ScanTask
from lance_spark.table.scan.top_n import SortKey
from lance_spark.table.versions.snapshot import Snapshot

BATCH_ROWS = 32 << 10
TASKS_PER_CORE = 3
MIN_TASK_BYTES = 12 << 20
MAX_TASK_BYTES = 128 << 20
"""The same limit as in Spark's own sources (`spark.sql.files.maxPartitionBytes`)."""
_RARELY_READ = 8
"""Columns that are read of matching rows only count as this fraction, since a condition usually leaves few rows."""

_CHUNK_BYTES = 4 << 10
"""What is read for a single row that an index found."""

_FIELD_BYTES = 2 << 10
"""About the memory of a field of a schema that stays in memory, with its Arrow field and where files have it."""

_CHARACTER_BYTES = 64
"""About the memory of a condition for each character of its text."""

_OF_TIME = re.compile("now|curdate|current_", re.IGNORECASE)
"""What the text of a condition has that depends on the time: now(), current_timestamp, current_date, curdate()."""

_ALL_ROWS = 1 << 61
"""No table has so many rows. Larger limits and offsets mean the same, but their sum is no number of 64 bits."""

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
    `with_dictionaries`: a column of a batch may have a dictionary of its values, if the file has.
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
    with_dictionaries: bool = False

    def __post_init__(self) -> None:
        check_at_least("offset", self.offset, 0)
        if self.limit is not None:
            check_at_least("limit", self.limit, 0)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        if self.task_limit is not None:
            check_at_least("task_limit", self.task_limit, 0)
        if self.blob_handling not in BLOB_HANDLINGS:
            raise ValueError(f"blob_handling must be one of {', '.join(BLOB_HANDLINGS)}, not {self.blob_handling!r}")
        if (self.limit is not None or self.offset) and (self.task_limit is not None or self.counts_rows):
            raise ValueError("limit and offset cannot be combined with task_limit or counts_rows")

    def checked(self, snapshot: Snapshot) -> ScanPlan:
        """This plan, whose columns and limits a user has given. Raises SchemaMismatchError if two names are those of one column."""
        known = self.known(snapshot)
        paths = [tuple(f.name for f in known.resolve(name)) for name in self.columns or ()]
        if len(set(paths)) < len(paths):
            twice = [name for name, path in zip(self.columns or (), paths) if paths.count(path) > 1]
            raise SchemaMismatchError(f"the columns {', '.join(map(repr, twice))} are the same one; name each column once")
        return replace(self, offset=min(self.offset, _ALL_ROWS), limit=_least(self.limit, None if self.limit is None else _ALL_ROWS))

    def known(self, snapshot: Snapshot) -> Schema:
        """All fields that the scan can return: the table's, and those of `row_columns`."""
        return _kept(snapshot, self.blob_handling, lambda: with_row_columns(handled(snapshot.manifest.schema, self.blob_handling)))

    def condition(self, snapshot: Snapshot, text: Filter) -> Predicate:
        """The condition `text` on the fields that the scan can return; see `predicate.parse_filter`.

        It stays in memory with the version, unless it depends on the time.
        """
        if not isinstance(text, str) or _OF_TIME.search(text):
            return parse_filter(text, self.known(snapshot))
        key = "condition", self.blob_handling, text
        return snapshot.locations.kept.get(key, lambda: parse_filter(text, self.known(snapshot)), lambda _: _CHARACTER_BYTES * len(text))

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


def parts_at(snapshot: Snapshot, chosen: np.ndarray, counts: np.ndarray) -> Parts:
    """All rows of fragments: a part for each place in `chosen`. `counts` are the rows of all fragments, from `all_live_rows`."""
    return Parts.whole(snapshot.manifest.lazy_fragments.chosen(chosen), counts[chosen], (np.cumsum(counts) - counts)[chosen])


def plan_tasks(
    snapshot: Snapshot, plan: ScanPlan, cores: int = 1, max_bytes: int = MAX_TASK_BYTES, known: Answer | None = None
) -> list[ScanTask]:
    """Split a scan into one or more tasks; their rows in the order of the tasks are the scan's rows.

    `pack` decides the number of tasks. Without a predicate, `limit` and `offset` are applied here; with one there is a single task,
    because only reading shows which rows count. `known` may be the answer to the predicate, for which nothing is searched then.
    """
    if (predicate := with_tests(snapshot, plan.predicate)) is not plan.predicate:
        plan = replace(plan, predicate=predicate)
    plan = decided(plan)
    counts = all_live_rows(snapshot)
    chosen = _fragments_of(snapshot, plan, counts)
    plan, parts, indexes = _left(snapshot, plan, chosen, counts, known)
    fields = plan.fields_to_read(snapshot)
    offset, limit = plan.offset, plan.limit
    if plan.predicate is None:
        window, offset, limit = _window(plan), 0, None
        parts = parts if window == (0, None) else cut(parts, *window)
    if not parts.rows.all():
        parts = parts.chosen(np.flatnonzero(parts.rows))
    first = None if plan.predicate is None else fields.select(plan.predicate.columns)
    counting = plan.counts_rows and not fields.fields
    widths = row_bytes(parts, fields)
    if offset or limit is not None or counting or not len(parts):
        pieces = whole_pieces(parts.starts, parts.stops)
    else:
        always = None if first is None else float((parts.rows * row_bytes(parts, first)).sum())
        sizes, whole = work_of(parts, widths), plan.fragments is not None
        pieces = grouped(parts.starts, parts.stops, sizes, cores, max_bytes, always, whole)
    note(snapshot, predicate, counts, parts.rows)
    common = _common(snapshot, plan, fields, indexes=indexes, offset=offset, limit=_least(limit, plan.task_limit))
    return _tasks(common, pieces.of(parts), pieces.bounds, widths[pieces.places], plan, snapshot)


def decided(plan: ScanPlan) -> ScanPlan:
    """The plan without a predicate that has no columns: it is true in all rows, or in none, so that no fragment is read."""
    if plan.predicate is None or plan.predicate.columns:
        return plan
    (value,) = evaluate(plan.predicate, pa.record_batch({"row": [0]})).to_pylist()
    return replace(plan, predicate=None, fragments=plan.fragments if value else frozenset())


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


def _left(snapshot: Snapshot, plan: ScanPlan, chosen: np.ndarray, counts: np.ndarray, answer: Answer | None) -> tuple[ScanPlan, Parts, str]:
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
        return moved, parts_at(snapshot, chosen[first:last], counts), ""
    if answer is None and plan.use_scalar_index and snapshot.manifest.indexes:
        answer = look_up(snapshot, plan.predicate)
    if answer is None:
        parts, skipped = left_by_bounds(snapshot, plan, parts_at(snapshot, chosen, counts))
        return plan, parts, skipped
    fragments = snapshot.manifest.lazy_fragments
    ids = fragments.ids[chosen]
    is_whole = len(answer.covered) >= len(fragments)
    covered = np.ones(len(ids), np.bool_) if is_whole else np.isin(ids, offsets_of(answer.covered))
    used = f"{', '.join(answer.names)}: {answer.count} of {counts[chosen][covered].sum()} rows"
    left = left_by(answer, parts_at(snapshot, chosen[~covered | are_among(ids, answer.rows)], counts))
    if not covered.all():
        is_found = np.isin(np.arange(len(left)), list(left.found))
        scanned, skipped = left_by_bounds(snapshot, plan, left.chosen(np.flatnonzero(~is_found)))
        left = left.chosen(np.flatnonzero(is_found | np.isin(left.fragments.ids, scanned.fragments.ids)))
        used = f"{used}, {skipped}" if skipped else used
    if not left.exact.all():
        return plan, left, used
    plan = replace(plan, predicate=None)
    exact = plan.limit is not None or plan.offset or plan.task_limit is not None or not plan.fields_to_read(snapshot).fields
    return plan, without_deleted(left, snapshot.locations) if exact else left, used


def left_by_bounds(snapshot: Snapshot, plan: ScanPlan, parts: Parts) -> tuple[Parts, str]:
    """The parts, whole fragments, that the bounds of pages leave for the predicate of the plan, and what explain says of it.

    With a limit, tasks look at the bounds: the first fragments may be enough.
    """
    if plan.predicate is None or plan.limit is not None or plan.task_limit is not None:
        return parts, ""
    fields = plan.fields_to_read(snapshot)
    size = float((parts.rows * row_bytes(parts, fields)).sum())
    left = with_matching_pages(snapshot, plan.predicate, fields, parts, size)
    return left, f"bounds of pages: {len(left)} of {len(parts)} fragments" if len(left) < len(parts) else ""


def plan_fragments(snapshot: Snapshot, plan: ScanPlan, fragments: Collection[int]) -> list[ScanTask]:
    """Scan the fragments with these ids, without limits: one task for each fragment that has rows."""
    common = _common(snapshot, plan, plan.fields_to_read(snapshot))
    counts = all_live_rows(snapshot)
    chosen = np.flatnonzero((counts > 0) & np.isin(snapshot.manifest.lazy_fragments.ids, list(fragments)))
    parts = parts_at(snapshot, chosen, counts)
    return _tasks(common, parts, np.arange(len(parts) + 1), row_bytes(parts, common.fields), plan, snapshot)


def plan_group(snapshot: Snapshot, plan: ScanPlan, fragments: Sequence[Fragment]) -> ScanTask:
    """A single task for all rows of these fragments, in this order."""
    parts = [Part(fragment, 0, live_rows(fragment, snapshot.locations)) for fragment in fragments]
    return plan_parts(snapshot, plan, [p for p in parts if p.num_rows])


def plan_parts(snapshot: Snapshot, plan: ScanPlan, parts: Sequence[Part], indexes: str = "") -> ScanTask:
    """A single task for these parts, with no limit but that of a task. `indexes` say which ones have left them."""
    fields = plan.fields_to_read(snapshot)
    common, parts = _common(snapshot, plan, fields, limit=plan.task_limit, indexes=indexes), Parts.of(parts)
    return _tasks(common, parts, np.array([0, len(parts)]), row_bytes(parts, common.fields), plan, snapshot)[0]


def _common(snapshot: Snapshot, plan: ScanPlan, fields: Schema, offset: int = 0, limit: int | None = None, indexes: str = "") -> Common:
    """What the tasks of the plan have in common."""
    return Common(
        table=str(snapshot),
        pin=snapshot.pin,
        locations=snapshot.locations,
        fields=fields,
        given=fields if plan.counts_rows else plan.fields(snapshot),
        predicate=with_tests(snapshot, plan.predicate),
        offset=offset,
        limit=limit,
        batch_rows=plan.batch_size or BATCH_ROWS,
        stable_row_ids=snapshot.manifest.has_stable_row_ids,
        counts_rows=plan.counts_rows,
        indexes=indexes,
        with_dictionaries=plan.with_dictionaries,
    )


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _tasks(common: Common, parts: Parts, bounds: np.ndarray, widths: np.ndarray, plan: ScanPlan, snapshot: Snapshot) -> list[ScanTask]:
    """A task for the parts between each two of `bounds`; `widths` are the bytes to be read of a row of each part."""
    rows, sizes = _sums(parts.rows, bounds), _sums(parts.rows * widths, bounds)
    ordered, most = common, common.limit
    if plan.order and most is not None and (rows > most).any():
        known = plan.known(snapshot)
        keys = [key.column.quoted for key in plan.order]
        first = known.select([*keys, *(() if plan.predicate is None else plan.predicate.columns)])
        ordered = replace(common, order=plan.order, first=first, fields=common.given)
    numbers = any(f.id == ROW_OFFSET for f in common.fields.fields)
    if common.fields.fields:
        parts = with_own_rows(parts if numbers else parts.without_firsts())
    else:
        parts, bounds = NO_PARTS, np.zeros_like(bounds)
    commons = repeat(common) if ordered is common else [common if count <= most else ordered for count in rows.tolist()]
    rows = rows if most is None else np.minimum(rows, most)
    starts, stops = bounds[:-1].tolist(), bounds[1:].tolist()
    return list(map(ScanTask, commons, repeat(parts), starts, stops, rows.tolist(), sizes.astype(np.int64).tolist()))


def cut(parts: Parts, offset: int, limit: int | None) -> Parts:
    """The rows `offset` to `offset + limit` of `parts`."""
    before = np.cumsum(parts.rows) - parts.rows
    firsts = np.maximum(offset - before, 0)
    lasts = parts.rows if limit is None else np.minimum(parts.rows, offset + limit - before)
    kept = np.flatnonzero(firsts < lasts)
    return parts.chosen(kept, parts.starts[kept] + firsts[kept], parts.starts[kept] + lasts[kept])


def pack(parts: Sequence[Part], fields: Schema, cores: int, max_bytes: int, first: Schema | None = None) -> list[Parts]:
    """`grouped` for parts of one table. The fields `first` (None: all) are read for every row."""
    parts = Parts.of(parts)
    always = None if first is None else float((parts.rows * row_bytes(parts, first)).sum())
    pieces = grouped(parts.starts, parts.stops, work_of(parts, row_bytes(parts, fields)), cores, max_bytes, always)
    whole = pieces.of(parts)
    return [whole[start:stop] for start, stop in pairwise(pieces.bounds.tolist())]


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The sum of the values between each two of `bounds`."""
    before = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=before[1:])
    at = before[bounds]
    sums: np.ndarray = at[1:] - at[:-1]
    return sums


@dataclass(frozen=True)
class Pieces:
    """Groups of parts: each piece is the rows from `starts` to `stops` of the part at a place, `bounds` are those of the groups."""

    places: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    bounds: np.ndarray

    def of(self, parts: Parts) -> Parts:
        """The pieces of these parts."""
        return parts if len(self.places) == len(parts) else parts.chosen(self.places, self.starts, self.stops)


def whole_pieces(starts: np.ndarray, stops: np.ndarray) -> Pieces:
    """All parts in one group."""
    return Pieces(np.arange(len(starts)), starts, stops, np.array([0, len(starts)]))


def grouped(
    starts: np.ndarray,
    stops: np.ndarray,
    sizes: np.ndarray,
    cores: int,
    max_bytes: int,
    always: float | None = None,
    whole: bool = False,
) -> Pieces:
    """The rows of parts in groups of about equal work, in order: small parts are joined, large ones are split.

    Normally there are `cores` times 1 to `TASKS_PER_CORE` groups, so that all cores finish at about the same time;
    fewer if starting a task would cost more than reading it, and more if one would read more than about `max_bytes`. `sizes` are the
    bytes that are read of each part, see `work_of`. Of these, `always` (None: all) are read of every row, while the others are
    read of rows that satisfy the predicate, which are assumed to be few. With `whole`, no part is split.
    """
    ends = np.cumsum(sizes + OPEN_BYTES)
    work = float(ends[-1]) if len(ends) else 0.0
    if 0 < work <= min(MIN_TASK_BYTES, max_bytes):
        return whole_pieces(starts, stops)
    always = work if always is None else always
    rounds = min(max((always + (work - always) // _RARELY_READ) // (cores * MIN_TASK_BYTES), 1), TASKS_PER_CORE)
    target = min(max(work / (cores * rounds), MIN_TASK_BYTES), max_bytes)
    # Sizes in a manifest are untrusted: they must not make the number of tasks of a part unbounded.
    target = max(target, float(sizes.max(initial=0)) // _MAX_PIECES)
    slack = target // 16  # a task may be about 6% longer, which costs less than another task
    # A group ends after some rows of a part, or before its first one. `done` is the work of the groups before.
    places: list[int] = []
    taken: list[int] = []
    place, row, done = 0, 0, 0.0
    while place < len(ends):
        # It takes whole parts while there is room. Do not split off less than `slack`, neither from a group nor from a part.
        closed = int(ends.searchsorted(done + target)) + 1
        full = int(ends.searchsorted(done + target + slack, "right"))
        start, row = row, 0
        if full < min(closed, len(ends)):
            room = target - (ends[full - 1] - done if full > place else 0)
            if room <= slack:
                place = full
            elif whole:
                place = full + 1
            else:
                rows = int(stops[full] - starts[full])
                row = (start if full == place else 0) + max(int(rows * room / sizes[full]), 1)
                place, row = (full, row) if row < rows else (full + 1, 0)
        else:
            place = min(closed, full)
        done = float(ends[place - 1]) if place else 0.0
        if row:
            share_left = 1 - row / (stops[place] - starts[place])
            done = float(ends[place]) - OPEN_BYTES - sizes[place] * share_left
        places.append(place)
        taken.append(row)
    return _pieces(starts, stops, np.array(places, np.int64), np.array(taken, np.int64))


def _pieces(starts: np.ndarray, stops: np.ndarray, places: np.ndarray, taken: np.ndarray) -> Pieces:
    """The pieces of groups that end after `taken` rows of the part at each place; if these are none, before it."""
    split = taken > 0
    at, rows = places[split], taken[split]
    parts = np.sort(np.concatenate([np.arange(len(starts)), at]), kind="stable")
    goes_on = parts[1:] == parts[:-1]
    firsts, lasts = starts[parts], stops[parts]
    firsts[1:][goes_on] += rows
    lasts[:-1][goes_on] = starts[at] + rows
    return Pieces(parts, firsts, lasts, np.concatenate([[0], places + np.cumsum(split)]))


def work_of(parts: Parts, widths: np.ndarray) -> np.ndarray:
    """The bytes that are read of each part; for rows that an index found, the chunks that they are in."""
    work: np.ndarray = parts.rows * np.maximum(widths, 1)  # a row costs its reader at least a byte, even if no column is read
    if parts.found:
        places = np.fromiter(parts.found, np.int64, len(parts.found))
        rows = parts.rows[places]
        most = parts.fragments.counts[places, 1] * widths[places]
        work[places] = np.maximum(np.minimum(rows * float(_CHUNK_BYTES), most), rows)
    return work


def row_bytes(parts: Sequence[Part], fields: Schema) -> np.ndarray:
    """The estimated file bytes per row of these fields in each part; columns of a file are assumed to be of equal size."""
    if not fields.fields:
        return np.zeros(len(parts))
    fragments = Parts.of(parts).fragments
    size, rows = fragments.column_bytes(fields.ids), fragments.counts[:, 1]
    is_unknown = (size < 0) | ((size > 0) & (rows == 0))
    return np.where(is_unknown, _UNKNOWN_ROW_BYTES, np.maximum(size, 0) / np.maximum(rows, 1))
