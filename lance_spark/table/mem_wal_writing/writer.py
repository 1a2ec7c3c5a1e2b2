"""The writer of one shard of a table's write-ahead log: rows are in the log when `put` returns, and in SSTables later.

Implements "Writer Expectations" of the MemTable and WAL specification. The rows of a generation are in memory, too, and
are flushed to an SSTable when there are enough of them, by a thread, and when the writer is closed. After a crash, the
next writer of the shard finds them in the log.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep_rows
from lance_spark.display.words import counted
from lance_spark.errors import (
    CommitStateUnknownError,
    InvalidOperationError,
    InvalidOptionError,
    LanceError,
    SchemaMismatchError,
    StorageError,
    UnsupportedFeatureError,
    WriterFencedError,
    check_type,
    on_failure,
)
from lance_spark.file.supported_types import WRITABLE, check_supported
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.manifest import check_writable
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.mem_wal.entries import TOMBSTONE, Entries
from lance_spark.table.mem_wal_writing.configuration import configuration
from lance_spark.table.mem_wal_writing.entry import entry_bytes, entry_schema, last_numbers
from lance_spark.table.mem_wal_writing.key_tuples import check_key_types
from lance_spark.table.mem_wal_writing.settings import WriterSettings
from lance_spark.table.mem_wal_writing.sstable import maintained, write_sstable
from lance_spark.table.versions.shard_appender import Appender
from lance_spark.table.versions.shard_states import ShardState, ShardStates
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.versions.write_ahead_log import Shard, has_log, not_in_sstables
from lance_spark.table.write.conform import as_columns, check_fits, check_nulls, matched, of_declared_lengths
from lance_spark.table.write.options import NO_OPTIONS
from lance_spark.table.write.rules import Kind, Rules
from lance_spark.table.write.sources import Data, as_reader
from lance_spark.table.write.write import rewrite_target

_LOG = logging.getLogger(__name__)
_KEPT_NUMBERS = 64
"""An entry notes the last batches of so many numbered writes."""


@dataclass
class Generation:
    """Rows that one SSTable will have, and the position of the last entry that has some of them."""

    number: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    last: int = 0

    def add(self, batches: list[pa.RecordBatch], position: int) -> None:
        """Add the rows of the entry at a position."""
        self.batches += batches
        self.rows += sum(batch.num_rows for batch in batches)
        self.size += sum(batch.nbytes for batch in batches)
        self.last = position

    def has_room(self, batches: list[pa.RecordBatch], settings: WriterSettings) -> bool:
        """Whether it may have these rows, too. pylance does not replay a generation with more rows or batches than it may have."""
        rows = self.rows + sum(batch.num_rows for batch in batches)
        return rows <= settings.max_memtable_rows and len(self.batches) + len(batches) <= settings.max_memtable_batches

    def is_full(self, settings: WriterSettings) -> bool:
        """Whether it is to be flushed."""
        many = self.rows >= settings.max_memtable_rows or len(self.batches) >= settings.max_memtable_batches
        return many or self.size >= settings.max_memtable_size


@dataclass
class Figures:
    """What a writer has done. `memtable` is what the specification calls a generation in memory."""

    put_count: int = 0
    put_time: float = 0.0
    wal_flush_count: int = 0
    wal_flush_bytes: int = 0
    wal_flush_time: float = 0.0
    memtable_flush_count: int = 0
    memtable_flush_rows: int = 0
    memtable_flush_failures: int = 0
    memtable_flush_time: float = 0.0

    def as_dict(self) -> dict[str, int]:
        """With times in milliseconds."""
        found = {}
        for name, value in vars(self).items():
            found[f"{name}_ms" if name.endswith("_time") else name] = round(value * 1000) if name.endswith("_time") else value
        return found


class ShardWriter:
    """The writer of one shard, from `Dataset.mem_wal_writer`: a context manager, for one process and any of its threads.

    Claiming a shard ends the work of its older writers: their next `put` raises WriterFencedError. What they have put is kept.
    So does a commit after which the table has another log, or none.
    """

    def __init__(
        self,
        base: Snapshot,
        shard_id: str,
        given: Mapping[str, object],
        values: Mapping[str, bytes] | None = None,
    ) -> None:
        """Claim the shard and read what is in its log, but in no SSTable yet. `values` are those of a new shard by the sharding spec."""
        found = configuration(base)
        if found is None:
            raise InvalidOperationError(f"{base}: the table has no write-ahead log; call initialize_mem_wal first")
        self._base, self._shard = base, Shard(_checked_id(shard_id), (), ())
        self._settings = found.settings.with_given(given)
        self._keys = _checked_keys(base)
        self._schema = base.manifest.schema
        self._entry_schema = entry_schema(self._schema, [f.name for f in self._keys])
        self._rules = _checked_rules(base)
        self._indexes: list[IndexMetadata] = maintained(base, found.maintained)
        self._figures, self._said = Figures(), time.monotonic()
        self._lock = threading.RLock()
        self._pid, self._closed = os.getpid(), False
        self._failure: LanceError | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._numbers: dict[str, int] | None = None
        self._timer: threading.Timer | None = None
        self._frozen: deque[Generation] = deque()
        self._progress = threading.Condition()
        self._flushing: Future[None] | None = None
        self._is_flushing = False
        _check_has_log_now(base)  # before anything is written
        self._states = ShardStates(base.store, self._shard)
        self._state: ShardState = self._states.claim(0 if found.spec is None else found.spec.spec_id, values or {})
        base.store.sync(self._shard.folder)
        self._active = Generation(self._state.generation)
        self._appender = Appender.begin(self._states, self._state)
        # Again: a commit that ends the log ends the writers that it finds, and this one may have come after it had looked.
        _check_has_log_now(base)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="lance_spark-flush")
        with contextlib.ExitStack() as stack:
            stack.callback(self._threads.shutdown)
            self._replay()
            stack.pop_all()

    @property
    def shard_id(self) -> str:
        """The UUID of the shard."""
        return self._shard.name

    def put(self, data: Data, *, schema: pa.Schema | None = None) -> None:
        """Write rows. They replace those with their primary keys; without a key, they are further ones.

        When it returns, readers find the rows, and they survive a crash (but see `durable_write`). Readers find all of the rows at
        once, or, of more than `max_wal_buffer_size` bytes, first some of them. `schema` is that of batches from a generator.

        Raises SchemaMismatchError for rows that the table cannot have, WriterFencedError if a newer writer has the shard,
        StorageError, and CommitStateUnknownError if it is unknown whether the rows are there.
        """
        with self._lock:
            self._check_open()
            self._write(self._checked(batch) for batch in _batches(data, schema))

    def delete(self, keys: Data, *, schema: pa.Schema | None = None) -> None:
        """Delete the rows with these primary keys, if there are any; other columns of `keys` are ignored.

        Raises InvalidOperationError for a table without a primary key, and what `put` raises.
        """
        with self._lock:
            self._check_open()
            if not self._keys:
                what = "rows are deleted by their primary key, and the table has none"
                raise InvalidOperationError(f"{self}: {what}; put only, or delete in the table after the log is merged")
            self._write(self._tombstones(batch) for batch in _batches(keys, schema))

    def put_once(self, rows: pa.Table, deleted: str | None, app: str, number: int) -> bool:
        """Put the rows of a numbered batch, unless the shard has them. Returns whether it had none of them.

        `app` names the writes whose numbers ascend. Rows for which the column `deleted`, if any, is true are deleted by their primary
        keys. A batch that is larger than an entry is complete when its last entry is there; until then, it is put again as a whole.
        """
        with self._lock:
            self._check_open()
            if self._numbers is None:
                self._numbers = last_numbers(self._base.store, self._shard, self._state.covered)
            known = self._numbers
            if known.get(app, -1) >= number:
                return False
            self._append_waiting()
            batches = [self._marked(batch, deleted) for batch in rows.to_batches() if batch.num_rows]
            parts = [part for batch in batches for part in self._parts(batch)] if self._keys else batches
            entries = _grouped(parts, self._fit) if self._keys else [parts]
            for count, entry in enumerate(entries, 1):
                is_last = count == len(entries)
                self._append_entry(entry, _with_number(known, app, number) if is_last else known)
            self._numbers = _with_number(known, app, number)
            self._figures.put_count += 1
            return True

    def leave(self) -> None:
        """End without flushing: the next writer of the shard finds the rows in the log."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._stop_timer()
                self._threads.shutdown()

    def close(self) -> None:
        """Flush what is in memory to an SSTable, and end. If this raises an error, the rows are in the log."""
        with self._lock:
            if self._closed:
                return
            self._check_process()
            self._closed = True
            try:
                self._check_failure()
                self._append_waiting()
                self._freeze()
                self._wait_until(lambda: not self._frozen)
                self._check_flushed()
            finally:
                self._stop_timer()
                self._threads.shutdown()

    def stats(self) -> dict[str, int]:
        """What this writer has done, with pylance's names."""
        return self._figures.as_dict()

    def memtable_stats(self) -> dict[str, int]:
        """What is in memory, with pylance's names: the present generation, and those that are being flushed."""
        with self._lock:
            frozen = list(self._frozen)
            return {
                "row_count": self._active.rows,
                "batch_count": len(self._active.batches),
                "estimated_size_bytes": self._active.size,
                "generation": self._active.number,
                "frozen_count": len(frozen),
                "frozen_bytes": sum(generation.size for generation in frozen),
            }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self._base.store.uri}, shard {self.shard_id}"

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise InvalidOperationError(f"{self}: the writer is closed; open a new one")
        self._check_failure()
        self._check_flushed()
        if self._rules.defaults:
            # Functions such as current_timestamp() have the time of the call.
            self._rules = _checked_rules(self._base)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            what = f"the writer belongs to the process {self._pid}, of which this one is a fork"
            raise InvalidOperationError(f"{self}: {what}; open a new one")

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check_flushed(self) -> None:
        """Raise the error of a flush, once; the flush is tried again meanwhile."""
        with self._progress:
            failed = self._flushing if not self._is_flushing else None
            self._flushing = None if failed is not None else self._flushing
        error = None if failed is None else failed.exception()
        if error is None:
            return
        if isinstance(error, WriterFencedError) or not isinstance(error, LanceError):
            raise error
        self._start_flushing()
        what = "a generation could not be flushed, which is tried again; rows that were put before are in the log, and none now"
        raise StorageError(f"{self}: {what}: {error}") from error

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows to put, after the rules of the table."""
        check_fits(batch.schema, self._schema)
        if not any(at is not None for at in matched(batch.schema.names, self._schema.fields)) and batch.num_rows:
            raise SchemaMismatchError("the data has none of the table's columns")
        return _with_tombstones(self._rules.apply(batch, self._schema, Kind.INSERTED), False)

    def _marked(self, batch: pa.RecordBatch, deleted: str | None) -> pa.RecordBatch:
        """Rows to put, and tombstones of those that are deleted, in their order."""
        if deleted is None:
            return self._checked(batch)
        at = batch.schema.get_field_index(deleted)
        if at < 0 or not pa.types.is_boolean(batch.schema.field(at).type):
            raise SchemaMismatchError(f"{self}: the rows need a column {deleted!r} of booleans, which says whether they are deleted")
        if not self._keys:
            what = "rows are deleted by their primary key, and the table has none"
            raise InvalidOperationError(f"{self}: {what}")
        gone = pc.fill_null(batch.column(at), False)
        rest = batch.select([name for name in batch.schema.names if name != deleted])
        put, tombstones = self._checked(keep_rows(rest, pc.invert(gone))), self._tombstones(keep_rows(rest, gone))
        order = np.argsort(np.argsort(np.asarray(gone), kind="stable"), kind="stable")
        both = pa.Table.from_batches([put, tombstones]).take(pa.array(order)).combine_chunks()
        [together] = both.to_batches()
        return together

    def _tombstones(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tombstones of keys."""
        own = Schema(self._keys)
        names = {name.lower() for name in batch.schema.names}
        if missing := [f.name for f in self._keys if f.name.lower() not in names]:
            what = f"the keys of rows to delete lack the column {missing[0]!r} of the primary key"
            raise SchemaMismatchError(f"{self}: {what}")
        wanted = {name.lower() for name in own.names}
        given = batch.select([name for name in batch.schema.names if name.lower() in wanted])
        check_fits(given.schema, own)
        named = of_declared_lengths(as_columns(given, own, {}), own)
        check_nulls(named, own)
        return _with_tombstones(as_columns(named, self._schema, {}), True)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Put rows into the log, or let them wait. They are checked first, as many as fit into an entry."""
        begun, any_rows = time.monotonic(), False
        checked: list[pa.RecordBatch] = []
        for part in (part for batch in batches for part in self._parts(batch)):
            any_rows = True
            if checked and not self._fit([*checked, part]):
                self._add(checked)
                checked = []
            checked.append(part)
        if checked:
            self._add(checked)
        self._figures.put_count += any_rows
        self._figures.put_time += time.monotonic() - begun
        self._say()

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows in parts that fit into an entry each, if a single row does."""
        bytes_each = -(-rows.nbytes // max(1, rows.num_rows))
        size = min(self._settings.max_memtable_rows, max(1, self._settings.max_wal_buffer_size // max(1, bytes_each)))
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)

    def _fit(self, batches: Iterable[pa.RecordBatch]) -> bool:
        """Whether batches may be in one entry, which is in one generation."""
        rows = sum(batch.num_rows for batch in batches)
        return rows <= self._settings.max_memtable_rows and _size(batches) <= self._settings.max_wal_buffer_size

    def _add(self, batches: list[pa.RecordBatch]) -> None:
        """Append batches that fit into an entry, or let them wait together with others that fit into the same one."""
        if self._waiting and not self._fit([*self._waiting, *batches]):
            self._append_waiting()
        self._waiting += batches
        if self._settings.durable_write or _size(self._waiting) >= self._settings.max_wal_buffer_size:
            self._append_waiting()
        else:
            self._start_timer()

    def _append_waiting(self) -> None:
        """Put the rows that wait into the log, as one entry."""
        self._stop_timer()
        if not self._waiting:
            return
        batches, self._waiting = self._waiting, []
        try:
            self._append_entry(batches, self._numbers or {})
        except StorageError:
            if not self._settings.durable_write:
                self._waiting = [*batches, *self._waiting]  # those who put them were told that they are there
            raise

    def _append_entry(self, batches: list[pa.RecordBatch], numbers: Mapping[str, int]) -> None:
        """Put rows into the log as one entry, which notes the `numbers`. If this raises StorageError, they are not there."""
        if not batches:
            return
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches
        if not self._active.has_room(rows, self._settings):
            self._freeze()
        data = entry_bytes(rows, self._entry_schema, self._state.epoch, self._active.number, numbers)
        begun = time.monotonic()
        try:
            position = self._appender.append(data)
        except (WriterFencedError, CommitStateUnknownError) as e:
            self._failure = e
            raise
        self._figures.wal_flush_count += 1
        self._figures.wal_flush_bytes += len(data)
        self._figures.wal_flush_time += time.monotonic() - begun
        self._active.add(rows, position)
        if self._active.is_full(self._settings):
            self._freeze()
            self._start_flushing()
            self._wait_for_memory()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._settings.max_wal_flush_interval_ms / 1000, self._on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        with self._lock:
            if self._closed or self._failure is not None:
                return
            try:
                self._append_waiting()
            except LanceError as e:
                _LOG.warning("%s: rows that wait are not in the log: %s", self, e)
                if self._failure is None:
                    self._start_timer()

    def _freeze(self) -> None:
        """Begin a new generation; the rows of the present one will be flushed."""
        if self._active.rows:
            self._frozen.append(self._active)
            self._active = Generation(self._active.number + 1)

    def _start_flushing(self) -> None:
        with self._progress:
            if self._frozen and not self._is_flushing:
                self._is_flushing = True
                self._flushing = self._threads.submit(self._flush_frozen)

    def _flush_frozen(self) -> None:
        """Flush generations, the oldest first. Runs in the thread."""
        oldest = self._oldest()
        try:
            while oldest is not None:
                self._flush(oldest)
                with self._progress:
                    self._frozen.popleft()
                    self._progress.notify_all()
                oldest = self._oldest()
        except WriterFencedError as e:
            self._failure = e
            raise
        finally:
            if oldest is not None:
                self._stop_flushing()

    def _oldest(self) -> Generation | None:
        """The next generation to flush. If there is none, the thread ends; what is frozen later starts it again."""
        with self._progress:
            if self._frozen:
                return self._frozen[0]
            self._is_flushing = False
            self._progress.notify_all()
            return None

    def _stop_flushing(self) -> None:
        with self._progress:
            self._is_flushing = False
            self._progress.notify_all()

    def _flush(self, generation: Generation) -> None:
        """Write the SSTable of a generation, and publish it."""
        begun = time.monotonic()
        with on_failure(self._count_failure):
            self._states.check_not_fenced(self._state.epoch)
            self._appender.check_is_same_table()
            sstable = write_sstable(self._base, self._shard, generation.number, generation.batches, self._keys, self._indexes)
            self._states.publish(self._state.epoch, generation.number, generation.last, sstable)
        self._figures.memtable_flush_count += 1
        self._figures.memtable_flush_rows += generation.rows
        self._figures.memtable_flush_time += time.monotonic() - begun

    def _count_failure(self) -> None:
        self._figures.memtable_flush_failures += 1

    def _wait_for_memory(self) -> None:
        """Wait until the rows in memory are few enough."""
        most = self._settings.max_unflushed_memtable_bytes
        self._wait_until(lambda: self._active.size + sum(g.size for g in self._frozen) <= most)

    def _wait_until(self, is_enough: Callable[[], bool]) -> None:
        """Wait for the thread, until it has done enough or has failed. Its error is that of the next `put`, or of `close`."""
        seconds = self._settings.backpressure_log_interval_ms / 1000 or None

        def is_over() -> bool:
            return is_enough() or not self._is_flushing

        self._start_flushing()
        with self._progress:
            while not self._progress.wait_for(is_over, seconds):
                _LOG.warning("%s: waiting for %s to be flushed", self, counted(len(self._frozen), "generation"))

    def _replay(self) -> None:
        """Read the rows that are in entries, but in no SSTable yet, into the generations that they belong to."""
        # No listing, which may be older than the claim: all entries before the one that the appender puts next are there.
        after_sstables = range(self._state.covered + 1, self._appender.position)
        positions = not_in_sstables(self._base.store, self._shard, after_sstables, self._state.generation)
        paths = tuple(self._shard.entry(position) for position in positions)
        entries = Entries(self._base.store, paths, self._schema, tuple(f.name for f in self._keys))
        for position, entry in zip(positions, entries.each()):
            # Readers take an entry for flushed if the generation that it notes is, so none is divided, however small ours are.
            # Marks note none, and may stand in the middle of one.
            if entry.batches and entry.generation is None and self._active.is_full(self._settings):
                self._freeze()
            if entry.generation is not None and entry.generation > self._active.number:
                self._freeze()
                self._active.number = entry.generation
            if entry.batches:
                self._active.add(entry.batches, position)
            self._wait_for_memory()
        if self._active.is_full(self._settings):
            self._freeze()
        self._start_flushing()

    def _say(self) -> None:
        """Log the statistics from time to time."""
        interval = self._settings.stats_log_interval_ms / 1000
        if interval and time.monotonic() - self._said >= interval:
            self._said = time.monotonic()
            _LOG.info("%s: %s", self, self.stats())


def _checked_id(shard_id: str) -> str:
    check_type("shard_id", shard_id, str, "the text of a UUID")
    try:
        return str(uuid.UUID(shard_id))
    except ValueError as e:
        raise InvalidOptionError(f"shard_id must be a UUID, not {shard_id!r}") from e


def _check_has_log_now(base: Snapshot) -> None:
    """Raise InvalidOperationError if the log was dropped since this version, and LanceError if the table was."""
    now = reopened(base)
    if not has_log(now.manifest):
        what = f"its write-ahead log was dropped after version {base.version}"
        raise InvalidOperationError(f"{now}: {what}; call initialize_mem_wal on the present version first")


def _checked_keys(base: Snapshot) -> tuple[Field, ...]:
    """The primary key. Raises UnsupportedFeatureError for a table whose rows cannot be in a log."""
    manifest = base.manifest
    check_writable(manifest, base.store.uri)
    check_supported(manifest.schema, WRITABLE[manifest.data_format])
    if blobs := [f.name for f in manifest.schema.walk() if f.is_blob]:
        raise UnsupportedFeatureError(f"{base}: the blob column {blobs[0]!r} cannot be in a write-ahead log; append to the table")
    keys = primary_key(manifest.schema)
    top = {f.id for f in manifest.schema.fields}
    if nested := [f.name for f in keys if f.id not in top]:
        what = "which cannot be read with a write-ahead log"
        raise UnsupportedFeatureError(f"{base}: the field {nested[0]!r} of the primary key is inside of a struct, {what}")
    check_key_types(Schema(keys).to_arrow())
    return keys


def _checked_rules(base: Snapshot) -> Rules:
    """The rules of rows that are put. Raises UnsupportedFeatureError for those whose rows no merge of the log could write."""
    rules = rewrite_target(base, NO_OPTIONS).rules
    if always := [identity.column.name for identity in rules.generated.identities if identity.always]:
        what = f"column {always[0]!r} is GENERATED ALWAYS AS IDENTITY, which a merge of the log could not assign"
        raise UnsupportedFeatureError(f"{base}: {what}; append to the table")
    return rules


def _batches(data: Data, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows of `data`; those of a generator have the schema."""
    if schema is not None and not hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatch):
        return iter(pa.RecordBatchReader.from_batches(schema, iter(data)))
    return iter(as_reader(data))


def _with_tombstones(rows: pa.RecordBatch, deleted: bool) -> pa.RecordBatch:
    marks = pa.repeat(pa.scalar(deleted), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, marks], names=[*rows.schema.names, TOMBSTONE])


def _with_number(known: Mapping[str, int], app: str, number: int) -> dict[str, int]:
    """The numbers with a new one, the newest last, and without the oldest of too many."""
    others = [(name, other) for name, other in known.items() if name != app]
    return dict([*others[1 - _KEPT_NUMBERS :], (app, number)])


def _grouped(parts: list[pa.RecordBatch], fit: Callable[[list[pa.RecordBatch]], bool]) -> list[list[pa.RecordBatch]]:
    """Neighbours together, as many as fit."""
    groups: list[list[pa.RecordBatch]] = [[]]
    for part in parts:
        if groups[-1] and not fit([*groups[-1], part]):
            groups.append([])
        groups[-1].append(part)
    return groups


def _size(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(int(batch.nbytes) for batch in batches)
