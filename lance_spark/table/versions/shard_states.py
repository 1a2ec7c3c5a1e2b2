"""The versions of a shard's state: a writer claims the shard by a new epoch, and publishes SSTables.

Implements "Shard Manifest" and "Writer Fencing" of the MemTable and WAL specification. Each version is a file that is
put if it is absent, so that of two writers one is first. The one with the older epoch publishes nothing more.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import (
    CommitConflictError,
    StorageError,
    UnsupportedFeatureError,
    WriterFencedError,
    logged,
)
from lance_spark.storage.store import Store
from lance_spark.table.versions.write_ahead_log import Shard, latest_state, state_path

_TRIES = 16
_HINT = "version_hint.json"


@dataclass(frozen=True)
class WrittenSsTable:
    """An SSTable that a shard's next state names; see "SSTable Accounting"."""

    path: str
    in_memory_bytes: int
    physical_rows: int
    primary_key_bytes: int | None


@dataclass(frozen=True)
class ShardState:
    """What one version of a shard's state says, without its SSTables.

    Entries up to the position `covered` are in SSTables. The next SSTable has the number `generation`.
    """

    version: int
    epoch: int
    covered: int
    generation: int


@dataclass(frozen=True)
class ShardStates:
    """The states of one shard, for one writer of it."""

    store: Store
    shard: Shard

    def claim(self, spec_id: int, values: Mapping[str, bytes]) -> ShardState:
        """Begin a new epoch: older writers of the shard can neither append nor publish any more.

        A new shard is one of the sharding spec `spec_id`, with these `values`, which are those of all of its rows.
        Raises CommitConflictError if another writer claims the shard
        at the same time, and UnsupportedFeatureError for a shard that is being dropped.
        """
        for _ in range(_TRIES):
            now = self._latest()
            if now is not None and now.status == pb.SEALED:
                raise UnsupportedFeatureError(f"{self}: the shard is sealed, because it is being dropped; use another one")
            claimed = _new(spec_id, values) if now is None else _copied(now)
            claimed.shard_id.uuid = uuid.UUID(self.shard.name).bytes
            claimed.writer_epoch += 1
            if self._put_next(claimed):
                return _state(claimed)
            found = self._latest()
            # What is there may be our own, as clients of object stores retry. A further claim is always safe.
            is_other = found is not None and found.SerializeToString() != claimed.SerializeToString()
            if (is_other or not self.store.is_remote) and found is not None and found.writer_epoch >= claimed.writer_epoch:
                break
        what = "another writer claims the shard at the same time; a shard has one writer, so use another shard, or try again"
        raise CommitConflictError(f"{self}: {what}", retryable=True)

    def publish(self, epoch: int, generation: int, covered: int, sstable: WrittenSsTable) -> ShardState:
        """Add an SSTable, which has all entries up to the position `covered` that no older one has.

        Raises WriterFencedError if a writer with a newer epoch has claimed the shard.
        """

        def changed(state: pb.ShardManifest) -> None:
            state.replay_after_wal_entry_position = covered
            state.wal_entry_position_last_seen = max(covered, state.wal_entry_position_last_seen)
            state.current_generation = generation + 1
            added = state.sstables.add(generation=generation, path=sstable.path)
            added.in_memory_bytes = sstable.in_memory_bytes
            added.physical_rows = sstable.physical_rows
            if sstable.primary_key_bytes is not None:
                added.primary_key_bytes = sstable.primary_key_bytes

        return self._changed(epoch, changed, lambda state: state.current_generation > generation)

    def forget(self, last: int) -> None:
        """Leave out the SSTables up to the generation `last`. The writer of the shard goes on."""
        for _ in range(_TRIES):
            now = self._latest()
            if now is None or all(table.generation > last for table in now.sstables):
                return
            new = _copied(now)
            del new.sstables[:]
            new.sstables.extend(table for table in now.sstables if table.generation > last)
            if self._put_next(new):
                return
        raise StorageError(f"{self}: the state of the shard could not be written in {_TRIES} tries")

    def check_not_fenced(self, epoch: int) -> None:
        """Raise WriterFencedError if a writer with a newer epoch has claimed the shard."""
        now = self._latest()
        if now is None or now.writer_epoch > epoch:
            raise self.fenced(epoch, None if now is None else now.writer_epoch)

    def fenced(self, epoch: int, newer: int | None) -> WriterFencedError:
        """The error of the writer of an `epoch` whose shard another one has claimed."""
        what = f"this writer has the epoch {epoch}, and a newer writer of the shard has the epoch {newer or 'none'}"
        return WriterFencedError(f"{self}: {what}; rows that were put before are in the log. Open a new writer to put more")

    def __str__(self) -> str:
        return f"{self.store.uri}, shard {self.shard.name}"

    def _changed(
        self,
        epoch: int,
        change: Callable[[pb.ShardManifest], None],
        is_done: Callable[[pb.ShardManifest], bool],
    ) -> ShardState:
        """Put the next version with a change, unless the answer of an earlier put was lost and it `is_done`."""
        for _ in range(_TRIES):
            self.check_not_fenced(epoch)
            now = self._latest()
            assert now is not None, "it was there right now, and states are not removed"
            if is_done(now):
                return _state(now)
            new = _copied(now)
            change(new)
            if self._put_next(new):
                return _state(new)
        raise StorageError(f"{self}: the state of the shard could not be written in {_TRIES} tries")

    def _latest(self) -> pb.ShardManifest | None:
        found = latest_state(self.store, self.shard)
        if found is None:
            return None
        path, data = found
        return parse_message(pb.ShardManifest, data, f"{self.store.uri}/{path}")

    def _put_next(self, state: pb.ShardManifest) -> bool:
        """Put the version after the one that `state` was copied from. Returns False if it is unknown whose the next version is."""
        state.version += 1
        path = state_path(self.shard, state.version)
        try:
            self.store.put_if_absent(path, state.SerializeToString())
        except FileExistsError:
            return False
        except StorageError:
            with contextlib.suppress(FileNotFoundError):
                self.store.size(path)
                return False  # the answer was lost, or another writer was first
            raise
        with logged(f"{self}: moving the hint to the latest state"):
            hint = json.dumps({"version": state.version}, separators=(",", ":"))
            self.store.put(f"{self.shard.folder}/manifest/{_HINT}", hint.encode(), durable=False)
        return True


def _new(spec_id: int, values: Mapping[str, bytes]) -> pb.ShardManifest:
    state = pb.ShardManifest(current_generation=1, shard_spec_id=spec_id)
    for name, value in values.items():
        state.shard_field_entries.add(field_id=name, value=value)
    return state


def values_of(store: Store, shard: Shard) -> tuple[int, dict[str, bytes]] | None:
    """The sharding spec of a shard, and the values of its rows; None if the shard is new."""
    found = latest_state(store, shard)
    if found is None:
        return None
    path, data = found
    state = parse_message(pb.ShardManifest, data, f"{store.uri}/{path}")
    return state.shard_spec_id, {entry.field_id: entry.value for entry in state.shard_field_entries}


def _copied(state: pb.ShardManifest) -> pb.ShardManifest:
    copy = pb.ShardManifest()
    copy.CopyFrom(state)
    return copy


def _state(state: pb.ShardManifest) -> ShardState:
    return ShardState(state.version, state.writer_epoch, state.replay_after_wal_entry_position, state.current_generation)
