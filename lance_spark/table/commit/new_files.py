"""Checks of an operation's new files before the commit: they exist and match the operation.

A cleanup by a client with a fast clock takes the files of active writers for old, unreferenced ones and removes them. So the new files
are checked before each commit. Files at base paths are not checked.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOperationError, MissingFileError
from lance_spark.file.data_file import open_data_file
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.locations import DATA, INDICES, Locations, check_relative
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import CreateIndex, DataReplacement, Operation, Rewrite
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.clock import clock_differs
from lance_spark.storage.store import Store
from lance_spark.table.build.checks import added_fragments, changed_fragments
from lance_spark.table.versions.history import TRANSACTIONS

_CONNECTIONS = 32
"""Maximum number of concurrent requests to a remote store."""
_YOUNG_S = 3600.0
"""A cleanup keeps unreferenced files for days (`maintenance.cleanup.UNVERIFIED_AGE`), so those of the last hour are there."""
_FEW = 4
"""Young files that are checked nevertheless."""


@dataclass(frozen=True)
class NewFiles:
    """Known facts about the new files of a transaction.

    `schema` is the schema of its data files. No file is older than `since` (local clock, seconds since 1970). Files of an operation that a
    user prepared (`by_hand`) may have any content.
    """

    schema: Schema | None = None
    since: float | None = None
    by_hand: bool = False


UNKNOWN_FILES = NewFiles()


def _new_parts(operation: Operation, before: Manifest | None) -> Iterator[Fragment]:
    """The fragments that an operation adds or changes, reduced to their new files in the table's own folder.

    `before` is the version that the operation was prepared for. If it is unknown, all files of changed fragments count as new.
    """
    changed = changed_fragments(operation)
    if isinstance(operation, DataReplacement):
        changed = [Fragment(i, (file,), 0) for i, file in operation.replacements]
    old = before.lazy_fragments.of_ids(f.id for f in changed) if before is not None else {}
    for fragment in added_fragments(operation, before):
        yield _own(fragment, None)
    for fragment in changed:
        if before is None or fragment.id in old:
            yield _own(fragment, old.get(fragment.id))


def _own(fragment: Fragment, was: Fragment | None) -> Fragment:
    old = {file.path for file in was.files} if was is not None else set()
    files = tuple(f for f in fragment.files if f.base_id is None and f.path not in old)
    deletion = fragment.deletion if was is None or fragment.deletion != was.deletion else None
    rows = fragment.physical_rows or (was.physical_rows if was is not None else 0)
    return replace(fragment, files=files, deletion=deletion if deletion and deletion.base_id is None else None, physical_rows=rows)


def check_files(store: Store, transaction: Transaction, before: Manifest | None, files: NewFiles) -> Callable[[], None]:
    """Start to check the new files of a transaction, prepared for `before` (None: unknown). Returns a function that waits for the result.

    That function raises MissingFileError for a missing file and CorruptFileError for another size than the operation records. Files that
    were prepared by hand are also opened: it raises InvalidOperationError if their rows, columns or types differ from the operation.
    Requests to a remote store run in the background. If all files are younger than an hour, only some of them are checked.
    """
    operation = transaction.operation
    named = dict(_paths(operation, before))
    remote = store.is_remote
    if remote and not files.by_hand and len(named) > _FEW and _are_young(store, transaction, files.since):
        named = dict(list(named.items())[:: -(-len(named) // _FEW)])
    checks: list[Callable[[], None]] = [partial(_check_size, store, path, size) for path, size in named.items()]
    if files.by_hand:
        checks += _contents_checks(store, operation, before)
    if checks and remote:
        pool = ThreadPoolExecutor(min(_CONNECTIONS, len(checks)))
        checks = [pool.submit(check).result for check in checks]
        pool.shutdown(wait=False)

    def answer() -> None:
        for check in checks:
            check()

    return answer


def adds_data_files(operation: Operation, before: Manifest | None) -> bool:
    """True if an operation, prepared for `before` (None: unknown), has new data files in the table's own folder."""
    return any(part.files for part in _new_parts(operation, before))


def _are_young(store: Store, transaction: Transaction, since: float | None) -> bool:
    """True if files written since `since` are young, also by the store's clock. The new transaction file shows that clock."""
    if since is None or not 0 <= time.time() - since < _YOUNG_S:
        return False
    return not clock_differs(store, f"{TRANSACTIONS}/{transaction.file_name}")


def _paths(operation: Operation, before: Manifest | None) -> Iterator[tuple[str, int | None]]:
    """The paths of the new files, with their sizes if known."""
    for part in _new_parts(operation, before):
        for file in part.files:
            check_relative(file.path, "data file")
            # Old writers of 0.1 files recorded wrong sizes.
            yield f"{DATA}/{file.path}", None if file.is_legacy else file.size
        if part.deletion is not None:
            yield part.deletion.path(part.id), None
    indexes = operation.new_indices if isinstance(operation, CreateIndex) else ()
    rewritten = operation.rewritten_indices if isinstance(operation, Rewrite) else ()
    segments = [(i.uuid, i.files) for i in indexes if i.base_id is None]
    segments += [(i.new_id, i.files) for i in rewritten]
    for name, parts in segments:
        for index_file in parts if len(name) == 16 else ():
            check_relative(index_file.path, "index file")
            yield f"{INDICES}/{uuid.UUID(bytes=name)}/{index_file.path}", index_file.size or None


def _check_size(store: Store, path: str, size: int | None) -> None:
    try:
        found = store.size(path)
    except MissingFileError as e:
        why = "no such file; nothing was committed. A cleanup by a client with a fast clock may have removed it: write the data again"
        raise MissingFileError(e.errno, why, e.filename) from None
    if size is not None and found != size:
        raise CorruptFileError(f"{store.uri}/{path} has {found} bytes, expected {size}; nothing was committed")


def _contents_checks(store: Store, operation: Operation, before: Manifest | None) -> Iterator[Callable[[], None]]:
    """Checks that compare the content of the new files with the operation."""
    schema: Schema | None = getattr(operation, "schema", before.schema if before is not None else None)
    fields = {f.id: f for f in schema.walk()} if schema is not None else {}
    for part in _new_parts(operation, before):
        yield from (partial(_check_data_file, store, part, file, fields) for file in part.files)
        if part.deletion is not None:
            yield partial(_check_deletions, store, part)


def _check_deletions(store: Store, part: Fragment) -> None:
    read_deletions(part, Locations(store))


def _check_data_file(store: Store, part: Fragment, file: DataFile, fields: dict[int, Field]) -> None:
    path = f"{DATA}/{file.path}"
    check_relative(file.path, "data file")
    reader = open_data_file(store, path, None if file.is_legacy else file.size)
    if reader.num_rows != part.physical_rows:
        raise InvalidOperationError(f"{store.uri}/{path} has {reader.num_rows} rows, expected {part.physical_rows} as in its fragment")
    leaves = [leaf for field in reader.schema.fields for leaf in field.leaves()]
    for i, column in file.columns.items():
        if column >= reader.num_columns:
            raise InvalidOperationError(
                f"{store.uri}/{path} has {reader.num_columns} columns, but the operation has field {i} in column {column}"
            )
        # Columns are the leaves of the schema only in 2.1 and later.
        is_leaf = reader.version >= (2, 1) and column < len(leaves)
        field, stored = fields.get(i), leaves[column] if is_leaf else None
        if field is not None and stored is not None and not _alike(field, stored):
            what = f"column {column} has the type {stored.logical_type}, but its field {field.name!r} has {field.logical_type}"
            raise InvalidOperationError(f"{store.uri}/{path}: {what}")


def _alike(field: Field, stored: Field) -> bool:
    """True if values of one field can be read as another, judging by the width of simple types."""
    simple = [f for f in (field, stored) if not f.children and not f.is_blob]
    widths = [_width(f.type) for f in simple]
    return len(simple) < 2 or 0 in widths or widths[0] == widths[1]


def _width(type: pa.DataType) -> int:
    """The size of a value in bits: 0 for nulls, -1 for variable-length values."""
    try:
        return int(type.bit_width)
    except ValueError:
        return -1
