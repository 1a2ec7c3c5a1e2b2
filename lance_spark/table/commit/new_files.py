"""The files that an operation brings: whether they are there, and what the operation says they are.

A cleanup by a client whose clock is ahead removes the files of writers at work, which it takes for old ones that nobody needs. So before
a version is committed, its new files are asked for. Files at base paths are passed over: their tables look after them.
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
"""So many files of a remote store are asked for at once."""
_YOUNG_S = 3600.0
_FEW = 4


@dataclass(frozen=True)
class NewFiles:
    """What is known of the files that a transaction brings.

    `schema` is the one that its data files were written with; none of the files is older than `since` (our clock, seconds since 1970).
    What was prepared `by_hand` may be anything.
    """

    schema: Schema | None = None
    since: float | None = None
    by_hand: bool = False


UNKNOWN_FILES = NewFiles()


def _new_parts(operation: Operation, before: Manifest | None) -> Iterator[Fragment]:
    """The fragments that an operation adds or changes, with only their new files in the table's own folder.

    `before` is the version that the operation was prepared for. Where it is not known, all files of changed fragments count.
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
    """Ask for the new files of a transaction that was prepared for `before`, if that is known; the function returned gives the answer.

    It raises MissingFileError if one is gone, and CorruptFileError if one has another size than the operation says. What was prepared by
    hand is opened too: InvalidOperationError for other rows, columns or types than the operation says. A remote store is asked in the
    background, and only for a few of the files where all are younger than an hour.
    """
    operation = transaction.operation
    named = dict(_paths(operation, before))
    remote = store.location.kind not in ("file", "memory")
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


def _are_young(store: Store, transaction: Transaction, since: float | None) -> bool:
    """Whether files written since `since` are young by the store's clock too, which the transaction's file tells: it was just put."""
    if since is None or not 0 <= time.time() - since < _YOUNG_S:
        return False
    return not clock_differs(store, f"{TRANSACTIONS}/{transaction.file_name}")


def _paths(operation: Operation, before: Manifest | None) -> Iterator[tuple[str, int | None]]:
    """The new files and their sizes, where these are known."""
    for part in _new_parts(operation, before):
        for file in part.files:
            check_relative(file.path, "data file")
            # What old writers of legacy files took for the size is not.
            yield f"{DATA}/{file.path}", None if file.is_legacy else file.size
        if part.deletion is not None:
            yield part.deletion.path(part.id), None
    indexes = operation.new_indices if isinstance(operation, CreateIndex) else ()
    rewritten = operation.rewritten_indices if isinstance(operation, Rewrite) else ()
    for name, parts in [*((i.uuid, i.files) for i in indexes if i.base_id is None), *((i.new_id, i.files) for i in rewritten)]:
        for index_file in parts if len(name) == 16 else ():
            check_relative(index_file.path, "index file")
            yield f"{INDICES}/{uuid.UUID(bytes=name)}/{index_file.path}", index_file.size or None


def _check_size(store: Store, path: str, size: int | None) -> None:
    try:
        found = store.size(path)
    except MissingFileError as e:
        why = "no such file; nothing is committed. A cleanup by a client whose clock is ahead may have removed it: write it again"
        raise MissingFileError(e.errno, why, e.filename) from None
    if size is not None and found != size:
        raise CorruptFileError(f"{store.uri}/{path} has {found} bytes, it should have {size}; nothing is committed")


def _contents_checks(store: Store, operation: Operation, before: Manifest | None) -> Iterator[Callable[[], None]]:
    """What compares the new files with what the operation says is in them."""
    schema: Schema | None = getattr(operation, "schema", before.schema if before is not None else None)
    fields = {f.id: f for f in schema.walk()} if schema is not None else {}
    for part in _new_parts(operation, before):
        yield from (partial(_check_data_file, store, part, file, fields) for file in part.files)
        if part.deletion is not None:
            yield partial(_check_deletions, store, part)


def _check_deletions(store: Store, part: Fragment) -> None:
    read_deletions(part, Locations(store))


def _check_data_file(store: Store, part: Fragment, file: DataFile, fields: dict[int, Field]) -> None:
    from lance_spark.file.reader import open_data_file  # loads the decoders, which other commits do without

    path = f"{DATA}/{file.path}"
    check_relative(file.path, "data file")
    reader = open_data_file(store, path, None if file.is_legacy else file.size)
    if reader.num_rows != part.physical_rows:
        raise InvalidOperationError(f"{store.uri}/{path} has {reader.num_rows} rows, its fragment {part.physical_rows}")
    leaves = [leaf for field in reader.schema.fields for leaf in field.leaves()]
    for i, column in file.columns.items():
        if column >= reader.num_columns:
            raise InvalidOperationError(f"{store.uri}/{path} has {reader.num_columns} columns, but the field {i} is to be column {column}")
        # Only in files from 2.1 on are columns the leaves of the schema.
        field, stored = fields.get(i), leaves[column] if reader.version >= (2, 1) and column < len(leaves) else None
        if field is not None and stored is not None and not _alike(field, stored):
            what = f"column {column} ({stored.logical_type}) is to be the field {field.name!r} ({field.logical_type})"
            raise InvalidOperationError(f"{store.uri}/{path}: {what}")


def _alike(field: Field, stored: Field) -> bool:
    """Whether values that are stored as one field can be read as another, as far as the widths of simple types tell."""
    simple = [f for f in (field, stored) if not f.children and not f.is_blob]
    widths = [_width(f.type) for f in simple]
    return len(simple) < 2 or 0 in widths or widths[0] == widths[1]


def _width(type: pa.DataType) -> int:
    """The bits of a value, 0 for nulls, -1 if values have different sizes."""
    try:
        return int(type.bit_width)
    except ValueError:
        return -1
