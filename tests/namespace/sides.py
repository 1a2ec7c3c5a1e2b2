"""A directory namespace seen by lance_spark and by pylance: the same operations, with plain values, on both."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import lance
import lance.namespace
import pyarrow as pa
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    DropTableRequest,
    LanceNamespaceError,
    ListNamespacesRequest,
    ListTablesRequest,
    RegisterTableRequest,
)

import lance_spark
from lance_spark.errors import LanceError

ROWS = pa.table({"x": [1, 2]})
Ids: TypeAlias = Sequence[str]


class Side(Protocol):
    """One client of a directory namespace."""

    def create_namespace(self, id: Ids) -> None: ...
    def drop_namespace(self, id: Ids) -> None: ...
    def declare_table(self, id: Ids) -> None: ...
    def create_table(self, id: Ids) -> None: ...
    def append(self, id: Ids) -> None: ...
    def register_table(self, id: Ids, location: str) -> None: ...
    def deregister_table(self, id: Ids) -> None: ...
    def drop_table(self, id: Ids) -> None: ...
    def namespaces(self, id: Ids) -> dict[str, dict[str, str]]: ...
    def tables(self, id: Ids) -> dict[str, tuple[str, int | None]]: ...


class Ours:
    """The client of lance_spark."""

    def __init__(self, root: str, **properties: Any) -> None:
        self.namespace = lance_spark.namespace(root, **properties)

    def create_namespace(self, id: Ids) -> None:
        self.namespace.create_namespace(id, {"name": id[-1]})

    def drop_namespace(self, id: Ids) -> None:
        self.namespace.drop_namespace(id)

    def declare_table(self, id: Ids) -> None:
        self.namespace.declare_table(id)

    def create_table(self, id: Ids) -> None:
        self.namespace.write(id, ROWS)

    def append(self, id: Ids) -> None:
        self.namespace.describe_table(id)
        self.namespace.write(id, ROWS, "append")

    def register_table(self, id: Ids, location: str) -> None:
        self.namespace.register_table(id, location)

    def deregister_table(self, id: Ids) -> None:
        self.namespace.deregister_table(id)

    def drop_table(self, id: Ids) -> None:
        self.namespace.drop_table(id)

    def namespaces(self, id: Ids) -> dict[str, dict[str, str]]:
        return {name: self.namespace.describe_namespace([*id, name]) for name in self.namespace.list_namespaces(id)}

    def tables(self, id: Ids) -> dict[str, tuple[str, int | None]]:
        return {name: self._about([*id, name]) for name in self.namespace.list_tables(id)}

    def _about(self, id: Ids) -> tuple[str, int | None]:
        location = self.namespace.describe_table(id).location
        try:
            return location, self.namespace.open(id).count_rows()
        except LanceError:
            return location, None


class Theirs:
    """The client of pylance."""

    def __init__(self, root: str, **properties: str) -> None:
        self.namespace: Any = lance.namespace.DirectoryNamespace(root=root, **properties)

    def create_namespace(self, id: Ids) -> None:
        self.namespace.create_namespace(CreateNamespaceRequest(id=list(id), properties={"name": id[-1]}))

    def drop_namespace(self, id: Ids) -> None:
        self.namespace.drop_namespace(DropNamespaceRequest(id=list(id)))

    def declare_table(self, id: Ids) -> None:
        self.namespace.declare_table(DeclareTableRequest(id=list(id)))

    def create_table(self, id: Ids) -> None:
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, ROWS.schema) as writer:
            writer.write_table(ROWS)
        self.namespace.create_table(CreateTableRequest(id=list(id)), stream.getvalue())

    def append(self, id: Ids) -> None:
        lance.write_dataset(ROWS, namespace_client=self.namespace, table_id=list(id), mode="append")

    def register_table(self, id: Ids, location: str) -> None:
        self.namespace.register_table(RegisterTableRequest(id=list(id), location=location))

    def deregister_table(self, id: Ids) -> None:
        self.namespace.deregister_table(DeregisterTableRequest(id=list(id)))

    def drop_table(self, id: Ids) -> None:
        self.namespace.drop_table(DropTableRequest(id=list(id)))

    def namespaces(self, id: Ids) -> dict[str, dict[str, str]]:
        names = self.namespace.list_namespaces(ListNamespacesRequest(id=list(id))).namespaces
        return {n: self.namespace.describe_namespace(DescribeNamespaceRequest(id=[*id, n])).properties for n in names}

    def tables(self, id: Ids) -> dict[str, tuple[str, int | None]]:
        return {name: self._about([*id, name]) for name in self.namespace.list_tables(ListTablesRequest(id=list(id))).tables}

    def _about(self, id: Ids) -> tuple[str, int | None]:
        location = self.namespace.describe_table(DescribeTableRequest(id=list(id))).location.removeprefix("file://")
        try:
            return location, lance.dataset(namespace_client=self.namespace, table_id=list(id)).count_rows()
        except (LanceNamespaceError, ValueError, OSError):
            return location, None


def seen(side: Side, id: Ids = (), deep: bool = True) -> dict[tuple[str, ...], object]:
    """All namespaces with their properties, and all tables with their locations and numbers of rows."""
    found: dict[tuple[str, ...], object] = {(*id, name): about for name, about in side.tables(id).items()}
    if deep:
        for name, properties in side.namespaces(id).items():
            found |= {(*id, name): properties, **seen(side, [*id, name])}
    return found
