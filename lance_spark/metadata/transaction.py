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


def _read_overwrite(m: pb.Transaction.Overwrite) -> Overwrite:
    bases = tuple(read_base_path(b, Reading()) for b in m.initial_bases)
    return Overwrite(_fragments(m.fragments), parse_fields(m.schema, m.schema_metadata), dict(m.config_upsert_values), bases)


def _write_overwrite(op: Overwrite, m: pb.Transaction.Overwrite) -> None:
    _add_fragments(op.fragments, m.fragments)
    _write_schema(op.schema, m)
    m.config_upsert_values.update(op.config_upsert_values)
    for base in op.initial_bases:
        write_base_path(base, m.initial_bases.add())


def _write_schema(schema: Schema, m: Any) -> None:
    m.schema.extend(serialise_fields(schema))
    m.schema_metadata.update({k.decode(): v for k, v in schema.metadata.items()})


def _read_delete(m: pb.Transaction.Delete) -> Delete:
    return Delete(_fragments(m.updated_fragments), _fragment_ids(m.deleted_fragment_ids), m.predicate)


def _write_delete(op: Delete, m: pb.Transaction.Delete) -> None:
    _add_fragments(op.updated_fragments, m.updated_fragments)
    m.deleted_fragment_ids.extend(op.deleted_fragment_ids)
    m.predicate = op.predicate


def _write_create_index(op: CreateIndex, m: pb.Transaction.CreateIndex) -> None:
    for index in op.new_indices:
        write_index(index, m.new_indices.add())
    for index in op.removed_indices:
        write_index(index, m.removed_indices.add())


def _read_rewrite(m: pb.Transaction.Rewrite) -> Rewrite:
    groups = [RewriteGroup(_fragments(g.old_fragments), _fragments(g.new_fragments)) for g in m.groups]
    if m.old_fragments:
        # The first writers used these fields instead of groups.
        groups.append(RewriteGroup(_fragments(m.old_fragments), _fragments(m.new_fragments)))
    return Rewrite(tuple(groups), tuple(_read_rewritten(i) for i in m.rewritten_indices))


def _read_rewritten(m: Any) -> RewrittenIndex:
    details, files = m.new_index_details, tuple(IndexFile(f.path, f.size_bytes) for f in m.new_index_files)
    return RewrittenIndex(m.old_id.uuid, m.new_id.uuid, details.type_url, details.value, m.new_index_version, files)


def _write_rewrite(op: Rewrite, m: pb.Transaction.Rewrite) -> None:
    for group in op.groups:
        message = m.groups.add()
        _add_fragments(group.old_fragments, message.old_fragments)
        _add_fragments(group.new_fragments, message.new_fragments)
    for index in op.rewritten_indices:
        entry = m.rewritten_indices.add()
        entry.old_id.uuid, entry.new_id.uuid, entry.new_index_version = index.old_id, index.new_id, index.index_version
        if index.details_type:
            entry.new_index_details.type_url, entry.new_index_details.value = index.details_type, index.details
        for file in index.files:
            entry.new_index_files.add(path=file.path, size_bytes=file.size)


def _optional(m: Any, name: str) -> Any:
    return getattr(m, name) if m.HasField(name) else None


def _read_merge(m: pb.Transaction.Merge) -> Merge:
    return Merge(_fragments(m.fragments), parse_fields(m.schema, m.schema_metadata), _optional(m, "preserves_nullability"))


def _write_merge(op: Merge, m: pb.Transaction.Merge) -> None:
    _add_fragments(op.fragments, m.fragments)
    _write_schema(op.schema, m)
    if op.preserves_nullability is not None:
        m.preserves_nullability = op.preserves_nullability


def _write_project(op: Project, m: pb.Transaction.Project) -> None:
    m.schema.extend(serialise_fields(op.schema))
    if op.preserves_nullability is not None:
        m.preserves_nullability = op.preserves_nullability


def _read_update(m: pb.Transaction.Update) -> Update:
    return Update(
        _fragment_ids(m.removed_fragment_ids),
        _fragments(m.updated_fragments),
        _fragments(m.new_fragments),
        tuple(m.fields_modified),
        tuple(m.fields_for_preserving_frag_bitmap),
        m.update_mode,
        tuple(m.compacted_sstables),
        _read_keys(m.inserted_rows) if m.HasField("inserted_rows") else None,
        # Older writers list the offsets.
        {i: BitMap(offsets.values).serialize() for i, offsets in m.updated_fragment_offsets.items()}
        | dict(m.updated_fragment_offset_bitmaps),
    )


def _read_keys(m: pb.Transaction.KeyExistenceFilter) -> InsertedKeys:
    bloom = m.bloom
    hashes = tuple(m.exact.key_hashes) if m.HasField("exact") else None
    return InsertedKeys(tuple(m.field_ids), hashes, bloom.bitmap, bloom.num_bits, bloom.number_of_items, bloom.probability)


def _write_update(op: Update, m: pb.Transaction.Update) -> None:
    m.removed_fragment_ids.extend(op.removed_fragment_ids)
    _add_fragments(op.updated_fragments, m.updated_fragments)
    _add_fragments(op.new_fragments, m.new_fragments)
    m.fields_modified.extend(op.fields_modified)
    m.fields_for_preserving_frag_bitmap.extend(op.fields_for_preserving_frag_bitmap)
    m.update_mode = op.update_mode  # type: ignore[assignment]
    m.compacted_sstables.extend(op.compacted_sstables)
    m.updated_fragment_offset_bitmaps.update(op.updated_fragment_offsets)
    if (keys := op.inserted_keys) is None:
        return
    m.inserted_rows.field_ids.extend(keys.field_ids)
    if keys.hashes is not None:
        m.inserted_rows.exact.SetInParent()
        m.inserted_rows.exact.key_hashes.extend(keys.hashes)
    else:
        bloom = m.inserted_rows.bloom
        bloom.SetInParent()
        bloom.bitmap, bloom.num_bits = keys.bloom, keys.bloom_bits
        bloom.number_of_items, bloom.probability = keys.bloom_items, keys.bloom_probability


def _read_map(m: pb.Transaction.UpdateMap) -> UpdateMap:
    return UpdateMap({e.key: _optional(e, "value") for e in m.update_entries}, m.replace)


def _write_map(update: UpdateMap, m: pb.Transaction.UpdateMap) -> None:
    m.SetInParent()
    m.replace = update.replace
    for key, value in update.updates.items():
        entry = m.update_entries.add()
        entry.key = key
        if value is not None:
            entry.value = value


def _read_update_config(m: pb.Transaction.UpdateConfig) -> UpdateConfig:
    def kind(name: str) -> UpdateMap | None:
        return _read_map(getattr(m, name)) if m.HasField(name) else None

    # Older writers use other fields: keys to set or delete, and metadata that replaces the existing metadata.
    config = kind("config_updates")
    if m.upsert_values or m.delete_keys:
        config = UpdateMap({**m.upsert_values, **dict.fromkeys(m.delete_keys)})
    schema = UpdateMap(dict(m.schema_metadata), replace=True) if m.schema_metadata else kind("schema_metadata_updates")
    fields = {i: _read_map(u) for i, u in m.field_metadata_updates.items()}
    fields.update({i: UpdateMap(dict(u.metadata), replace=True) for i, u in m.field_metadata.items()})
    return UpdateConfig(config, kind("table_metadata_updates"), schema, fields)


def _write_update_config(op: UpdateConfig, m: pb.Transaction.UpdateConfig) -> None:
    m.SetInParent()
    if op.config_updates is not None:
        _write_map(op.config_updates, m.config_updates)
    if op.table_metadata_updates is not None:
        _write_map(op.table_metadata_updates, m.table_metadata_updates)
    if op.schema_metadata_updates is not None:
        _write_map(op.schema_metadata_updates, m.schema_metadata_updates)
    for field_id, update in op.field_metadata_updates.items():
        _write_map(update, m.field_metadata_updates[field_id])


def _read_replacement(m: pb.Transaction.DataReplacement) -> DataReplacement:
    _fragment_ids(r.fragment_id for r in m.replacements)
    return DataReplacement(tuple(DataReplacementGroup(r.fragment_id, read_data_file(r.new_file, Reading())) for r in m.replacements))


def _write_replacement(op: DataReplacement, m: pb.Transaction.DataReplacement) -> None:
    for fragment_id, file in op.replacements:
        group = m.replacements.add()
        group.fragment_id = fragment_id
        write_data_file(file, group.new_file)


def _read_clone(m: pb.Transaction.Clone) -> Clone:
    return Clone(m.is_shallow, m.ref_version, m.ref_path, _optional(m, "ref_name"), _optional(m, "branch_name"))


def _write_clone(op: Clone, m: pb.Transaction.Clone) -> None:
    m.is_shallow, m.ref_version, m.ref_path = op.is_shallow, op.ref_version, op.ref_path
    if op.ref_name is not None:
        m.ref_name = op.ref_name
    if op.branch_name is not None:
        m.branch_name = op.branch_name


def _write_mem_wal(op: UpdateMemWalState, m: pb.Transaction.UpdateMemWalState) -> None:
    m.added.extend(op.added)
    m.updated.extend(op.updated)
    m.removed.extend(op.removed)


def _write_bases(op: UpdateBases, m: pb.Transaction.UpdateBases) -> None:
    for base in op.new_bases:
        write_base_path(base, m.new_bases.add())


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
