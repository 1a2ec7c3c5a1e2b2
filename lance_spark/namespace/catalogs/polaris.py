"""Apache Polaris, in which a Lance table is a generic table of the format `lance`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from lance_spark.errors import NamespaceNotFoundError, TableAlreadyExistsError, TableNotFoundError
from lance_spark.namespace.catalogs.iceberg import PAGE, Iceberg, path_of
from lance_spark.namespace.catalogs.metastore import LANCE, Entry, Names, no_rename, not_lance


@dataclass(frozen=True)
class Polaris(Iceberg):
    """The service at the option `endpoint`. Namespaces are those of Iceberg's protocol. `options` are those of `known.POLARIS`."""

    levels = ("catalog", "namespace")

    @property
    def title(self) -> str:
        """The catalog, for messages."""
        return f"the Polaris catalog at {dict(self.options)['endpoint']}"

    @property
    def _base(self) -> str:
        return dict(self.options)["endpoint"].rstrip("/").removesuffix("/api/catalog") + "/api/catalog"

    @property
    def _scope(self) -> str:
        return "PRINCIPAL_ROLE:ALL"

    def has_tables(self, names: Names) -> bool:
        """True if there is a table of any format in a namespace."""
        return super().has_tables(names) or any(True for _ in self._generic(names))

    def list_tables(self, names: Names) -> list[str]:
        """The names of the Lance tables of a namespace. Each generic table is asked for, since a list does not tell the formats."""
        return [name for name in self._generic(names) if self._is_lance((*names, name))]

    def describe_table(self, names: Names) -> Entry:
        """The location and properties of a table."""
        table = self._service.call("GET", self._generic_table(names), names, TableNotFoundError).get("table") or {}
        location = table.get("base-location")
        if str(table.get("format", "")).lower() != LANCE or not location:
            raise not_lance(self.title, names)
        return Entry(location, table.get("properties") or {})

    def add_table(self, names: Names, location: str) -> None:
        """Create a generic table."""
        body = {"name": names[-1], "format": LANCE, "base-location": location, "properties": {}}
        path = self._generic_tables(names[:-1])
        self._service.call("POST", path, names, NamespaceNotFoundError, TableAlreadyExistsError, body=body)

    def remove_table(self, names: Names) -> None:
        """Remove a generic table; its files stay."""
        self._service.call("DELETE", self._generic_table(names), names, TableNotFoundError)

    def rename_table(self, names: Names, to: Names) -> None:
        """Raise UnsupportedFeatureError: generic tables are not renamed."""
        raise no_rename(self.title, names)

    def _generic_tables(self, names: Names) -> str:
        prefix = self._warehouse(names).removeprefix("/v1/")
        return f"/polaris/v1/{prefix}/namespaces/{path_of(names[1:])}/generic-tables"

    def _generic_table(self, names: Names) -> str:
        return f"{self._generic_tables(names[:-1])}/{quote(names[-1], safe='')}"

    def _generic(self, names: Names) -> Iterator[str]:
        path = self._generic_tables(names)
        return (found["name"] for found in self._service.pages(path, names, "identifiers", {}, PAGE, NamespaceNotFoundError))
