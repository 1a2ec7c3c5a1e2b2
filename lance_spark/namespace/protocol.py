"""The interface of all namespaces: listing, describing, creating and removing namespaces and tables by id.

Implements the operations of the Lance namespace client specification that lance_spark needs. An id is a sequence of names, starting at
the root; `[]` is the root namespace.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from lance_spark.errors import (
    InvalidOptionError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    logged,
)
from lance_spark.storage.location import can_be_path
from lance_spark.storage.secrets import shown as shown_uri
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import open_snapshot

if TYPE_CHECKING:
    from lance_spark.dataset import Dataset
    from lance_spark.table.write.sources import Data
    from lance_spark.table.write.target import Mode

Id: TypeAlias = Sequence[str]
"""The names of an id, starting at the root."""
DELIMITER = "$"
"""The delimiter between the names of an id in `__manifest` and in REST requests."""
TRANSACTION = "transaction"
"""The property of a directory namespace with the id of an open transaction, as which its tables are then seen and changed."""


@dataclass(frozen=True)
class TableDescription:
    """The description of a table by its namespace.

    `location` is its URI. `storage_options` are valid until `expires_at_millis`, in milliseconds since 1970 (None: forever).
    If `managed_versioning`, commits go through the namespace. `is_only_declared` is True if no version is known to exist.
    """

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_at_millis: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    managed_versioning: bool = False
    is_only_declared: bool = False


class Namespace(ABC):
    """Namespaces and tables below one root. Invalid names in ids raise InvalidOptionError."""

    @abstractmethod
    def list_namespaces(self, id: Id = ()) -> list[str]:
        """The names of the namespaces directly in the namespace `id`, sorted."""

    @abstractmethod
    def describe_namespace(self, id: Id = ()) -> dict[str, str]:
        """The properties of a namespace. Raises NamespaceNotFoundError."""

    @abstractmethod
    def create_namespace(self, id: Id, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace in one that exists. Raises NamespaceNotFoundError for the parent, and NamespaceAlreadyExistsError."""

    @abstractmethod
    def drop_namespace(self, id: Id) -> None:
        """Drop an empty namespace. Raises NamespaceNotFoundError and NamespaceNotEmptyError."""

    @abstractmethod
    def list_tables(self, id: Id = ()) -> list[str]:
        """The names of the tables directly in the namespace `id`, sorted."""

    @abstractmethod
    def describe_table(self, id: Id) -> TableDescription:
        """The location and storage options of a table. Raises TableNotFoundError."""

    @abstractmethod
    def declare_table(self, id: Id, location: str | None = None) -> TableDescription:
        """Reserve an id and a location for a table that is written later. Raises NamespaceNotFoundError and TableAlreadyExistsError."""

    @abstractmethod
    def register_table(self, id: Id, location: str) -> None:
        """Register the table at `location`, which some namespaces expect relative to their root. Raises TableAlreadyExistsError."""

    @abstractmethod
    def deregister_table(self, id: Id) -> None:
        """Remove a table from the namespace; its files stay. Raises TableNotFoundError."""

    @abstractmethod
    def drop_table(self, id: Id) -> None:
        """Remove a table from the namespace and delete its files. Raises TableNotFoundError."""

    @abstractmethod
    def rename_table(self, id: Id, to: Id) -> None:
        """Give a table another id. Raises TableNotFoundError, NamespaceNotFoundError and TableAlreadyExistsError."""

    def undrop_table(self, id: Id) -> None:
        """Give a table that was dropped its id again, if its files are there. Raises TableNotFoundError, and TableAlreadyExistsError.

        Raises UnsupportedFeatureError: only a directory namespace remembers where its tables were.
        """
        raise UnsupportedFeatureError(
            f"{self}: the namespace does not say where the files of a dropped table are; write CREATE TABLE t USING lance LOCATION '/path'"
        )

    def list_views(self, id: Id = ()) -> list[str]:
        """The names of the views directly in the namespace `id`, sorted."""
        return []

    def view(self, id: Id) -> str | None:
        """The definition of a view; None if there is none."""
        return None

    def put_view(self, id: Id, definition: str, *, replace: bool = False) -> bool:
        """Create a view, or replace it; False if there is one already, which stays. Its definition is text that the caller understands.

        Raises TableAlreadyExistsError for the id of a table, and UnsupportedFeatureError: only a directory namespace has views.
        """
        self._refuse_views()

    def drop_view(self, id: Id) -> None:
        """Remove a view. Raises TableNotFoundError."""
        self._refuse_views()

    def rename_view(self, id: Id, to: Id) -> None:
        """Give a view another id. Raises TableNotFoundError, NamespaceNotFoundError and TableAlreadyExistsError."""
        self._refuse_views()

    def _refuse_views(self) -> NoReturn:
        raise UnsupportedFeatureError(
            f"{self}: only a namespace that is a directory with a __manifest has views; with Spark, write CREATE VIEW "
            "spark_catalog.default.v AS SELECT .., or CREATE TEMPORARY VIEW"
        )

    def owns_location(self, id: Id, location: str) -> bool:
        """False if the URI `location` of a table is known to be one that `register_table` was given, not one that the namespace chose."""
        return True

    def location_to_register(self, location: str) -> str:
        """The location of a table, given as a path or URI, as `register_table` takes it."""
        return location

    def store(self, id: Id) -> Store:
        """The folder of a table, opened with the storage options of the namespace. Raises TableNotFoundError.

        Raises UnsupportedFeatureError if the namespace manages the table's versions.
        """
        table = self.describe_table(id)
        if table.managed_versioning:
            raise UnsupportedFeatureError(f"table {shown(id)}: the namespace keeps the versions of its tables, which is not supported")
        return Store(table.location, table.storage_options)

    def open(
        self,
        id: Id,
        *,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Dataset:
        """Open the latest version of a table, or the one of a number, tag or time. Raises TableNotFoundError, also without data."""
        from lance_spark.dataset import Dataset  # imports all that changes a table, which a client of Spark does not need

        try:
            return Dataset(open_snapshot(self.store(id), version=version, tag=tag, branch=branch, timestamp=timestamp))
        except TableNotFoundError as e:
            if (location := self.lost_location(id)) is None:
                raise
            raise TableNotFoundError(f"{lost_files(id, location)}; drop_table removes it, and write creates it again") from e

    def lost_location(self, id: Id) -> str | None:
        """The location of a table that the namespace has, although its files are gone; None if they are there, and for a declaration."""
        try:
            table = self.describe_table(id)
        except (TableNotFoundError, NamespaceNotFoundError):
            return None
        if table.is_only_declared:
            return None
        try:
            open_snapshot(self.store(id))
        except TableNotFoundError:
            return table.location
        return None

    def write(self, id: Id, data: Data, mode: Mode = "create", **options: Any) -> Dataset:
        """Write one version of a table, in the modes of `Dataset.write`. A table that the namespace lacks is declared first.

        If the write fails, the table remains declared, and a later write in any mode creates it.
        `options` are fields of `table.write.options.WriteOptions`. Raises what `Dataset.write` raises.
        """
        from lance_spark.dataset import Dataset
        from lance_spark.table.write.options import WriteOptions
        from lance_spark.table.write.write import write

        return Dataset(write(self.store_to_write(id), data, mode, WriteOptions(**options)))

    def store_to_write(self, id: Id) -> Store:
        """The folder of a table, which is declared if it does not exist. Raises NamespaceNotFoundError."""
        with contextlib.suppress(TableNotFoundError):
            return self.store(id)
        try:
            # If another writer has declared it meanwhile, the write decides.
            self.declare_table(id)
        except TableAlreadyExistsError as e:
            try:
                return self.store(id)
            except TableNotFoundError:
                raise e from None
        return self.store(id)

    def begin_transaction(self) -> NamespaceTransaction:
        """Begin a transaction, which its `commit` or `roll_back` ends; `transaction` calls them.

        Raises UnsupportedFeatureError: only a directory namespace has transactions.
        """
        raise UnsupportedFeatureError(f"{self}: only a directory namespace has transactions over several tables")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[NamespaceTransaction]:
        """Change several tables at once: other readers of the namespace see all of the changes, or none.

        The tables of the namespace that the block gets are as this transaction sees them. The changes are committed at the end, and
        rolled back if the block raises an error. See docs/transactions.md. Raises CommitConflictError if another writer has changed
        the same rows, and UnsupportedFeatureError for other namespaces than directories, and for a partitioned one.

        Examples:
            >>> import lance_spark
            >>> import pyarrow as pa
            >>> lake = lance_spark.namespace("/tmp/lake")
            >>> for name in ("debit", "credit"):
            ...     _ = lake.write([name], pa.table({"amount": [100]}))
            >>> with lake.transaction() as both:
            ...     _ = both.open(["debit"]).update({"amount": "amount - 30"})
            ...     _ = both.open(["credit"]).update({"amount": "amount + 30"})
            >>> [lake.open([name]).to_table()["amount"].to_pylist() for name in ("debit", "credit")]
            [[70], [130]]
        """
        begun = self.begin_transaction()
        try:
            yield begun
        except BaseException:
            with logged(f"{self}: rolling back the transaction {begun.id}"):
                begun.roll_back()
            raise
        begun.commit()

    def namespace_exists(self, id: Id) -> bool:
        """True if there is a namespace with this id."""
        try:
            self.describe_namespace(id)
        except NamespaceNotFoundError:
            return False
        return True

    def table_exists(self, id: Id) -> bool:
        """True if there is a table, or a declared table, with this id."""
        try:
            self.describe_table(id)
        except TableNotFoundError:
            return False
        return True


class NamespaceTransaction(Namespace):
    """A namespace as the open transaction `id` sees and changes it."""

    id: str

    @abstractmethod
    def commit(self) -> None:
        """Make the changes visible, all at once. Raises CommitConflictError; then none of them is."""

    @abstractmethod
    def roll_back(self) -> None:
        """Undo the changes. Raises InvalidOperationError if the transaction is over."""


def lost_files(id: Id, location: str) -> str:
    """What to say of a table with a `Namespace.lost_location`."""
    return f"the files of the table {shown(id)} at {shown_uri(location)} are missing, although the namespace has the table"


def names_of(id: Id, least: int = 0) -> tuple[str, ...]:
    """The names of an id. Raises InvalidOptionError for fewer than `least` names, and for invalid names."""
    if isinstance(id, str):
        raise TypeError(f"an id is a sequence of names, not text; pass [{id!r}]")
    names = tuple(id)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the names of an id are text, not {type(name).__name__}")
        if not is_name(name):
            raise InvalidOptionError(
                f"invalid name {name!r} of a namespace or table; a name must have at least one character, and no $, / or NUL"
            )
    if len(names) < least:
        raise InvalidOptionError("the id is empty: it refers to the root namespace, which always exists and is not a table")
    return names


def is_name(text: str) -> bool:
    """True for a valid name of a namespace or table."""
    unicode = text.encode("utf-8", "replace").decode() == text
    return unicode and bool(text) and DELIMITER not in text and "/" not in text and can_be_path(text)


def shown(id: Id) -> str:
    """An id for messages."""
    return repr(".".join(id)) if id else "the root"
