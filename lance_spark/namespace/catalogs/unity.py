"""Unity Catalog, by its REST service."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from lance_spark.errors import (
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lance_spark.namespace.catalogs.metastore import LANCE, PLACEHOLDER, TABLE_TYPE, Entry, Names, below, no_rename, not_lance
from lance_spark.namespace.catalogs.service import Service, patience_of
from lance_spark.storage.location import locate

_PATH = "/api/2.1/unity-catalog"
_PAGE = ("page_token", "next_page_token")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unity:
    """The Unity Catalog at the option `endpoint`. `options` are those of `known.UNITY`."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    levels = ("catalog", "schema")
    is_nested = False

    @property
    def title(self) -> str:
        """The catalog, for messages."""
        return f"the Unity Catalog at {dict(self.options)['endpoint']}"

    @property
    def _service(self) -> Service:
        given = dict(self.options)
        base = given["endpoint"].rstrip("/")
        url = base if base.endswith(_PATH) else base.removesuffix("/api/2.1") + _PATH
        return Service(self.title, url, given.get("auth_token"), patience=patience_of(given))

    def list_namespaces(self, parent: Names) -> list[str]:
        """The names of the catalogs, or of the schemas in one."""
        if not parent:
            return [catalog["name"] for catalog in self._service.pages("/catalogs", parent, "catalogs", {}, _PAGE, LanceError)]
        schemas = self._service.pages("/schemas", parent, "schemas", {"catalog_name": parent[0]}, _PAGE, NamespaceNotFoundError)
        names = [schema["name"] for schema in schemas]
        if not names:
            self.describe_namespace(parent)
        return names

    def describe_namespace(self, names: Names) -> dict[str, str]:
        """The properties of a catalog or schema, with its comment."""
        kind = "schemas" if len(names) > 1 else "catalogs"
        found = self._service.call("GET", f"/{kind}/{_full(names)}", names, NamespaceNotFoundError)
        comment = found.get("comment")
        return {**(found.get("properties") or {}), **({"comment": comment} if comment else {})}

    def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        """Create a schema."""
        self.describe_namespace(names[:1])
        own = {name: text for name, text in properties.items() if name != "comment"}
        body = {"name": names[1], "catalog_name": names[0], "properties": own, "comment": properties.get("comment", "")}
        self._service.call("POST", "/schemas", names, NamespaceNotFoundError, NamespaceAlreadyExistsError, body=body)

    def drop_namespace(self, names: Names) -> None:
        """Delete a schema."""
        self._service.call("DELETE", f"/schemas/{_full(names)}", names, NamespaceNotFoundError)

    def has_tables(self, names: Names) -> bool:
        """True if there is a table of any format in a schema."""
        return any(True for _ in self._tables(names))

    def list_tables(self, names: Names) -> list[str]:
        """The names of the Lance tables of a schema."""
        return [table["name"] for table in self._tables(names) if _is_lance(table)]

    def describe_table(self, names: Names) -> Entry:
        """The location and properties of a table, and credentials for it, if the catalog hands them out."""
        table = self._service.call("GET", f"/tables/{_full(names)}", names, TableNotFoundError)
        location = table.get("storage_location")
        if not _is_lance(table) or not location:
            raise not_lance(self.title, names)
        if locate(location).kind == "file" or not table.get("table_id"):
            return Entry(location, table["properties"])
        return self._with_credentials(names, Entry(location, table["properties"]), table["table_id"])

    def add_table(self, names: Names, location: str) -> None:
        """Create the entry of an external table. The catalog has no format for Lance, so it says TEXT, as the library does."""
        self.describe_namespace(names[:-1])
        column = {
            "name": PLACEHOLDER,
            "type_name": "LONG",
            "type_text": "bigint",
            "type_json": json.dumps({"name": PLACEHOLDER, "type": "long", "nullable": True, "metadata": {}}),
            "position": 0,
            "nullable": True,
        }
        body = {
            "name": names[2],
            "catalog_name": names[0],
            "schema_name": names[1],
            "table_type": "EXTERNAL",
            "data_source_format": "TEXT",
            "columns": [column],
            "storage_location": location,
            "properties": {TABLE_TYPE: LANCE, "managed_by": "catalog"},
        }
        self._service.call("POST", "/tables", names, NamespaceNotFoundError, TableAlreadyExistsError, body=body)

    def remove_table(self, names: Names) -> None:
        """Delete the entry of a table."""
        self._service.call("DELETE", f"/tables/{_full(names)}", names, TableNotFoundError)

    def rename_table(self, names: Names, to: Names) -> None:
        """Raise UnsupportedFeatureError: not every Unity Catalog can."""
        raise no_rename(self.title, names)

    def default_location(self, names: Names) -> str | None:
        """`<root>/<catalog>/<schema>/<table>`."""
        return below(dict(self.options).get("root"), *names)

    def _tables(self, names: Names) -> Iterator[Mapping[str, Any]]:
        query = {"catalog_name": names[0], "schema_name": names[1]}
        return self._service.pages("/tables", names, "tables", query, _PAGE, NamespaceNotFoundError)

    def _with_credentials(self, names: Names, entry: Entry, table_id: str) -> Entry:
        body = {"table_id": table_id, "operation": "READ_WRITE"}
        try:
            answer = self._service.call("POST", "/temporary-table-credentials", names, TableNotFoundError, body=body)
        except LanceError as e:  # the user's own credentials are used
            _logger.info("%s: no credentials for the table: %s", self.title, e)
            return entry
        return Entry(entry.location, entry.properties, _storage_options(answer), answer.get("expiration_time"))


def _storage_options(answer: Mapping[str, Any]) -> dict[str, str]:
    """Storage options for the credentials in a response."""
    aws, azure = answer.get("aws_temp_credentials") or {}, answer.get("azure_user_delegation_sas") or {}
    options = {
        "aws_access_key_id": aws.get("access_key_id"),
        "aws_secret_access_key": aws.get("secret_access_key"),
        "aws_session_token": aws.get("session_token"),
        "azure_storage_sas_token": azure.get("sas_token"),
    }
    return {name: text for name, text in options.items() if text}


def _is_lance(table: Mapping[str, Any]) -> bool:
    return str((table.get("properties") or {}).get(TABLE_TYPE, "")).lower() == LANCE


def _full(names: Names) -> str:
    return quote(".".join(names), safe="")
