"""Conflict checks against versions that were cleaned up, so that their transactions are unknown.

An operation can be committed after such versions if everything that it depends on is the same in the current version as in the read
version. pylance ignores such versions. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from pyroaring import BitMap

from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import (
    CONSTRAINT,
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.build.index_coverage import fragments_of
from lance_spark.table.build.old_writers import format_of
from lance_spark.table.commit.conflict_conditions import touched, we_add_a_constraint

_UNDER_RULES = (Append, Update, Merge, Project, Overwrite, DataReplacement)
"""Operations whose rows or columns may fail a constraint that was declared meanwhile."""


def fits(written: Schema, current: Schema) -> bool:
    """True if data files with the schema `written` fit the schema `current`.

    It must have their fields, with the same storage. Fields that the files lack must be nullable, or be in one that is.
    """
    if written.fields == current.fields:
        return True
    files, table = _fields(written), _fields(current)
    if not files.keys() <= table.keys() or not _may_lack(current.fields, files.keys()):
        return False
    pairs = [(field, table[i]) for i, field in files.items()]
    return all(_storage(own) == _storage(other) and own.nullable <= other.nullable for own, other in pairs)


def fits_by_name(written: Schema, current: Schema) -> bool:
    """True if data files with the schema `written` fit the schema `current`, and their columns have the same names.

    This is to be asked if it is unknown what happened in between: a field id may have been given to another column.
    """
    table = _fields(current)
    for i, field in _fields(written).items():
        if i not in table or table[i].name != field.name:
            return False
    return fits(written, current)


def _may_lack(fields: Iterable[Field], there: Set[int]) -> bool:
    """True if files that have only the fields with the ids `there` can have nulls for the others."""
    return all(_may_lack(f.children, there) if f.id in there else f.nullable for f in fields)


def _fields(schema: Schema) -> dict[int, Field]:
    return {f.id: f for f in schema.walk()}


def _storage(field: Field) -> tuple[object, ...]:
    """The properties of a field that determine how its values are stored."""
    return field.logical_type, field.extension, field.is_blob, field.is_packed


def fits_after_cleanup(operation: Operation, read: Manifest | None, current: Manifest, written: Schema | None) -> bool:
    """True if `operation` can be committed after removed versions, up to `current`.

    `read` is the version that it was prepared for (None: it was removed, too), and `written` the schema of the new data files, if known. A
    Delete, an Update or a CreateIndex must be rebased in addition.
    """
    if isinstance(operation, Restore | ReserveFragments | UpdateBases):
        return True
    if isinstance(operation, _UNDER_RULES) and _declared(current) - _declared(read):
        return False
    if isinstance(operation, Append):
        schema = written or (read.schema if read else None)
        return schema is not None and fits_by_name(schema, current.schema) and format_of(operation.fragments) <= {current.data_format}
    if read is None:
        return False
    match operation:
        case Overwrite():
            same = not operation.keeps_columns or read.schema == current.schema
            unset = _same_entries(operation.config_upsert_values, read.config, current.config)
            return same and unset and bool(_paths(read) & _paths(current))
        case UpdateConfig():
            return _configures(operation, read, current)
    if read.schema != current.schema or {i.uuid for i in read.indexes} != {i.uuid for i in current.indexes}:
        return False
    match operation:
        case Delete():
            return True
        case Update():
            return operation.inserted_keys is None and not operation.compacted_sstables
        case Rewrite() | DataReplacement():
            before, now = (m.lazy_fragments.of_ids(touched(operation)) for m in (read, current))
            return before == now
        case CreateIndex():
            covered, there = [fragments_of(i) for i in operation.new_indices], BitMap(current.lazy_fragments.ids.tolist())
            return all(c is not None and c <= there for c in covered)
        case Project() if operation.preserves_nullability:
            return True
        case Merge() | Project():
            return read.lazy_fragments == current.lazy_fragments
    return False  # pragma: no cover: what is left cannot be committed


def _paths(manifest: Manifest) -> set[tuple[str, int | None]]:
    """The data files of a version. After an Overwrite, no earlier file is in a later version."""
    return {(file.path, file.base_id) for fragment in manifest.fragments for file in fragment.files}


def _declared(manifest: Manifest | None) -> Set[tuple[str, str]]:
    """The constraints of a version; of one that was removed, none is known."""
    config = {} if manifest is None else manifest.config
    return {(key, text) for key, text in config.items() if key.startswith(CONSTRAINT)}


def _configures(operation: UpdateConfig, read: Manifest, current: Manifest) -> bool:
    if we_add_a_constraint(operation, operation) and read.lazy_fragments != current.lazy_fragments:
        return False
    changes_schema = operation.schema_metadata_updates is not None or bool(operation.field_metadata_updates)
    if changes_schema and read.schema != current.schema:
        return False
    pairs = (
        (operation.config_updates, read.config, current.config),
        (
            operation.table_metadata_updates,
            read.table_metadata,
            current.table_metadata,
        ),
    )
    return all(update is None or _same_update(update, before, now) for update, before, now in pairs)


def _same_update(update: UpdateMap, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return before == now if update.replace else _same_entries(update.updates, before, now)


def _same_entries(keys: Iterable[str], before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return all(before.get(key) == now.get(key) for key in keys)
