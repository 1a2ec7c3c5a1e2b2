"""The bytes of an entry of the log, and putting it at the next position of its shard.

Implements "WAL Entry Format" and "Writer Fencing" of the MemTable and WAL specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CommitStateUnknownError, CorruptFileError, StorageError, WriterFencedError
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal.entries import FIELD_ID, TOMBSTONE
from lance_spark.table.versions.shard_states import ShardStates
from lance_spark.table.versions.write_ahead_log import NUMBERS, Shard, numbers_in, positions

_TRIES = 3


def entry_schema(table: Schema, keys: Sequence[str]) -> pa.Schema:
    """The columns of entries: those of the table, nullable but for those of the key, since tombstones have nulls."""
    fields = [_field(f, f.nullable or f.name not in keys) for f in table.fields]
    return pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_(), nullable=False)])


def entry_bytes(
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    epoch: int,
    generation: int,
    numbers: Mapping[str, int],
) -> bytes:
    """An entry with these rows, which have the columns of `schema`.

    `numbers` are those of the last batches of numbered writes, by their names: other writers do not know them.
    """
    noted = {"writer_epoch": str(epoch), "generation": str(generation)}
    return _stream(batches, schema, noted, {NUMBERS: json.dumps(dict(numbers))} if numbers else None)


def last_numbers(store: Store, shard: Shard) -> dict[str, int]:
    """The numbers that the newest entry with any has noted; none if there is no such entry."""
    for position in reversed(positions(store, shard)):
        text = numbers_in(bytes(store.read(shard.entry(position))))
        if text is not None:
            return parsed_numbers(text, f"{store.uri}/{shard.entry(position)}")
    return {}


def parsed_numbers(text: bytes, where: str) -> dict[str, int]:
    """The numbers of writes. Raises CorruptFileError."""
    try:
        return {str(name): int(number) for name, number in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise CorruptFileError(f"{where}: the numbers of writes in this entry of the write-ahead log are invalid: {e}") from e


def sentinel_bytes(epoch: int) -> bytes:
    """An entry without rows, which marks where the writer of an epoch took over: an older writer finds its next place taken."""
    return _stream((), pa.schema([]), {"writer_epoch": str(epoch), "fence_sentinel": "true"})


def _stream(
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    noted: Mapping[str, str],
    of_first_batch: Mapping[str, str] | None = None,
) -> bytes:
    sink = pa.BufferOutputStream()
    own = schema.with_metadata(dict(noted))
    with pa.ipc.new_stream(sink, own) as out:
        for number, batch in enumerate(batches):
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=own)
            out.write_batch(rows, custom_metadata=None if number else of_first_batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _field(field: Field, nullable: bool) -> pa.Field:
    own = field.to_arrow()
    return own.with_type(_with_ids(own.type, field)).with_nullable(nullable).with_metadata(_noted(own, field))


def _noted(own: pa.Field, field: Field) -> dict[bytes, bytes]:
    return {**(own.metadata or {}), FIELD_ID: str(field.id).encode()}


def _with_ids(t: pa.DataType, field: Field) -> pa.DataType:
    """The type of a field, whose struct fields have their ids."""
    if pa.types.is_struct(t) and len(field.children) == t.num_fields:
        fields = [_field(child, child.nullable) for child in field.children]
        return pa.struct(fields)
    return t


@dataclass
class Appender:
    """Puts entries at the next positions of a shard, for the writer of an epoch."""

    store: Store
    shard: Shard
    states: ShardStates
    epoch: int
    position: int

    @classmethod
    def begin(cls, states: ShardStates, epoch: int) -> Appender:
        """The appender of a new epoch. If there was an older one, its writers find their next position taken from now on."""
        there = positions(states.store, states.shard)
        own = cls(states.store, states.shard, states, epoch, there[-1] + 1 if there else 1)
        if epoch > 1:
            own._put_sentinel()
        return own

    def _put_sentinel(self) -> None:
        data = sentinel_bytes(self.epoch)
        while not self._put(data):
            self.position += 1  # a writer of an older epoch was first; its entry is replayed
        self.position += 1

    def append(self, data: bytes) -> int:
        """Put an entry; returns its position. When this returns, the entry survives a crash.

        Raises WriterFencedError if another writer has taken over, StorageError if certainly nothing was written, and
        CommitStateUnknownError if this is unknown.
        """
        # On an object store this would take another request; there it is found when a generation is flushed.
        if not self.store.is_remote and not self.states.is_there():
            raise WriterFencedError(f"{self.states}: the shard is gone, as its table was dropped; nothing was written")
        if not self._put(data):
            self.states.check_not_fenced(self.epoch)
            what = f"there is an entry at position {self.position} that this writer has not put there"
            raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one")
        self.position += 1
        return self.position - 1

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
                    return True
                if not self.store.is_remote:
                    raise
                lost = e
        what = f"it is unknown whether the entry at position {self.position} was written: {lost}"
        raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one") from lost

    def _is_there(self, path: str, data: bytes) -> bool:
        try:
            return self.store.read(path) == data
        except FileNotFoundError:
            return False
        except StorageError as e:
            what = f"it is unknown whether the entry at position {self.position} was written: {e}"
            raise CommitStateUnknownError(f"{self.states}: {what}; close the writer and open a new one") from e
