"""External manifest stores: a small database makes commits atomic in stores without conditional put.

Implements "External Manifest Store" of the transaction specification. A commit has four steps: write the manifest under a unique name
(staged); put its path into the database unless the version has one (this is the commit); copy the manifest to its final name; store the
final name in the database. Readers that find a staged path complete the last two steps first, so that the table can always be read
without the database, at most one version behind.

The storage option `manifest_store` selects the database: `dynamodb://TABLE` or `sqlite:///PATH`. A URI can select DynamoDB as well:
`s3+ddb://bucket/path?ddbTableName=TABLE`.
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
    """Maps each version of each table to its manifest. `base` is the table; `path` is the manifest's path, including the table's folder."""

    def base(self, store: Store) -> str:
        """The key of the table at `store`."""

    def get(self, base: str, version: int) -> str | None:
        """The path of a version's manifest."""

    def latest(self, base: str) -> tuple[int, str] | None:
        """The highest version and its path."""

    def put_if_absent(self, base: str, version: int, path: str, size: int) -> None:
        """Store the path atomically and durably. FileExistsError if the version has one, StorageError if the outcome is unknown."""

    def replace(self, base: str, version: int, path: str, size: int) -> None:
        """Replace the path of an existing version."""

    def remove(self, base: str, version: int, path: str) -> None:
        """Remove a version if it has this path."""

    def forget(self, base: str) -> bool:
        """Remove all versions of a table. True if there were any."""


@dataclass(frozen=True)
class External:
    """The manifests of one table."""

    store: Store
    manifests: Manifests

    @property
    def _base(self) -> str:
        return self.manifests.base(self.store)

    def latest(self) -> tuple[int, str] | None:
        """The latest version in the database and the path of its manifest, after completing its commit."""
        found = self.manifests.latest(self._base)
        return None if found is None else (found[0], self._in_place(*found))

    def path_of(self, version: int) -> str | None:
        """The path of a version's manifest, after completing its commit; None if the database does not have the version."""
        path = self.manifests.get(self._base, version)
        return None if path is None else self._in_place(version, path)

    def forget(self) -> bool:
        """Remove the deleted table from the database. True if it was there."""
        return self.manifests.forget(self._base)

    def commit(self, version: int, path: str, data: bytes) -> None:
        """Commit `data` as the manifest of the version, at `path`. FileExistsError if the version exists; else as `Store.put_if_absent`."""
        staged = f"{path}-{uuid.uuid4()}"
        self.store.put(staged, data)
        try:
            self.manifests.put_if_absent(self._base, version, f"{self._base}/{staged}", len(data))
        except FileExistsError:
            if self.manifests.get(self._base, version) != f"{self._base}/{staged}":
                with contextlib.suppress(StorageError):
                    self.store.delete(staged)
                raise
        # The version is committed. If a later step fails, the next reader completes it.
        with logged(f"{self.store.uri}: copying the manifest of version {version} to its final name"):
            self._in_place(version, f"{self._base}/{staged}")

    def remove(self, version: int, path: str) -> None:
        """Remove the version whose manifest is at `path`."""
        self.manifests.remove(self._base, version, f"{self._base}/{path}")

    def _in_place(self, version: int, path: str) -> str:
        """Copy a staged manifest to its final name. Returns the final path, relative to the table's root."""
        below = path.removeprefix(f"{self._base}/")
        if below == path or not below.startswith("_versions/") or ".." in below:
            raise CorruptFileError(
                f"{self.store.uri}: in the manifest store, version {version} has the path {path!r}, which is outside the table"
            )
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
            # Another reader has completed this step and deleted the staged file.
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
    """The table's external manifests; None without the option `manifest_store`."""
    if not store.manifest_store:
        return None
    kind, found, place = store.manifest_store.partition("://")
    if kind not in _KINDS or not found or not place:
        # The value is not shown: it may be a database URL with a password.
        raise InvalidOptionError("the storage option 'manifest_store' takes dynamodb://TABLE or sqlite:///PATH")
    return External(store, _KINDS[kind](store, place))


def put_manifest(store: Store, version: int, path: str, data: bytes, sync_name: bool = True) -> None:
    """The atomic write of a commit. FileExistsError if the version exists; else as `Store.put_if_absent`."""
    if (manifests := external(store)) is not None:
        manifests.commit(version, path, data)
    else:
        store.put_if_absent(path, data, sync_name)


def withdraw_manifest(store: Store, version: int, path: str) -> None:
    """Remove a version that `put_manifest` has written, and that must not stay."""
    if (manifests := external(store)) is not None:
        manifests.remove(version, path)
    store.delete(path)
