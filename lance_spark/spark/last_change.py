"""The figures of a row-level command, which are in its transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.errors import TableNotFoundError, VersionNotFoundError
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.protocol import Command
from lance_spark.spark.read.opened import open_version
from lance_spark.table.changes.row_changes import RowChanges, changes_noted
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import list_versions, open_snapshot


def figures(catalog: Catalog, command: Mapping[str, Any], options: Mapping[str, str]) -> list[int]:
    """How many rows a command has affected, updated, deleted and inserted; see LanceStatement.java."""
    found = figures_of(Command(**command), parse_options(ReadOptions, options))
    changed = [found.num_updated_rows, found.num_deleted_rows, found.num_inserted_rows]
    return [sum(changed), *changed]


def figures_of(command: Command, options: ReadOptions) -> RowChanges:
    """The figures in the transaction of a command. A command that changed nothing has none, and may have left a table without a version."""
    try:
        latest = open_version(options).numbered
    except TableNotFoundError:
        if command.version:
            raise
        return RowChanges(0)
    versions = list_versions(latest.store)
    for version in versions:
        if version > command.version:
            snapshot = open_snapshot(latest.store, version=version, allow_other_stores=options.allow_other_stores)
            properties = transaction_of(snapshot).properties
            if properties.get(Command.STATEMENT) == command.statement:
                return changes_noted(version, properties)
    if any(version not in versions for version in range(command.version + 1, latest.version)):
        raise VersionNotFoundError(f"{latest}: the version of the last change was removed")
    return RowChanges(latest.version)
