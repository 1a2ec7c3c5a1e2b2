"""A Hive metastore, by its Thrift service."""

from __future__ import annotations

import contextlib
import getpass
import importlib.resources
import io
import re
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
from lance_spark.namespace.catalogs.metastore import LANCE, PLACEHOLDER, TABLE_TYPE, Entry, Names, below, not_lance
from lance_spark.namespace.protocol import shown

_ADDRESS = re.compile(r"thrift://(\[[0-9a-fA-F:]+\]|[^/:\s]+)(?::([0-9]{1,5}))?/?")
_LOCAL, _PORT = "thrift://localhost:9083", 9083
_DEFAULT_CATALOG = "hive"
"""The catalog of Hive 3 that has all databases of Hive 2; its databases have plain names."""
_TIMEOUT_MS = 60_000
_AT_ONCE = 500
"""Tables of which the parameters are requested at once; a reply is in memory."""
_UNAVAILABLE = 17


@dataclass(frozen=True)
class Hive:
    """The metastore at one of the addresses in the option `uri`; the first that answers is taken.

    With `has_catalogs`, databases are in catalogs, as in Hive 3. `options` are those of `known.HIVE`.
    """

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    has_catalogs: bool = False

    is_nested = False

    @property
    def levels(self) -> tuple[str, ...]:
        """The names above a table."""
        return ("catalog", "database") if self.has_catalogs else ("database",)

    @property
    def title(self) -> str:
        """The metastore, for messages."""
        return f"the Hive metastore at {self._uri}"

    @property
    def _uri(self) -> str:
        return dict(self.options).get("uri", _LOCAL)

    def list_namespaces(self, parent: Names) -> list[str]:
        """The names of the catalogs, or of the databases in one."""
        if self.has_catalogs and not parent:
            return self._catalogs()
        databases: list[str] = self._call("get_databases", parent, NamespaceNotFoundError, self._in_catalog(parent, "*"))
        return databases

    def describe_namespace(self, names: Names) -> dict[str, str]:
        """The parameters of a database, with its comment, location and owner."""
        if len(names) < len(self.levels):
            if names[0] not in self._catalogs():
                raise NamespaceNotFoundError(f"{self.title}: there is no catalog {shown(names)}")
            return {}
        database = self._call("get_database", names, NamespaceNotFoundError, self._database(names))
        fields = {"comment": database.description, "location": database.locationUri, "owner": database.ownerName}
        return {**(database.parameters or {}), **{name: text for name, text in fields.items() if text}}

    def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        """Create a database."""
        parameters = {name: text for name, text in properties.items() if name not in ("comment", "location", "owner")}
        database = _thrift().Database(
            name=self._database(names),
            description=properties.get("comment"),
            locationUri=properties.get("location"),
            parameters=parameters,
            ownerName=properties.get("owner", self._user),
        )
        self._call("create_database", names, NamespaceNotFoundError, database, exists=NamespaceAlreadyExistsError)

    def drop_namespace(self, names: Names) -> None:
        """Drop an empty database; the files in its folder stay."""
        self._call("drop_database", names, NamespaceNotFoundError, self._database(names), False, False)

    def has_tables(self, names: Names) -> bool:
        """True if there is a table or view of any format in a database."""
        return bool(self._call("get_all_tables", names, NamespaceNotFoundError, self._database(names)))

    def list_tables(self, names: Names) -> list[str]:
        """The names of the Lance tables of a database."""
        database = self._database(names)
        all_names = self._call("get_all_tables", names, NamespaceNotFoundError, database)
        tables: list[Any] = []
        for start in range(0, len(all_names), _AT_ONCE):
            some = all_names[start : start + _AT_ONCE]
            tables += self._call("get_table_objects_by_name", names, NamespaceNotFoundError, database, some)
        return [table.tableName for table in tables if _is_lance(table)]

    def describe_table(self, names: Names) -> Entry:
        """The location and parameters of a table."""
        table = self._table(names)
        return Entry(table.sd.location, table.parameters)

    def add_table(self, names: Names, location: str) -> None:
        """Create the entry of an external table."""
        thrift = _thrift()
        # Hive asks for the formats of files; no reader of Lance looks at them.
        files = thrift.StorageDescriptor(
            cols=[thrift.FieldSchema(name=PLACEHOLDER, type="bigint")],
            location=location,
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=thrift.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        )
        table = thrift.Table(
            tableName=names[-1],
            dbName=self._database(names[:-1]),
            owner=self._user,
            sd=files,
            partitionKeys=[],
            parameters={TABLE_TYPE: LANCE, "managed_by": "storage", "EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )
        self._call("create_table", names, NamespaceNotFoundError, table, exists=TableAlreadyExistsError)

    def remove_table(self, names: Names) -> None:
        """Remove the entry of a table."""
        self._call("drop_table", names, TableNotFoundError, self._database(names[:-1]), names[-1], False)

    def rename_table(self, names: Names, to: Names) -> None:
        """Give a table another name, or move it to another database of the catalog."""
        if self._is_table(to):
            raise TableAlreadyExistsError(f"{self.title}: there is a table {shown(to)} already")
        self.describe_namespace(to[:-1])
        table = self._table(names)
        table.dbName, table.tableName = self._database(to[:-1]), to[-1]
        self._call("alter_table", names, TableNotFoundError, self._database(names[:-1]), names[-1], table)

    def default_location(self, names: Names) -> str | None:
        """`<root>/<database>.db/<table>`, in lower case, as Hive has names; of other catalogs, below a folder of the catalog."""
        *catalog, database, table = (name.lower() for name in names)
        own_folder = [name for name in catalog if name != _DEFAULT_CATALOG]
        return below(dict(self.options).get("root"), *own_folder, f"{database}.db", table)

    @property
    def _user(self) -> str:
        return dict(self.options).get("ugi", "").partition(":")[0] or getpass.getuser()

    def _table(self, names: Names) -> Any:
        table = self._call("get_table", names, TableNotFoundError, self._database(names[:-1]), names[-1])
        if not _is_lance(table):
            raise not_lance(self.title, names)
        return table

    def _is_table(self, names: Names) -> bool:
        """True if there is a table of any format."""
        try:
            self._call("get_table", names, TableNotFoundError, self._database(names[:-1]), names[-1])
        except TableNotFoundError:
            return False
        return True

    def _catalogs(self) -> list[str]:
        try:
            catalogs: list[str] = self._call("get_catalogs", (), NamespaceNotFoundError).names
        except UnsupportedFeatureError:  # Hive 2 has one catalog, without a name
            return [_DEFAULT_CATALOG]
        return catalogs

    def _database(self, names: Names) -> str:
        return self._in_catalog(names[:-1], names[-1])

    def _in_catalog(self, catalog: Names, name: str) -> str:
        """The name of a database, or a pattern for it, in the form that Hive 3 has for catalogs."""
        return name if not catalog or catalog[0] == _DEFAULT_CATALOG else f"@{catalog[0]}#{name}"

    def _call(self, operation: str, names: Names, missing: type[LanceError], *arguments: Any, exists: type[LanceError] = LanceError) -> Any:
        """Send a request. Raises `missing` and `exists` for what Hive calls so, and NamespaceError for all other failures."""
        what = f"{self.title}: {operation} of {shown(names)}"
        thrift = _thrift()
        from thriftpy2.thrift import TApplicationException, TException

        with _connected(self._uri, what) as client:
            try:
                if ugi := dict(self.options).get("ugi"):
                    user, _, groups = ugi.partition(":")
                    client.set_ugi(user, [group for group in groups.split(",") if group])
                return getattr(client, operation)(*arguments)
            except (thrift.NoSuchObjectException, thrift.UnknownDBException, thrift.InvalidObjectException) as e:
                raise missing(f"{what}: {e.message}") from e
            except thrift.AlreadyExistsException as e:
                raise exists(f"{what}: {e.message}") from e
            except (thrift.MetaException, thrift.InvalidOperationException) as e:
                raise NamespaceError(f"{what}: {e.message}") from e
            except TApplicationException as e:
                if e.type == TApplicationException.UNKNOWN_METHOD:
                    raise UnsupportedFeatureError(f"{what}: the service does not have this request") from e
                raise NamespaceError(f"{what}: {e}") from e
            except (TException, OSError) as e:
                raise NamespaceError(f"{what}: the connection was lost ({type(e).__name__})", _UNAVAILABLE) from e


def _is_lance(table: Any) -> bool:
    return str((table.parameters or {}).get(TABLE_TYPE, "")).lower() == LANCE


@contextlib.contextmanager
def _connected(uri: str, what: str) -> Iterator[Any]:
    """A connection for one request, since one must not be shared by threads, and a metastore ends those that are idle."""
    from thriftpy2.protocol import TBinaryProtocolFactory
    from thriftpy2.rpc import make_client
    from thriftpy2.transport import TBufferedTransportFactory, TTransportException

    protocol: Any = TBinaryProtocolFactory()  # type: ignore[no-untyped-call]
    for host, port in _addresses(uri):
        try:
            client = make_client(
                _thrift().ThriftHiveMetastore,
                host,
                port,
                proto_factory=protocol,
                trans_factory=TBufferedTransportFactory(),
                timeout=_TIMEOUT_MS,
            )
        except (TTransportException, OSError):
            continue
        with contextlib.closing(client):
            yield client
        return
    raise NamespaceError(f"{what}: the service does not respond", _UNAVAILABLE)


def _addresses(uri: str) -> list[tuple[str, int]]:
    """The hosts and ports in a list of addresses. Raises InvalidOptionError."""
    found = []
    for text in uri.split(","):
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise InvalidOptionError(f"the property uri is {uri!r}, expected thrift://host:port, or several of them with commas")
        found.append((match[1].strip("[]"), int(match[2] or _PORT)))
    return found


@lru_cache(maxsize=1)
def _thrift() -> Any:
    """The types of the service."""
    try:
        import thriftpy2
    except ImportError:
        raise UnsupportedFeatureError("a Hive metastore needs the package thriftpy2: pip install 'lance-spark[hive]'") from None
    text = importlib.resources.files(__package__).joinpath("hive_metastore.thrift").read_text()
    return thriftpy2.load_fp(io.StringIO(text), "hive_metastore_thrift")
