"""The files that versions reference, and checks that all files of a version exist."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from lance_spark.errors import UnsupportedFeatureError, VersionNotFoundError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import BLOB_SUFFIX, DATA, INDICES
from lance_spark.metadata.manifest import MANAGED_BLOBS, ExternalFile, IndexMetadata, Manifest, overlaid_fragments
from lance_spark.metadata.overlays import overlays_of
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.snapshot import Snapshot

_FEW = 8
"""Up to this many files of a remote store are checked one by one; for more, their folders are listed."""


@dataclass
class NamedFiles:
    """Files that versions reference: paths below the root of one table, and folders that are referenced as a whole.

    `data` are the paths of data files below the folder of data. The large blobs of a data file are in a folder of the same name beside it.
    With `has_blobs`, versions have managed blobs, which may be in any file of blobs: only the data files tell.
    """

    data: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    has_blobs: bool = False

    def add(self, manifest: Manifest, base_ids: set[int | None]) -> None:
        """Add the files that a manifest references below the bases with these ids (None: its own table)."""
        self.has_blobs |= bool(manifest.reader_flags & MANAGED_BLOBS)
        own, others = manifest.lazy_fragments.own_files()
        if None in base_ids:
            self.data.update(own)
        for overlay in (o for fragment in overlaid_fragments(manifest) for o in overlays_of(fragment)):
            if overlay.file.base_id in base_ids:
                self.data.add(overlay.file.path)
        for fragment in others:
            self.data.update(file.path for file in fragment.files if file.base_id in base_ids)
            if fragment.deletion is not None and fragment.deletion.base_id in base_ids:
                self.files.add(fragment.deletion.path(fragment.id))
            self.files.update(s.path for s in _external(fragment) if None in base_ids)
        self.folders.update(_index_folder(index) for index in manifest.indexes if index.base_id in base_ids)
        if manifest.transaction_file and None in base_ids:
            self.files.add(f"{TRANSACTIONS}/{manifest.transaction_file}")

    @property
    def keys(self) -> set[str]:
        """All that is referenced. No path of a data file, after its slash, is that of another file or folder."""
        return {*(f"/{path}" for path in self.data), *self.files, *self.folders}

    def __contains__(self, path: str) -> bool:
        """True if a file, or a folder that contains it, is referenced."""
        data, folder = _keys(path)
        if not self.data.isdisjoint(data) or path in self.files or folder in self.folders:
            return True
        return self.has_blobs and path.endswith(BLOB_SUFFIX)


def _keys(path: str) -> tuple[list[str], str]:
    """The paths of the data files that a file may belong to, below the folder of data, and the folder that it is in."""
    parts = path.split("/")
    folder = "/".join(parts[:2])
    if parts[0] != DATA or len(parts) < 2:
        return [], folder
    name = parts[1]
    return ["/".join(parts[1:]), f"{name}.lance", *([] if name.endswith(".lance") else [name])], folder


class ForgottenFiles:
    """Files that old versions reference, with the first and the last version that references each."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def add(self, version: int, manifest: Manifest) -> None:
        """Add the files of a version. Versions must be added in ascending order."""
        named = NamedFiles()
        named.add(manifest, {None})
        keys = named.keys
        self._first = {**dict.fromkeys(keys, version), **self._first}
        self._last.update(dict.fromkeys(keys, version))

    def has(self, path: str, but: Collection[int]) -> bool:
        """True if versions reference a file or its folder, and no version in `but` lies between the first and the last of them."""
        data, folder = _keys(path)
        key = next((key for key in (path, *(f"/{name}" for name in data), folder) if key in self._last), None)
        return key is not None and not any(self._first[key] <= version <= self._last[key] for version in but)


def _external(fragment: Fragment) -> list[ExternalFile]:
    return [s for s in (fragment.row_ids, fragment.created_at, fragment.updated_at) if isinstance(s, ExternalFile)]


def _index_folder(index: IndexMetadata) -> str:
    return f"{INDICES}/{uuid.UUID(bytes=index.uuid)}"


def check_whole(snapshot: Snapshot) -> None:
    """Raise VersionNotFoundError if the version's manifest, its branch, or any of its data or deletion files is gone.

    Call this after creating a reference to a version (a tag, branch or clone). A cleanup removes manifests, then reads the
    references, then removes files: so if the manifest still exists after the reference was written, the version stays. The files are
    checked because pylance removes files first.
    """
    branch, root = snapshot.manifest.branch, snapshot.root
    if branch is not None and root != snapshot.store:
        refs.branch(root, branch)
    if not snapshot.store.exists(snapshot.path):
        raise VersionNotFoundError(f"{snapshot}, has been removed; use another version")
    paths: dict[Store, set[str]] = {}
    for store, path in _places(snapshot):
        paths.setdefault(store, set()).add(path)
    for store, named in paths.items():
        if missing := _missing(store, named):
            raise VersionNotFoundError(f"{snapshot}: {store.uri}/{missing} has been removed; use another version")


def _places(snapshot: Snapshot) -> Iterator[tuple[Store, str]]:
    """The data and deletion files of a version, except those in stores that may not be accessed."""
    locations = snapshot.locations
    for fragment in snapshot.manifest.fragments:
        with contextlib.suppress(UnsupportedFeatureError):
            for file in (*fragment.files, *(overlay.file for overlay in overlays_of(fragment))):
                yield locations.data_file(file)
            if fragment.deletion is not None:
                yield locations.deletion_file(fragment)
            for external in _external(fragment):
                yield locations.root_file(external.path)


def _missing(store: Store, named: set[str]) -> str | None:
    """The first missing file, or None."""
    if store.location.kind != "file" and len(named) > _FEW:
        folders = {path.rpartition("/")[0] for path in named}
        named = named - {f"{folder}/{entry.name}".lstrip("/") for folder in folders for entry in store.list(folder)}
    return next((path for path in sorted(named) if not store.exists(path)), None)
