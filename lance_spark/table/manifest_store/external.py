"""Commits that a small database decides, for stores that cannot put a file only if it is absent.

Implements "External Manifest Store" of the transaction specification. A commit takes four steps: the manifest is put under a name of its
own (staged); its path is put into the database, if there is none for the version (here the commit takes place); the manifest is copied
to its final name; the database is told the final name. Readers that find a staged path do the last two steps first, so that
the table can always be read without the database, at most one version behind.

The store's option `manifest_store` says which database: `dynamodb://TABLE` or `sqlite:///PATH`. The first can be said by the URI as
well: `s3+ddb://bucket/path?ddbTableName=TABLE`.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lance_spark.errors import CorruptFileError, InvalidOptionError, StorageError, logged
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.dynamodb import DynamoDBManifests
from lance_spark.table.manifest_store.sqlite import SqliteManifests

_STAGED = re.compile(r"(.+\.manifest)-[0-9a-f-]{36}")


class Manifests(Protocol):
    """Which file is the manifest of each version of each table. `base` is the table, `path` the file with the table's folder before it."""

    def base(self, store: Store) -> str:
        """The key of the table at `store`."""

    def get(self, base: str, version: int) -> str | None:
        """The path of a version's manifest."""

    def latest(self, base: str) -> tuple[int, str] | None:
        """The highest version and its path."""

    def put_if_absent(self, base: str, version: int, path: str, size: int) -> None:
        """Atomic and durable; FileExistsError if the version has a path already, StorageError if the outcome is not known."""

    def replace(self, base: str, version: int, path: str, size: int) -> None:
        """Another path for a version that is there."""

    def forget(self, base: str) -> bool:
        """Remove all that is known of a table; whether there was anything."""


@dataclass(frozen=True)
class External:
    """One table's manifests."""

    store: Store
    manifests: Manifests

    @property
    def _base(self) -> str:
        return self.manifests.base(self.store)

    def latest(self) -> tuple[int, str] | None:
        """The latest version that the database knows and the path of its manifest, which is in place now."""
        found = self.manifests.latest(self._base)
        return None if found is None else (found[0], self._in_place(*found))

    def path_of(self, version: int) -> str | None:
        """The path of a version's manifest, which is in place now; None if the database does not know the version."""
        path = self.manifests.get(self._base, version)
        return None if path is None else self._in_place(version, path)

    def forget(self) -> bool:
        """Let the database forget the table, which is deleted; whether it knew it."""
        return self.manifests.forget(self._base)

    def commit(self, version: int, path: str, data: bytes) -> None:
        """Make `data` the manifest of the version, at `path`. FileExistsError if the version has one; else as `Store.put_if_absent`."""
        staged = f"{path}-{uuid.uuid4()}"
        self.store.put(staged, data)
        try:
            self.manifests.put_if_absent(self._base, version, f"{self._base}/{staged}", len(data))
        except FileExistsError:
            if self.manifests.get(self._base, version) != f"{self._base}/{staged}":
                with contextlib.suppress(StorageError):
                    self.store.delete(staged)
                raise
        # The commit has taken place. Whatever fails now, the next reader does.
        with logged(f"{self.store.uri}: giving the manifest of version {version} its final name"):
            self._in_place(version, f"{self._base}/{staged}")

    def _in_place(self, version: int, path: str) -> str:
        """The path below the table's root of the manifest at its final name."""
        below = path.removeprefix(f"{self._base}/")
        if below == path or not below.startswith("_versions/") or ".." in below:
            raise CorruptFileError(f"{self.store.uri}: the manifest store says that version {version} is at {path!r}, outside the table")
        path = below
        staged = _STAGED.fullmatch(path)
        if staged is None:
            return path
        final = staged[1]
        try:
            data = self.store.read(path)
            self.store.put(final, data)
            size = len(data)
        except FileNotFoundError:
            # Another reader was faster and has deleted the staged file.
            size = self.store.size(final)
        self.manifests.replace(self._base, version, f"{self._base}/{final}", size)
        with contextlib.suppress(StorageError):
            self.store.delete(path)
        return final


_KINDS: dict[str, Callable[[Store, str], Manifests]] = {
    "dynamodb": DynamoDBManifests,
    "sqlite": SqliteManifests,
}


def external(store: Store) -> External | None:
    """The table's external manifests, if its options name a manifest store."""
    if not store.manifest_store:
        return None
    kind, found, place = store.manifest_store.partition("://")
    if kind not in _KINDS or not found or not place:
        # What is given instead may be the URL of a database, with a password.
        raise InvalidOptionError("the storage option 'manifest_store' takes dynamodb://TABLE and sqlite:///PATH, and nothing else")
    return External(store, _KINDS[kind](store, place))


def put_manifest(store: Store, version: int, path: str, data: bytes) -> None:
    """The one atomic write of a commit. FileExistsError if the version exists; else as `Store.put_if_absent`."""
    if (manifests := external(store)) is not None:
        manifests.commit(version, path, data)
    else:
        store.put_if_absent(path, data)
