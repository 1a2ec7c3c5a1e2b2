"""The data files that a table has at its base paths, for cleanups.

Other tables may share a base path, or refer to its files, so a cleanup removes only files whose names say that this package
wrote them for this table (see `metadata.data_file_names`), that a removed version names, and that no other version of
any branch names. pylance removes nothing at base paths.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lance_spark.errors import MissingFileError, UnsupportedFeatureError
from lance_spark.metadata.data_file_names import is_marked
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.store import Store


@dataclass(frozen=True)
class FileAtBase:
    """A file at a base path."""

    store: Store
    path: str

    @property
    def uri(self) -> str:
        """The whole location."""
        return f"{self.store.uri}/{self.path}"

    def with_blobs(self) -> Iterator[tuple[FileAtBase, int]]:
        """The file and its large blobs, each with its size in bytes; those that are there."""
        folder = self.path.removesuffix(".lance")
        for entry in self.store.list(folder):
            yield FileAtBase(self.store, f"{folder}/{entry.name}"), entry.size
        with contextlib.suppress(MissingFileError):
            yield self, self.store.size(self.path)


class FilesAtBases:
    """The files of the table at `root` that its versions name at base paths, by the versions that were removed or kept."""

    def __init__(self, root: Store, allow_other_stores: bool) -> None:
        self._root, self._allow_other_stores = root, allow_other_stores
        self._kept: set[str] = set()
        self._forgotten: defaultdict[FileAtBase, set[int]] = defaultdict(set)

    @property
    def are_forgotten(self) -> bool:
        """True if removed versions name such files."""
        return bool(self._forgotten)

    def forget(self, version: int, store: Store, manifest: Manifest) -> None:
        """Add the files of a version that is to be removed; `store` is that of its branch."""
        for file in self._of(store, manifest):
            self._forgotten[file].add(version)

    def keep(self, store: Store, manifest: Manifest) -> None:
        """Add the files of a version that is kept."""
        self._kept.update(file.uri for file in self._of(store, manifest))

    def removable(self, taken: Collection[int]) -> list[FileAtBase]:
        """The files that no kept version names, and no version that another cleanup has `taken`."""
        return [file for file, versions in self._forgotten.items() if file.uri not in self._kept and versions.isdisjoint(taken)]

    def _of(self, store: Store, manifest: Manifest) -> Iterator[FileAtBase]:
        if not manifest.base_paths:
            return
        locations = Locations(store, manifest.base_paths, self._allow_other_stores)
        for fragment in manifest.lazy_fragments.own_files()[1]:
            for file in fragment.files:
                if file.base_id is not None and is_marked(file.path, self._root.uri):
                    # Files in a store that may not be accessed stay there.
                    with contextlib.suppress(UnsupportedFeatureError):
                        yield FileAtBase(*locations.data_file(file))
