"""SHOW PARTITIONS of a partitioned namespace."""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.namespace.partitioned.described import partition_names
from lance_spark.spark.catalog.spark_statements import SparkStatement
from lance_spark.spark.catalog.tables import Place, current_at
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.read.opened import OpenedNamespace


def show_partitions(catalog: Catalog, place: Place) -> SparkStatement:
    """A query for the partition values of the tables of a namespace, in one column as in Spark.

    Raises UnsupportedFeatureError for a table.
    """
    current = current_at(catalog, place)
    if not isinstance(current, OpenedNamespace):
        what = "lance tables have no partitions, only partitioned namespaces have"
        raise UnsupportedFeatureError(f"{current.shape.root.uri}: {what}")
    # No name has a quote or a backslash: they are escaped.
    rows = ", ".join(f"('{name}')" for name in partition_names(current.version))
    return SparkStatement(f"SELECT * FROM VALUES {rows} AS t(partition)" if rows else "SELECT '' AS partition WHERE false")
