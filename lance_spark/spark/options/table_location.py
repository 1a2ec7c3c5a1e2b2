"""Where the table of a read or a write is: at a path, or where a namespace says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.storage.store import Store

if TYPE_CHECKING:
    from lance_spark.namespace.protocol import Namespace

NO_PATH = (
    "the path of the Lance table is missing. Use .load(path), .save(path) or CREATE TEMPORARY VIEW v USING lance OPTIONS (path '...'). "
    "For tables of the session catalog, call lance_spark.enable(spark) first: Spark itself does not pass their path to Python sources"
)


def store_of(options: ReadOptions | SparkWriteOptions) -> Store:
    """The folder of the table. Raises TableNotFoundError if its namespace does not have it."""
    if options.table is not None:
        return _reachable(namespace_of(options).store(options.table))
    if options.path is None:
        raise InvalidOptionError(NO_PATH)
    return _reachable(Store(options.path, options.storage))


def store_to_write(options: SparkWriteOptions) -> Store:
    """The folder of the table, which is declared in its namespace if it is not there."""
    return store_of(options) if options.table is None else _reachable(namespace_of(options).store_to_write(options.table))


def namespace_of(options: ReadOptions | SparkWriteOptions) -> Namespace:
    """The namespace that the options name."""
    from lance_spark.namespace.connect import connect  # most tables are at a path

    place, properties = options.namespace or options.path, dict(options.namespace_properties)
    if place is None:
        raise InvalidOptionError("the option table needs a namespace: load or save its path, or give the option namespace")
    if options.namespace is not None and options.path is not None:
        name = "uri" if options.namespace == "rest" else "root"
        if properties.setdefault(name, options.path) != options.path:
            raise InvalidOptionError(f"the namespace's {name} is given twice: as path and as the option namespace.{name}")
    return connect(place, options.storage, properties)


def _reachable(store: Store) -> Store:
    if store.location.kind == "memory":
        raise UnsupportedFeatureError(
            f"{store.uri}: Spark's worker processes cannot access this process's memory; use a path that they can access"
        )
    return store
