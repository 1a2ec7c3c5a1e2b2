"""A directory namespace as a transaction sees and changes it: each of its tables is a branch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.protocol import Id, TableDescription
from lance_spark.namespace.transactions import commit
from lance_spark.storage.store import Store


@dataclass(frozen=True)
class TransactionNamespace(DirectoryNamespace):
    """The namespace in the transaction `id`.

    Its tables are branches, as they were when the transaction touched them first, and with its own changes.
    Tables and namespaces cannot be created, dropped or renamed in it (UnsupportedFeatureError).
    """

    id: str = ""

    def __repr__(self) -> str:
        return f"TransactionNamespace({self.root.uri!r}, {self.id!r})"

    def store(self, id: Id) -> Store:
        """The branch of a table. Raises TableNotFoundError, and InvalidOperationError if the transaction is over."""
        return commit.store_in(self.root, self.id, self._folder(self.describe_table(id).location))

    def commit(self) -> None:
        """Make the changes visible, all at once. Raises CommitConflictError; then none of them is."""
        commit.commit(self.root, self.id)

    def roll_back(self) -> None:
        """Undo the changes. Raises InvalidOperationError if the transaction is over."""
        commit.roll_back(self.root, self.id)

    def location_to_register(self, location: str) -> str:
        """Refused: before a table with a LOCATION is made."""
        self._refuse("creates no tables")

    def transaction(self) -> AbstractContextManager[TransactionNamespace]:
        """Refused: a transaction has no other in it."""
        raise UnsupportedFeatureError(f"the transaction {self.id} is open: commit it before another one begins")

    def create_namespace(self, id: Id, properties: Mapping[str, str] | None = None) -> None:
        """Refused."""
        self._refuse("creates no namespaces")

    def drop_namespace(self, id: Id) -> None:
        """Refused."""
        self._refuse("drops no namespaces")

    def declare_table(self, id: Id, location: str | None = None) -> TableDescription:
        """Refused."""
        self._refuse("creates no tables")

    def register_table(self, id: Id, location: str) -> None:
        """Refused."""
        self._refuse("creates no tables")

    def deregister_table(self, id: Id) -> None:
        """Refused."""
        self._refuse("drops no tables")

    def drop_table(self, id: Id) -> None:
        """Refused."""
        self._refuse("drops no tables")

    def rename_table(self, id: Id, to: Id) -> None:
        """Refused."""
        self._refuse("renames no tables")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedFeatureError(f"a transaction {what}: do this before it begins, or after its COMMIT")


def begin(namespace: DirectoryNamespace) -> TransactionNamespace:
    """Begin a transaction. Raises UnsupportedFeatureError for a namespace without `__manifest`."""
    if not namespace.has_manifest:
        raise UnsupportedFeatureError(
            f"{namespace}: transactions are recorded in __manifest, which this namespace does not use (manifest_enabled=false)"
        )
    return seen_by(namespace, commit.begin(namespace.root).id)


def seen_by(namespace: DirectoryNamespace, id: str) -> TransactionNamespace:
    """The namespace in an open transaction."""
    return TransactionNamespace(namespace.root, namespace.has_manifest, namespace.lists_folders, namespace.manifest_first, id)
