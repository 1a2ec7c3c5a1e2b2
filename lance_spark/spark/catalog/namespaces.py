"""Operations of the SQL catalog on namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.namespace.protocol import Namespace
from lance_spark.spark.catalog.tables import remove
from lance_spark.spark.catalog_settings import Catalog

Id = Sequence[str]


def list_namespaces(catalog: Catalog, id: Id) -> list[str]:
    """The names of the namespaces directly in the namespace `id`."""
    return catalog.list_namespaces(id)


def list_tables(catalog: Catalog, id: Id) -> list[str]:
    """The names of the tables directly in the namespace `id`."""
    return catalog.namespace.list_tables(id)


def describe_namespace(catalog: Catalog, id: Id) -> dict[str, str]:
    """The properties of a namespace."""
    return catalog.namespace.describe_namespace(id)


def create_namespace(catalog: Catalog, id: Id, properties: Mapping[str, str]) -> None:
    """Create a namespace."""
    catalog.namespace.create_namespace(id, properties)


def drop_namespace(catalog: Catalog, id: Id, cascade: bool) -> None:
    """Drop a namespace. With `cascade`, first all that is in it: its tables, as DROP TABLE does, its views and its namespaces."""
    namespace = catalog.namespace
    if cascade:
        _drop_contents(namespace, tuple(id))
    namespace.drop_namespace(id)


def _drop_contents(namespace: Namespace, id: tuple[str, ...]) -> None:
    for name in namespace.list_tables(id):
        remove(namespace, (*id, name), purge=False)
    for name in namespace.list_views(id):
        namespace.drop_view((*id, name))
    for name in namespace.list_namespaces(id):
        _drop_contents(namespace, (*id, name))
        namespace.drop_namespace((*id, name))
