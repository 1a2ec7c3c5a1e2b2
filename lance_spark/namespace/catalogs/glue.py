"""The AWS Glue Data Catalog, by botocore."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lance_spark.errors import (
    InvalidOptionError,
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.catalogs.metastore import LANCE, PLACEHOLDER, TABLE_TYPE, Entry, Names, below, no_rename, not_lance, whole_number
from lance_spark.namespace.error_codes import UNAUTHENTICATED, UNAVAILABLE
from lance_spark.namespace.protocol import shown
from lance_spark.storage.secrets import shown as shown_uri

_COMMENT, _LOCATION = "comment", "location"
"""The properties of a namespace that are fields of a database."""
_CODES = {
    "InvalidInputException": 13,
    "ValidationException": 13,
    "AccessDeniedException": 15,
    "UnrecognizedClientException": UNAUTHENTICATED,
    "InvalidSignatureException": UNAUTHENTICATED,
    "ExpiredTokenException": UNAUTHENTICATED,
    "MissingAuthenticationTokenException": UNAUTHENTICATED,
    "ThrottlingException": 21,
}
"""Codes of the namespace specification for those of AWS."""


@dataclass(frozen=True)
class Glue:
    """The catalog of a region, or at an `endpoint`. `options` are those of `known.GLUE`; others are looked for as AWS's tools do."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    levels = ("database",)
    is_nested = False

    @property
    def title(self) -> str:
        """The catalog, for messages."""
        given = dict(self.options)
        where = given.get("endpoint") or given.get("region")
        return f"the Glue catalog at {shown_uri(where)}" if where else "the Glue catalog"

    def list_namespaces(self, parent: Names) -> list[str]:
        """The names of the databases."""
        return [database["Name"] for database in self._pages("get_databases", "DatabaseList", parent, LanceError)]

    def describe_namespace(self, names: Names) -> dict[str, str]:
        """The properties of a database, with its comment and location."""
        database = self._call("get_database", names, NamespaceNotFoundError, Name=names[0])["Database"]
        fields = {_COMMENT: database.get("Description"), _LOCATION: database.get("LocationUri")}
        return {**database.get("Parameters", {}), **{name: text for name, text in fields.items() if text}}

    def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        """Create a database."""
        fields = {"Description": properties.get(_COMMENT), "LocationUri": properties.get(_LOCATION)}
        parameters = {name: text for name, text in properties.items() if name not in (_COMMENT, _LOCATION)}
        database = {"Name": names[0], "Parameters": parameters, **{name: text for name, text in fields.items() if text}}
        self._call("create_database", names, NamespaceNotFoundError, NamespaceAlreadyExistsError, DatabaseInput=database)

    def drop_namespace(self, names: Names) -> None:
        """Delete a database; Glue deletes the tables in it, too."""
        self._call("delete_database", names, NamespaceNotFoundError, Name=names[0])

    def has_tables(self, names: Names) -> bool:
        """True if there is a table of any format in a database."""
        return bool(self._call("get_tables", names, NamespaceNotFoundError, DatabaseName=names[0], MaxResults=1)["TableList"])

    def list_tables(self, names: Names) -> list[str]:
        """The names of the Lance tables of a database."""
        tables = self._pages("get_tables", "TableList", names, NamespaceNotFoundError, DatabaseName=names[0])
        return [table["Name"] for table in tables if _is_lance(table)]

    def describe_table(self, names: Names) -> Entry:
        """The location and parameters of a table."""
        table = self._call("get_table", names, TableNotFoundError, DatabaseName=names[0], Name=names[1])["Table"]
        location = table.get("StorageDescriptor", {}).get("Location")
        if not _is_lance(table) or not location:
            raise not_lance(self.title, names)
        return Entry(location, table["Parameters"])

    def add_table(self, names: Names, location: str) -> None:
        """Create the entry of a table."""
        table = {
            "Name": names[1],
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {TABLE_TYPE: LANCE.upper(), "managed_by": "storage"},
            "StorageDescriptor": {"Location": location, "Columns": [{"Name": PLACEHOLDER, "Type": "bigint"}]},
        }
        self._call("create_table", names, NamespaceNotFoundError, TableAlreadyExistsError, DatabaseName=names[0], TableInput=table)

    def remove_table(self, names: Names) -> None:
        """Delete the entry of a table."""
        self._call("delete_table", names, TableNotFoundError, DatabaseName=names[0], Name=names[1])

    def rename_table(self, names: Names, to: Names) -> None:
        """Raise UnsupportedFeatureError: Glue cannot."""
        raise no_rename(self.title, names)

    def default_location(self, names: Names) -> str | None:
        """`<root>/<database>/<table>.lance`; without `root`, a folder at the database's location."""
        root = dict(self.options).get("root")
        if root:
            return below(root, names[0], f"{names[1]}.lance")
        return below(self.describe_namespace(names[:1]).get(_LOCATION), f"{names[1]}.lance")

    def _pages(self, operation: str, key: str, names: Names, missing: type[LanceError], **request: Any) -> Iterator[Mapping[str, Any]]:
        """The members of all pages of a list."""
        token: dict[str, Any] = {}
        while True:
            page = self._call(operation, names, missing, **request, **token)
            yield from page[key]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _call(
        self, operation: str, names: Names, missing: type[LanceError], exists: type[LanceError] = LanceError, **request: Any
    ) -> Mapping[str, Any]:
        """Send a request. Raises `missing` and `exists` for what Glue calls so, and NamespaceError for all other failures."""
        catalog = dict(self.options).get("catalog_id")
        what = f"{self.title}: {operation} of {shown(names)}"
        with _errors(what, missing, exists):
            call = getattr(_client(os.getpid(), self.options), operation)
            answer: Mapping[str, Any] = call(**request, CatalogId=catalog) if catalog else call(**request)
            return answer


def _is_lance(table: Mapping[str, Any]) -> bool:
    return str(table.get("Parameters", {}).get(TABLE_TYPE, "")).lower() == LANCE


@contextlib.contextmanager
def _errors(what: str, missing: type[LanceError], exists: type[LanceError]) -> Iterator[None]:
    try:
        from botocore import exceptions as aws
    except ImportError:
        raise UnsupportedFeatureError("a Glue catalog needs the package botocore: pip install 'lance-spark[glue]'") from None
    try:
        yield
    except aws.ClientError as e:
        code, said = e.response.get("Error", {}).get("Code", ""), e.response.get("Error", {}).get("Message", "")
        if code == "EntityNotFoundException":
            raise missing(f"{what}: {said}") from e
        if code == "AlreadyExistsException":
            raise exists(f"{what}: {said}") from e
        raise NamespaceError(f"{what}: {code}: {said}", _CODES.get(code)) from e
    except (aws.NoCredentialsError, aws.PartialCredentialsError) as e:
        raise NamespaceError(f"{what}: {e}; give access_key_id and secret_access_key, or a profile_name", UNAUTHENTICATED) from e
    except (aws.ConnectionError, aws.HTTPClientError) as e:
        raise NamespaceError(f"{what}: the service does not respond ({type(e).__name__})", UNAVAILABLE) from e
    except (aws.BotoCoreError, ValueError) as e:  # ValueError: an endpoint that is no URL
        raise InvalidOptionError(f"{what}: {e}") from e


@lru_cache(maxsize=32)
def _client(pid: int, options: tuple[tuple[str, str], ...]) -> Any:
    """The client of a process, which all of its threads may use."""
    from botocore.config import Config
    from botocore.session import Session

    given = dict(options)
    retries = {"max_attempts": whole_number(given, "max_retries"), "mode": given.get("retry_mode")}
    session = Session(profile=given.get("profile_name"))
    return session.create_client(
        "glue",
        region_name=given.get("region"),
        endpoint_url=given.get("endpoint"),
        aws_access_key_id=given.get("access_key_id"),
        aws_secret_access_key=given.get("secret_access_key"),
        aws_session_token=given.get("session_token"),
        config=Config(retries={name: value for name, value in retries.items() if value is not None}),
    )
