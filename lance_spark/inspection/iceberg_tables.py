"""Tables about a table with the names and columns of Iceberg's metadata tables, from what a version of a Lance table has.

A snapshot is a version, a manifest list and a manifest are the manifest of a version, and a delete file of positions is a deletion file.
What Lance has no counterpart for is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.inspection.metadata_table import MetadataTable, Row
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.storage.store import Store
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.versions.history import HistoryEntry, history, newest_first
from lance_spark.table.versions.snapshot import Snapshot, to_datetime

_TIME = pa.timestamp("us", "UTC")
_SUMMARY = pa.map_(pa.string(), pa.string())
_DATA, _POSITIONS = 0, 1
"""Iceberg's numbers for the contents of a file."""
_EXISTING, _ADDED = 0, 1
"""Iceberg's numbers for the status of a file in a version."""
_BATCH_ROWS = 1 << 16
"""The most deleted rows in a batch: each has the paths of two files."""


def _snapshots(snapshot: Snapshot) -> Iterable[Row]:
    for entry in _until(snapshot):
        version, time, properties = entry.version, entry.timestamp, sorted(entry.properties.items())
        as_in_iceberg = (time, version, _parent(version), entry.operation, _manifest(snapshot, version), properties)
        yield (*as_in_iceberg, version, time, entry.message, properties)


def _until(snapshot: Snapshot) -> Iterator[HistoryEntry]:
    return (entry for entry in history(snapshot.store) if entry.version <= snapshot.version)


def _parent(version: int) -> int | None:
    return version - 1 if version > 1 else None


def _manifest(snapshot: Snapshot, version: int) -> str | None:
    """The manifest of a version, if its name is known: that of this version."""
    return f"{snapshot.store.uri}/{snapshot.path}" if version == snapshot.version else None


def _metadata_log(snapshot: Snapshot) -> Iterable[Row]:
    return [(entry.timestamp, _manifest(snapshot, entry.version), entry.version, None, entry.version) for entry in _until(snapshot)]


def _data_files(snapshot: Snapshot) -> Iterator[Row]:
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            store, path = snapshot.locations.data_file(file)
            yield (_DATA, _uri(store, path), "LANCE", fragment.physical_rows, file.size, fragment.id)


def _delete_files(snapshot: Snapshot) -> Iterator[Row]:
    for fragment in snapshot.manifest.fragments:
        if fragment.deletion is not None:
            store, path = snapshot.locations.deletion_file(fragment)
            yield (_POSITIONS, _uri(store, path), "LANCE", fragment.deletion.num_deleted, None, fragment.id)


def _position_deletes(snapshot: Snapshot) -> pa.RecordBatchReader:
    """A row for each deleted row."""
    schema = pa.schema(list(_POSITION_DELETE.items()))
    return pa.RecordBatchReader.from_batches(schema, _deleted_positions(snapshot, schema))


def _deleted_positions(snapshot: Snapshot, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for fragment in snapshot.manifest.fragments:
        if fragment.deletion is None:
            continue
        offsets = read_deletions(fragment, snapshot.locations).astype(np.int64)
        data_file = _uri(*snapshot.locations.data_file(fragment.files[0]))
        deletion_file = _uri(*snapshot.locations.deletion_file(fragment))
        for start in range(0, len(offsets), _BATCH_ROWS):
            positions = pa.array(offsets[start : start + _BATCH_ROWS])
            known = (data_file, pa.scalar(_NO_SPEC, pa.int32()), deletion_file)
            file_path, spec_id, delete_file_path = (pa.repeat(value, len(positions)) for value in known)
            columns = [file_path, positions, spec_id, delete_file_path]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _uri(store: Store, path: str) -> str:
    return f"{store.uri}/{path}"


def _files(snapshot: Snapshot) -> Iterator[Row]:
    yield from _data_files(snapshot)
    yield from _delete_files(snapshot)


def _entries(snapshot: Snapshot) -> Iterator[Row]:
    return _entries_after(*next(_with_preceding(snapshot)))


def _entries_after(snapshot: Snapshot, preceding: Snapshot | None) -> Iterator[Row]:
    """The files of a version, with those that the version before it lacks as added."""
    before = set() if preceding is None else {row[1] for row in _files(preceding)}
    for row in _files(snapshot):
        is_added = row[1] not in before
        version = snapshot.version if is_added else None
        yield (_ADDED if is_added else _EXISTING, version, version, version, dict(zip(_FILE, row)))


def _with_preceding(snapshot: Snapshot) -> Iterator[tuple[Snapshot, Snapshot | None]]:
    """This version and those before it, newest first, each with the one before it; None if that was removed."""
    later = snapshot
    for earlier in newest_first(snapshot.store):
        if earlier.version < snapshot.version:
            yield later, earlier
            later = earlier
    yield later, None


def _manifests(snapshot: Snapshot) -> Iterable[Row]:
    return [_manifest_after(*next(_with_preceding(snapshot)))]


def _manifest_after(snapshot: Snapshot, preceding: Snapshot | None) -> Row:
    contents = [row[4]["content"] for row in _entries_after(snapshot, preceding) if row[0] == _ADDED]
    new_data, new_deletions = contents.count(_DATA), contents.count(_POSITIONS)
    data = sum(len(fragment.files) for fragment in snapshot.manifest.fragments)
    deletions = sum(fragment.deletion is not None for fragment in snapshot.manifest.fragments)
    counts = (new_data, data - new_data, 0, new_deletions, deletions - new_deletions, 0)
    path = f"{snapshot.store.uri}/{snapshot.path}"
    return (_DATA, path, snapshot.store.size(snapshot.path), 0, snapshot.version, *counts)


def _partitions(snapshot: Snapshot) -> Iterable[Row]:
    fragments = snapshot.manifest.fragments
    live = int(all_live_rows(snapshot).sum())
    physical = sum(fragment.physical_rows for fragment in fragments)
    files = [file for fragment in fragments for file in fragment.files]
    deletions = sum(fragment.deletion is not None for fragment in fragments)
    size = sum(file.size or 0 for file in files)
    yield (live, len(files), size, physical - live, deletions, 0, 0, to_datetime(snapshot.manifest.timestamp), snapshot.version)


def _of_all_versions(rows: Callable[[Snapshot], Iterable[Row]]) -> Callable[[Snapshot], Iterator[Row]]:
    """The files of all versions up to this one, newest first, each once."""

    def all_rows(snapshot: Snapshot) -> Iterator[Row]:
        seen: set[Any] = set()
        for version, _ in _with_preceding(snapshot):
            for row in rows(version):
                if row[1] not in seen:
                    seen.add(row[1])
                    yield row

    return all_rows


def _all_entries(snapshot: Snapshot) -> Iterator[Row]:
    for version, preceding in _with_preceding(snapshot):
        yield from _entries_after(version, preceding)


def _all_manifests(snapshot: Snapshot) -> Iterator[Row]:
    return (_manifest_after(*pair) for pair in _with_preceding(snapshot))


_FILE: Mapping[str, pa.DataType] = {
    "content": pa.int32(),
    "file_path": pa.string(),
    "file_format": pa.string(),
    "record_count": pa.int64(),
    "file_size_in_bytes": pa.int64(),
    "fragment": pa.int64(),
}
_POSITION_DELETE: Mapping[str, pa.DataType] = {
    "file_path": pa.string(),
    "pos": pa.int64(),
    "spec_id": pa.int32(),
    "delete_file_path": pa.string(),
}
_NO_SPEC = 0
"""Iceberg's number for the partitions of a table that has none."""
_ENTRY: Mapping[str, pa.DataType] = {
    "status": pa.int32(),
    "snapshot_id": pa.int64(),
    "sequence_number": pa.int64(),
    "file_sequence_number": pa.int64(),
    "data_file": pa.struct(list(_FILE.items())),
}
_MANIFEST: Mapping[str, pa.DataType] = {
    "content": pa.int32(),
    "path": pa.string(),
    "length": pa.int64(),
    "partition_spec_id": pa.int32(),
    "added_snapshot_id": pa.int64(),
    "added_data_files_count": pa.int32(),
    "existing_data_files_count": pa.int32(),
    "deleted_data_files_count": pa.int32(),
    "added_delete_files_count": pa.int32(),
    "existing_delete_files_count": pa.int32(),
    "deleted_delete_files_count": pa.int32(),
}


ICEBERG_TABLES: Mapping[str, MetadataTable] = {
    "snapshots": MetadataTable(
        {
            "committed_at": _TIME,
            "snapshot_id": pa.int64(),
            "parent_id": pa.int64(),
            "operation": pa.string(),
            "manifest_list": pa.string(),
            "summary": _SUMMARY,
            "version": pa.int64(),
            "timestamp": _TIME,
            "message": pa.string(),
            "properties": _SUMMARY,
        },
        _snapshots,
    ),
    "metadata_log_entries": MetadataTable(
        {
            "timestamp": _TIME,
            "file": pa.string(),
            "latest_snapshot_id": pa.int64(),
            "latest_schema_id": pa.int32(),
            "latest_sequence_number": pa.int64(),
        },
        _metadata_log,
    ),
    "data_files": MetadataTable(_FILE, _data_files),
    "delete_files": MetadataTable(_FILE, _delete_files),
    "position_deletes": MetadataTable(_POSITION_DELETE, _position_deletes),
    "entries": MetadataTable(_ENTRY, _entries),
    "manifests": MetadataTable(_MANIFEST, _manifests),
    "partitions": MetadataTable(
        {
            "record_count": pa.int64(),
            "file_count": pa.int32(),
            "total_data_file_size_in_bytes": pa.int64(),
            "position_delete_record_count": pa.int64(),
            "position_delete_file_count": pa.int32(),
            "equality_delete_record_count": pa.int64(),
            "equality_delete_file_count": pa.int32(),
            "last_updated_at": _TIME,
            "last_updated_snapshot_id": pa.int64(),
        },
        _partitions,
    ),
    "all_data_files": MetadataTable(_FILE, _of_all_versions(_data_files)),
    "all_delete_files": MetadataTable(_FILE, _of_all_versions(_delete_files)),
    "all_files": MetadataTable(_FILE, _of_all_versions(_files)),
    "all_entries": MetadataTable(_ENTRY, _all_entries),
    "all_manifests": MetadataTable(_MANIFEST, _all_manifests),
}
