"""Writing rows in two phases: executors write data files with new names, then the driver commits the resulting fragments.

target = begin_write(uri, schema, "append")          # driver: pins the version, settles schema and file format
fragments = write_fragments(target, batches)         # executors, any number of times
snapshot = commit_write(target, fragments)           # driver: all or nothing
discard(target, fragments)                           # instead, or after a commit that has certainly failed
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike

import pyarrow as pa

from lance_spark.errors import (
    CommitConflictError,
    InvalidOperationError,
    InvalidOptionError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
    logged,
    on_failure,
    on_refusal,
)
from lance_spark.file.supported_types import WRITABLE, check_supported, storage_version, warn_if_unstable
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import Manifest, check_writable
from lance_spark.metadata.numbered_writes import APP_ID
from lance_spark.metadata.operations import Append, Overwrite
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT, NO_SETTINGS, TableSettings, check_counts
from lance_spark.table.build.old_writers import completed
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.retry import CHANGE_TRIES
from lance_spark.table.commit.same_table import remove_dropped
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.other_formats import other_format
from lance_spark.table.versions.snapshot import Snapshot, list_versions, open_snapshot, reopened
from lance_spark.table.write.bases import Folder, are_registered, new_bases
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.generated import Generated, generated_of
from lance_spark.table.write.merge_schema import commit_widened, shape
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.order import check_order
from lance_spark.table.write.rules import Kind, rules_of
from lance_spark.table.write.settled import Frame, settled
from lance_spark.table.write.sources import Data, as_reader
from lance_spark.table.write.target import Mode, WriteTarget

_OLD_FORMAT = (
    "; migrate the table first (Dataset.migrate, CALL lance.system.migrate or lance-spark migrate); overwriting it is possible, too"
)


def write(place: str | PathLike[str] | Store | Snapshot, data: Data, mode: Mode, options: WriteOptions = NO_OPTIONS) -> Snapshot:
    """All phases in one process. Files are deleted if the commit has certainly failed.

    A snapshot is one of the table, whose latest version is written to. If the columns have changed meanwhile, rows that are in memory are
    appended to the new ones.
    """
    for attempt in range(CHANGE_TRIES):
        reader, begun = as_reader(data), time.monotonic()
        latest = reopened(place) if isinstance(place, Snapshot) else place
        target, base = _begin(latest, reader.schema, mode, options)
        fragments = write_fragments(target, reader)
        try:
            with on_refusal(partial(discard, target, fragments)):
                return commit_write(target, fragments, base, begun)
        except CommitConflictError as e:
            again = e.retryable and isinstance(data, pa.Table | pa.RecordBatch) and mode == "append"
            if not again or attempt == CHANGE_TRIES - 1 or base is None or not _has_other_columns(base):
                raise
    raise AssertionError("unreachable")


def _has_other_columns(snapshot: Snapshot) -> bool:
    """True if the latest version has other columns than `snapshot`."""
    return open_snapshot(snapshot.store).manifest.schema.fields != snapshot.manifest.schema.fields


def begin_write(
    place: str | PathLike[str] | Store | Snapshot,
    arrow_schema: pa.Schema,
    mode: Mode,
    options: WriteOptions = NO_OPTIONS,
    frame: Frame | None = None,
) -> WriteTarget:
    """Prepare to write data of the schema `arrow_schema`; nothing is written yet. A store has its storage options already.

    A snapshot is the latest version, which has just been opened: it is not opened again. Data of a `frame` are those of Spark.

    "append" creates the table if there is none; "create" raises TableAlreadyExistsError if there is one. Raises SchemaMismatchError with
    all differences if the data does not fit the existing table.
    """
    return _begin(place, arrow_schema, mode, options, frame)[0]


def _begin(
    place: str | PathLike[str] | Store | Snapshot,
    arrow_schema: pa.Schema,
    mode: Mode,
    options: WriteOptions,
    frame: Frame | None = None,
) -> tuple[WriteTarget, Snapshot | None]:
    """The target of `begin_write`, and the snapshot of the version that it pins; None if there is no table."""
    if mode not in ("create", "append", "overwrite"):
        raise ValueError(f"mode must be create, append or overwrite, not {mode!r}")
    store = _store_of(place, options)
    base = _there(place, store)
    if base is not None and mode == "create":
        raise TableAlreadyExistsError(f"a Lance table already exists at {store.uri}; append to it or overwrite it")
    current = None if base is None else completed(base.manifest)
    if current is not None:
        check_writable(current, store.uri)
        if not are_registered(store, options.initial_bases, current.base_paths):
            what = "initial_bases are those of new tables; register base paths of a table with add_bases"
            raise InvalidOptionError(f"{store.uri}: {what}")
    if current is not None and mode == "append":
        check_counts(current)
    data_format = _data_format(current, mode, options)
    columns = settled(base, arrow_schema, mode, options, WRITABLE[data_format], frame)
    if columns.change == "new":
        warn_if_unstable(data_format, store.uri)
    check_supported(columns.files, WRITABLE[data_format])
    check_order(columns.table, options.write_order)
    config = {**({} if current is None else current.config), **options.config}
    rules = replace(rules_of(columns.table, config), generated=_generated(columns.table, store, base, columns.change == "new"))
    # An overwrite has all columns of the table in its operation.
    adds_columns = mode == "append" and columns.change == "added"
    table_schema = columns.table if adds_columns else None
    target = WriteTarget(store, columns.files, data_format, mode, 0, options, rules, table_schema)
    if base is None:
        return _with_initial_bases(target), None
    return _in_bases(target, base, options).based_on(base), base


def _generated(columns: Schema, store: Store, base: Snapshot | None, are_new: bool) -> Generated:
    """The generated columns of a table; `base` is its latest version (None: there is no table). Columns that are new have no rows yet."""
    if base is None:
        return generated_of(columns, store, False)
    return generated_of(columns, base.root, base.manifest.max_fragment_id is not None and not are_new)


def _with_initial_bases(target: WriteTarget) -> WriteTarget:
    """The target for a new table, with its base paths and those that the files are written to."""
    bases = new_bases(target.store, target.options.initial_bases)
    locations = Locations(target.store, bases, allow_other_stores=True)  # they are the user's own
    return replace(target, initial_bases=bases, bases=target.options.targets.folders(locations, target.store))


def _in_bases(target: WriteTarget, snapshot: Snapshot, options: WriteOptions) -> WriteTarget:
    """The target with the base paths that the files are written to."""
    locations = snapshot.locations
    if options.allow_other_stores:
        locations = replace(locations, allow_other_stores=True)
    return replace(target, bases=options.targets.folders(locations, snapshot.root))


def _store_of(place: str | PathLike[str] | Store | Snapshot, options: WriteOptions) -> Store:
    if isinstance(place, Snapshot):
        return place.store
    return place if isinstance(place, Store) else Store(place, options.storage_options)


def _there(place: str | PathLike[str] | Store | Snapshot, store: Store) -> Snapshot | None:
    """The latest version; None if there is no table."""
    if isinstance(place, Snapshot):
        return place
    try:
        return open_snapshot(store)
    except TableNotFoundError:
        if what := other_format(store):
            raise InvalidOperationError(f"{store.uri} holds {what}; write the Lance table to a folder of its own") from None
        return None


def rewrite_target(snapshot: Snapshot, options: WriteOptions, adds_rows: bool = True) -> WriteTarget:
    """Prepare to write rows with all columns of `snapshot`, for a change based on this version.

    Raises UnsupportedFeatureError for a table that cannot be written to; with `adds_rows` also if its storage version cannot be written.
    """
    manifest = snapshot.manifest
    check_writable(manifest, snapshot.store.uri)
    check_counts(manifest)
    data_format = _data_format(manifest, "append", options) if adds_rows else manifest.data_format
    if adds_rows:
        check_supported(manifest.schema, WRITABLE[data_format])
    generated = _generated(manifest.schema, snapshot.store, snapshot, False)
    rules = replace(rules_of(manifest.schema, manifest.config), generated=generated)
    target = WriteTarget(snapshot.store, manifest.schema, data_format, "append", 0, options, rules)
    return _in_bases(target, snapshot, options).based_on(snapshot)


def _data_format(current: Manifest | None, mode: Mode, options: WriteOptions) -> str:
    keeps = current is not None and (mode == "append" or options.data_storage_version is None)
    data_format = current.data_format if keeps and current is not None else options.data_storage_version or DEFAULT_FORMAT
    storage_version(data_format, _OLD_FORMAT if keeps else "")
    if options.stable_row_ids and current is not None and not current.has_stable_row_ids:
        raise InvalidOptionError("stable row ids can be enabled only when a table is created; this table has none")
    return data_format


def write_fragments(target: WriteTarget, batches: Iterable[pa.RecordBatch]) -> tuple[Fragment, ...]:
    """Write new rows to data files, which no version refers to yet. If this fails, the files are deleted."""
    writer = FragmentWriter(target)
    with on_failure(lambda: delete_data_files(target, files_of(writer.abort()))):
        for batch in batches:
            writer.write(batch, Kind.INSERTED)
        return writer.finish()


def commit_write(
    target: WriteTarget, fragments: Sequence[Fragment], base: Snapshot | None = None, latest_at: float | None = None
) -> Snapshot:
    """Make the fragments part of the table, in one new version. Appending none to a table changes nothing.

    `base` may be the snapshot of the read version, and `latest_at` a time at which it was the latest version (see
    `table.commit.commit.commit`, whose errors this raises).
    """
    settings = TableSettings(target.data_format, target.options.stable_row_ids)
    properties = target.options.noted
    if target.table_schema is not None:
        read = target.read_version, target.read_identity
        snapshot = commit_widened(target.store, *read, target.table_schema, target.rules.constraints, fragments, properties)
        if APP_ID in properties:
            discard(target, fragments)  # only those that no version refers to: the write was committed before
        return snapshot
    if target.mode == "append" and target.read_version:
        if not fragments:
            return open_snapshot(target.store)
        transaction = Transaction(target.read_version, Append(tuple(fragments)), properties=properties)
        return _commit(target, transaction, fragments, NO_SETTINGS, base, latest_at)
    for identity in target.rules.generated.identities:
        identity.begin()
    keeps = target.mode == "overwrite" and bool(target.read_version) and target.options.keeps_columns
    config, bases = dict(target.options.config), target.initial_bases
    operation = Overwrite(tuple(fragments), target.schema, config, bases, keeps_columns=keeps)
    try:
        return _commit(target, Transaction(target.read_version, operation, properties=properties), fragments, settings, base, latest_at)
    except TableAlreadyExistsError:
        if target.mode != "append":
            raise
    return _append_to_the_winner(target, fragments)


def _commit(
    target: WriteTarget,
    transaction: Transaction,
    fragments: Sequence[Fragment],
    settings: TableSettings,
    base: Snapshot | None,
    latest_at: float | None,
) -> Snapshot:
    schema = target.schema if isinstance(transaction.operation, Append) else None
    snapshot = commit(target.store, transaction, settings, base, NewFiles(schema, target.since), latest_at, target.read_identity)
    if APP_ID in transaction.properties:
        with logged(f"{target.store.uri}: deleting the files of a write that was done before"):
            if transaction_of(snapshot).uuid != transaction.uuid:
                discard(target, fragments)
    return snapshot


def _append_to_the_winner(target: WriteTarget, fragments: Sequence[Fragment]) -> Snapshot:
    """Append to a table that another writer has created meanwhile, if its schema is the one that we would have given it."""
    snapshot = open_snapshot(target.store)
    manifest = snapshot.manifest
    are_same_columns = shape(manifest.schema.fields) == shape(target.schema.fields)
    are_same_bases = manifest.base_paths == target.initial_bases
    if not are_same_columns or not are_same_bases or manifest.data_format != target.data_format:
        raise CommitConflictError(
            f"{target.store.uri}: another writer has created the table meanwhile with other columns or base paths; run the write again",
            retryable=True,
        )
    target.rules.constraints.check_complete(snapshot.manifest.config, str(snapshot))
    return commit_write(target.based_on(snapshot), fragments)


def discard(target: WriteTarget, fragments: Iterable[Fragment]) -> None:
    """Delete the files of fragments that no version since `target` refers to. Best effort: never raises.

    Do not call it after CommitStateUnknownError: a version that refers to them may still appear.
    """
    _discard(target, lambda: files_of(fragments))


def discard_job(target: WriteTarget) -> None:
    """`discard` for all files of a write, including those of tasks that were stopped or lost before they reported their files."""
    folders = dict.fromkeys((*target.folders, Folder(target.store)))  # new columns are always in the table's own folder
    _discard(target, lambda: [file for folder in folders for file in _files_of_job(target, folder)])


def _files_of_job(target: WriteTarget, folder: Folder) -> list[DataFile]:
    """The files of a write in one of its folders."""
    entries = folder.store.list(folder.path)
    return [DataFile(entry.name, (), base_id=folder.base_id) for entry in entries if entry.name.endswith(f"{target.job}.lance")]


def _discard(target: WriteTarget, find: Callable[[], Sequence[DataFile]]) -> None:
    """Delete the files that `find` returns and no version refers to; if a version cannot be read, none."""
    with logged(f"{target.store.uri}: deleting the files of a write that was given up"):
        files, named = find(), set[str]()
        with contextlib.suppress(TableNotFoundError):
            for version in list_versions(target.store) if files else ():
                if version > target.read_version:
                    manifest = open_snapshot(target.store, version=version).manifest
                    named.update(file.path for file in files_of(manifest.fragments))
        delete_data_files(target, [file for file in files if file.path not in named])
    if target.read_version:
        remove_dropped(target.store)


def files_of(fragments: Iterable[Fragment]) -> list[DataFile]:
    """The data files of fragments."""
    return [file for fragment in fragments for file in fragment.files]


def delete_data_files(target: WriteTarget, files: Iterable[DataFile]) -> None:
    """Delete data files of a write that no version refers to, with their blobs. Best effort: cleanup finds the rest."""
    have_sidecars = any(f.is_blob for f in target.schema.walk())
    for file in files:
        folder = target.folder_of(file)
        path = folder.place(file.path)
        with contextlib.suppress(StorageError):
            folder.store.delete(path)
            blobs = path.removesuffix(".lance")
            for entry in folder.store.list(blobs) if have_sidecars else ():
                folder.store.delete(f"{blobs}/{entry.name}")
