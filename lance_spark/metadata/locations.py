"""The locations of the files of a version: below the table's root or below a base path that the manifest registers.

Implements the base path system of the table layout specification. Paths in a manifest are untrusted: a path outside of its
folder is rejected, and so is a base path in another store or bucket than the table's, unless the caller allows it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lance_spark.buffers.cache import Cache
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import BasePath, DataFile, Fragment, IndexMetadata, SpilledColumn
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store

DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
VERSIONS = "_versions"
BLOBS = "_blobs"
BLOB_SUFFIX = ".blob"

_NOT_IN_PATHS = re.compile(r"[\\:\0]")
_NOT_FOLDERS = frozenset(("", ".", ".."))

KEPT_BYTES = 32 << 20
"""Bytes of the metadata of a version's files that stay in memory."""

ExternalBlobs: TypeAlias = Callable[[str, int], tuple[Store, str]]
"""`Locations.external_blob` of a table."""

ReadSpilled: TypeAlias = "Callable[[SpilledColumn, Locations], bytes]"


def _unread(column: SpilledColumn, locations: Locations) -> bytes:
    raise UnsupportedFeatureError(f"{locations.store.uri}: the column {column.field_id} of {column.file.path} cannot be read here")


@dataclass(frozen=True)
class Locations:
    """The table's own store and its base paths. Its pickle is small.

    `kept` is what stays in memory of the files, which never change: parsed metadata, deletions, row ids. `read_spilled` reads a sequence
    that is a column of a data file.
    """

    store: Store
    base_paths: tuple[BasePath, ...] = ()
    allow_other_stores: bool = False
    verify_checksums: bool = True
    kept: Cache = field(default_factory=lambda: Cache(KEPT_BYTES), compare=False, repr=False)
    read_spilled: ReadSpilled = field(default=_unread, compare=False, repr=False)

    def data_file(self, file: DataFile) -> tuple[Store, str]:
        """The store of a data file and its path in that store."""
        check_relative(file.path, "data file")
        store, is_root = self._base(file.base_id)
        return store, f"{DATA}/{file.path}" if is_root else file.path

    def deletion_file(self, fragment: Fragment) -> tuple[Store, str]:
        """The store of a fragment's deletion file and its path in that store. The fragment must have one."""
        assert fragment.deletion is not None
        store, is_root = self._base(fragment.deletion.base_id)
        path = fragment.deletion.path(fragment.id)
        return store, path if is_root else path.rpartition("/")[2]

    def index_folder(self, index: IndexMetadata) -> tuple[Store, str]:
        """The store of an index's folder and its path in that store."""
        store, is_root = self._base(index.base_id)
        name = str(uuid.UUID(bytes=index.uuid))
        return store, f"{INDICES}/{name}" if is_root else name

    def external_blob(self, uri: str, base_id: int) -> tuple[Store, str]:
        """The store of an object that a blob column refers to, and its path in it.

        `base_id` is the id of the base path that `uri` is relative to; 0 if it is absolute.
        """
        if not self.allow_other_stores:
            raise UnsupportedFeatureError(
                f"a blob is stored outside of the table, at {shown(uri)!r}; if you trust the table, open it with allow_other_stores=True"
            )
        if base_id:
            if "\\" in uri or "\0" in uri or any(step in ("", ".", "..") for step in uri.split("/")):
                raise CorruptFileError(f"the path of a blob is outside of its base path: {uri!r}")
            return self._base(base_id)[0], uri
        folder, _, name = uri.rpartition("/")
        if not folder or not name:
            raise CorruptFileError(f"expected a URI of a blob, found {shown(uri)!r}")
        return self.store.at(folder), name

    @property
    def external_blobs(self) -> ExternalBlobs:
        """`external_blob` for readers, which `kept` keeps in memory: without `kept`."""
        return replace(self, kept=Cache(0)).external_blob

    def root_file(self, path: str) -> tuple[Store, str]:
        """The store and path of a file whose path in the manifest is relative to the table's root."""
        check_relative(path, "file")
        return self.store, path

    def is_at(self, base: BasePath, store: Store) -> bool:
        """True if a base path is the root of the table at `store`."""
        anywhere = replace(self, allow_other_stores=True)
        return base.is_dataset_root and anywhere._open(base).uri == store.uri

    def is_inside(self, base: BasePath, store: Store) -> bool:
        """True if a base path is the root of `store` or a folder in it."""
        return f"{self._open(base).uri}/".startswith(f"{store.uri.rstrip('/')}/")

    def is_table(self, base: BasePath) -> bool:
        """True if a base path is the root of another table."""
        return base.is_dataset_root and bool(self._open(base).names(VERSIONS))

    def store_of(self, base: BasePath) -> Store:
        """The store of a base path. Raises UnsupportedFeatureError if it may not be accessed."""
        return self._open(base)

    def root_of(self, base: BasePath) -> Store:
        """The root of the table that a base path belongs to. The base path of a branch is named after the branch."""
        store = self._open(base)
        return store.at(store.uri.removesuffix(f"/tree/{base.name}"))

    def _base(self, base_id: int | None) -> tuple[Store, bool]:
        if base_id is None:
            return self.store, True
        for base in self.base_paths:
            if base.id == base_id:
                return self._open(base), base.is_dataset_root
        raise CorruptFileError(f"base path {base_id} is used but not registered; registered ids: {[b.id for b in self.base_paths]}")

    def _open(self, base: BasePath) -> Store:
        own, uri = self.store.location, base.path
        plain = "://" not in uri and not uri.startswith("file:")
        if ".." in uri.split("/") or (plain and not own.bucket and not uri.startswith("/")):
            raise CorruptFileError(f"base path {base.id} is not absolute: {shown(uri)!r}")
        if plain and own.kind != "file":
            # Some writers store only the key in the bucket.
            uri = own.uri.removesuffix(own.path.lstrip("/")) + uri.lstrip("/")
        there = self.store.at(uri, base.id)
        if not self.allow_other_stores and not there.location.is_in_store_of(own):
            raise UnsupportedFeatureError(
                f"base path {base.id} of {self.store.uri} is in another store, {shown(base.path)!r}; "
                "if you trust the table, open it with allow_other_stores=True"
            )
        return there


def managed_blob(path: str) -> str:
    """The path of a managed blob below the root of a table: in the folder of blobs, or beside a data file that a compaction has replaced.

    Raises CorruptFileError for other paths.
    """
    check_relative(path, "blob")
    if not path.startswith((f"{BLOBS}/", f"{DATA}/")) or not path.endswith(BLOB_SUFFIX):
        raise CorruptFileError(f"the path of a managed blob is {path!r}, expected a file of blobs in the folder {BLOBS} or {DATA}")
    return path


def check_relative(path: str, what: str) -> None:
    """Raise CorruptFileError unless `path` stays below the folder that it is relative to."""
    if _NOT_IN_PATHS.search(path) or not _NOT_FOLDERS.isdisjoint(path.split("/")):
        raise CorruptFileError(f"the path of a {what} is outside of the table: {path!r}")


def no_external_blobs(uri: str, base_id: int) -> tuple[Store, str]:
    """For files without external blobs."""
    raise UnsupportedFeatureError(f"a blob is stored outside of its file, at {shown(uri)!r}; read it as a row of its table")
