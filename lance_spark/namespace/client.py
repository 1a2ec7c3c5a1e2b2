"""A remote namespace: requests and responses of the namespace specification, over any transport."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lance_spark.errors import LanceError, NamespaceError, UnsupportedFeatureError
from lance_spark.namespace.protocol import DELIMITER, Id, Namespace, TableDescription, names_of, shown
from lance_spark.storage.store import Store
from lance_spark.storage.vended import VendedOptions
from lance_spark.table.versions.clones import dropping

EXPIRES_AT = "expires_at_millis"
_MOST_PAGES = 100_000
"""A service that repeats page tokens must not keep us for ever."""


class Transport(Protocol):
    """The transport to a service. It is hashable and picklable, so that executors can use it."""

    def call(self, operation: str, id: tuple[str, ...], request: Mapping[str, object]) -> Mapping[str, Any]:
        """Send a request and return the response. Raises the error for the service's code, or NamespaceError without a response."""
        ...


@dataclass(frozen=True)
class TableVendor:
    """Requests the storage options of a table."""

    transport: Transport
    id: tuple[str, ...]

    def __call__(self) -> VendedOptions:
        """Request new storage options."""
        return self.of(ClientNamespace(self.transport).describe_table(self.id))

    def of(self, table: TableDescription) -> VendedOptions:
        """The storage options in a new description."""
        return VendedOptions.until(self, table.storage_options, table.expires_at_millis)


@dataclass(frozen=True)
class ClientNamespace(Namespace):
    """The namespace of a service. Its tables are opened with `storage_options` and the vended options, which take precedence."""

    transport: Transport
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def list_namespaces(self, id: Id = ()) -> list[str]:
        """The names of the namespaces directly in the namespace `id`, sorted."""
        return self._listed("list_namespaces", "namespaces", names_of(id))

    def describe_namespace(self, id: Id = ()) -> dict[str, str]:
        """The properties of a namespace. Raises NamespaceNotFoundError."""
        return _texts(self._call("describe_namespace", names_of(id)), "properties")

    def create_namespace(self, id: Id, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace in one that exists. Raises NamespaceNotFoundError for the parent, and NamespaceAlreadyExistsError."""
        self._call("create_namespace", names_of(id), {"properties": dict(properties)} if properties else {})

    def drop_namespace(self, id: Id) -> None:
        """Drop an empty namespace. Raises NamespaceNotFoundError and NamespaceNotEmptyError."""
        self._call("drop_namespace", names_of(id, least=1))

    def list_tables(self, id: Id = ()) -> list[str]:
        """The names of the tables directly in the namespace `id`, sorted."""
        return self._listed("list_tables", "tables", names_of(id))

    def describe_table(self, id: Id) -> TableDescription:
        """The location and storage options of a table. Raises TableNotFoundError."""
        return _table(self._call("describe_table", names_of(id, least=1), {"check_declared": True}))

    def declare_table(self, id: Id, location: str | None = None) -> TableDescription:
        """Reserve an id and a location for a table that is written later. Raises NamespaceNotFoundError and TableAlreadyExistsError."""
        return _table(self._call("declare_table", names_of(id, least=1), {"location": location} if location is not None else {}))

    def register_table(self, id: Id, location: str) -> None:
        """Register the table at `location`, in the form that the service expects. Raises TableAlreadyExistsError."""
        self._call("register_table", names_of(id, least=1), {"location": location})

    def deregister_table(self, id: Id) -> None:
        """Remove a table from the namespace; its files stay. Raises TableNotFoundError."""
        self._call("deregister_table", names_of(id, least=1))

    def drop_table(self, id: Id) -> None:
        """Remove a table from the namespace and delete its files. Raises TableNotFoundError."""
        names = names_of(id, least=1)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(LanceError):  # the service tells what is wrong with the table
                stack.enter_context(dropping(self.store(id)))
            self._call("drop_table", names)

    def rename_table(self, id: Id, to: Id) -> None:
        """Give a table another id. Raises TableNotFoundError, NamespaceNotFoundError and TableAlreadyExistsError."""
        *parent, name = names_of(to, least=1)
        self._call("rename_table", names_of(id, least=1), {"new_table_name": name, "new_namespace_id": parent})

    def store(self, id: Id) -> Store:
        """The folder of a table, with storage options that are renewed before they expire, on executors too."""
        table = self.describe_table(id)
        if table.managed_versioning:
            raise UnsupportedFeatureError(f"table {shown(id)}: the namespace keeps the versions of its tables, which is not supported")
        vended = TableVendor(self.transport, tuple(id)).of(table) if table.storage_options else None
        return Store(table.location, self.storage_options, vended=vended)

    def _call(self, operation: str, names: tuple[str, ...], request: Mapping[str, object] | None = None) -> Mapping[str, Any]:
        return self.transport.call(operation, names, request or {})

    def _listed(self, operation: str, key: str, names: tuple[str, ...]) -> list[str]:
        """The names from all pages of a list."""
        found: list[str] = []
        token: str | None = None
        for _ in range(_MOST_PAGES):
            answer = self._call(operation, names, {"page_token": token} if token else {})
            page = answer.get(key) or []
            if not isinstance(page, list) or not all(isinstance(name, str) for name in page):
                raise _odd(f"{key}: {page!r}")
            found += page
            before, token = token, answer.get("page_token") or None
            if token is None:
                # Some services return whole ids.
                prefix = DELIMITER.join((*names, ""))
                return sorted({name.removeprefix(prefix) for name in found})
            if not isinstance(token, str) or token == before:
                break
        raise _odd(f"a list without end: page_token {token!r}")


def _odd(what: str) -> NamespaceError:
    return NamespaceError(f"the response of the namespace does not follow the specification: {what[:200]}")


def _texts(answer: Mapping[str, Any], key: str) -> dict[str, str]:
    """A map of strings in a response. Errors do not show its values."""
    value = answer.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in (*value, *value.values())):
        raise _odd(f"{key} is not a map of strings")
    return value


def _table(answer: Mapping[str, Any]) -> TableDescription:
    location = answer.get("location") or answer.get("table_uri")
    if not isinstance(location, str):
        raise _odd(f"the location of a table is {location!r}")
    options = _texts(answer, "storage_options")
    expires = options.get(EXPIRES_AT)
    if expires is not None and not (expires.isascii() and expires.isdigit() and len(expires) < 16):
        raise _odd(f"{EXPIRES_AT} is {expires!r}")
    return TableDescription(
        location,
        {name: value for name, value in options.items() if name != EXPIRES_AT},
        None if expires is None else int(expires),
        _texts(answer, "properties"),
        managed_versioning=answer.get("managed_versioning") is True,
        is_only_declared=answer.get("is_only_declared") is True,
    )
