"""A catalog with Iceberg's REST protocol, in which a Lance table is an entry whose properties say so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from lance_spark.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.catalogs.metastore import LANCE, TABLE_TYPE, Entry, Names, below, not_lance
from lance_spark.namespace.catalogs.service import Login, Service, patience_of

_SEPARATOR = "\x1f"
"""Between the names of a namespace in a path, by Iceberg's protocol."""
PAGE = ("pageToken", "next-page-token")
"""The names of a page's token in a query and in a response."""
_COLUMNS = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}]}
"""The columns that the catalog is told of, as the library tells them."""
_STORAGE = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.endpoint": "aws_endpoint",
    "client.region": "aws_region",
}
"""Storage options by Iceberg's names."""
_EXPIRES_AT = "s3.session-token-expires-at-ms"


@dataclass(frozen=True)
class Iceberg:
    """The catalog at the option `endpoint`; the first name of an id is a warehouse. `options` are those of `known.ICEBERG`."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    levels = ("warehouse", "namespace")
    is_nested = True

    @property
    def title(self) -> str:
        """The catalog, for messages."""
        return f"the Iceberg catalog at {dict(self.options)['endpoint']}"

    @property
    def _base(self) -> str:
        return dict(self.options)["endpoint"].rstrip("/").removesuffix("/v1")

    @property
    def _service(self) -> Service:
        given = dict(self.options)
        credential = given.get("credential")
        login = Login(f"{self._base}/v1/oauth/tokens", credential, given.get("scope", self._scope)) if credential else None
        return Service(self.title, self._base, given.get("auth_token"), login, patience_of(given))

    @property
    def _scope(self) -> str:
        return "catalog"

    def list_namespaces(self, parent: Names) -> list[str]:
        """The names of the namespaces in a warehouse or namespace."""
        if not parent:
            raise UnsupportedFeatureError(f"{self.title} does not list its warehouses: name one, or set the property parent to it")
        query = {"parent": _SEPARATOR.join(parent[1:])} if parent[1:] else {}
        path = f"{self._warehouse(parent)}/namespaces"
        found = self._service.pages(path, parent, "namespaces", query, PAGE, NamespaceNotFoundError)
        # Some catalogs answer with those at all levels below.
        return [names[-1] for names in found if len(names) <= len(parent)]

    def describe_namespace(self, names: Names) -> dict[str, str]:
        """The properties of a namespace; a warehouse has none."""
        if len(names) == 1:
            self._warehouse(names)
            return {}
        found = self._service.call("GET", self._namespace(names), names, NamespaceNotFoundError)
        return dict(found.get("properties") or {})

    def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        if len(names) > 2:
            self.describe_namespace(names[:-1])
        body = {"namespace": list(names[1:]), "properties": dict(properties)}
        path = f"{self._warehouse(names)}/namespaces"
        self._service.call("POST", path, names, NamespaceNotFoundError, NamespaceAlreadyExistsError, body=body)

    def drop_namespace(self, names: Names) -> None:
        """Drop a namespace."""
        self._service.call("DELETE", self._namespace(names), names, NamespaceNotFoundError)

    def has_tables(self, names: Names) -> bool:
        """True if there is a table of any format in a namespace."""
        return any(True for _ in self._names(names))

    def list_tables(self, names: Names) -> list[str]:
        """The names of the Lance tables of a namespace. Each table is asked for, since a list does not tell them apart."""
        return [name for name in self._names(names) if self._is_lance((*names, name))]

    def describe_table(self, names: Names) -> Entry:
        """The location and properties of a table, and credentials for it, if the catalog hands them out."""
        found = self._loaded(names)
        table = found.get("metadata") or {}
        properties, location = table.get("properties") or {}, table.get("location")
        if str(properties.get(TABLE_TYPE, "")).lower() != LANCE or not location:
            raise not_lance(self.title, names)
        handed_out = found.get("config") or {}
        options = {own: handed_out[name] for name, own in _STORAGE.items() if name in handed_out}
        expires = str(handed_out.get(_EXPIRES_AT, ""))
        return Entry(location, properties, options, int(expires) if expires.isdigit() else None)

    def add_table(self, names: Names, location: str) -> None:
        """Create the entry of a table."""
        body = {"name": names[-1], "location": location, "schema": _COLUMNS, "properties": {TABLE_TYPE: LANCE}}
        path = f"{self._namespace(names[:-1])}/tables"
        self._service.call("POST", path, names, NamespaceNotFoundError, TableAlreadyExistsError, body=body)

    def remove_table(self, names: Names) -> None:
        """Remove the entry of a table."""
        query = {"purgeRequested": "false"}
        self._service.call("DELETE", self._table(names), names, TableNotFoundError, query=query)

    def rename_table(self, names: Names, to: Names) -> None:
        """Give a table another name in its warehouse."""
        if to[0] != names[0]:
            raise UnsupportedFeatureError(f"{self.title} does not move tables from one warehouse to another")
        ends = {"source": names, "destination": to}
        body = {end: {"namespace": list(id[1:-1]), "name": id[-1]} for end, id in ends.items()}
        path = f"{self._warehouse(names)}/tables/rename"
        self._service.call("POST", path, names, TableNotFoundError, TableAlreadyExistsError, body=body)

    def default_location(self, names: Names) -> str | None:
        """`<root>/<warehouse>/<namespace>/<table>`."""
        return below(dict(self.options).get("root"), *names)

    def _warehouse(self, names: Names) -> str:
        return _warehouse_path(os.getpid(), self._service, names[0])

    def _namespace(self, names: Names) -> str:
        return f"{self._warehouse(names)}/namespaces/{path_of(names[1:])}"

    def _table(self, names: Names) -> str:
        return f"{self._namespace(names[:-1])}/tables/{quote(names[-1], safe='')}"

    def _names(self, names: Names) -> Iterator[str]:
        path = f"{self._namespace(names)}/tables"
        return (found["name"] for found in self._service.pages(path, names, "identifiers", {}, PAGE, NamespaceNotFoundError))

    def _loaded(self, names: Names) -> Mapping[str, Any]:
        headers = {"X-Iceberg-Access-Delegation": "vended-credentials"}
        return self._service.call("GET", self._table(names), names, TableNotFoundError, headers=headers)

    def _is_lance(self, names: Names) -> bool:
        try:
            self.describe_table(names)
        except (UnsupportedFeatureError, TableNotFoundError):  # another format, or dropped meanwhile
            return False
        return True


def path_of(names: Names) -> str:
    """The names of a namespace in a URL."""
    return quote(_SEPARATOR.join(names), safe="")


@lru_cache(maxsize=64)
def _warehouse_path(pid: int, service: Service, warehouse: str) -> str:
    """The path of a warehouse, of which the catalog says the prefix, once for each process.

    A catalog that says none has paths without it, by Iceberg's protocol, but there are some whose paths have the warehouse's name.
    """
    found = service.call("GET", "/v1/config", (warehouse,), NamespaceNotFoundError, query={"warehouse": warehouse})
    settings = {**(found.get("defaults") or {}), **(found.get("overrides") or {})}
    prefix = settings.get("prefix")
    if prefix:
        return f"/v1/{prefix}"
    try:
        service.call("GET", "/v1/namespaces", (warehouse,), NamespaceNotFoundError)
    except NamespaceNotFoundError:
        return f"/v1/{quote(warehouse, safe='')}"
    return "/v1"
