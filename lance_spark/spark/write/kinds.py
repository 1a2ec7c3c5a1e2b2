"""Which write is meant by the rows, the options and the command of a statement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.predicate import conjunction, from_json
from lance_spark.spark.options.table_location import store_to_write
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command, Instructions
from lance_spark.spark.read.opened import Opened, OpenedNamespace
from lance_spark.spark.write.writer import Write

if TYPE_CHECKING:
    from lance_spark.spark.write.rows import Rows

# Each kind is imported where it is meant: workers must start fast, and most writes are of rows.


def write_of(
    opened: Opened | None,
    rows: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    given: Instructions,
) -> Write[Any]:
    """The write of `rows` to what is opened (None: there is nothing yet)."""
    if given.command is not None:
        return _of_command(opened, rows, options, given.command)
    if isinstance(opened, OpenedNamespace):
        from lance_spark.spark.write.partitions import rows_to_partitions

        return rows_to_partitions(opened.version, rows, overwrite, options)
    return rows_of(opened, rows, overwrite, options, given)


def _of_command(
    opened: Opened | None,
    rows: StructType,
    options: SparkWriteOptions,
    command: Command,
) -> Write[Any]:
    """The write of a command, which changes a table that may have no version yet."""
    from lance_spark.spark.write import columns, delta

    if isinstance(opened, OpenedNamespace):
        from lance_spark.spark.write import partitioned_delta

        return partitioned_delta.write_of(opened.version, options, command)
    table = None if opened is None else opened.table_for("")
    store = store_to_write(options)
    if command.kind == "TRUNCATE":
        return delta.truncation(store, table, options, command)
    if command.kind in columns.COMMANDS:
        if table is None:
            raise UnsupportedFeatureError(f"{store.uri} has no rows yet; write INSERT INTO first")
        return columns.values_of(table, options, command, rows)
    if table is None or not command.version:
        return delta.first_rows(store, options, command)
    return delta.changes_of(table, options, command)


def rows_of(
    opened: Opened | None,
    rows: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    given: Instructions,
) -> Rows:
    """The write of rows to a table."""
    from lance_spark.spark.write.rows import rows_to

    if opened is None:
        return rows_to(store_to_write(options), rows, overwrite, options)
    table, replaced = opened.shape, None
    if options.table is not None and options.branch is None:
        # A namespace may give a store with other rights for writing.
        table = replace(table, store=store_to_write(options))
    if given.overwrite:
        known = table.manifest.schema
        replaced = conjunction([from_json(tree, known) for tree in given.overwrite])
    return rows_to(table, rows, overwrite, options, replaced)
