"""The next manifest of a table from its current one and a transaction. Pure: no I/O, no clock, no randomness.

Implements the transaction types of the specification as pylance 14.0.2 does. `_BUILDERS` names the operations that can be built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lance_spark.errors import InvalidOperationError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.metadata.bitmaps import read_bitmap
from lance_spark.metadata.branch_merges import MERGED, with_record
from lance_spark.metadata.field_ids import with_mark
from lance_spark.metadata.fragment import TOMBSTONE, DataFile, Fragment
from lance_spark.metadata.lazy_fragments import Fragments
from lance_spark.metadata.manifest import (
    BASE_PATHS,
    COVERING_COLUMNS,
    DELETION_FILES,
    PAIRED,
    STABLE_ROW_IDS,
    TABLE_CONFIG,
    Manifest,
    WriterVersion,
)
from lance_spark.metadata.numbered_writes import following
from lance_spark.metadata.operations import (
    REWRITE_COLUMNS,
    REWRITE_ROWS,
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
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
from lance_spark.metadata.transaction import Transaction, with_part
from lance_spark.metadata.view_records import VIEW, check_keeps_rows, with_view
from lance_spark.schema.primary_key import primary_key_position
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, Field, Schema
from lance_spark.table.build import index_coverage, row_ids_and_versions
from lance_spark.table.build.checks import check_operation, check_result, kept_and_new
from lance_spark.table.build.data_replacement import with_replaced_file
from lance_spark.table.build.declared_log import with_declared_log
from lance_spark.table.build.old_writers import completed, format_of, highest_fragment_id
from lance_spark.version import __version__

WRITER = WriterVersion("lance_spark", __version__)


@dataclass(frozen=True)
class TableSettings:
    """Settings of a new table and (`data_format` only) of an overwritten one; None keeps the table's current setting."""

    data_format: str | None = None
    stable_row_ids: bool = False


NO_SETTINGS = TableSettings()
DEFAULT_FORMAT = "2.2"


def build(
    current: Manifest | None, transaction: Transaction, settings: TableSettings, timestamp: int, source: Manifest | None = None
) -> Manifest:
    """The manifest that `transaction` makes from `current` (None: there is no table yet), at `timestamp` in nanoseconds since 1970.

    `source` is the version that a Restore goes back to. The transaction must not conflict with commits since its read version
    (see `table.commit.conflicts`). Raises UnsupportedFeatureError for an operation or a table that is not supported, and
    InvalidOperationError for an operation that does not fit the table.
    """
    operation = transaction.operation
    current = completed(current) if current is not None else None
    if not (isinstance(operation, Merge) and operation.published is not None):
        check_operation(operation, current, stable_row_ids=current.has_stable_row_ids if current else settings.stable_row_ids)
    if current is not None:
        check_keeps_rows(current.config, operation, transaction.properties)
    if current is None:
        new = _first(operation, settings)
    else:
        builder = _BUILDERS.get(type(operation))
        if builder is None:
            raise UnsupportedFeatureError(f"committing the operation {type(operation).__name__} is not supported")
        indexes = index_coverage.through_reuse(current.indexes)
        new = builder(replace(current, version=current.version + 1, indexes=indexes), operation, settings, source)
    fragments = new.lazy_fragments.ordered(_without_dead_files)
    highest = highest_fragment_id(new)
    before = source if isinstance(operation, Restore) else current
    known, at = (before.numbered, before.version) if before is not None else (None, 0)
    next_row_id = current.next_row_id if current is not None else 0
    new = replace(
        new,
        numbered=following(known, at, new.version, transaction.properties),
        config=_config(new, transaction, next_row_id),
        timestamp=timestamp,
        tag=transaction.tag,
        writer=WRITER,
        transaction_file=transaction.file_name,
        fragments=fragments,
        max_fragment_id=highest if highest >= 0 else None,
        indexes=index_coverage.of_fields(new.indexes, new.schema),
    )
    if not isinstance(operation, Restore):
        new = with_declared_log(current, operation, new)
    if current is not None and not isinstance(operation, Restore):
        caught_up = index_coverage.with_catchup(indexes, new.indexes, current.lazy_fragments.ids.tolist())
        new = replace(new, indexes=caught_up)
    if VIEW in new.config and any(index.name == index_coverage.MEM_WAL for index in new.indexes):
        raise UnsupportedFeatureError("a materialized view has no write-ahead log, whose rows are not those of its query")
    new = with_mark(current, operation, new) if current is not None else new
    check_result(operation, current, new)
    reader, writer = feature_flags(new, stable_row_ids=bool(new.reader_flags & STABLE_ROW_IDS))
    return replace(new, reader_flags=reader, writer_flags=writer)


def _config(new: Manifest, transaction: Transaction, next_row_id: int) -> Mapping[str, str]:
    """The config of the new version, with what its transaction adds."""
    properties = transaction.properties
    config = with_record(new.config, properties, new.version, next_row_id)
    return with_part(with_view(config, transaction.operation, properties, new.version), properties)


def check_counts(current: Manifest) -> None:
    """Raise UnsupportedFeatureError for a table whose row counts may be wrong, as the first writers made them.

    Such writers did not record their name in the manifest; our name in the next one would make the counts look reliable.
    """
    if current.writer is None and current.fragments:
        raise UnsupportedFeatureError(
            "the table was last written by a version of Lance whose row counts are not reliable; write to it with pylance first"
        )


def feature_flags(manifest: Manifest, *, stable_row_ids: bool) -> tuple[int, int]:
    """The reader and the writer feature flags that the contents of the manifest require."""
    # A table that may mix files of different versions, say, keeps this, whether it has such files now or not.
    both = (STABLE_ROW_IDS if stable_row_ids else 0) | manifest.reader_flags & PAIRED
    if manifest.lazy_fragments.have_deletions:
        both |= DELETION_FILES
    if manifest.base_paths:
        both |= BASE_PATHS
    if any(index.covering_fields for index in manifest.indexes):
        both |= COVERING_COLUMNS
    return both, both | (TABLE_CONFIG if manifest.config else 0)


def _without_dead_files(fragment: Fragment) -> Fragment:
    """The fragment without data files whose columns have all been replaced by other files."""
    if not any(TOMBSTONE in f.fields for f in fragment.files):
        return fragment
    return _with_some_file(fragment, [f for f in fragment.files if any(i != TOMBSTONE for i in f.fields)])


def _with_some_file(fragment: Fragment, files: Sequence[DataFile]) -> Fragment:
    """The fragment with `files` instead of its own; if there are none, one of its own stays, since readers need a file."""
    # The next writer would remove a file of which all columns are replaced.
    last = sorted(fragment.files, key=lambda f: any(i != TOMBSTONE for i in f.fields))[-1:]
    return replace(fragment, files=tuple(files or last))


def _first(operation: Any, settings: TableSettings) -> Manifest:
    """The first version of a table."""
    if not isinstance(operation, Overwrite):
        raise TableNotFoundError(f"the operation {type(operation).__name__} needs an existing table, and there is none; create it first")
    flags = STABLE_ROW_IDS if settings.stable_row_ids else 0
    data_format = settings.data_format or max(format_of(operation.fragments), default=DEFAULT_FORMAT)
    base = Manifest(1, operation.schema, (), reader_flags=flags, writer_flags=flags, data_format=data_format)
    new = _with_new(base, Fragments(()), operation.fragments)
    return replace(new, config=dict(operation.config_upsert_values), base_paths=operation.initial_bases)


def _numbered(base: Manifest, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """The fragments, with the next free ids for those without one (0); ids are never reused."""
    free = 0 if base.max_fragment_id is None else base.max_fragment_id + 1
    done = []
    for fragment in fragments:
        if fragment.id == 0:
            fragment, free = replace(fragment, id=free), free + 1
        done.append(fragment)
    return tuple(done)


def _with_new(base: Manifest, kept: Fragments, new: Iterable[Fragment]) -> Manifest:
    """`base` with the fragments `kept`, and the fragments `new`, whose rows are all new."""
    new, next_row_id = _numbered(base, (replace(f, id=0) for f in new)), base.next_row_id
    if base.has_stable_row_ids:
        new, next_row_id = row_ids_and_versions.with_row_ids(new, next_row_id)
        new = row_ids_and_versions.made(new, base.version)
    highest = max((f.id for f in new), default=base.max_fragment_id)
    return replace(base, fragments=kept + new, max_fragment_id=highest, next_row_id=next_row_id)


def _append(base: Manifest, operation: Append, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    return _with_new(base, base.lazy_fragments, operation.fragments)


def _overwrite(base: Manifest, operation: Overwrite, settings: TableSettings, source: Manifest | None) -> Manifest:
    if operation.initial_bases:
        raise InvalidOperationError("an Overwrite cannot register base paths of an existing table; commit UpdateBases")
    emptied = replace(
        base,
        schema=operation.schema,
        data_format=settings.data_format or base.data_format,
        config={**base.config, **operation.config_upsert_values},
        indexes=(),
        dictionaries=b"",
    )
    return _with_new(emptied, Fragments(()), operation.fragments)


def _delete(base: Manifest, operation: Delete, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    fragments = _with_updated(base, operation.updated_fragments, operation.deleted_fragment_ids)
    return replace(base, fragments=fragments, indexes=index_coverage.useful(base.indexes, base.schema, fragments.ids.tolist()))


def _with_updated(base: Manifest, updated: Iterable[Fragment], removed: Iterable[int]) -> Fragments:
    changed, gone = {f.id: f for f in updated}, frozenset(removed)
    named = np.array(sorted(changed.keys() | gone), np.int64)
    if len(missing := named[~np.isin(named, base.lazy_fragments.ids)]):
        raise InvalidOperationError(f"the table has no fragments with the ids {missing.tolist()}")
    return base.lazy_fragments.changed(changed, gone)


def _update(base: Manifest, operation: Update, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    if operation.compacted_sstables:
        base = replace(base, indexes=index_coverage.with_compacted(base.indexes, operation.compacted_sstables, base.version))
    kept = _with_updated(base, operation.updated_fragments, operation.removed_fragment_ids)
    new, next_row_id = _numbered(base, operation.new_fragments), base.next_row_id
    changes = dict.fromkeys([f.id for f in operation.updated_fragments], operation.fields_modified)
    indexes = index_coverage.without(base.indexes, changes)
    if base.has_stable_row_ids:
        if operation.update_mode == REWRITE_COLUMNS:
            kept = Fragments(_with_changed_rows(f, operation, base.version) for f in kept)
        if operation.update_mode == REWRITE_ROWS:
            sources = [*(f.id for f in operation.updated_fragments), *operation.removed_fragment_ids]
            indexes = index_coverage.with_moved(
                indexes, sources, row_ids_and_versions.all_known(new), operation.fields_for_preserving_frag_bitmap
            )
        new, next_row_id = row_ids_and_versions.with_row_ids(new, next_row_id)
        new = row_ids_and_versions.moved(new, base.fragments, base.version)
    fragments = kept + new
    indexes = index_coverage.useful(indexes, base.schema, fragments.ids.tolist())
    return replace(base, fragments=fragments, indexes=indexes, next_row_id=next_row_id)


def _with_changed_rows(fragment: Fragment, operation: Update, version: int) -> Fragment:
    rows = operation.updated_fragment_offsets.get(fragment.id)
    if rows is None or fragment.updated_at is None:
        return fragment
    changed = read_bitmap(rows, f"the changed rows of fragment {fragment.id}")
    return row_ids_and_versions.changed(fragment, version, changed, version - 1)


def _rewrite(base: Manifest, operation: Rewrite, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    numbered, free = [], base
    for group in operation.groups:
        numbered.append(replace(group, new_fragments=_numbered(free, group.new_fragments)))
        free = replace(free, max_fragment_id=max([f.id for f in numbered[-1].new_fragments] + [free.max_fragment_id or 0]))
    kept = _with_updated(base, (), (f.id for g in numbered for f in g.old_fragments))
    fragments = kept + [f for g in numbered for f in g.new_fragments]
    indexes = index_coverage.rewritten(base.indexes, numbered, operation.rewritten_indices, base.has_stable_row_ids)
    if operation.reuse is not None:
        indexes = index_coverage.with_reuse(indexes, operation.reuse)
    return replace(base, fragments=fragments, indexes=indexes)


def _create_index(base: Manifest, operation: CreateIndex, settings: TableSettings, source: Manifest | None) -> Manifest:
    gone = {i.uuid for i in (*operation.removed_indices, *operation.new_indices)}
    return replace(base, indexes=tuple(i for i in base.indexes if i.uuid not in gone) + operation.new_indices)


def _merge(base: Manifest, operation: Merge, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    if operation.published is not None:
        return _published(base, operation.published)
    before = {f.id: f for f in base.fragments}
    whole = {f.id for f in operation.fragments if before.get(f.id, f).physical_rows == f.physical_rows}
    if missing := before.keys() - whole:
        raise InvalidOperationError(f"a Merge must keep all fragments, but lacks {sorted(missing)}")
    kept, added = kept_and_new(operation, base)
    if operation.keeps_values:
        return _migrated(base, operation, kept, settings)
    new = list(_numbered(base, added))
    next_row_id = base.next_row_id
    if base.has_stable_row_ids:
        kept = [_with_merged_rows(f, before[f.id], base.version) for f in kept]
        with_ids, next_row_id = row_ids_and_versions.with_row_ids(new, next_row_id)
        moved = any(f.row_ids is not None for f in new)
        new = list(
            row_ids_and_versions.moved(with_ids, base.fragments, base.version)
            if moved
            else row_ids_and_versions.made(with_ids, base.version)
        )
    indexes = index_coverage.without(base.indexes, index_coverage.changed_fields(base.fragments, kept))
    indexes = index_coverage.useful(indexes, operation.schema, [f.id for f in (*kept, *new)])
    return replace(base, schema=operation.schema, fragments=(*kept, *new), indexes=indexes, next_row_id=next_row_id)


def _published(base: Manifest, published: Manifest) -> Manifest:
    """The table as it is in a branch of `base`, which has not changed since the branch was made."""
    return replace(
        published,
        version=base.version,
        branch=base.branch,
        config={**published.config, **{key: value for key, value in base.config.items() if key.startswith(MERGED)}},
        next_row_id=max(base.next_row_id, published.next_row_id),
    )


def _migrated(base: Manifest, operation: Merge, kept: list[Fragment], settings: TableSettings) -> Manifest:
    """The table with the same values in files of another storage version."""
    # Readers take an index for out of date if files of its column have changed since its version.
    indexes = tuple(i if i.name in index_coverage.SYSTEM_INDEXES else replace(i, dataset_version=base.version) for i in base.indexes)
    data_format = settings.data_format or base.data_format
    return replace(base, schema=operation.schema, fragments=kept, indexes=indexes, data_format=data_format, dictionaries=b"")


def _columns_in_files(fragment: Fragment) -> list[tuple[object, ...]]:
    return [(f.path, f.fields, f.column_indices, f.version, f.base_id) for f in fragment.files]


def _with_merged_rows(fragment: Fragment, before: Fragment, version: int) -> Fragment:
    if _columns_in_files(before) == _columns_in_files(fragment):
        return fragment
    return row_ids_and_versions.changed(fragment, version)


def _project(base: Manifest, operation: Project, settings: TableSettings, source: Manifest | None) -> Manifest:
    fields, fragments = {f.id for f in operation.schema.walk()}, base.lazy_fragments
    numbers, firsts = fragments.layouts
    smaller = []
    for layout, first in enumerate(firsts):
        if any(fields.isdisjoint(file.fields) for file in fragments[first].files):
            smaller.append(layout)
    changed = {}
    for i in np.flatnonzero(np.isin(numbers, smaller)).tolist():
        kept = [file for file in fragments[i].files if not fields.isdisjoint(file.fields)]
        changed[i] = _with_some_file(fragments[i], kept)
    indexes = index_coverage.useful(base.indexes, operation.schema, fragments.ids.tolist())
    return replace(base, schema=operation.schema, fragments=fragments.replaced(changed), indexes=indexes)


def _restore(base: Manifest, operation: Restore, settings: TableSettings, source: Manifest | None) -> Manifest:
    if source is None or source.version != operation.version:
        raise InvalidOperationError(f"the manifest of version {operation.version}, which is to be restored, is missing")
    highest = max(highest_fragment_id(m) for m in (base, source))
    # Ids assigned since must not be reused: branches, clones and indexes may refer to them.
    return replace(
        completed(source),
        version=base.version,
        max_fragment_id=highest if highest >= 0 else None,
        next_row_id=max(base.next_row_id, source.next_row_id),
    )


def _reserve(base: Manifest, operation: ReserveFragments, settings: TableSettings, source: Manifest | None) -> Manifest:
    return replace(base, max_fragment_id=(base.max_fragment_id or 0) + operation.num_fragments)


def _update_config(base: Manifest, operation: UpdateConfig, settings: TableSettings, source: Manifest | None) -> Manifest:
    fields = {f.id for f in base.schema.walk()}
    if missing := operation.field_metadata_updates.keys() - fields:
        raise InvalidOperationError(f"the table has no fields with the ids {sorted(missing)}")
    schema = Schema(
        tuple(_with_metadata(f, operation) for f in base.schema.fields), _encoded(base.schema.metadata, operation.schema_metadata_updates)
    )
    _check_primary_key(base.schema, schema, operation)
    return replace(
        base,
        schema=schema,
        config=_changed(base.config, operation.config_updates),
        table_metadata=_changed(base.table_metadata, operation.table_metadata_updates),
    )


def _check_primary_key(before: Schema, after: Schema, operation: UpdateConfig) -> None:
    """Raise InvalidOperationError for a change of an existing primary key, and for invalid metadata of a key."""
    old, new = _key_columns(before), _key_columns(after)
    names = {PRIMARY_KEY.decode(), PRIMARY_KEY_POSITION.decode()}
    written = any(not names.isdisjoint(update.updates) for update in operation.field_metadata_updates.values())
    if old and (written or old != new):
        raise InvalidOperationError("the table already has unenforced primary key columns, which cannot be changed")
    if written and not new:
        raise InvalidOperationError(
            "invalid metadata of the unenforced primary key; expected the position of at least one field in the key"
        )


def _key_columns(schema: Schema) -> dict[int, object]:
    return {f.id: _marks(f) for f in schema.walk() if primary_key_position(f) is not None}


def _marks(field: Field) -> tuple[int | None, bytes | None, bytes | None]:
    """What makes a field part of the primary key: its position, which may be in the field message alone, and its metadata."""
    return primary_key_position(field), field.metadata.get(PRIMARY_KEY), field.metadata.get(PRIMARY_KEY_POSITION)


def _with_metadata(field: Field, operation: UpdateConfig) -> Field:
    metadata = _encoded(field.metadata, operation.field_metadata_updates.get(field.id))
    return replace(field, metadata=metadata, children=tuple(_with_metadata(c, operation) for c in field.children))


def _encoded(old: Any, update: UpdateMap | None) -> dict[bytes, bytes]:
    """`_changed` for Arrow metadata, whose keys and values are bytes."""
    if update is None:
        return dict(old)
    entries = {k.encode(): None if v is None else v.encode() for k, v in update.updates.items()}
    return {k: v for k, v in {**({} if update.replace else old), **entries}.items() if v is not None}


def _changed(old: Any, update: UpdateMap | None) -> dict[str, str]:
    if update is None:
        return dict(old)
    return {k: v for k, v in {**({} if update.replace else old), **update.updates}.items() if v is not None}


def _replace_data(base: Manifest, operation: DataReplacement, settings: TableSettings, source: Manifest | None) -> Manifest:
    check_counts(base)
    if len({file.fields for _, file in operation.replacements}) > 1:
        raise InvalidOperationError("the new files of a DataReplacement must have the same fields")
    files = dict(operation.replacements)
    if missing := files.keys() - {f.id for f in base.fragments}:
        raise InvalidOperationError(f"the table has no fragments with the ids {sorted(missing)}")
    fields = frozenset(f.id for f in base.schema.walk())
    fragments = tuple(with_replaced_file(f, files[f.id], fields) if f.id in files else f for f in base.fragments)
    if base.has_stable_row_ids:
        fragments = tuple(row_ids_and_versions.changed(f, base.version) if f.id in files else f for f in fragments)
    written = {i: [f for f in file.fields if f >= 0] for i, file in files.items()}
    indexes = index_coverage.without(base.indexes, written)
    return replace(base, fragments=fragments, indexes=indexes)


def _update_bases(base: Manifest, operation: UpdateBases, settings: TableSettings, source: Manifest | None) -> Manifest:
    bases = base.base_paths
    for new in operation.new_bases:
        if any(b.path == new.path or (new.name is not None and b.name == new.name) for b in bases):
            raise InvalidOperationError(f"a base path {new.path!r} or one with the name {new.name!r} already exists")
        bases = (*bases, replace(new, id=new.id or max((b.id for b in bases), default=0) + 1))
    return replace(base, base_paths=bases)


# Operation -> function that changes a manifest; it also gets the number of the new version.
_BUILDERS: dict[type, Callable[[Manifest, Any, TableSettings, Manifest | None], Manifest]] = {
    Append: _append,
    Overwrite: _overwrite,
    Delete: _delete,
    Update: _update,
    Rewrite: _rewrite,
    CreateIndex: _create_index,
    Merge: _merge,
    Project: _project,
    Restore: _restore,
    ReserveFragments: _reserve,
    UpdateConfig: _update_config,
    DataReplacement: _replace_data,
    UpdateBases: _update_bases,
}
