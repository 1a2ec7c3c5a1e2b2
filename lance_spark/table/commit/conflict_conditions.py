"""The conditions of the conflict rules: the properties of two operations that make them conflict.

Each is called with our operation and theirs, in this order; users see its docstring after "if ..." or "because ...".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.metadata.operations import (
    CONSTRAINT,
    REWRITE_ROWS,
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    InsertedKeys,
    Merge,
    Operation,
    Overwrite,
    Project,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lance_spark.table.build.index_coverage import MEM_WAL, fragments_of
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE


def touched(op: Operation) -> frozenset[int]:
    """The ids of the existing fragments that an operation changes or removes."""
    match op:
        case Delete():
            return frozenset([*(f.id for f in op.updated_fragments), *op.deleted_fragment_ids])
        case Update():
            return frozenset([*(f.id for f in op.updated_fragments), *op.removed_fragment_ids])
        case Rewrite():
            return frozenset(f.id for group in op.groups for f in group.old_fragments)
        case DataReplacement():
            return frozenset(fragment_id for fragment_id, _ in op.replacements)
        case _:
            return frozenset()


def _removed(op: Delete | Update) -> Iterable[int]:
    return op.deleted_fragment_ids if isinstance(op, Delete) else op.removed_fragment_ids


def same_fragments(ours: Operation, theirs: Operation) -> bool:
    """both touch the same fragment"""
    return not touched(ours).isdisjoint(touched(theirs))


def they_remove_our_fragments(ours: Operation, theirs: Delete | Update) -> bool:
    """they remove a fragment that we touch"""
    return not touched(ours).isdisjoint(_removed(theirs))


def they_move_our_rows(ours: DataReplacement, theirs: Update) -> bool:
    """they touch the same fragment and move rows or write the same columns"""
    moves = theirs.update_mode == REWRITE_ROWS and bool(theirs.new_fragments)
    return same_fragments(ours, theirs) and (moves or not _replaced_fields(ours).isdisjoint(theirs.fields_modified))


def _columns(op: Merge | Project) -> frozenset[int]:
    """The ids of the columns after an operation. A column with a new type has a new id."""
    return frozenset(f.id for f in op.schema.walk())


def they_drop_written_fields(ours: Append, theirs: Merge | Project) -> bool:
    """they drop a column that we write, or change its type"""
    layouts = {file.fields for fragment in ours.fragments for file in fragment.files}
    return not _columns(theirs).issuperset(i for fields in layouts for i in fields if i >= 0)


def they_drop_our_files(ours: Delete | Update, theirs: Project) -> bool:
    """they drop all columns of a data file of a fragment that we change"""
    there = _columns(theirs)
    layouts = {file.fields for fragment in ours.updated_fragments for file in fragment.files}
    return any(there.isdisjoint(fields) for fields in layouts)


def they_may_forbid_nulls(ours: Operation, theirs: Merge | Project) -> bool:
    """they may change nullability"""
    return not theirs.preserves_nullability


def we_may_forbid_nulls(ours: Merge | Project, theirs: Operation) -> bool:
    """we may change nullability"""
    return not ours.preserves_nullability


def _replaced_fields(op: DataReplacement) -> frozenset[int]:
    return frozenset(i for _, file in op.replacements for i in file.fields)


def same_fragments_and_fields(ours: DataReplacement, theirs: DataReplacement) -> bool:
    """both replace the same column of the same fragment"""
    cells = {(fragment_id, i) for fragment_id, file in ours.replacements for i in file.fields}
    return any((fragment_id, i) in cells for fragment_id, file in theirs.replacements for i in file.fields)


def _indexed_fields(op: CreateIndex) -> frozenset[int]:
    return frozenset(i for index in op.new_indices for i in index.fields)


def we_index_replaced_fields(ours: CreateIndex, theirs: DataReplacement) -> bool:
    """we index a column that they replace"""
    return not _indexed_fields(ours).isdisjoint(_replaced_fields(theirs))


def they_index_replaced_fields(ours: DataReplacement, theirs: CreateIndex) -> bool:
    """they index a column that we replace"""
    return we_index_replaced_fields(theirs, ours)


def they_drop_replaced_fields(ours: DataReplacement, theirs: Project) -> bool:
    """they drop a column that we replace"""
    return not _replaced_fields(ours) <= _columns(theirs)


def they_drop_indexed_fields(ours: CreateIndex, theirs: Merge | Project) -> bool:
    """they drop a column that we index, or change its type"""
    return not _indexed_fields(ours) <= _columns(theirs)


def they_index_dropped_fields(ours: Merge, theirs: CreateIndex) -> bool:
    """they index a column whose type we change"""
    return they_drop_indexed_fields(theirs, ours)


def they_change_indexed_fields(ours: CreateIndex, theirs: Update) -> bool:
    """they change values of a column that we index"""
    return not _indexed_fields(ours).isdisjoint(theirs.fields_modified)


def _covers(op: CreateIndex, fragments: Iterable[int]) -> bool:
    ids = BitMap(fragments)
    covered = [fragments_of(index) for index in op.new_indices]
    return any(c is None or ids.intersect(c) for c in covered)


def we_index_moved_rows(ours: CreateIndex, theirs: Rewrite) -> bool:
    """our index covers a fragment that they rewrite, or its coverage is unknown"""
    return _covers(ours, touched(theirs))


def they_index_moved_rows(ours: Rewrite, theirs: CreateIndex) -> bool:
    """their index covers a fragment that we rewrite, or its coverage is unknown"""
    return not _names(theirs) & {FRAGMENT_REUSE} and _covers(theirs, touched(ours))


def _names(op: CreateIndex) -> frozenset[str]:
    return frozenset(i.name for i in op.new_indices)


def same_index(ours: CreateIndex, theirs: CreateIndex) -> bool:
    """both write an index with the same name, or one adds a segment to an index and the other removes a segment of it"""
    if _names(ours) & _names(theirs):
        return True
    gone = {i.uuid for i in ours.removed_indices} & {i.uuid for i in theirs.removed_indices}
    dropped = {i.name for i in (*ours.removed_indices, *theirs.removed_indices) if i.uuid in gone}
    return (
        bool(dropped & (_names(ours) | _names(theirs))) or _extends_what_is_removed(ours, theirs) or _extends_what_is_removed(theirs, ours)
    )


def _extends_what_is_removed(a: CreateIndex, b: CreateIndex) -> bool:
    """Whether `a` only adds segments to an index from which `b` removes segments."""
    removed = [frozenset(i.name for i in op.removed_indices) for op in (a, b)]
    return bool((_names(a) - removed[0]) & removed[1])


def we_install_a_write_ahead_log(ours: CreateIndex, theirs: Operation) -> bool:
    """we write the MemWAL index"""
    return MEM_WAL in _names(ours)


def they_install_a_write_ahead_log(ours: Operation, theirs: CreateIndex) -> bool:
    """they write the MemWAL index"""
    return MEM_WAL in _names(theirs)


def we_insert_keys(ours: Update, theirs: Operation) -> bool:
    """we insert rows with primary keys"""
    return ours.inserted_keys is not None


def same_keys(ours: Update, theirs: Update) -> bool:
    """we insert rows with primary keys, and they may have inserted the same keys"""
    if ours.inserted_keys is None:
        return False
    return theirs.inserted_keys is None or _may_share(ours.inserted_keys, theirs.inserted_keys)


def _may_share(a: InsertedKeys, b: InsertedKeys) -> bool:
    if a.field_ids != b.field_ids:
        return True
    if a.hashes is not None and b.hashes is not None:
        return not set(a.hashes).isdisjoint(b.hashes)
    are_filters = a.hashes is None and b.hashes is None
    if not are_filters or _shape(a) != _shape(b) or len(a.bloom) != len(b.bloom):
        return True
    return bool((np.frombuffer(a.bloom, dtype=np.uint8) & np.frombuffer(b.bloom, dtype=np.uint8)).any())


def _shape(keys: InsertedKeys) -> tuple[int, int, float]:
    return keys.bloom_bits, keys.bloom_items, keys.bloom_probability


def _config_changes(op: Operation) -> Mapping[str, str | None]:
    """The config keys that an operation sets or (None) removes."""
    if isinstance(op, Overwrite):
        return op.config_upsert_values
    return op.config_updates.updates if isinstance(op, UpdateConfig) and op.config_updates else {}


def same_config_keys(ours: Operation, theirs: Operation) -> bool:
    """both change the same key of the config, and not both remove it"""
    a, b = _config_changes(ours), _config_changes(theirs)
    return any(a[key] is not None or b[key] is not None for key in a.keys() & b.keys())


def same_metadata(ours: UpdateConfig, theirs: UpdateConfig) -> bool:
    """both change the same key of the table's metadata (or one replaces all of it), the schema's metadata, or metadata of the same field"""
    if ours.table_metadata_updates is not None and theirs.table_metadata_updates is not None:
        replaced = ours.table_metadata_updates.replace or theirs.table_metadata_updates.replace
        if replaced or ours.table_metadata_updates.updates.keys() & theirs.table_metadata_updates.updates.keys():
            return True
    both_schemas = ours.schema_metadata_updates is not None and theirs.schema_metadata_updates is not None
    return both_schemas or bool(ours.field_metadata_updates.keys() & theirs.field_metadata_updates.keys())


def they_drop_our_fields(ours: UpdateConfig, theirs: Merge | Project) -> bool:
    """we change metadata of a column that they drop"""
    return not ours.field_metadata_updates.keys() <= _columns(theirs)


def they_drop_modified_fields(ours: Update, theirs: Project) -> bool:
    """they drop a column that we rewrite in place"""
    return not _columns(theirs).issuperset(ours.fields_modified)


def _changes_schema(op: UpdateConfig) -> bool:
    changes = op.schema_metadata_updates
    return bool(op.field_metadata_updates) or (changes is not None and bool(changes.replace or changes.updates))


def we_change_schema_metadata(ours: UpdateConfig, theirs: Operation) -> bool:
    """we change metadata of the schema or of a field"""
    return _changes_schema(ours)


def they_change_schema_metadata(ours: Operation, theirs: UpdateConfig) -> bool:
    """they change metadata of the schema or of a field"""
    return _changes_schema(theirs)


def _adds_constraint(op: UpdateConfig) -> bool:
    updates = {} if op.config_updates is None else op.config_updates.updates
    return any(key.startswith(CONSTRAINT) and value is not None for key, value in updates.items())


def they_add_a_constraint(ours: Operation, theirs: UpdateConfig) -> bool:
    """they add a constraint, which our rows may fail"""
    return _adds_constraint(theirs)


def we_add_a_constraint(ours: UpdateConfig, theirs: Operation) -> bool:
    """we add a constraint, which their rows may fail"""
    return _adds_constraint(ours)


def we_keep_the_columns(ours: Overwrite, theirs: Operation) -> bool:
    """we keep the columns of the version that we read"""
    return ours.keeps_columns


def we_keep_changed_columns(ours: Overwrite, theirs: UpdateConfig) -> bool:
    """we keep the columns of the version that we read, and they change metadata of the schema or of a field"""
    return ours.keeps_columns and _changes_schema(theirs)


def we_merge_a_write_ahead_log(ours: Update, theirs: Operation) -> bool:
    """we merge a write-ahead log"""
    return bool(ours.compacted_sstables)


def same_shards(ours: Update, theirs: Update) -> bool:
    """both merge the same shard of a write-ahead log"""
    return bool(_shards(ours) & _shards(theirs))


def _shards(operation: Update) -> set[bytes]:
    messages = (parse_message(pb.CompactedSsTable, data, "a compacted SSTable") for data in operation.compacted_sstables)
    return {message.shard_id.uuid for message in messages}


def same_bases(ours: UpdateBases, theirs: UpdateBases) -> bool:
    """both add a base path with the same id, name or path"""
    for a, b in itertools.product(ours.new_bases, theirs.new_bases):
        is_same_name = a.name is not None and a.name == b.name
        if (a.id and a.id == b.id) or is_same_name or a.path == b.path:
            return True
    return False
