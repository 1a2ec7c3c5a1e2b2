"""The configuration of a table's write-ahead log: how rows are sharded, which indexes SSTables have, settings of writers.

Implements "MemWAL Index Details" of the MemTable and WAL specification: an entry in the table's index section without
files. A table has a log when it has the entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import InvalidOperationError, InvalidOptionError
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import CreateIndex
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.declared_log import log_entry
from lance_spark.table.build.index_coverage import MEM_WAL, SYSTEM_INDEXES
from lance_spark.table.build.sharding import ShardingField, ShardingSpec, check_spec
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.mem_wal_writing.settings import WriterSettings, settings_of
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class LogConfiguration:
    """The configuration of a log. `maintained` are the names of indexes that SSTables have; None: all that the table has."""

    specs: tuple[ShardingSpec, ...]
    maintained: tuple[str, ...] | None
    settings: WriterSettings
    num_shards: int = 0
    defaults: Mapping[str, str] | None = None

    @property
    def spec(self) -> ShardingSpec | None:
        """The sharding spec of new rows: the newest one; None if shards are chosen by hand."""
        return max(self.specs, key=lambda spec: spec.spec_id, default=None)

    def as_dict(self) -> dict[str, Any]:
        """As pylance's `mem_wal_index_details` returns it."""
        return {
            "num_shards": self.num_shards,
            "maintained_indexes": list(self.maintained or ()),
            "maintain_all_indexes": self.maintained is None,
            "writer_config_defaults": dict(self.defaults or {}),
            "sharding_specs": [spec.as_dict() for spec in self.specs],
        }


def configuration(snapshot: Snapshot) -> LogConfiguration | None:
    """The configuration of the version's log; None if it has no log. Raises CorruptFileError."""
    entry = next((index for index in snapshot.manifest.indexes if index.name == MEM_WAL), None)
    if entry is None:
        return None
    where = f"{snapshot}: the details of index {MEM_WAL!r}"
    details = parse_message(pb.MemWalIndexDetails, entry.details, where)
    specs = tuple(_spec(spec) for spec in details.sharding_specs)
    maintained = None if details.maintain_all_indexes else tuple(details.maintained_indexes)
    defaults = dict(details.writer_config_defaults)
    return LogConfiguration(specs, maintained, settings_of(defaults, where), details.num_shards, defaults)


def initialize_log(
    snapshot: Snapshot,
    spec: ShardingSpec | None = None,
    maintained: Sequence[str] | None = None,
    settings: Mapping[str, object] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Give the table a write-ahead log, in one commit.

    Raises InvalidOperationError if it has one, and InvalidOptionError for a spec or an index that does not fit the table.
    """
    noted = dict(properties or {})
    if done := done_before(snapshot.store, noted):
        return done
    check_writable(snapshot.manifest, snapshot.store.uri)
    if configuration(snapshot) is not None:
        raise InvalidOperationError(f"{snapshot}: the table has a write-ahead log already")
    if spec is not None:
        check_spec(spec, snapshot.manifest.schema)
    _check_indexes(snapshot, maintained)
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    chosen = WriterSettings().with_given(given)
    entry = log_entry(snapshot.version, spec, maintained, chosen.as_text() if given else {})
    transaction = Transaction(snapshot.version, CreateIndex((entry,)), properties=noted)
    return commit(snapshot.store, transaction, base=snapshot)


def _check_indexes(snapshot: Snapshot, maintained: Sequence[str] | None) -> None:
    there = {index.name for index in snapshot.manifest.indexes} - SYSTEM_INDEXES
    if missing := sorted(set(maintained or ()) - there):
        known = ", ".join(sorted(there)) or "none"
        raise InvalidOptionError(f"{snapshot}: there is no index {missing[0]!r} for maintained_indexes; the indexes are: {known}")


def _spec(message: pb.ShardingSpec) -> ShardingSpec:
    fields = []
    for field in message.fields:
        transform = field.transform if field.HasField("transform") else None
        expression = field.expression if field.HasField("expression") else None
        parameters = dict(field.parameters)
        fields.append(ShardingField(field.field_id, tuple(field.source_ids), transform, expression, field.result_type, parameters))
    return ShardingSpec(message.spec_id, tuple(fields))
