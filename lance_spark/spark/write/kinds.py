"""Which write is meant by the rows, the options and the command of a statement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.predicate import Predicate, conjunction, from_json
from lance_spark.spark.options.table_location import store_to_write
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command, Json
from lance_spark.spark.read.opened import Opened, OpenedNamespace
from lance_spark.spark.write.writer import Write
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.spark.write.rows import Rows

# Each kind is imported where it is meant: workers must start fast, and most writes are of rows.


@dataclass(frozen=True)
class Given:
    """What is written: rows with `schema` to what is `opened` (None: there is nothing yet), or those of a `command`.

    `conditions` are those of the rows that they replace (see `Instructions.overwrite`).
    """

    opened: Opened | None
    schema: StructType
    overwrite: bool
    options: SparkWriteOptions
    command: Command | None
    conditions: list[Json] | None

    @property
    def replaced(self) -> Predicate | None:
        """The condition of the rows that are replaced; None if no rows are, or all."""
        if self.opened is None or not self.conditions:
            return None
        known = self.opened.shape.manifest.schema
        return conjunction([from_json(tree, known) for tree in self.conditions])


def write_of(given: Given) -> Write[Any]:
    """The write that is meant."""
    if given.command is not None:
        return _of_command(given, given.command)
    if isinstance(given.opened, OpenedNamespace):
        from lance_spark.spark.write.partitions import rows_to_partitions

        return rows_to_partitions(given.opened.version, given.schema, given.overwrite, given.options, given.replaced)
    return rows_of(given)


def _of_command(given: Given, command: Command) -> Write[Any]:
    """The write of a command, which changes a table that may have no version yet."""
    from lance_spark.spark.write import columns, delta

    if isinstance(given.opened, OpenedNamespace):
        from lance_spark.spark.write import partitioned_delta

        make = partitioned_delta.truncation_of if command.kind == "TRUNCATE" else partitioned_delta.changes_of
        return make(given.opened.version, given.options, command)
    table = None if given.opened is None else given.opened.table_for("")
    store = store_to_write(given.options)
    if command.kind == "TRUNCATE":
        return delta.Truncation(store, table, command, given.options.write)
    if command.kind in columns.COMMANDS:
        if table is None:
            raise UnsupportedFeatureError(f"{store.uri} has no rows yet; write INSERT INTO first")
        return columns.values_of(table, given.options, command, given.schema)
    if table is None or not command.version:
        return delta.first_rows(store, given.options, command)
    return delta.changes_of(table, given.options, command)


def rows_of(given: Given) -> Rows:
    """The write of rows to a table."""
    from lance_spark.spark.write.rows import rows_to

    place: Store | Snapshot
    if given.opened is None:
        place = store_to_write(given.options)
    elif given.options.table is not None and given.options.branch is None:
        # A namespace may give a store with other rights for writing.
        place = replace(given.opened.shape, store=store_to_write(given.options))
    else:
        place = given.opened.shape
    return rows_to(place, given.schema, given.overwrite, given.options, given.replaced)
