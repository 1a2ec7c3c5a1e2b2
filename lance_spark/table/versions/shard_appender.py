"""Putting entries at the next positions of a shard of the write-ahead log, and ending the work of other writers.

Implements "Writer Fencing" of the MemTable and WAL specification.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    StorageError,
    UnsupportedFeatureError,
    WriterFencedError,
)
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.versions.shard_states import ShardState, ShardStates
from lance_spark.table.versions.write_ahead_log import Shard, latest_state, metadata_of, positions, shard_names, state_path

_TRIES = 3


@dataclass
class Appender:
    """Puts entries at the next positions of a shard, for the writer of an epoch, whose `claim` is a file of the shard."""

    store: Store
    shard: Shard
    states: ShardStates
    claim_path: str
    claim: Entry
    epoch: int
    position: int

    @classmethod
    def begin(cls, states: ShardStates, claimed: ShardState) -> Appender:
        """The appender of a new epoch. If there was an older one, its writers find their next position taken from now on.

        Raises WriterFencedError if a writer with a newer epoch has claimed the shard meanwhile.
        """
        there = positions(states.store, states.shard, claimed.covered)
        # Entries before the last one that is covered may be cleaned up: their places are free, but readers do not look there.
        position = max([claimed.covered, *there]) + 1
        path = state_path(states.shard, claimed.version)
        own = cls(states.store, states.shard, states, path, states.store.about(path), claimed.epoch, position)
        # The position may be after the sentinel of a newer writer, where nothing would fence this one.
        states.check_not_fenced(claimed.epoch)
        if claimed.epoch > 1:
            own._put_sentinel()
        return own

    def _put_sentinel(self) -> None:
        data = _sentinel_bytes(self.epoch)
        while not self._put(data):
            self._check_not_fenced()
            self.position += 1  # a writer of an older epoch was first; its entry is replayed
        self.position += 1

    def append(self, data: bytes) -> int:
        """Put an entry; returns its position. When this returns, the entry survives a crash.

        Raises WriterFencedError if another writer has taken over, StorageError if certainly nothing was written, and
        CommitStateUnknownError if this is unknown.
        """
        # On an object store this would take another request; there it is found when a generation is flushed.
        if not self.store.is_remote:
            self.check_is_same_table()
        if not self._put(data):
            self._check_not_fenced()
            what = f"there is an entry at position {self.position} that this writer has not put there"
            raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one")
        self.position += 1
        return self.position - 1

    def check_is_same_table(self) -> None:
        """Raise WriterFencedError if the table was dropped, also if one was made anew in its place: then the claim is another file."""
        try:
            is_same = self.store.about(self.claim_path) == self.claim
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise WriterFencedError(f"{self.states}: the shard is gone, as its table was dropped; nothing was written")

    def _check_not_fenced(self) -> None:
        """Raise WriterFencedError if a newer writer has taken the position, or has claimed the shard."""
        epoch = metadata_of(self.store, self.shard.entry(self.position)).get(b"writer_epoch", b"")
        if epoch.isdigit() and int(epoch) > self.epoch:
            raise self.states.fenced(self.epoch, int(epoch))
        self.states.check_not_fenced(self.epoch)

    def _put(self, data: bytes) -> bool:
        """Put an entry at the position. Returns False if there is another one."""
        path = self.shard.entry(self.position)
        lost: StorageError | None = None
        for _ in range(_TRIES):
            try:
                self.store.put_if_absent(path, data)
                return True
            except FileExistsError:
                # Clients of object stores retry: the entry may be our own. Those of other epochs differ.
                return self._is_there(path, data)
            except StorageError as e:
                if self._is_there(path, data):
                    self._make_durable()
                    return True
                if not self.store.is_remote:
                    raise
                lost = e
        what = f"it is unknown whether the entry at position {self.position} was written: {lost}"
        raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one") from lost

    def _make_durable(self) -> None:
        """Make the name of an entry durable: the error may have come after the entry had its name."""
        try:
            self.store.sync(f"{self.shard.folder}/wal")
        except StorageError as e:
            what = f"it is unknown whether the entry at position {self.position} survives a crash of the machine: {e}"
            raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one") from e

    def _is_there(self, path: str, data: bytes) -> bool:
        try:
            return self.store.read(path) == data
        except FileNotFoundError:
            return False
        except StorageError as e:
            what = f"it is unknown whether the entry at position {self.position} was written: {e}"
            raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one") from e


def end_writers(store: Store) -> None:
    """End the work of the open writers of all shards, as the log ends that they know: their next `put` raises WriterFencedError.

    Raises CommitConflictError if a writer claims its shard at the same time.
    """
    for name in shard_names(store):
        shard = Shard(name, (), ())
        if latest_state(store, shard) is None:
            continue
        states = ShardStates(store, shard)
        with contextlib.suppress(UnsupportedFeatureError):  # the shard is sealed: it has no writers
            claimed = states.claim(0, {})  # a shard that is there keeps its spec and values
            try:
                Appender.begin(states, claimed)
            except WriterFencedError as e:
                what = "a new writer claims the shard while its log ends; try again"
                raise CommitConflictError(f"{states}: {what}", retryable=True) from e


def _sentinel_bytes(epoch: int) -> bytes:
    """An entry without rows, which marks where the writer of an epoch took over: an older writer finds its next place taken."""
    noted = {"writer_epoch": str(epoch), "fence_sentinel": "true"}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([], metadata=noted)):
        pass
    data: bytes = sink.getvalue().to_pybytes()
    return data
