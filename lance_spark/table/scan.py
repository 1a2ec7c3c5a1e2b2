"""Scanning a version: the plan of what to read, the tasks that it is cut into on the driver, and reading one task anywhere else.

A task knows everything that it needs, so that it can be pickled and read by a process that has seen nothing of the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.predicate import Predicate, evaluate
from lance_spark.schema import Schema
from lance_spark.table.locations import Locations
from lance_spark.table.metadata import Fragment
from lance_spark.table.row_columns import ROW_ADDRESS, ROW_ID, with_row_columns
from lance_spark.table.snapshot import Snapshot

BATCH_ROWS = 32 << 10
MIN_TASK_BYTES = 8 << 20
MAX_TASK_BYTES = 256 << 20
_UNKNOWN_ROW_BYTES = 64


@dataclass(frozen=True)
class ScanPlan:
    """What a scan gives.

    `columns` are names (None: all), nested ones as `Schema.select` takes them; the columns of `row_columns` can be among them, and the row
    id and address follow at the end when they are asked for by flag. `limit` and `offset` count rows of the result, exactly.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    offset: int = 0
    with_row_id: bool = False
    with_row_address: bool = False
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("limit", 0), ("offset", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, it is {value}")

    def fields(self, snapshot: Snapshot) -> Schema:
        """The fields that the scan gives, in order."""
        own = snapshot.manifest.schema
        known = with_row_columns(own)
        chosen = own if self.columns is None else known.select(self.columns)
        asked = {ROW_ID: self.with_row_id, ROW_ADDRESS: self.with_row_address}
        return _and(chosen, Schema(tuple(f for f in known.fields if asked.get(f.id))))

    def fields_to_read(self, snapshot: Snapshot) -> Schema:
        """The fields that have to be read: those that the scan gives, and whatever else the predicate needs."""
        given = self.fields(snapshot)
        if self.predicate is None:
            return given
        known = with_row_columns(snapshot.manifest.schema)
        if self.columns is not None:
            return _and(known.select((*self.columns, *self.predicate.columns)), given)
        return _and(given, known.select(self.predicate.columns))

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """The Arrow schema of every batch that the scan gives."""
        return self.fields(snapshot).to_arrow()


def _and(schema: Schema, more: Schema) -> Schema:
    """`schema` with the top-level fields of `more` that it does not have."""
    there = {f.id for f in schema.fields}
    return Schema((*schema.fields, *(f for f in more.fields if f.id not in there)), schema.metadata)


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a fragment: positions `start` to `stop` (exclusive) among the rows that are not deleted."""

    fragment: Fragment
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        """How many rows that is."""
        return self.stop - self.start


@dataclass(frozen=True)
class ScanTask:
    """A piece of a scan: the rows of `parts` that fulfil the predicate, in order, without the first `offset` and at most `limit` of them.

    `table` names table and version for error messages; `fields` are what is read and `given` what comes out of it.
    """

    table: str
    locations: Locations
    parts: tuple[Part, ...]
    fields: Schema
    given: Schema
    predicate: Predicate | None
    offset: int
    limit: int | None
    batch_rows: int
    stable_row_ids: bool
    dictionaries: bytes


def live_rows(fragment: Fragment, locations: Locations) -> int:
    """The rows of the fragment that are not deleted, from the manifest alone unless an old writer left something out."""
    deleted = 0 if fragment.deletion is None else fragment.deletion.num_deleted
    if not fragment.physical_rows or deleted is None:
        from lance_spark.table.fragment import count_rows  # opens files, and so loads the decoders

        return count_rows(fragment, locations)
    if deleted > fragment.physical_rows:
        raise CorruptFileError(f"fragment {fragment.id} has {fragment.physical_rows} rows, and {deleted} of them deleted")
    return fragment.physical_rows - deleted


def plan_tasks(snapshot: Snapshot, plan: ScanPlan, parallelism: int = 1) -> list[ScanTask]:
    """Cut a scan into tasks; their rows one task after the other are the scan's.

    There are at least `parallelism` tasks if the table is large enough for it. Without a predicate, `limit` and `offset` are settled
    here; with one there is a single task, because nobody knows before which rows count.
    """
    given, fields = plan.fields(snapshot), plan.fields_to_read(snapshot)
    manifest, locations = snapshot.manifest, snapshot.locations
    parts = [Part(f, 0, live_rows(f, locations)) for f in manifest.fragments]
    offset, limit = plan.offset, plan.limit
    if plan.predicate is None:
        parts, offset, limit = cut(parts, offset, limit), 0, None
    parts = [part for part in parts if part.num_rows]
    groups = pack(parts, parallelism, fields) if not offset and limit is None else [parts]
    task = ScanTask(
        table=str(snapshot),
        locations=locations,
        parts=(),
        fields=fields,
        given=given,
        predicate=plan.predicate,
        offset=offset,
        limit=limit,
        batch_rows=plan.batch_size or BATCH_ROWS,
        stable_row_ids=manifest.has_stable_row_ids,
        dictionaries=manifest.dictionaries if any(f.dictionary for f in fields.walk()) else b"",
    )
    return [replace(task, parts=tuple(group)) for group in groups if group]


def cut(parts: Sequence[Part], offset: int, limit: int | None) -> list[Part]:
    """The rows `offset` to `offset + limit` of `parts`."""
    kept, before = [], 0
    stop = None if limit is None else offset + limit
    for part in parts:
        first = max(offset - before, 0)
        last = part.num_rows if stop is None else min(part.num_rows, stop - before)
        if first < last:
            kept.append(Part(part.fragment, part.start + first, part.start + last))
        before += part.num_rows
    return kept


def pack(parts: Sequence[Part], parallelism: int, fields: Schema) -> list[list[Part]]:
    """Consecutive parts put together, and large ones divided, so that each group is about the same work: at least `parallelism` groups,
    but none so small that starting a task for it costs more than reading it.
    """
    ids = {f.id for f in fields.walk()}
    sizes = [max(int(part.num_rows * _row_bytes(part.fragment, ids)), 1) for part in parts]
    target = min(max(sum(sizes) // max(parallelism, 1), MIN_TASK_BYTES), MAX_TASK_BYTES)
    groups: list[list[Part]] = []
    room = 0
    for part, size in zip(parts, sizes):
        pieces = max(round(size / target), 1)
        bounds = [part.start + part.num_rows * i // pieces for i in range(pieces + 1)]
        for start, stop in itertools.pairwise(bounds):
            if start == stop:
                continue
            if size // pieces > room:
                groups.append([])
                room = target
            groups[-1].append(Part(part.fragment, start, stop))
            room -= size // pieces
    return groups


def _row_bytes(fragment: Fragment, ids: set[int]) -> float:
    """About how many bytes of files a row of these fields takes; columns of a file are taken to be of equal size."""
    size = 0.0
    for file in fragment.files:
        wanted = sum(1 for f in file.fields if f in ids)
        if wanted and (file.size is None or not fragment.physical_rows):
            return _UNKNOWN_ROW_BYTES
        size += (file.size or 0) * wanted / max(len(file.fields), 1)
    return size / max(fragment.physical_rows, 1)


def read_task(task: ScanTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task in batches, all with the schema of the plan. Errors name the table, its version and the file."""
    skip, left = task.offset, task.limit
    try:
        for batch in _batches(task):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            batch = batch.slice(skip, left)
            skip = 0
            if left is not None:
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return
    except (CorruptFileError, UnsupportedFeatureError) as e:
        raise type(e)(f"{task.table}: {e}") from e


def _batches(task: ScanTask) -> Iterator[pa.RecordBatch]:
    """The batches of a task after its predicate, before offset and limit."""
    from lance_spark.table.fragment import FragmentScan, read_fragment  # loads the decoders, which planning does without
    from lance_spark.table.shape import project

    given = task.given.to_arrow()
    for part in task.parts:
        scan = FragmentScan(part.fragment, range(part.start, part.stop), task.fields, task.batch_rows, task.stable_row_ids)
        for batch in read_fragment(scan, task.locations, task.dictionaries):
            if task.predicate is not None:
                batch = batch.filter(evaluate(task.predicate, batch))
            yield project(batch, task.given, given)
