"""Tables about a table: its versions, fragments, files, columns, indexes, tags and branches as rows, read from manifests.

`columns` reads the metadata of data files, too, of those of some fragments if there are many (see `inspection.gather`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pyarrow as pa

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError, TableNotFoundError
from lance_spark.inspection.gather import inspect
from lance_spark.inspection.iceberg_tables import ICEBERG_TABLES
from lance_spark.inspection.metadata_table import MetadataTable, Row
from lance_spark.metadata.fragment import DataFile
from lance_spark.storage.store import Store
from lance_spark.table.indexes.describe import list_indices
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.history import history, newest_first, transaction_of
from lance_spark.table.versions.snapshot import Snapshot, latest_version

_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.list_(pa.string())
_PROPERTIES = pa.map_(pa.string(), pa.string())


def _versions(snapshot: Snapshot) -> Iterable[Row]:
    entries = (e for e in history(snapshot.store) if e.version <= snapshot.version)
    return [(e.version, e.timestamp, e.operation, e.message, sorted(e.properties.items())) for e in entries]


def _history(snapshot: Snapshot) -> Iterable[Row]:
    for row in _versions(snapshot):
        version, timestamp = row[:2]
        yield (*row, timestamp, version, version - 1 if version > 1 else None, True)


def _transactions(snapshot: Snapshot) -> Iterable[Row]:
    for version in newest_first(snapshot.store):
        if version.version <= snapshot.version:
            t = transaction_of(version)
            yield (version.version, t.uuid, t.read_version, type(t.operation).__name__)


def _fragments(snapshot: Snapshot) -> Iterable[Row]:
    for fragment, live in zip(snapshot.manifest.fragments, all_live_rows(snapshot).tolist()):
        size = sum(file.size or 0 for file in fragment.files)
        yield (fragment.id, live, fragment.physical_rows - live, len(fragment.files), size)


def _files(snapshot: Snapshot) -> Iterable[Row]:
    names = {path[-1].id: ".".join(f.name for f in path) for path in snapshot.manifest.schema.paths()}
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            uri, rows = _uri(snapshot, file), fragment.physical_rows
            own = (fragment.id, uri, _version(file), rows, file.size, _columns_of(file, names))
            yield (*own, 0, uri, "LANCE", rows, file.size)


def _uri(snapshot: Snapshot, file: DataFile) -> str:
    store, path = snapshot.locations.data_file(file)
    return f"{store.uri}/{path}"


def _version(file: DataFile) -> str:
    return ".".join(map(str, file.version))


def _columns_of(file: DataFile, names: Mapping[int, str]) -> list[str]:
    """The columns of the table in a data file; those of dropped columns have no name."""
    return [names[i] for i in file.fields if i in names]


def _columns(snapshot: Snapshot) -> Iterable[Row]:
    for use in inspect(snapshot).columns:
        encodings = [e.encoding for e in use.encodings]
        yield (use.path, use.type, use.in_use, use.files, use.pages, use.rows, use.size, use.plain_size, encodings)


def _indexes(snapshot: Snapshot) -> Iterable[Row]:
    return [(i["name"], i["type"], i["fields"], i["uuid"], i["version"], sorted(i["fragment_ids"])) for i in list_indices(snapshot)]


def _tags(snapshot: Snapshot) -> Iterable[Row]:
    return [(t.name, t.branch, t.version, t.created_at, t.updated_at) for _, t in sorted(refs.tags(snapshot.root).items())]


def _branches(snapshot: Snapshot) -> Iterable[Row]:
    for _, b in sorted(refs.branches(snapshot.root).items()):
        yield (b.name, b.parent_branch, b.parent_version, datetime.fromtimestamp(b.created_at, UTC))


def _refs(snapshot: Snapshot) -> Iterable[Row]:
    root, ages = snapshot.root, (None, None, None)
    newest = _newest(root)
    yield (refs.MAIN, "BRANCH", None, newest, None, newest, *ages)
    for _, b in sorted(refs.branches(root).items()):
        newest = _newest(root.at(f"{root.uri}/{refs.branch_folder(b.name)}"))
        yield (b.name, "BRANCH", b.name, newest, datetime.fromtimestamp(b.created_at, UTC), newest, *ages)
    for _, t in sorted(refs.tags(root).items()):
        created = None if t.created_at is None else datetime.fromisoformat(t.created_at)
        yield (t.name, "TAG", t.branch, t.version, created, t.version, *ages)


def _newest(store: Store) -> int | None:
    """The latest version of a branch; None if its files are gone."""
    with contextlib.suppress(TableNotFoundError):
        return latest_version(store)[0]
    return None


_VERSIONS: Mapping[str, pa.DataType] = {
    "version": pa.int64(),
    "timestamp": _TIME,
    "operation": pa.string(),
    "message": pa.string(),
    "properties": _PROPERTIES,
}
_ICEBERG_HISTORY: Mapping[str, pa.DataType] = {
    "made_current_at": _TIME,
    "snapshot_id": pa.int64(),
    "parent_id": pa.int64(),
    "is_current_ancestor": pa.bool_(),
}
_ICEBERG_FILE: Mapping[str, pa.DataType] = {
    "content": pa.int32(),
    "file_path": pa.string(),
    "file_format": pa.string(),
    "record_count": pa.int64(),
    "file_size_in_bytes": pa.int64(),
}
_ICEBERG_REF: Mapping[str, pa.DataType] = {
    "snapshot_id": pa.int64(),
    "max_reference_age_in_ms": pa.int64(),
    "min_snapshots_to_keep": pa.int32(),
    "max_snapshot_age_in_ms": pa.int64(),
}
METADATA_TABLES: Mapping[str, MetadataTable] = {
    "versions": MetadataTable(_VERSIONS, _versions),
    "history": MetadataTable({**_VERSIONS, **_ICEBERG_HISTORY}, _history),
    "transactions": MetadataTable(
        {"version": pa.int64(), "uuid": pa.string(), "read_version": pa.int64(), "operation": pa.string()}, _transactions
    ),
    "fragments": MetadataTable(
        {"id": pa.int64(), "rows": pa.int64(), "deleted_rows": pa.int64(), "files": pa.int64(), "size": pa.int64()}, _fragments
    ),
    "files": MetadataTable(
        {
            "fragment": pa.int64(),
            "path": pa.string(),
            "version": pa.string(),
            "rows": pa.int64(),
            "size": pa.int64(),
            "columns": _TEXTS,
            **_ICEBERG_FILE,
        },
        _files,
    ),
    "columns": MetadataTable(
        {
            "path": pa.string(),
            "type": pa.string(),
            "in_use": pa.bool_(),
            "files": pa.int64(),
            "pages": pa.int64(),
            "rows": pa.int64(),
            "size": pa.int64(),
            "plain_size": pa.int64(),
            "encodings": _TEXTS,
        },
        _columns,
    ),
    "indexes": MetadataTable(
        {
            "name": pa.string(),
            "type": pa.string(),
            "fields": _TEXTS,
            "uuid": pa.string(),
            "version": pa.int64(),
            "fragments": pa.list_(pa.int64()),
        },
        _indexes,
    ),
    "tags": MetadataTable(
        {"name": pa.string(), "branch": pa.string(), "version": pa.int64(), "created_at": pa.string(), "updated_at": pa.string()}, _tags
    ),
    "branches": MetadataTable(
        {"name": pa.string(), "parent_branch": pa.string(), "parent_version": pa.int64(), "created_at": _TIME}, _branches
    ),
    "refs": MetadataTable(
        {
            "name": pa.string(),
            "type": pa.string(),
            "branch": pa.string(),
            "version": pa.int64(),
            "created_at": _TIME,
            **_ICEBERG_REF,
        },
        _refs,
    ),
    **ICEBERG_TABLES,
}
"""By name. Sizes are in bytes; a size that the manifest does not record is null."""


def metadata_table(name: str) -> MetadataTable:
    """The table about a table with this name. Raises InvalidOptionError for an unknown one."""
    if name.lower() not in METADATA_TABLES:
        raise InvalidOptionError(
            f"there is no metadata table {name!r}{nearest(name, METADATA_TABLES)}; there are {', '.join(METADATA_TABLES)}"
        )
    return METADATA_TABLES[name.lower()]
