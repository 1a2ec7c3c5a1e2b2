"""Scans of a version with the rows of its write-ahead log: for each primary key, the newest row of the table and of the log.

Implements "Reading" of the MemTable and WAL specification. A shard of the log has SSTables, which are Lance tables, and entries. A newer
generation replaces the rows of older ones and of the table; entries are newer than all SSTables of their shard. Without a primary key,
all rows are read. Keys are not compared between shards, as in pylance: a key belongs to one shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep_rows, window
from lance_spark.buffers.cache import Cache
from lance_spark.display.words import counted as number_of
from lance_spark.errors import CorruptFileError, InvalidOptionError, MissingFileError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment, LogFragment
from lance_spark.metadata.lazy_fragments import Fragments
from lance_spark.metadata.row_columns import ROW_COLUMN_IDS
from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.tree import TextMatch, walk
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.mem_wal.entries import TOMBSTONE, Entries
from lance_spark.table.mem_wal.keys import TABLE_RANK, ShardKeys, all_keys
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import Parts, left_by, whole_parts
from lance_spark.table.scan.plan import MAX_TASK_BYTES, MIN_TASK_BYTES, ScanPlan, plan_parts, plan_tasks
from lance_spark.table.scan.projection import Projection
from lance_spark.table.scan.task import ScanTask, counted
from lance_spark.table.versions.log_rows import check_no_places
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.write_ahead_log import Shard, has_log, shards_of

_TABLE_BYTES = 16 << 10
"""About the memory of an open SSTable with one fragment."""
_FLAG_BYTES = 256
_UNREAD = Cache(1 << 20)
"""Shards whose entries have rows, as this process has seen."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of the table or of an SSTable, without those that a newer row of their key replaces, and without tombstones.

    `shards` have the keys of newer rows, those above `rank`. `given` are the names of the columns that are returned.
    """

    task: ScanTask
    shards: tuple[ShardKeys, ...]
    rank: int
    given: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        """An estimate of the number of rows, as `ScanTask.num_rows`."""
        return self.task.num_rows

    @property
    def num_bytes(self) -> int:
        """An estimate of the bytes to read."""
        return self.task.num_bytes

    def read(self, cost: Cost) -> Iterator[pa.RecordBatch]:
        """The rows in batches. What the reading costs is added to `cost`."""
        for batch in self.task.read(cost):
            kept = np.ones(batch.num_rows, bool)
            if self.rank > TABLE_RANK and TOMBSTONE in batch.schema.names:
                kept &= ~batch.column(TOMBSTONE).to_numpy(zero_copy_only=False)
            if self.shards:
                kept[all_keys(self.shards).superseded(batch, self.rank)] = False
            number = int(np.count_nonzero(kept))
            cost.rows -= batch.num_rows - number
            cost.log_rows += number if self.rank > TABLE_RANK else 0
            if number:
                yield (batch if kept.all() else keep_rows(batch, pa.array(kept))).select(list(self.given))


@dataclass(frozen=True)
class LoggedRows:
    """The newest rows of the entries of a shard that satisfy the predicate. The columns `missing`, such as row ids, are null."""

    entries: Entries
    predicate: Predicate | None
    given: Schema
    missing: Schema
    num_rows: int = 0
    num_bytes: int = 0

    def read(self, cost: Cost) -> Iterator[pa.RecordBatch]:
        """The rows as one batch. `cost` counts them."""
        rows = self.entries.newest()
        for absent in self.missing.to_arrow():
            rows = rows.append_column(absent, pa.nulls(rows.num_rows, absent.type))
        kept = pc.invert(rows.column(TOMBSTONE))
        if self.predicate is not None:
            kept = pc.and_kleene(kept, evaluate(self.predicate, rows))
        found = keep_rows(rows, kept)
        cost.rows += found.num_rows
        cost.log_rows += found.num_rows
        if found.num_rows:
            yield Projection(self.given).project(found) if self.given.fields else found.select([])


@dataclass(frozen=True)
class MergedTask:
    """Part of a scan: the rows of `pieces`, without the first `offset` and at most `limit` of them, or their number."""

    pieces: tuple[StoredRows | LoggedRows, ...]
    offset: int = 0
    limit: int | None = None
    counts_rows: bool = False

    @property
    def num_rows(self) -> int:
        """An estimate of the number of rows, as `ScanTask.num_rows`."""
        rows = sum(piece.num_rows for piece in self.pieces)
        return rows if self.limit is None else min(rows, self.limit)

    @property
    def num_bytes(self) -> int:
        """An estimate of the bytes to read."""
        return sum(piece.num_bytes for piece in self.pieces)

    @property
    def scans(self) -> tuple[ScanTask, ...]:
        """The tasks of the table and of SSTables."""
        return tuple(piece.task for piece in self.pieces if isinstance(piece, StoredRows))

    @property
    def tables(self) -> tuple[int, int]:
        """As `ScanTask.tables`."""
        return (0, 0)

    @property
    def indexes(self) -> str:
        """As `ScanTask.indexes`."""
        return next((scan.indexes for scan in self.scans if scan.indexes), "")

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """As `ScanTask.read`."""
        batches = self._batches(Cost() if cost is None else cost)
        if self.counts_rows:
            yield counted(sum(batch.num_rows for batch in batches))
            return
        yield from window(batches, self.offset, self.limit)

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """As `ScanTask.row_counts`."""
        yield from (batch.num_rows for batch in window(self._batches(cost), self.offset, self.limit))

    def _batches(self, cost: Cost) -> Iterator[pa.RecordBatch]:
        for piece in self.pieces:
            yield from piece.read(cost)


def plan_merged(log: Log, plan: ScanPlan, cores: int = 1, max_bytes: int = MAX_TASK_BYTES) -> list[MergedTask]:
    """Split a scan of a version and its log into tasks, as `plan_tasks`.

    Raises UnsupportedFeatureError for what rows of the log do not have, such as row ids.
    """
    snapshot = log.snapshot
    _check(snapshot, plan)
    reads = _Reads(log, plan)
    base = [reads.of_table(task) for task in plan_tasks(snapshot, reads.inner, cores, max_bytes)]
    one = plan.limit is not None or plan.offset
    limit = plan.limit if plan.order or plan.task_limit is None else plan.task_limit
    groups: list[list[StoredRows | LoggedRows]] = [[piece] for piece in base]
    room = 0
    for shard in log.shards:
        pieces = reads.of_shard(shard)
        if room <= 0:
            groups.append([])
            room = MIN_TASK_BYTES
        groups[-1] += pieces
        room -= sum(piece.num_bytes for piece in pieces)
    if one:
        groups = [[piece for group in groups for piece in group]]
    return [MergedTask(tuple(group), plan.offset, limit, plan.counts_rows) for group in groups]


def indexes_of_sstables(tasks: Sequence[MergedTask]) -> list[str]:
    """What explain says of the indexes of SSTables that leave rows to these tasks."""
    stored = [piece for task in tasks for piece in task.pieces if isinstance(piece, StoredRows)]
    return [piece.task.indexes for piece in stored if piece.rank > TABLE_RANK and piece.task.indexes]


def _check(snapshot: Snapshot, plan: ScanPlan) -> None:
    check_no_places(snapshot, plan.fields_to_read(snapshot))
    if plan.fragments is not None:
        raise InvalidOptionError(f"{snapshot}: its write-ahead log has rows of no fragment; to read single fragments, set mem_wal=base")


@dataclass(frozen=True)
class LogTable:
    """An SSTable as a table with the columns of the table that the log belongs to: fields have equal ids in both."""

    snapshot: Snapshot
    parts: Parts
    has_tombstones: bool


@dataclass(frozen=True)
class LogShard:
    """A shard with rows that are not in the table: its SSTables, oldest first, and its entries."""

    shard: Shard
    tables: tuple[LogTable, ...]
    entries: Entries
    keys: ShardKeys | None


@dataclass(frozen=True)
class Log:
    """The log of a version: its shards with rows that are not in the version. `keys` are the fields of the primary key, if there is one."""

    snapshot: Snapshot
    keys: tuple[Field, ...]
    shards: tuple[LogShard, ...] = field(repr=False)

    def __str__(self) -> str:
        tables = [table for shard in self.shards for table in shard.tables]
        rows = sum(table.parts.num_rows for table in tables)
        entries = sum(len(shard.entries.paths) for shard in self.shards)
        parts = [number_of(rows, "row"), number_of(len(tables), "SSTable"), number_of(entries, "log file")]
        return "{} in {}, and {}, of ".format(*parts) + number_of(len(self.shards), "shard")

    @classmethod
    def of(cls, snapshot: Snapshot) -> Log | None:
        """The log of a version, if it has rows that are to be read. Reads the manifests of its SSTables."""
        if snapshot.mem_wal == "base" or not has_log(snapshot.manifest):
            return None
        found = [shard for shard in shards_of(snapshot) if _is_unread(snapshot, shard)]
        if not found:
            return None
        keys = primary_key(snapshot.manifest.schema)
        top = {f.id for f in snapshot.manifest.schema.fields}
        if nested := [f.name for f in keys if f.id not in top]:
            raise UnsupportedFeatureError(f"{snapshot}: the field {nested[0]!r} of the primary key is inside of a struct; set mem_wal=base")
        return cls(snapshot, keys, tuple(_opened(snapshot, keys, shard) for shard in found))


def _is_unread(snapshot: Snapshot, shard: Shard) -> bool:
    """`Shard.is_unread`, which stays true as long as the shard has the same first entry: later ones are only added."""
    key = (snapshot.store.uri, snapshot.identity, shard.name, shard.entries[:1])
    if _UNREAD.known(key):
        return True
    found = shard.is_unread(snapshot.store)
    if found and not shard.sstables:
        _UNREAD.keep(key, True, _FLAG_BYTES)
    return found


def _opened(snapshot: Snapshot, keys: tuple[Field, ...], shard: Shard) -> LogShard:
    names = tuple(f.name for f in keys)
    tables = tuple(_kept(snapshot, shard, path) for _, path in shard.sstables)
    store = snapshot.store
    entries = Entries(store, tuple(shard.entry(position) for position in shard.entries), Schema(keys), names, snapshot.identity)
    if not keys:
        return LogShard(shard, tables, entries, None)
    columns = ScanPlan(tuple(quoted([name]) for name in names))
    scans = tuple(plan_parts(table.snapshot, columns, table.parts) for table in tables)
    # A table that was made anew at the same place may have the same positions in a shard of the same name.
    name = (store.uri, snapshot.identity, shard.name, str(shard.sstables), str(shard.entries))
    return LogShard(shard, tables, entries, ShardKeys(name, names, scans, entries))


def _kept(snapshot: Snapshot, shard: Shard, path: str) -> LogTable:
    """An open SSTable, which stays in memory with the version: it never changes."""
    opened = partial(open_sstable, snapshot, shard, path)
    return snapshot.locations.kept.get(("SSTable", shard.name, path), opened, lambda table: _TABLE_BYTES * (1 + len(table.parts)))


def open_sstable(base: Snapshot, shard: Shard, path: str) -> LogTable:
    """Open an SSTable. Raises CorruptFileError if a column has another type than the column of the table with its field id."""
    store = base.store.at(f"{base.store.uri}/{shard.folder}/{path}")
    try:
        own = open_snapshot(store)
    except TableNotFoundError as e:
        what = "this part of the write-ahead log was removed; mem_wal=base reads the table without the log"
        raise MissingFileError(f"{store.uri}: {what}") from e
    own = replace(own, verify_checksums=base.verify_checksums)
    schema, there = base.manifest.schema, {f.id: f for f in own.manifest.schema.walk()}
    tombstone = next((f for f in own.manifest.schema.fields if f.name == TOMBSTONE), None)
    if tombstone is not None:
        del there[tombstone.id]
    for f in schema.walk():
        if f.id in there and there[f.id].logical_type != f.logical_type:
            what = f"{there[f.id].logical_type} in this SSTable and {f.logical_type} in the table"
            raise CorruptFileError(f"{own}: the column {f.name!r} is {what}; mem_wal=base reads the table without it")
    parts = whole_parts(own)
    fragments: Sequence[Fragment] = parts.fragments
    if tombstone is not None:
        # A column that the table got later may have the id of the column of tombstones.
        number = max(schema.max_field_id, own.manifest.schema.max_field_id) + 1
        schema = Schema((*schema.fields, replace(tombstone, id=number)), schema.metadata)
        fragments = [_with_id(fragment, tombstone.id, number) for fragment in fragments]
    parts = Parts.whole(Fragments(_of_log(fragment) for fragment in fragments), parts.rows)
    return LogTable(replace(own, manifest=replace(own.manifest, schema=schema)), parts, tombstone is not None)


def _of_log(fragment: Fragment) -> Fragment:
    return LogFragment(fragment.id, fragment.files, fragment.physical_rows, fragment.deletion, overlays=fragment.overlays)


def _with_id(fragment: Fragment, old: int, new: int) -> Fragment:
    files = (replace(file, fields=tuple(new if i == old else i for i in file.fields)) for file in fragment.files)
    return replace(fragment, files=tuple(files))


class _Reads:
    """What a plan reads of the table and of its log. `inner` is the plan for the table, which has the columns of the key, too."""

    def __init__(self, log: Log, plan: ScanPlan) -> None:
        self._log, self._plan = log, replace(plan, predicate=with_tests(log.snapshot, plan.predicate))
        self._given = plan.fields(log.snapshot)
        whole = {f.id for f in self._given.fields if f in log.snapshot.manifest.schema.fields}
        more = tuple(quoted([f.name]) for f in log.keys if f.id not in whole)
        columns = tuple(quoted([f.name]) for f in self._given.fields) if plan.columns is None else plan.columns
        # Without columns, rows are read as addresses, which need no file.
        address = not self._given.fields and not more
        inner = replace(self._plan, columns=(*columns, *more), limit=None, offset=0, task_limit=None, order=(), counts_rows=False)
        self.inner = replace(inner, with_row_address=address)
        self._shards = tuple(shard.keys for shard in log.shards if shard.keys is not None)

    def of_table(self, task: ScanTask) -> StoredRows:
        """The rows that a task reads of the table, without those that the log replaces."""
        return StoredRows(task, self._shards, TABLE_RANK, tuple(self._given.names))

    def of_shard(self, shard: LogShard) -> list[StoredRows | LoggedRows]:
        """The rows of a shard, in the order in which they were written."""
        pieces: list[StoredRows | LoggedRows] = []
        for rank, table in enumerate(shard.tables, TABLE_RANK + 1):
            plan = self.inner
            if table.has_tombstones:
                plan = replace(plan, columns=(*(plan.columns or ()), quoted([TOMBSTONE])))
            plan, parts, indexes = _left_by_indexes(table, plan)
            task = plan_parts(table.snapshot, plan, parts, indexes)
            pieces.append(StoredRows(task, () if shard.keys is None else (shard.keys,), rank, tuple(self._given.names)))
        if shard.entries.paths:
            snapshot = self._log.snapshot
            fields = self.inner.fields_to_read(snapshot)
            stored = Schema(tuple(f for f in fields.fields if f.id not in ROW_COLUMN_IDS), fields.metadata)
            entries = shard.entries.of(stored)
            missing = Schema(tuple(f for f in fields.fields if f.id in ROW_COLUMN_IDS))
            pieces.append(LoggedRows(entries, self._plan.predicate, self._given, missing))
        return pieces


def _left_by_indexes(table: LogTable, plan: ScanPlan) -> tuple[ScanPlan, Parts, str]:
    """What the indexes of an SSTable leave of its rows, and what explain says of it, see `scan.plan`.

    Words are not looked up: the index may split texts in another way than the table's.
    """
    predicate = plan.predicate
    is_asked = predicate is not None and plan.use_scalar_index and bool(table.snapshot.manifest.indexes)
    if predicate is None or not is_asked or any(isinstance(node, TextMatch) for node in walk(predicate.root)):
        return plan, table.parts, ""
    answer = look_up(table.snapshot, predicate)
    if answer is None:
        return plan, table.parts, ""
    left = left_by(answer, table.parts)
    used = f"{', '.join(answer.names)}: {answer.count} of {table.parts.num_rows} rows"
    return (replace(plan, predicate=None) if left.exact.all() else plan), left, used
