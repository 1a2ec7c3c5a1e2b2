"""The first field id that no version of a table has used."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from lance_spark.errors import LanceError
from lance_spark.metadata.field_ids import mark_of
from lance_spark.metadata.manifest import parse_highest_field_id
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot, list_versions

_CONNECTIONS = 32
"""Maximum number of concurrent requests to a remote store."""


def next_field_id(snapshot: Snapshot) -> int:
    """The first field id above those of all columns that the table has or had.

    These are the columns of the version, those in its data files and of its indexes, and the highest id that the table's metadata records.
    Other writers do not record it, so the versions that came after the record are read, as far as they exist.
    """
    manifest = snapshot.manifest
    mark = mark_of(manifest)
    in_files = {file.fields for f in manifest.fragments for file in f.files}
    highest_in_files = max((i for fields in in_files for i in fields), default=-1)
    highest_indexed = max((i for index in manifest.indexes for i in index.fields), default=-1)
    known = max(mark.highest, manifest.schema.max_field_id, highest_in_files, highest_indexed)
    versions = list_versions(snapshot.store)
    since = {v: path for v, path in versions.items() if v > mark.version and v != snapshot.version}
    return max(known, _highest(snapshot.store, since)) + 1


def _highest(store: Store, paths: Mapping[int, str]) -> int:
    """The highest field id of the versions with these manifests. A version that is removed meanwhile, or damaged, is skipped."""

    def of(path: str) -> int:
        try:
            return parse_highest_field_id(store.read(path), f"{store.uri}/{path}")
        except (FileNotFoundError, LanceError):
            return -1

    if not store.is_remote:
        return max(map(of, paths.values()), default=-1)
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return max(pool.map(of, paths.values()), default=-1)
