"""The files in the table's folders and their sizes, grouped by purpose."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lance_spark.inspection.usage import Area
from lance_spark.metadata.fragment import DataFile, ExternalFile, IndexMetadata
from lance_spark.metadata.locations import BLOBS, DATA, INDICES
from lance_spark.table.maintenance.cleanup import files_of_table
from lance_spark.table.maintenance.progress import Track
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.snapshot import SUFFIX, VERSIONS, Snapshot

_DATA, _BLOBS, _DELETIONS, _INDEXES = "data files", "blob files", "deletion files", "indexes"
_METADATA, OTHER = "manifest and metadata", "other versions and unused files"
_AREAS = (_DATA, _BLOBS, _DELETIONS, _INDEXES, _METADATA, OTHER)


@dataclass(frozen=True)
class FileSizes:
    """Bytes of the files below the table's root by their paths there."""

    listed: Mapping[str, int]

    def data_file(self, file: DataFile) -> int:
        """The size of a data file (below another base path: as the manifest says); 0 if it is unknown or the file is missing."""
        return self.listed.get(f"{DATA}/{file.path}", 0) if file.base_id is None else file.size or 0

    def index(self, index: IndexMetadata) -> list[int]:
        """The sizes of the files of an index segment."""
        return [f.size for f in index.files] if index.base_id is not None else self._indexes.get(str(uuid.UUID(bytes=index.uuid)), [])

    @cached_property
    def _indexes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for path, size in self.listed.items():
            folder, _, name = path.partition("/")
            if folder == INDICES:
                found.setdefault(name.partition("/")[0], []).append(size)
        return found


def list_files(snapshot: Snapshot, track: Track) -> FileSizes:
    """List the table's folders."""
    sizes = {path: entry.size for path, entry in track(files_of_table(snapshot), "list files")}
    sizes |= {f"{VERSIONS}/{e.name}": e.size for e in snapshot.store.list(VERSIONS) if e.name.endswith(SUFFIX)}
    return FileSizes(sizes)


def areas(snapshot: Snapshot, sizes: FileSizes) -> tuple[Area, ...]:
    """All files of the table by purpose, with the files of this version that are below other base paths."""
    purposes = _purposes(snapshot)
    files, total = Counter[str](), Counter[str]()
    for path, size in sizes.listed.items():
        area = purposes.get(path) or purposes.get(path[: path.rfind("/") + 1], OTHER)
        files[area] += 1
        total[area] += size
    elsewhere = {
        (f.base_id, f.path): f.size or 0 for fragment in snapshot.manifest.fragments for f in fragment.files if f.base_id is not None
    }
    files[_DATA] += len(elsewhere)
    total[_DATA] += sum(elsewhere.values())
    return tuple(Area(name, files[name], total[name]) for name in _AREAS)


def _purposes(snapshot: Snapshot) -> dict[str, str]:
    """The purposes of the version's files below its own root, and of folders, which end with a slash."""
    manifest = snapshot.manifest
    purposes = {snapshot.path: _METADATA, f"{TRANSACTIONS}/{manifest.transaction_file}": _METADATA}
    for fragment in manifest.fragments:
        for file in fragment.files:
            if file.base_id is None:
                purposes[f"{DATA}/{file.path}"] = _DATA
                # The large blobs of a data file are in a folder of the same name.
                purposes[f"{DATA}/{file.path.removesuffix('.lance')}/"] = _BLOBS
        if fragment.deletion is not None and fragment.deletion.base_id is None:
            purposes[fragment.deletion.path(fragment.id)] = _DELETIONS
        sequences = (fragment.row_ids, fragment.created_at, fragment.updated_at)
        purposes.update({s.path: _METADATA for s in sequences if isinstance(s, ExternalFile)})
    purposes[f"{BLOBS}/"] = _BLOBS
    purposes.update({f"{INDICES}/{uuid.UUID(bytes=i.uuid)}/": _INDEXES for i in manifest.indexes if i.base_id is None})
    return purposes
