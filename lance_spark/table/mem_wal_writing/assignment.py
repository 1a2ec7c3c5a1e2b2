"""Which shard each row of a batch goes to, and the writers that a process keeps open for them."""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.equal_keys import value_numbers
from lance_spark.arrow.selection import keep_rows
from lance_spark.errors import (
    InvalidOperationError,
    InvalidOptionError,
    LanceError,
    SchemaMismatchError,
    WriterFencedError,
)
from lance_spark.schema.schema import Schema
from lance_spark.table.build.sharding import ShardingSpec, evaluate_sharding_spec
from lance_spark.table.mem_wal_writing.configuration import configuration
from lance_spark.table.mem_wal_writing.writer import ShardWriter
from lance_spark.table.versions.shard_states import values_of
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.write_ahead_log import Shard, shard_names
from lance_spark.table.write.conform import as_columns, check_fits, of_declared_lengths

_SPACE = uuid.UUID("6d1b1a52-52b5-4a6e-9d0a-8f0c0f6f3a11")
_KEPT = 16
"""A process keeps so many writers open."""


@dataclass(frozen=True)
class ShardOfRows:
    """A shard, and the values of its rows by the sharding spec, as its state has them."""

    name: str
    values: Mapping[str, bytes]


@dataclass(frozen=True)
class Assignment:
    """How rows of a table with this `schema` are assigned to shards: by the `spec`, or all to the shard `name`.

    `known` are the shards that are there, by their values.
    """

    schema: Schema
    spec: ShardingSpec | None
    name: str | None
    known: Mapping[tuple[bytes, ...], str]

    @classmethod
    def of(cls, snapshot: Snapshot, shard: str | None) -> Assignment:
        """The assignment by the table's newest sharding spec, or to a shard that is given.

        Raises InvalidOperationError for a table without a log, and InvalidOptionError if there is neither a spec nor a shard, or both.
        """
        found = configuration(snapshot)
        if found is None:
            raise InvalidOperationError(f"{snapshot}: the table has no write-ahead log; call initialize_mem_wal first")
        if (found.spec is None) == (shard is None):
            what = "shards are chosen by hand, so name one" if shard is None else "rows are assigned to shards, so name none"
            raise InvalidOptionError(f"{snapshot}: in the write-ahead log {what}")
        known = {} if found.spec is None else _known(snapshot, found.spec)
        return cls(snapshot.manifest.schema, found.spec, shard, known)

    def divided(self, rows: pa.RecordBatch) -> Iterator[tuple[ShardOfRows, pa.RecordBatch]]:
        """The rows of each shard."""
        if self.name is not None:
            yield ShardOfRows(self.name, {}), rows
            return
        assert self.spec is not None
        values = evaluate_sharding_spec(self._sources(rows), self.spec, self.schema)
        columns = np.stack([value_numbers(column) for column in values.columns], axis=1)
        _, firsts, places = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        for place, first in enumerate(firsts.tolist()):
            own = {name: _bytes(values.column(name)[first]) for name in values.schema.names}
            yield self._shard(own), keep_rows(rows, pa.array(places.reshape(-1) == place))

    def _sources(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that decide, as the table has them: equal keys of other types must be in the same shard."""
        assert self.spec is not None
        ids = {i for field in self.spec.fields for i in field.source_ids}
        fields = tuple(f for f in self.schema.fields if f.id in ids)
        if not fields:
            return rows
        own, names = Schema(fields), {name.lower() for name in rows.schema.names}
        if missing := [name for name in own.names if name.lower() not in names]:
            raise SchemaMismatchError(f"the rows lack the column {missing[0]!r}, which assigns them to shards")
        wanted = {name.lower() for name in own.names}
        given = rows.select([name for name in rows.schema.names if name.lower() in wanted])
        check_fits(given.schema, own)
        return of_declared_lengths(as_columns(given, own, {}), own)

    def _shard(self, values: Mapping[str, bytes | None]) -> ShardOfRows:
        key = tuple(b"" if value is None else b"\x01" + value for value in values.values())
        assert self.spec is not None
        name = self.known.get(key)
        if name is None:
            # The same name in every process, so that two that see a new value make one shard.
            name = str(uuid.uuid5(_SPACE, f"{self.spec.spec_id}:{[part.hex() for part in key]}"))
        return ShardOfRows(name, {field: value for field, value in values.items() if value is not None})


def _known(snapshot: Snapshot, spec: ShardingSpec) -> dict[tuple[bytes, ...], str]:
    known = {}
    for name in shard_names(snapshot.store):
        found = values_of(snapshot.store, Shard(name, (), ()))
        if found is None or found[0] != spec.spec_id or not found[1]:
            continue
        values = [found[1].get(field.field_id) for field in spec.fields]
        known[tuple(b"" if value is None else b"\x01" + value for value in values)] = name
    return known


def _bytes(value: pa.Scalar) -> bytes | None:
    """The value as a shard's state has it: little endian, or UTF-8; None for null."""
    if not value.is_valid:
        return None
    if pa.types.is_boolean(value.type):
        return bytes([value.as_py()])
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        text: str = value.as_py()
        return text.encode()
    number: int = value.as_py()
    return number.to_bytes(value.type.bit_width // 8, "little", signed=pa.types.is_signed_integer(value.type))


_WRITERS: OrderedDict[tuple[int, str, str], tuple[Snapshot, ShardWriter]] = OrderedDict()


def put_batch(snapshot: Snapshot, shard: str | None, rows: pa.Table, deleted: str | None, app: str, number: int) -> int:
    """Put the rows of a numbered batch into their shards, but those that have them. Returns the number of rows that were put.

    For the arguments see `Assignment.of` and `ShardWriter.put_once`.
    """
    assignment = Assignment.of(snapshot, shard)
    of_shards: dict[str, tuple[ShardOfRows, list[pa.RecordBatch]]] = {}
    for batch in rows.to_batches():
        if batch.num_rows:
            for place, own in assignment.divided(batch):
                of_shards.setdefault(place.name, (place, []))[1].append(own)
    count = 0
    for place, batches in of_shards.values():
        if put_once(snapshot, place, pa.Table.from_batches(batches), deleted, app, number):
            count += sum(batch.num_rows for batch in batches)
    return count


def put_once(snapshot: Snapshot, shard: ShardOfRows, rows: pa.Table, deleted: str | None, app: str, number: int) -> bool:
    """`ShardWriter.put_once`, by a writer that this process keeps open. Another process may have taken the shard over meanwhile."""
    try:
        return _put_by_kept(snapshot, shard, rows, deleted, app, number)
    except WriterFencedError:
        return _put_by_kept(snapshot, shard, rows, deleted, app, number)  # a new writer, which takes the shard over


def _put_by_kept(snapshot: Snapshot, shard: ShardOfRows, rows: pa.Table, deleted: str | None, app: str, number: int) -> bool:
    """Put by the writer that is kept, which is kept no longer if that fails."""
    writer = _kept(snapshot, shard)
    try:
        return writer.put_once(rows, deleted, app, number)
    except LanceError:
        _forget(snapshot, shard)
        raise


def _kept(snapshot: Snapshot, shard: ShardOfRows) -> ShardWriter:
    """The open writer of a shard, for the columns and the rules of this version."""
    key = (os.getpid(), snapshot.store.uri, shard.name)
    if key in _WRITERS:
        base, writer = _WRITERS[key]
        old, new = base.manifest, snapshot.manifest
        is_same = base.store == snapshot.store and old.schema == new.schema and old.config == new.config
        if is_same and configuration(base) == configuration(snapshot):
            _WRITERS.move_to_end(key)
            return writer
        _forget(snapshot, shard)
    while len(_WRITERS) >= _KEPT:
        _, (_, oldest) = _WRITERS.popitem(last=False)
        oldest.leave()
    writer = ShardWriter(snapshot, shard.name, {}, shard.values)
    _WRITERS[key] = snapshot, writer
    return writer


def _forget(snapshot: Snapshot, shard: ShardOfRows) -> None:
    _, writer = _WRITERS.pop((os.getpid(), snapshot.store.uri, shard.name))
    with suppress(LanceError):
        writer.leave()
