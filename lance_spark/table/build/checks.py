"""Checks that an operation does not make a version that cannot be read. Pure; raises InvalidOperationError.

Sequences and bitmaps that cannot be parsed, and paths outside of the table, raise CorruptFileError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lance_spark.errors import InvalidOperationError
from lance_spark.metadata.bitmaps import read_bitmap
from lance_spark.metadata.fragment import BasePath, Fragment, IndexMetadata
from lance_spark.metadata.lazy_fragments import Fragments
from lance_spark.metadata.locations import check_relative
from lance_spark.metadata.manifest import MIXED_FILE_VERSIONS, Manifest
from lance_spark.metadata.operations import (
    REWRITE_COLUMNS,
    REWRITE_ROWS,
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
)
from lance_spark.schema import primary_key
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.build.old_writers import format_of
from lance_spark.table.build.schema_checks import check_kept_data, check_new_schema

_MAX_ID = 2**32 - 1
_MAX_ROWS = 2**32


def check_operation(operation: Operation, before: Manifest | None, *, stable_row_ids: bool) -> None:
    """Raise InvalidOperationError for an invalid operation; `before` is the manifest that it changes (None: it creates the table)."""
    for fragment in added_fragments(operation, before):
        _check_added(fragment, operation, stable_row_ids)
    if empty := [f.id for f in changed_fragments(operation) if not f.files]:
        raise InvalidOperationError(f"fragment {empty[0]} would have no data files; remove the fragment instead")
    if twice := [i for i, count in Counter(_named(operation)).items() if count > 1]:
        raise InvalidOperationError(f"fragment {twice[0]} is duplicated")
    match operation:
        case Update():
            if operation.update_mode not in (REWRITE_ROWS, REWRITE_COLUMNS):
                raise InvalidOperationError(f"unknown update mode {operation.update_mode}")
            for i, rows in operation.updated_fragment_offsets.items():
                read_bitmap(rows, f"the changed rows of fragment {i}")
        case Rewrite() if before is not None:
            _check_moved_rows(operation, before)
        case CreateIndex() if before is not None:
            _check_indexes(operation.new_indices, before)
        case UpdateBases():
            _check_bases((*(before.base_paths if before is not None else ()), *operation.new_bases))
        case Overwrite():
            _check_bases(operation.initial_bases)
        case DataReplacement() if before is not None:
            fields = {f.id for f in before.schema.walk()}
            for i, file in operation.replacements:
                _check_files(Fragment(i, (file,), 0), before)
            if unknown := sorted({i for _, file in operation.replacements for i in file.fields} - fields):
                raise InvalidOperationError(f"the table has no fields with the ids {unknown}")


def added_fragments(operation: Operation, before: Manifest | None) -> Iterator[Fragment]:
    """The fragments that an operation adds."""
    match operation:
        case Append() | Overwrite():
            yield from operation.fragments
        case Update():
            yield from operation.new_fragments
        case Rewrite():
            yield from (f for group in operation.groups for f in group.new_fragments)
        case Merge() if before is not None:
            yield from kept_and_new(operation, before)[1]


def kept_and_new(operation: Merge, before: Manifest) -> tuple[list[Fragment], list[Fragment]]:
    """The fragments of a Merge that the table has, and those that it adds; id 0 means that a new fragment has no id yet."""
    there = set(before.lazy_fragments.ids.tolist())
    parts: tuple[list[Fragment], list[Fragment]] = ([], [])
    for fragment in operation.fragments:
        parts[fragment.id not in there].append(fragment)
        if fragment.id == 0:
            there.discard(0)
    return parts


def _check_added(fragment: Fragment, operation: Operation, stable_row_ids: bool) -> None:
    what = f"the new fragment of {fragment.files[0].path!r}" if fragment.files else f"the new fragment {fragment.id}"
    if not fragment.files:
        raise InvalidOperationError(f"{what} has no data files")
    if fragment.deletion is not None and (fragment.id == 0 or isinstance(operation, Append | Overwrite)):
        raise InvalidOperationError(
            f"{what} has a deletion file; the name of that file has the fragment's id, but the fragment would get a new id"
        )
    if not 0 <= fragment.id <= _MAX_ID:
        raise InvalidOperationError(f"{what} has the id {fragment.id}; the maximum is {_MAX_ID}")
    if not 1 <= fragment.physical_rows <= _MAX_ROWS:
        raise InvalidOperationError(f"{what} has {fragment.physical_rows} rows; expected 1 to {_MAX_ROWS}")
    if fragment.row_ids is not None and (not stable_row_ids or isinstance(operation, Append)):
        why = "appended rows get new ones" if stable_row_ids else "the table does not have stable row ids"
        raise InvalidOperationError(f"{what} has row ids, but {why}")
    if fragment.row_ids is None and stable_row_ids and isinstance(operation, Rewrite):
        raise InvalidOperationError(f"{what} has no row ids; a Rewrite must keep those of the moved rows")


def changed_fragments(operation: Operation) -> Sequence[Fragment]:
    """The changed fragments of an operation, as they are afterward."""
    match operation:
        case Delete() | Update():
            return operation.updated_fragments
        case Merge():
            return operation.fragments
    return ()


def _updated(operation: Operation) -> list[int]:
    """The ids of the fragments that an operation changes."""
    match operation:
        case Delete() | Update():
            return [f.id for f in changed_fragments(operation)]
        case DataReplacement():
            return [i for i, _ in operation.replacements]
    return []


def _named(operation: Operation) -> Iterator[int]:
    """The ids of the fragments that an operation changes or removes, which must not be duplicated."""
    yield from _updated(operation)
    match operation:
        case Delete():
            yield from operation.deleted_fragment_ids
        case Update():
            yield from operation.removed_fragment_ids
        case Rewrite():
            for group in operation.groups:
                yield from {f.id for f in group.old_fragments}


def _check_moved_rows(operation: Rewrite, before: Manifest) -> None:
    """Raise InvalidOperationError if the new and the old fragments of a group have different numbers of rows."""
    fragments = before.lazy_fragments
    live = dict(zip(fragments.ids.tolist(), fragments.live_rows.tolist()))
    for group in () if len(fragments.shared_ids) else operation.groups:
        old = [live.get(f.id, -1) for f in group.old_fragments]
        new = sum(f.physical_rows - (f.deletion.num_deleted or 0 if f.deletion else 0) for f in group.new_fragments)
        if min(old, default=0) >= 0 and sum(old) != new:
            ids = [f.id for f in group.old_fragments]
            raise InvalidOperationError(f"a Rewrite keeps all rows, but the fragments {ids} have {sum(old)} rows and the new ones {new}")


def _check_indexes(indexes: Iterable[IndexMetadata], before: Manifest) -> None:
    bases, fields = {b.id for b in before.base_paths}, {f.id for f in before.schema.walk()}
    seen: set[bytes] = set()
    for index in indexes:
        if len(index.uuid) != 16 or index.uuid in seen:
            raise InvalidOperationError(f"index {index.name!r} has the uuid {index.uuid.hex()}; expected 16 bytes that no other index has")
        seen.add(index.uuid)
        if index.fragment_bitmap:
            read_bitmap(index.fragment_bitmap, f"the fragments of the index {index.name!r}")
        if index.name not in SYSTEM_INDEXES and not fields.issuperset(index.fields):
            raise InvalidOperationError(f"the index {index.name!r} is of the fields {list(index.fields)}, which the table does not have")
        if index.base_id is not None and index.base_id not in bases:
            raise InvalidOperationError(f"the index {index.name!r} is at base path {index.base_id}, which is not registered")


def _check_bases(bases: Sequence[BasePath]) -> None:
    ids = Counter(b.id for b in bases if b.id)
    if wrong := [i for i, count in ids.items() if count > 1 or not 0 <= i <= _MAX_ID]:
        raise InvalidOperationError(
            f"invalid or duplicate base path ids {wrong}; expected distinct ids from 1 to {_MAX_ID}, or 0 for the next free one"
        )
    if not all(b.path for b in bases):
        raise InvalidOperationError("a base path is empty; expected a path or URI")


def check_result(operation: Operation, before: Manifest | None, after: Manifest) -> None:
    """Raise InvalidOperationError if the version that `operation` makes from `before` cannot be read."""
    ids, highest = after.lazy_fragments.ids, after.max_fragment_id or 0
    if len(shared := after.lazy_fragments.shared_ids):
        raise InvalidOperationError(f"two fragments would have the id {shared[0]}")
    if highest > _MAX_ID:
        raise InvalidOperationError(f"the highest fragment id would be {highest}; the maximum is {_MAX_ID}")
    old_schema = before.schema if before is not None else None
    if after.schema != old_schema:
        check_new_schema(after.schema, old_schema)
        if not after.schema.fields and len(ids):
            raise InvalidOperationError("a table with rows must have columns")
    if isinstance(operation, Restore) or (isinstance(operation, Merge) and operation.published is not None):
        return
    if old_schema is not None and after.schema != old_schema:
        primary_key.check_kept(old_schema, after.schema, overwritten=isinstance(operation, Overwrite))
    if before is not None and before.schema != after.schema and not isinstance(operation, Overwrite):
        check_kept_data(before.schema, after.schema, _pairs(before, after), merges=isinstance(operation, Merge))
    _check_fragments(operation, before, after)


def _touched(after: Manifest) -> Fragments:
    """The fragments that are new, and of the others one for all that have the same columns in their files."""
    fragments = after.lazy_fragments
    return fragments.chosen(np.unique([*fragments.given, *fragments.layouts[1]]).astype(np.int64))


def _pairs(before: Manifest, after: Manifest) -> Iterator[tuple[Fragment, Fragment]]:
    """The fragments that both versions have, before and after; of those that are the same in both, some."""
    touched = _touched(after)
    old = before.lazy_fragments.of_ids(touched.ids.tolist())
    return ((old[f.id], f) for f in touched if f.id in old)


def _check_fragments(operation: Operation, before: Manifest | None, after: Manifest) -> None:
    """Check the fragments that the operation added or changed, or whose schema it changed."""
    there = before.lazy_fragments if before is not None else Fragments(())
    if isinstance(operation, Merge | Project | Overwrite):
        some = _touched(after)
        touched: Iterable[Fragment] = some
        old = {} if isinstance(operation, Overwrite) else there.of_ids(some.ids.tolist())
    else:
        replaced = [f.id for f in added_fragments(operation, before)] if isinstance(operation, Rewrite) else []
        now = after.lazy_fragments.ids
        ids = [*now[~np.isin(now, there.ids)].tolist(), *_updated(operation), *replaced]
        touched, old = after.lazy_fragments.of_ids(ids).values(), there.of_ids(_updated(operation))
    required = _required(before.schema) if before is not None else set()
    layouts: set[tuple[tuple[int, int, tuple[int, int]], ...]] = set()
    for fragment in touched:
        was = old.get(fragment.id)
        if was != fragment:
            _check_fragment(fragment, was, after)
        # Files with the same columns share the tuple of their field ids.
        layout = tuple((id(f.fields), id(f.column_indices), f.version) for f in fragment.files)
        if layout not in layouts:
            layouts.add(layout)
            is_new = was is None or was.files != fragment.files
            if is_new:
                _check_layout(fragment, after)
            _check_required(fragment, after, set() if is_new else required)


def _check_fragment(fragment: Fragment, was: Fragment | None, after: Manifest) -> None:
    what, deletion = f"fragment {fragment.id}", fragment.deletion
    if was is not None and was.physical_rows != fragment.physical_rows:
        raise InvalidOperationError(f"{what} has {fragment.physical_rows} rows; expected {was.physical_rows}, as before")
    if deletion is not None and (deletion.num_deleted or 0) > fragment.physical_rows:
        raise InvalidOperationError(f"{what} has {fragment.physical_rows} rows, but {deletion.num_deleted} deleted rows")
    bases = {None, *(b.id for b in after.base_paths)}
    for file in (*fragment.files, *([deletion] if deletion else ())):
        if file.base_id not in bases:
            raise InvalidOperationError(f"a file of {what} is at base path {file.base_id}, which is not registered")
    for file in fragment.files:
        check_relative(file.path, "data file")


def _check_layout(fragment: Fragment, after: Manifest) -> None:
    """Check the columns of the fragment."""
    _check_files(fragment, after)
    counted = Counter(i for file in fragment.files for i in file.fields if i >= 0)
    if twice := [i for i, count in counted.items() if count > 1]:
        raise InvalidOperationError(f"fragment {fragment.id} has two columns for the field {twice[0]}")
    if counted.keys().isdisjoint(f.id for f in after.schema.walk()):
        raise InvalidOperationError(f"fragment {fragment.id} has none of the table's columns")


def _check_files(fragment: Fragment, manifest: Manifest) -> None:
    found, own = format_of([fragment]), manifest.data_format
    # Files of a table with this flag may have any version but 0.1.
    others = found & {"0.1"} if manifest.reader_flags & MIXED_FILE_VERSIONS and own != "0.1" else found - {own}
    if others:
        raise InvalidOperationError(f"found data files of storage version {', '.join(sorted(others))}; expected the table's version {own}")
    for file in fragment.files:
        columns = [c for c in file.column_indices if c >= 0]
        if not file.fields:
            raise InvalidOperationError(f"the data file {file.path!r} has no columns")
        are_pairs = len(file.column_indices) == len(file.fields)
        if not file.is_legacy and (not are_pairs or len(set(columns)) < len(columns)):
            what = f"the fields {list(file.fields)} and the columns {list(file.column_indices)}"
            raise InvalidOperationError(f"the data file {file.path!r} has {what}; expected a separate column for each field")


def _required(schema: Schema) -> set[int]:
    return {f.id for f in schema.walk() if not f.nullable}


def _check_required(fragment: Fragment, after: Manifest, passed_over: set[int]) -> None:
    """Raise InvalidOperationError if a non-nullable field has no column; in 0.1 tables, if any field has none."""
    there = {i for file in fragment.files for i in file.fields}
    all_needed = after.data_format == "0.1"

    def has_data(field: Field) -> bool:
        return field.id in there or any(has_data(child) for child in field.children)

    def check(field: Field) -> None:
        if not has_data(field):
            if (all_needed or not field.nullable) and field.id not in passed_over:
                raise InvalidOperationError(f"fragment {fragment.id} lacks the column {field.name!r}, which is required")
        elif not field.is_leaf:
            for child in field.children:
                check(child)

    for field in after.schema.fields:
        check(field)
