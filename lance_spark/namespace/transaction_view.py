"""A directory namespace as a transaction sees and changes it: each of its tables is a branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.namespace import transaction_commit as commit
from lance_spark.namespace.protocol import Id, Namespace, NamespaceTransaction, TableDescription
from lance_spark.storage.store import Store

if TYPE_CHECKING:
    from lance_spark.dataset import Dataset


@dataclass(frozen=True)
class TransactionNamespace(NamespaceTransaction):
    """The directory namespace `outside`, below `root`, in the transaction `id`.

    Its tables are branches, as they were when the transaction touched them first, and with its own changes.
    Tables and namespaces cannot be created, dropped or renamed in it (UnsupportedFeatureError).
    """

    outside: Namespace
    root: Store
    id: str

    def __repr__(self) -> str:
        return f"TransactionNamespace({self.root.uri!r}, {self.id!r})"

    def commit(self) -> None:
        """Make the changes visible, all at once. Raises CommitConflictError; then none of them is."""
        commit.commit(self.root, self.id)

    def roll_back(self) -> None:
        """Undo the changes. Raises InvalidOperationError if the transaction is over."""
        commit.roll_back(self.root, self.id)

    def begin_transaction(self) -> NamespaceTransaction:
        """Refused: a transaction has no other in it."""
        raise UnsupportedFeatureError(f"the transaction {self.id} is open: commit it before another one begins")

    def store(self, id: Id) -> Store:
        """The branch of a table. Raises TableNotFoundError, and InvalidOperationError if the transaction is over."""
        location = self.outside.describe_table(id).location
        return commit.store_in(self.root, self.id, self.outside.location_to_register(location))

    def open(
        self,
        id: Id,
        *,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Dataset:
        """The table as the transaction sees it. A version of a number, tag or time is that outside; a branch is refused."""
        if branch is not None:
            raise UnsupportedFeatureError(
                f"the branch {branch!r} is not in the transaction {self.id}; open it before it begins, or after its COMMIT"
            )
        if version is None and tag is None and timestamp is None:
            return super().open(id)
        return self.outside.open(id, version=version, tag=tag, timestamp=timestamp)

    def list_namespaces(self, id: Id = ()) -> list[str]:
        """As outside."""
        return self.outside.list_namespaces(id)

    def describe_namespace(self, id: Id = ()) -> dict[str, str]:
        """As outside."""
        return self.outside.describe_namespace(id)

    def list_tables(self, id: Id = ()) -> list[str]:
        """As outside."""
        return self.outside.list_tables(id)

    def describe_table(self, id: Id) -> TableDescription:
        """As outside: the location is that of the table, not of its branch, which `store` has."""
        return self.outside.describe_table(id)

    def lost_location(self, id: Id) -> str | None:
        """As outside."""
        return self.outside.lost_location(id)

    def owns_location(self, id: Id, location: str) -> bool:
        """As outside."""
        return self.outside.owns_location(id, location)

    def location_to_register(self, location: str) -> str:
        """Refused: before a table with a LOCATION is made."""
        self._refuse("creates no tables")

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

    def undrop_table(self, id: Id) -> None:
        """Refused."""
        self._refuse("creates no tables")

    def list_views(self, id: Id = ()) -> list[str]:
        """As outside."""
        return self.outside.list_views(id)

    def view(self, id: Id) -> str | None:
        """As outside; the tables that it names are those of the transaction."""
        return self.outside.view(id)

    def put_view(self, id: Id, definition: str, *, replace: bool = False) -> bool:
        """Refused."""
        self._refuse("creates no views")

    def drop_view(self, id: Id) -> None:
        """Refused."""
        self._refuse("drops no views")

    def rename_view(self, id: Id, to: Id) -> None:
        """Refused."""
        self._refuse("renames no views")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedFeatureError(f"a transaction {what}: do this before it begins, or after its COMMIT")
