"""The namespace of a catalog that keeps the names and locations of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from lance_spark.errors import (
    InvalidOptionError,
    NamespaceError,
    NamespaceNotEmptyError,
    TableNotFoundError,
    UnsupportedFeatureError,
    logged,
)
from lance_spark.namespace.protocol import Id, Namespace, TableDescription, names_of, shown
from lance_spark.storage.location import absolute, locate
from lance_spark.storage.store import Store
from lance_spark.storage.vended import VendedOptions
from lance_spark.table.versions.snapshot import open_snapshot
from lance_spark.table.versions.table_folder import check_only_table, delete_table

Names: TypeAlias = tuple[str, ...]
TABLE_TYPE = "table_type"
"""The property that marks a table as one of Lance in all catalogs but Polaris, which has formats."""
LANCE = "lance"
PLACEHOLDER = "__placeholder_id"
"""The only column that a catalog is told of, since most refuse tables without columns."""


@dataclass(frozen=True)
class Entry:
    """What a catalog keeps of a table: its location, its properties, and credentials for it until a time in milliseconds since 1970."""

    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_at_millis: int | None = None


class Metastore(Protocol):
    """The requests to one catalog. It is hashable and picklable, since executors ask it for new credentials.

    Names start at the root. Methods raise the errors of `lance_spark.errors` for a name that is missing or exists; tables of other
    formats are left out of lists, and are refused otherwise. `title` names the catalog in messages. `levels` are the words for the names
    above a table, of which the last one repeats if `is_nested`. Namespaces are made and dropped at the last level.
    """

    @property
    def title(self) -> str: ...
    @property
    def levels(self) -> tuple[str, ...]: ...
    @property
    def is_nested(self) -> bool: ...

    def list_namespaces(self, parent: Names) -> list[str]: ...
    def describe_namespace(self, names: Names) -> dict[str, str]: ...
    def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None: ...
    def drop_namespace(self, names: Names) -> None: ...
    def has_tables(self, names: Names) -> bool:
        """True if there is a table of any format in a namespace."""
        ...

    def list_tables(self, names: Names) -> list[str]: ...
    def describe_table(self, names: Names) -> Entry: ...
    def add_table(self, names: Names, location: str) -> None: ...
    def remove_table(self, names: Names) -> None: ...
    def rename_table(self, names: Names, to: Names) -> None: ...
    def default_location(self, names: Names) -> str | None:
        """Where a new table goes; None if this must be said by the property `root`."""
        ...


@dataclass(frozen=True)
class Vendor:
    """Asks a catalog for new credentials of a table."""

    metastore: Metastore
    names: Names

    def __call__(self) -> VendedOptions:
        """Request new storage options."""
        return self.of(self.metastore.describe_table(self.names))

    def of(self, entry: Entry) -> VendedOptions:
        """The storage options in a new entry."""
        return VendedOptions.until(self, entry.storage_options, entry.expires_at_millis)


@dataclass(frozen=True)
class MetastoreNamespace(Namespace):
    """The Lance tables of a catalog. They are opened with `storage_options`; what the catalog hands out takes precedence."""

    metastore: Metastore
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    parent: Names = ()
    """The namespace in the catalog whose members are those of this namespace's root."""

    def list_namespaces(self, id: Id = ()) -> list[str]:
        """The names of the namespaces directly in the namespace `id`, sorted. Raises NamespaceNotFoundError."""
        names = self._names(id)
        if len(names) >= len(self.metastore.levels) and not self.metastore.is_nested:
            self.metastore.describe_namespace(self._namespace(names))
            return []
        return sorted(self.metastore.list_namespaces(names))

    def describe_namespace(self, id: Id = ()) -> dict[str, str]:
        """The properties of a namespace. Raises NamespaceNotFoundError."""
        names = self._names(id)
        return self.metastore.describe_namespace(self._known_level(names)) if names else {}

    def create_namespace(self, id: Id, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace in one that exists. Raises NamespaceNotFoundError for the parent, and NamespaceAlreadyExistsError."""
        self.metastore.create_namespace(self._namespace(self._names(id, least=1)), dict(properties or {}))

    def drop_namespace(self, id: Id) -> None:
        """Drop an empty namespace. Raises NamespaceNotFoundError, and NamespaceNotEmptyError also for tables of other formats."""
        names = self._namespace(self._names(id, least=1))
        self.metastore.describe_namespace(names)
        # Some catalogs would drop a namespace with all that is in it.
        if self.list_namespaces(id) or self.metastore.has_tables(names):
            raise NamespaceNotEmptyError(f"{self.metastore.title}: the namespace {shown(names)} is not empty")
        self.metastore.drop_namespace(names)

    def list_tables(self, id: Id = ()) -> list[str]:
        """The names of the Lance tables directly in the namespace `id`, sorted. Raises NamespaceNotFoundError."""
        names = self._names(id)
        if len(names) < len(self.metastore.levels):
            self.describe_namespace(id)
            return []
        tables = self.metastore.list_tables(self._namespace(names))
        if not tables:  # some catalogs answer the same for a namespace that does not exist
            self.metastore.describe_namespace(names)
        return sorted(tables)

    def describe_table(self, id: Id) -> TableDescription:
        """The location and storage options of a table. Raises TableNotFoundError."""
        names = self._table(id)
        entry = self.metastore.describe_table(names)
        try:
            # By opening it: catalogs keep their mark of an empty table after rows were written.
            open_snapshot(self._store(names, entry))
            is_only_declared = False
        except TableNotFoundError:
            is_only_declared = True
        return TableDescription(
            entry.location, entry.storage_options, entry.expires_at_millis, entry.properties, is_only_declared=is_only_declared
        )

    def declare_table(self, id: Id, location: str | None = None) -> TableDescription:
        """Reserve an id and a location for a table that is written later. Raises NamespaceNotFoundError and TableAlreadyExistsError.

        Without `location`, the table goes where the catalog's properties say. Raises InvalidOptionError if they say nothing.
        """
        self._add(self._table(id), location)
        return self.describe_table(id)

    def register_table(self, id: Id, location: str) -> None:
        """Give an id to the table at a URI or path. Raises TableAlreadyExistsError."""
        self._add(self._table(id), location)

    def deregister_table(self, id: Id) -> None:
        """Remove a table from the catalog; its files stay. Raises TableNotFoundError."""
        names = self._table(id)
        self.metastore.describe_table(names)  # a table of another format is refused
        self.metastore.remove_table(names)

    def drop_table(self, id: Id) -> None:
        """Remove a table from the catalog, then its folder. Raises TableNotFoundError. A failure to delete files is logged.

        Raises UnsupportedFeatureError if the folder has other contents, which would be deleted with it.
        """
        names = self._table(id)
        store = self.store(id)
        check_only_table(store)
        self.metastore.remove_table(names)
        with logged(f"{store.uri}: deleting the files of the table {shown(names)}"):
            delete_table(store)

    def rename_table(self, id: Id, to: Id) -> None:
        """Give a table another id; its files stay where they are. Raises TableNotFoundError and TableAlreadyExistsError.

        Raises UnsupportedFeatureError for catalogs that rename no tables.
        """
        names, new = self._table(id), self._table(to)
        self.metastore.describe_table(names)
        self.metastore.rename_table(names, new)

    def owns_location(self, id: Id, location: str) -> bool:
        """True if the table is where this namespace puts new tables of its name."""
        chosen = self.metastore.default_location(self._table(id))
        return chosen is not None and _is_same(chosen, location)

    def location_to_register(self, location: str) -> str:
        """The location as a URI, or an absolute path."""
        return absolute(location)

    def store(self, id: Id) -> Store:
        """The folder of a table, with storage options that are renewed before they expire, on executors too."""
        names = self._table(id)
        return self._store(names, self.metastore.describe_table(names))

    def _store(self, names: Names, entry: Entry) -> Store:
        vended = Vendor(self.metastore, names).of(entry) if entry.storage_options else None
        return Store(entry.location, self.storage_options, vended=vended)

    def _add(self, names: Names, location: str | None) -> None:
        chosen = location or self.metastore.default_location(names)
        if chosen is None:
            raise InvalidOptionError(
                f"{self.metastore.title} does not say where the table {shown(names)} goes; "
                "set the property root of the namespace to a folder or URI, or give the table a location"
            )
        wanted = absolute(chosen)
        locate(wanted)
        self.metastore.add_table(names, wanted)
        there = self.metastore.describe_table(names).location
        if not _is_same(there, wanted):
            self.metastore.remove_table(names)
            raise NamespaceError(
                f"{self.metastore.title} gave the table {shown(names)} the location {there!r} instead of {wanted!r}; "
                "it does not let its clients choose, so it cannot hold Lance tables"
            )

    def _names(self, id: Id, least: int = 0) -> Names:
        """The names of an id from the root of the catalog."""
        return (*self.parent, *names_of(id, least))

    def _table(self, id: Id) -> Names:
        names = self._names(id, least=1)
        levels = self.metastore.levels
        if len(names) == len(levels) + 1 or (self.metastore.is_nested and len(names) > len(levels)):
            return names
        raise InvalidOptionError(f"the name of a table in {self.metastore.title} is {self._form('table')}, not {shown(names)}")

    def _namespace(self, names: Names) -> Names:
        levels = self.metastore.levels
        if len(names) == len(levels) or (self.metastore.is_nested and len(names) > len(levels)):
            return names
        raise InvalidOptionError(f"the name of a namespace in {self.metastore.title} is {self._form()}, not {shown(names)}")

    def _known_level(self, names: Names) -> Names:
        """The names of a namespace at any level."""
        return names if len(names) <= len(self.metastore.levels) else self._namespace(names)

    def _form(self, *last: str) -> str:
        words = [*self.metastore.levels, *(("..",) if self.metastore.is_nested else ()), *last]
        return ".".join(words)


def not_lance(title: str, names: Names) -> UnsupportedFeatureError:
    """The error for a table of another format."""
    return UnsupportedFeatureError(f"{title}: the table {shown(names)} is not a Lance table")


def no_rename(title: str, names: Names) -> UnsupportedFeatureError:
    """The error of a catalog that renames no tables."""
    return UnsupportedFeatureError(
        f"{title} cannot rename tables: register the location of {shown(names)} under the new name, then deregister the old one"
    )


def below(root: str | None, *names: str) -> str | None:
    """A folder below the root, if there is one."""
    return "/".join((root.rstrip("/"), *names)) if root else None


def whole_number(options: Mapping[str, str], name: str) -> int | None:
    """The value of a property, if it is given. Raises InvalidOptionError."""
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise InvalidOptionError(f"the property {name!r} takes a whole number, not {text!r}")
    return int(text)


def _is_same(location: str, other: str) -> bool:
    """Whether two texts name one folder: catalogs add a scheme or a slash."""
    return locate(location).uri == locate(other).uri
