"""The table `__manifest` of a directory namespace, with one row for each namespace and table, and its changes.

Implements "Manifest Table" of the directory namespace specification. A change reads all rows and columns, and writes them again with an
Overwrite as exactly the next version, so that columns, table metadata and config of other writers are kept. If another writer was
first, the rows are read again and the change is applied to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.dataset import Dataset
from lance_spark.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidOperationError,
    MissingFileError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    on_refusal,
)
from lance_spark.file.supported_types import WRITABLE
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import Operation, Overwrite, UpdateConfig, UpdateMap
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import PRIMARY_KEY_POSITION, Schema, from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT
from lance_spark.table.commit.commit import commit_next
from lance_spark.table.commit.idempotence import is_done
from lance_spark.table.commit.retry import COMMIT_TRIES, attempts, back_off
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.options import NO_OPTIONS
from lance_spark.table.write.rules import NO_RULES
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard, write_fragments

FOLDER = "__manifest"
NAMESPACE, TABLE = "namespace", "table"
"""Values of `object_type`."""
SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={PRIMARY_KEY_POSITION: b"0"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
"""The columns of a new `__manifest`; existing ones may have more."""
READER_FLAGS = "lance.namespace.manifest.reader_feature_flags"
WRITER_FLAGS = "lance.namespace.manifest.writer_feature_flags"
"""Keys of the table metadata: decimal numbers whose bits are features that a reader or a writer must support."""
GUARD = 1 << 62
"""The writer flag of partitioned namespaces: a writer must keep unknown columns."""
_KNOWN_FLAGS = {READER_FLAGS: 0, WRITER_FLAGS: GUARD}
NOTHING_NOTED: Mapping[str, str] = {}


@dataclass(frozen=True)
class ManifestTable:
    """One version of the `__manifest` below `root`. Without a snapshot it is version 0, which has no rows."""

    root: Store
    snapshot: Snapshot | None = None
    _read: list[pa.Table] = field(default_factory=list, repr=False, compare=False)

    @property
    def store(self) -> Store:
        """The folder of the table."""
        return _folder(self.root)

    @property
    def version(self) -> int:
        """The number of this version; 0 if there is no table yet."""
        return self.snapshot.version if self.snapshot else 0

    @property
    def metadata(self) -> Mapping[str, str]:
        """The table metadata, which contains the properties of the root namespace."""
        return self.snapshot.manifest.table_metadata if self.snapshot else {}

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self.snapshot.manifest.schema if self.snapshot else from_arrow(SCHEMA)

    @property
    def rows(self) -> pa.Table:
        """All rows with all columns, including `location` and `metadata` even if the table lacks them.

        Raises CorruptFileError if ids are missing, are not strings or are duplicated.
        """
        if not self._read:
            self._read.append(self._checked_rows())
        return self._read[0]

    def _checked_rows(self) -> pa.Table:
        rows = Dataset(self.snapshot).scan().to_table() if self.snapshot else SCHEMA.empty_table()
        where = f"{self.store.uri}, version {self.version}"
        for name in ("object_id", "object_type", "location", "metadata"):
            required = name.startswith("object_")
            if name not in rows.schema.names and not required:
                rows = rows.append_column(SCHEMA.field(name), pa.nulls(rows.num_rows, pa.string()))
            if name not in rows.schema.names or rows.schema.field(name).type not in (pa.string(), pa.large_string()):
                raise CorruptFileError(f"{where}: expected a column {name!r} of strings")
            if required and rows[name].null_count:
                raise CorruptFileError(f"{where}: the column {name!r} has nulls")
        if (twice := duplicated(rows)) is not None:
            raise CorruptFileError(f"{where}: the id {twice!r} is duplicated")
        return rows

    def with_rows(self, added: Sequence[Mapping[str, object]]) -> pa.Table:
        """Append rows; columns that a new row lacks are null."""
        return pa.concat_tables([self.rows, pa.Table.from_pylist(list(added), schema=self.rows.schema)])

    def without(self, ids: Sequence[str]) -> pa.Table:
        """The rows except those with these ids."""
        return self.rows.filter(pc.invert(pc.is_in(self.rows["object_id"], pa.array(ids, pa.string()))))


class Committed(NamedTuple):
    """The version after a change, and whether the change made it: False for an empty change or a repeated transaction."""

    table: ManifestTable
    applied: bool


def duplicated(rows: pa.Table) -> str | None:
    """An id that is duplicated, or None."""
    counts = pc.value_counts(rows["object_id"])
    if len(counts) == rows.num_rows:
        return None
    return str(counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py())


def open_manifest(root: Store, version: int | None = None, timestamp: datetime | str | None = None) -> ManifestTable:
    """Open the latest version of the `__manifest` below `root`, or that of a number or time.

    Version 0 without rows if there is no such table. Raises UnsupportedFeatureError for unknown reader features, and
    VersionNotFoundError.
    """
    for _ in range(COMMIT_TRIES):
        try:
            table = ManifestTable(root, open_snapshot(_folder(root), version=version, timestamp=timestamp))
        except TableNotFoundError:
            return ManifestTable(root)
        except MissingFileError:
            continue  # removed by a cleanup after the listing
        check_flags(table, READER_FLAGS)
        return table
    raise CommitConflictError(
        f"{root.uri}: cleanups removed the latest version of __manifest in all tries to open it; run the operation again", retryable=True
    )


def check_flags(table: ManifestTable, key: str) -> None:
    """Raise UnsupportedFeatureError if the metadata requires unknown features; `key` is READER_FLAGS or WRITER_FLAGS."""
    text = table.metadata.get(key, "0")
    flags = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else -1
    if not 0 <= flags < 1 << 64:
        raise CorruptFileError(f"{table.store.uri}: {key} is {text[:40]!r}, expected a number of 64 bits")
    if unknown := flags & ~_KNOWN_FLAGS[key]:
        what = "read" if key == READER_FLAGS else "change"
        raise UnsupportedFeatureError(f"{table.store.uri}: unknown features are required to {what} this namespace (flags {unknown:#x})")


def change(root: Store, edit: Callable[[ManifestTable], pa.Table | None], properties: Mapping[str, str] = NOTHING_NOTED) -> Committed:
    """Replace the rows by the result of `edit` for the latest version, in one new version.

    `edit` is called again for each version that another writer has committed meanwhile. It may add columns, must keep existing ones, and
    returns None if there is nothing to do. Its errors are passed on. `properties` are stored in the transaction; with the name and
    number of an application's write (see `table.commit.idempotence`) the change is made only once.
    Raises UnsupportedFeatureError for unknown features before `edit` is called, InvalidOperationError for rows with duplicated ids, and
    CommitStateUnknownError as `table.commit.commit.commit` does.
    """

    def prepare(table: ManifestTable) -> _Prepared | None:
        rows = edit(table)
        return None if rows is None else _overwrite(table, rows)

    return _committed(root, prepare, properties)


def change_metadata(root: Store, edit: Callable[[ManifestTable], Mapping[str, str | None] | None]) -> Committed:
    """Set keys of the table metadata to the result of `edit` for the latest version (None removes a key), in one new version.

    If there is no `__manifest` yet, an empty one is created first. Otherwise like `change`.
    """

    def prepare(table: ManifestTable) -> _Prepared | None:
        values = edit(table)
        return None if values is None else _Prepared(UpdateConfig(table_metadata_updates=UpdateMap(dict(values))), lambda: None)

    change(root, lambda table: None if table.snapshot else table.rows)
    return _committed(root, prepare, NOTHING_NOTED)


class _Prepared(NamedTuple):
    """An operation whose files are written, and the function that removes them."""

    operation: Operation
    undo: Callable[[], None]


def _folder(root: Store) -> Store:
    return root.at(f"{root.uri.rstrip('/')}/{FOLDER}")


def _committed(root: Store, prepare: Callable[[ManifestTable], _Prepared | None], properties: Mapping[str, str]) -> Committed:
    """Commit the operation that `prepare` makes for the latest version as the next one; repeat if another writer was first."""
    for attempt in attempts():
        started = time.monotonic()
        table = open_manifest(root)
        check_flags(table, WRITER_FLAGS)
        if table.snapshot:
            check_writable(table.snapshot.manifest, table.store.uri)
        try:
            if table.snapshot and is_done(table.snapshot, properties):
                return Committed(table, False)
            prepared = prepare(table)
        except VersionNotFoundError:  # removed by a cleanup while it was read
            back_off(attempt, time.monotonic() - started)
            continue
        if prepared is None:
            return Committed(table, False)
        if done := _next(table, prepared, properties):
            return Committed(ManifestTable(root, done), True)
        back_off(attempt, time.monotonic() - started)
    what = f"other writers committed first in all {attempt + 1} tries to change the namespace; run the operation again"
    raise CommitConflictError(f"{root.uri}: {what}", retryable=True)


def _next(table: ManifestTable, prepared: _Prepared, properties: Mapping[str, str]) -> Snapshot | None:
    """Commit right after `table`. If another writer was first, remove the files and return None."""
    with on_refusal(prepared.undo):
        done = commit_next(table.store, Transaction(table.version, prepared.operation, properties=properties), table.snapshot)
    if done is None:
        prepared.undo()
    return done


def _overwrite(table: ManifestTable, rows: pa.Table) -> _Prepared:
    """The Overwrite with `rows`, whose files are written."""
    if (twice := duplicated(rows)) is not None:
        raise InvalidOperationError(f"{table.store.uri}: the id {twice!r} would be duplicated")
    data_format = table.snapshot.manifest.data_format if table.snapshot else DEFAULT_FORMAT
    if data_format not in WRITABLE:
        raise UnsupportedFeatureError(
            f"{table.store.uri} has storage version {data_format}; writing is supported for {', '.join(WRITABLE)}"
        )
    target = WriteTarget(table.store, _with_columns(table, rows.schema), data_format, "overwrite", table.version, NO_OPTIONS, NO_RULES)
    fragments = write_fragments(target, rows.to_batches())
    return _Prepared(Overwrite(fragments, target.schema), lambda: discard(target, fragments))


def _with_columns(table: ManifestTable, schema: pa.Schema) -> Schema:
    """The table's fields, with the same ids, followed by the additional fields of `schema`."""
    known = {f.name for f in table.schema.fields}
    if missing := known - set(schema.names):
        raise InvalidOperationError(
            f"{table.store.uri}: the columns {', '.join(sorted(missing))} are missing; a change must keep all columns"
        )
    if table.snapshot is None:
        return from_arrow(schema)
    if not (added := [f for f in schema if f.name not in known]):
        return table.schema
    new = from_arrow(pa.schema(added), next_field_id(table.snapshot))
    return replace(table.schema, fields=(*table.schema.fields, *new.fields))
