"""Transactions: one change to a table as a frozen value <-> the Transaction message.

Implements the Transaction message of the transaction specification. The manifest builder makes the next version from a transaction,
and other writers check it for conflicts with their own. An unknown operation is kept as `Unknown` and conflicts with every other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroaring import BitMap

from lance_spark._proto import transaction_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import (
    Fragment,
    IndexFile,
    IndexMetadata,
    Reading,
    read_base_path,
    read_data_file,
    read_fragment,
    read_index,
    write_base_path,
    write_data_file,
    write_fragment,
    write_index,
)
from lance_spark.metadata.operations import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    InsertedKeys,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Unknown,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)
from lance_spark.metadata.transaction_ids import new_id
from lance_spark.schema.field_messages import parse_fields, serialise_fields
from lance_spark.schema.schema import Schema

PART_OF = "lance_spark.transaction"
"""The property with the id of the transaction over several tables of which a version is a part.

It is also a key of the config, which the builder of the version sets: later versions keep it, so that no
cleanup hides that the table has the changes of the transaction.
"""


@dataclass(frozen=True)
class Transaction:
    """A change to a table, based on `read_version` (0: there was no table). `uuid` identifies it."""

    read_version: int
    operation: Operation
    uuid: str = field(default_factory=new_id)
    tag: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of the transaction file in the folder `_transactions`."""
        return f"{self.read_version}-{self.uuid}.txn"


def with_part(config: Mapping[str, str], properties: Mapping[str, str]) -> Mapping[str, str]:
    """The config of a version, made by a transaction with these properties."""
    return {**config, PART_OF: properties[PART_OF]} if PART_OF in properties else config


def _fragments(messages: Iterable[Any]) -> tuple[Fragment, ...]:
    reading = Reading()
    return tuple(read_fragment(m, reading) for m in messages)


def _fragment_ids(ids: Iterable[int]) -> tuple[int, ...]:
    ids = tuple(ids)
    if max(ids, default=0) >= 2**32:
        raise CorruptFileError(f"fragment id {max(ids)} does not fit 32 bits")
    return ids


def _add_fragments(fragments: Iterable[Fragment], messages: Any) -> None:
    for fragment in fragments:
        write_fragment(fragment, messages.add())


def _indexes(messages: Iterable[Any]) -> tuple[IndexMetadata, ...]:
    return tuple(read_index(m, Reading()) for m in messages)


def _read_overwrite(message: pb.Transaction.Overwrite) -> Overwrite:
    bases = tuple(read_base_path(b, Reading()) for b in message.initial_bases)
    return Overwrite(
        _fragments(message.fragments), parse_fields(message.schema, message.schema_metadata), dict(message.config_upsert_values), bases
    )


def _write_overwrite(op: Overwrite, message: pb.Transaction.Overwrite) -> None:
    _add_fragments(op.fragments, message.fragments)
    _write_schema(op.schema, message)
    message.config_upsert_values.update(op.config_upsert_values)
    for base in op.initial_bases:
        write_base_path(base, message.initial_bases.add())


def _write_schema(schema: Schema, message: Any) -> None:
    message.schema.extend(serialise_fields(schema))
    message.schema_metadata.update({k.decode(): v for k, v in schema.metadata.items()})


def _read_delete(message: pb.Transaction.Delete) -> Delete:
    return Delete(_fragments(message.updated_fragments), _fragment_ids(message.deleted_fragment_ids), message.predicate)


def _write_delete(op: Delete, message: pb.Transaction.Delete) -> None:
    _add_fragments(op.updated_fragments, message.updated_fragments)
    message.deleted_fragment_ids.extend(op.deleted_fragment_ids)
    message.predicate = op.predicate


def _write_create_index(op: CreateIndex, message: pb.Transaction.CreateIndex) -> None:
    for index in op.new_indices:
        write_index(index, message.new_indices.add())
    for index in op.removed_indices:
        write_index(index, message.removed_indices.add())


def _read_rewrite(message: pb.Transaction.Rewrite) -> Rewrite:
    groups = [RewriteGroup(_fragments(g.old_fragments), _fragments(g.new_fragments)) for g in message.groups]
    if message.old_fragments:
        # The first writers used these fields instead of groups.
        groups.append(RewriteGroup(_fragments(message.old_fragments), _fragments(message.new_fragments)))
    return Rewrite(tuple(groups), tuple(_read_rewritten(i) for i in message.rewritten_indices))


def _read_rewritten(message: Any) -> RewrittenIndex:
    details, files = message.new_index_details, tuple(IndexFile(f.path, f.size_bytes) for f in message.new_index_files)
    return RewrittenIndex(message.old_id.uuid, message.new_id.uuid, details.type_url, details.value, message.new_index_version, files)


def _write_rewrite(op: Rewrite, message: pb.Transaction.Rewrite) -> None:
    for group in op.groups:
        written = message.groups.add()
        _add_fragments(group.old_fragments, written.old_fragments)
        _add_fragments(group.new_fragments, written.new_fragments)
    for index in op.rewritten_indices:
        entry = message.rewritten_indices.add()
        entry.old_id.uuid, entry.new_id.uuid, entry.new_index_version = index.old_id, index.new_id, index.index_version
        if index.details_type:
            entry.new_index_details.type_url, entry.new_index_details.value = index.details_type, index.details
        for file in index.files:
            entry.new_index_files.add(path=file.path, size_bytes=file.size)


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _read_merge(message: pb.Transaction.Merge) -> Merge:
    return Merge(
        _fragments(message.fragments), parse_fields(message.schema, message.schema_metadata), _optional(message, "preserves_nullability")
    )


def _write_merge(op: Merge, message: pb.Transaction.Merge) -> None:
    _add_fragments(op.fragments, message.fragments)
    _write_schema(op.schema, message)
    if op.preserves_nullability is not None:
        message.preserves_nullability = op.preserves_nullability


def _write_project(op: Project, message: pb.Transaction.Project) -> None:
    message.schema.extend(serialise_fields(op.schema))
    if op.preserves_nullability is not None:
        message.preserves_nullability = op.preserves_nullability


def _read_update(message: pb.Transaction.Update) -> Update:
    return Update(
        _fragment_ids(message.removed_fragment_ids),
        _fragments(message.updated_fragments),
        _fragments(message.new_fragments),
        tuple(message.fields_modified),
        tuple(message.fields_for_preserving_frag_bitmap),
        message.update_mode,
        tuple(message.compacted_sstables),
        _read_keys(message.inserted_rows) if message.HasField("inserted_rows") else None,
        # Older writers list the offsets.
        {i: BitMap(offsets.values).serialize() for i, offsets in message.updated_fragment_offsets.items()}
        | dict(message.updated_fragment_offset_bitmaps),
    )


def _read_keys(message: pb.Transaction.KeyExistenceFilter) -> InsertedKeys:
    bloom = message.bloom
    hashes = tuple(message.exact.key_hashes) if message.HasField("exact") else None
    return InsertedKeys(tuple(message.field_ids), hashes, bloom.bitmap, bloom.num_bits, bloom.number_of_items, bloom.probability)


def _write_update(op: Update, message: pb.Transaction.Update) -> None:
    message.removed_fragment_ids.extend(op.removed_fragment_ids)
    _add_fragments(op.updated_fragments, message.updated_fragments)
    _add_fragments(op.new_fragments, message.new_fragments)
    message.fields_modified.extend(op.fields_modified)
    message.fields_for_preserving_frag_bitmap.extend(op.fields_for_preserving_frag_bitmap)
    message.update_mode = op.update_mode  # type: ignore[assignment]
    message.compacted_sstables.extend(op.compacted_sstables)
    message.updated_fragment_offset_bitmaps.update(op.updated_fragment_offsets)
    if (keys := op.inserted_keys) is None:
        return
    message.inserted_rows.field_ids.extend(keys.field_ids)
    if keys.hashes is not None:
        message.inserted_rows.exact.SetInParent()
        message.inserted_rows.exact.key_hashes.extend(keys.hashes)
    else:
        bloom = message.inserted_rows.bloom
        bloom.SetInParent()
        bloom.bitmap, bloom.num_bits = keys.bloom, keys.bloom_bits
        bloom.number_of_items, bloom.probability = keys.bloom_items, keys.bloom_probability


def _read_map(message: pb.Transaction.UpdateMap) -> UpdateMap:
    return UpdateMap({e.key: _optional(e, "value") for e in message.update_entries}, message.replace)


def _write_map(update: UpdateMap, message: pb.Transaction.UpdateMap) -> None:
    message.SetInParent()
    message.replace = update.replace
    for key, value in update.updates.items():
        entry = message.update_entries.add()
        entry.key = key
        if value is not None:
            entry.value = value


def _read_update_config(message: pb.Transaction.UpdateConfig) -> UpdateConfig:
    def kind(name: str) -> UpdateMap | None:
        return _read_map(getattr(message, name)) if message.HasField(name) else None

    # Older writers use other fields: keys to set or delete, and metadata that replaces the existing metadata.
    config = kind("config_updates")
    if message.upsert_values or message.delete_keys:
        config = UpdateMap({**message.upsert_values, **dict.fromkeys(message.delete_keys)})
    schema = UpdateMap(dict(message.schema_metadata), replace=True) if message.schema_metadata else kind("schema_metadata_updates")
    fields = {i: _read_map(u) for i, u in message.field_metadata_updates.items()}
    fields.update({i: UpdateMap(dict(u.metadata), replace=True) for i, u in message.field_metadata.items()})
    return UpdateConfig(config, kind("table_metadata_updates"), schema, fields)


def _write_update_config(op: UpdateConfig, message: pb.Transaction.UpdateConfig) -> None:
    message.SetInParent()
    if op.config_updates is not None:
        _write_map(op.config_updates, message.config_updates)
    if op.table_metadata_updates is not None:
        _write_map(op.table_metadata_updates, message.table_metadata_updates)
    if op.schema_metadata_updates is not None:
        _write_map(op.schema_metadata_updates, message.schema_metadata_updates)
    for field_id, update in op.field_metadata_updates.items():
        _write_map(update, message.field_metadata_updates[field_id])


def _read_replacement(message: pb.Transaction.DataReplacement) -> DataReplacement:
    _fragment_ids(r.fragment_id for r in message.replacements)
    return DataReplacement(tuple(DataReplacementGroup(r.fragment_id, read_data_file(r.new_file, Reading())) for r in message.replacements))


def _write_replacement(op: DataReplacement, message: pb.Transaction.DataReplacement) -> None:
    for fragment_id, file in op.replacements:
        group = message.replacements.add()
        group.fragment_id = fragment_id
        write_data_file(file, group.new_file)


def _read_clone(message: pb.Transaction.Clone) -> Clone:
    return Clone(
        message.is_shallow, message.ref_version, message.ref_path, _optional(message, "ref_name"), _optional(message, "branch_name")
    )


def _write_clone(op: Clone, message: pb.Transaction.Clone) -> None:
    message.is_shallow, message.ref_version, message.ref_path = op.is_shallow, op.ref_version, op.ref_path
    if op.ref_name is not None:
        message.ref_name = op.ref_name
    if op.branch_name is not None:
        message.branch_name = op.branch_name


def _write_mem_wal(op: UpdateMemWalState, message: pb.Transaction.UpdateMemWalState) -> None:
    message.added.extend(op.added)
    message.updated.extend(op.updated)
    message.removed.extend(op.removed)


def _write_bases(op: UpdateBases, message: pb.Transaction.UpdateBases) -> None:
    for base in op.new_bases:
        write_base_path(base, message.new_bases.add())


_Read = Callable[[Any], Operation]
_Write = Callable[[Any, Any], None]

# Field of the message's oneof -> the class, and the functions that read and write it
OPERATIONS: dict[str, tuple[type, _Read, _Write]] = {
    "append": (Append, lambda m: Append(_fragments(m.fragments)), lambda op, m: _add_fragments(op.fragments, m.fragments)),
    "delete": (Delete, _read_delete, _write_delete),
    "overwrite": (Overwrite, _read_overwrite, _write_overwrite),
    "create_index": (CreateIndex, lambda m: CreateIndex(_indexes(m.new_indices), _indexes(m.removed_indices)), _write_create_index),
    "rewrite": (Rewrite, _read_rewrite, _write_rewrite),
    "merge": (Merge, _read_merge, _write_merge),
    "restore": (Restore, lambda m: Restore(m.version), lambda op, m: setattr(m, "version", op.version)),
    "reserve_fragments": (
        ReserveFragments,
        lambda m: ReserveFragments(m.num_fragments),
        lambda op, m: setattr(m, "num_fragments", op.num_fragments),
    ),
    "update": (Update, _read_update, _write_update),
    "project": (Project, lambda m: Project(parse_fields(m.schema, {}), _optional(m, "preserves_nullability")), _write_project),
    "update_config": (UpdateConfig, _read_update_config, _write_update_config),
    "data_replacement": (DataReplacement, _read_replacement, _write_replacement),
    "update_mem_wal_state": (
        UpdateMemWalState,
        lambda m: UpdateMemWalState(tuple(m.added), tuple(m.updated), tuple(m.removed)),
        _write_mem_wal,
    ),
    "clone": (Clone, _read_clone, _write_clone),
    "update_bases": (UpdateBases, lambda m: UpdateBases(tuple(read_base_path(b, Reading()) for b in m.new_bases)), _write_bases),
    "data_overlay": (DataOverlay, lambda m: DataOverlay(tuple(m.groups)), lambda op, m: m.groups.extend(op.groups)),
}
_NAMES = {kind: name for name, (kind, _, _) in OPERATIONS.items()}


def parse(data: bytes, name: str) -> Transaction:
    """Parse a transaction; `name` is its file, for errors. Raises CorruptFileError for invalid bytes."""
    message = parse_message(pb.Transaction, data, name)
    kind = message.WhichOneof("operation")
    try:
        operation = OPERATIONS[kind][1](getattr(message, kind)) if kind in OPERATIONS else Unknown(data)
    except CorruptFileError as e:
        raise CorruptFileError(f"{name}: {e}") from e
    return Transaction(message.read_version, operation, message.uuid, message.tag, dict(message.transaction_properties))


def parse_head(data: bytes, name: str) -> tuple[dict[str, str], int | None]:
    """Only the properties of a transaction, and the version that it restores, None if it is not a Restore; see `parse`."""
    message = parse_message(pb.Transaction, data, name)
    restored = message.restore.version if message.WhichOneof("operation") == "restore" else None
    return dict(message.transaction_properties), restored


def serialise(transaction: Transaction) -> bytes:
    """Serialise a transaction for its file or for the transaction section of a manifest file."""
    if isinstance(transaction.operation, Unknown):
        return transaction.operation.message
    message = pb.Transaction()
    message.read_version, message.uuid, message.tag = transaction.read_version, transaction.uuid, transaction.tag
    message.transaction_properties.update(transaction.properties)
    name = _NAMES[type(transaction.operation)]
    inner = getattr(message, name)
    inner.SetInParent()
    OPERATIONS[name][2](transaction.operation, inner)
    return message.SerializeToString()
