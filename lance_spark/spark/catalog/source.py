"""The data source through which LanceCatalog.java calls this package: one process, one request, one answer.

Spark creates a Python data source in a process of its own and asks it for its schema. This source executes the request in its options and
answers in the metadata of its only column. It also writes the rows of a new table, and runs the tasks of procedures on executors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from lance_spark.errors import (
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    wrong_arguments_as_options,
)
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.spark.again import Asked
from lance_spark.spark.catalog import alter, calls, copy_into, materialized_views, namespaces, statements, tables, transactions, views
from lance_spark.spark.catalog.definition import NOTHING, Definition, as_declared
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.columns.types import to_spark
from lance_spark.spark.last_change import figures
from lance_spark.spark.protocol import CATALOG_FORMAT, CatalogRequest, answered, refused
from lance_spark.spark.read.tasks import TasksPartition, TasksReader
from lance_spark.spark.workers.import_cache import brief_errors, start_planning
from lance_spark.spark.workers.outcome import RESULT
from lance_spark.spark.write.rows import rows_to
from lance_spark.spark.write.writer import LanceWriter

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "list_namespaces": namespaces.list_namespaces,
    "describe_namespace": namespaces.describe_namespace,
    "create_namespace": namespaces.create_namespace,
    "drop_namespace": namespaces.drop_namespace,
    "list_tables": namespaces.list_tables,
    "load": tables.load,
    "load_about": tables.load_about,
    "exists": tables.exists,
    "is_named": tables.is_named,
    "details": tables.details,
    "create": tables.create,
    "replace": tables.replace,
    "stage": tables.stage,
    "finish": tables.finish,
    "abandon": tables.abandon,
    "alter": alter.alter_table,
    "drop": tables.drop,
    "rename": tables.rename,
    "procedures": calls.describe,
    "call": calls.call,
    "statement": statements.statement,
    "refusal": statements.refusal,
    "statement_of_catalog": statements.statement_of_catalog,
    "put_view": views.put,
    "figures": figures,
    "begin_copy": copy_into.begin,
    "end_copy": copy_into.end,
    "view_query": materialized_views.view_query,
    "view_plan": materialized_views.view_plan,
    "view_end": materialized_views.view_end,
    "view_list": materialized_views.view_list,
    "check": tables.check,
    "begin_transaction": transactions.begin,
    "commit_transaction": transactions.commit,
    "roll_back_transaction": transactions.roll_back,
}
_KNOWN_TO_SPARK = (
    *(NamespaceNotFoundError, NamespaceAlreadyExistsError, NamespaceNotEmptyError),
    *(TableNotFoundError, TableAlreadyExistsError, UnsupportedFeatureError),
)
"""Errors that Spark has classes for. Others are raised, and reach the user with their class and message in Spark's text."""
_AGAIN: Mapping[str, tuple[type[LanceError], ...]] = {
    "rename": (TableNotFoundError,),
    "create_namespace": (NamespaceAlreadyExistsError,),
    "drop_namespace": (NamespaceNotFoundError,),
}
"""The errors of a request that was asked before which say that it was done then."""


class CatalogSource(DataSource):
    """Executes the request in its options."""

    @brief_errors()
    def __init__(self, options: Mapping[str, str]) -> None:
        start_planning()
        super().__init__(dict(options))
        request = CatalogRequest.of(options)
        self._operation = request.operation
        self._asked = Asked(request.id, request.again)
        self._catalog = Catalog(request.settings, self._asked)
        self._arguments = request.arguments
        if self._operation != "list_namespaces":
            for holder, key in ((self._arguments, "id"), (self._arguments, "to"), (self._arguments.get("place", {}), "id")):
                if key in holder:
                    holder[key] = self._catalog.own_id(holder[key])

    @classmethod
    def name(cls) -> str:
        """The name, which no user needs."""
        return CATALOG_FORMAT

    @brief_errors()
    def schema(self) -> StructType:
        """Execute the request. The answer is in the metadata of the only column."""
        if self._operation == "tasks":
            return to_spark(RESULT)
        try:
            with wrong_arguments_as_options(), ids_of(self._asked.request):
                return answered(_OPERATIONS[self._operation](self._catalog, **self._arguments))
        except _KNOWN_TO_SPARK as e:
            if self._asked.is_again and isinstance(e, _AGAIN.get(self._operation, ())):
                return answered(None)
            return refused(next(kind for kind in _KNOWN_TO_SPARK if isinstance(e, kind)), str(e))

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of the rows of a new table, or of one that is replaced: its commit makes the table."""
        given = self._arguments
        defaults = NOTHING if given["replaces"] else self._catalog.new_table_options
        definition = Definition.parse(given["schema"], given["properties"], given["options"], defaults)
        place = tables.replaced_store if given["replaces"] else tables.begun_store
        store = place(self._catalog, given["id"], definition)
        options = dataclasses.replace(definition.write_options, write_mode=None if given["replaces"] else "create")
        there = tables.replaced_in(store, definition, options) if given["replaces"] else None
        return LanceWriter(rows_to(store if there is None else there, as_declared(definition.schema), given["replaces"], options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader whose tasks are those of a procedure."""
        return _TasksOfCall(self._catalog, self._arguments)


class _TasksOfCall(TasksReader):
    """Runs the tasks of an operation."""

    def __init__(self, catalog: Catalog, arguments: Mapping[str, Any]) -> None:
        self._catalog, self._arguments = catalog, arguments

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """A partition for each task."""
        with wrong_arguments_as_options():
            return [TasksPartition([task]) for task in calls.tasks(self._catalog, **self._arguments)]
