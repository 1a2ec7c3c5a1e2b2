"""The entry of a table's index section that gives it a write-ahead log, also by a property of the table.

Implements "MemWAL Index Details" of the MemTable and WAL specification. Who sets the property `lance_spark.mem_wal`, also of a
new table, gives the table a log in the same commit.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import InvalidOperationError, InvalidOptionError
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Overwrite, UpdateConfig
from lance_spark.schema.schema import Schema
from lance_spark.table.build.index_coverage import MEM_WAL
from lance_spark.table.build.sharding import ShardingSpec, bucket, identity, unsharded

PROPERTY = "lance_spark.mem_wal"
_DETAILS = "/lance.table.MemWalIndexDetails"
_SHARDED = re.compile(r"(bucket|identity)\((.+?)(?:, *([0-9]{1,9}))?\)")


def declared_spec(text: str, schema: Schema) -> ShardingSpec | None:
    """How rows are sharded by a value of the property; None: shards are chosen by hand. Raises InvalidOptionError."""
    if text == "true":
        return None
    if text == "unsharded":
        return unsharded()
    found = _SHARDED.fullmatch(text)
    if found is not None and found[1] == "bucket" and found[3] is not None:
        return bucket(schema, found[2], int(found[3]))
    if found is not None and found[1] == "identity" and found[3] is None:
        return identity(schema, found[2])
    expected = "unsharded, bucket(COLUMN, NUMBER), identity(COLUMN), or true for shards that are chosen by hand"
    raise InvalidOptionError(f"the property {PROPERTY} must be {expected}, not {text!r}")


def log_entry(
    version: int,
    spec: ShardingSpec | None,
    maintained: Sequence[str] | None,
    defaults: Mapping[str, str],
) -> IndexMetadata:
    """The entry of a new log, which the table of a `version` gets. `maintained` are the indexes that SSTables have (None: all)."""
    details = pb.MemWalIndexDetails(maintain_all_indexes=maintained is None, maintained_indexes=maintained or ())
    details.writer_config_defaults.update(defaults)
    if spec is not None:
        details.sharding_specs.append(_message(spec))
        details.num_shards = spec.num_shards
    return IndexMetadata(
        uuid=uuid.uuid4().bytes,
        name=MEM_WAL,
        fields=(),
        dataset_version=version,
        details_type=_DETAILS,
        details=details.SerializeToString(deterministic=True),
        index_version=0,
        created_at=int(time.time() * 1000),
    )


def with_declared_log(current: Manifest | None, operation: Any, new: Manifest) -> Manifest:
    """The version with the log that the operation declares by the property. A version without a log has no property.

    Raises InvalidOperationError for another declaration than that of a log that is there: a log cannot be changed.
    """
    before = None if current is None else current.config.get(PROPERTY)
    text = new.config.get(PROPERTY)
    has_log = any(index.name == MEM_WAL for index in new.indexes)
    if has_log and text != before:
        what = f"the table has a write-ahead log, so that its property {PROPERTY} cannot be set, changed or removed"
        raise InvalidOperationError(f"{what}; merge and drop the log first")
    if has_log or text is None:
        return new
    if not _is_set(operation):  # the log is dropped, or the table overwritten
        return replace(new, config={key: value for key, value in new.config.items() if key != PROPERTY})
    entry = log_entry(new.version, declared_spec(text, new.schema), None, {})
    return replace(new, indexes=(*new.indexes, entry))


def _is_set(operation: Any) -> bool:
    if isinstance(operation, Overwrite):
        return PROPERTY in operation.config_upsert_values
    return isinstance(operation, UpdateConfig) and operation.config_updates is not None and PROPERTY in operation.config_updates.updates


def _message(spec: ShardingSpec) -> pb.ShardingSpec:
    message = pb.ShardingSpec(spec_id=spec.spec_id)
    for field in spec.fields:
        added = message.fields.add(field_id=field.field_id, source_ids=field.source_ids, result_type=field.result_type)
        if field.transform is not None:
            added.transform = field.transform
        if field.expression is not None:
            added.expression = field.expression
        added.parameters.update(field.parameters)
    return message
