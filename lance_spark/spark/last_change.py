"""The result of a session's last row-level command, which Spark does not return."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.errors import UnsupportedFeatureError, VersionNotFoundError
from lance_spark.spark.command import STATEMENT, Command
from lance_spark.spark.options import ReadOptions
from lance_spark.spark.places import store_of
from lance_spark.table.changes.row_changes import RowChanges, changes_noted
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import list_versions, open_snapshot


def last_change(spark: SparkSession) -> RowChanges | None:
    """The result of the last DELETE, UPDATE, MERGE or TRUNCATE of a Lance table by SQL in this session; None if there was none.

    This is the value that the methods of LanceTable return: the version, and the numbers of rows. Spark itself returns no rows for these
    commands. The numbers are read from the transaction. Raises VersionNotFoundError if the version has been removed since, and
    UnsupportedFeatureError with Spark Connect.

    Examples:
        >>> import lance_spark
        >>> lance_spark.write(spark.range(9), "/tmp/nine.lance")
        >>> spark.read.format("lance").load("/tmp/nine.lance").createOrReplaceTempView("nine")
        >>> _ = spark.sql("DELETE FROM nine WHERE id > 5")
        >>> lance_spark.last_change(spark).num_deleted_rows
        3
    """
    if is_remote():
        raise UnsupportedFeatureError("a Spark Connect client does not know the last change; read the table's history")
    from lance_spark.spark.planner import install as planner  # needs py4j, which a pure Connect client lacks

    found = planner.last_change(spark)
    if found is None:
        return None
    text, options = found
    return _changes(Command(**json.loads(text)), ReadOptions.parse(options))


def _changes(command: Command, options: ReadOptions) -> RowChanges:
    """The figures in the transaction of a command. A command that changed nothing has none."""
    latest = open_snapshot(store_of(options), branch=options.branch, allow_other_stores=options.allow_other_stores)
    versions = list_versions(latest.store)
    for version in versions:
        if version > command.version:
            snapshot = open_snapshot(latest.store, version=version, allow_other_stores=options.allow_other_stores)
            properties = transaction_of(snapshot).properties
            if properties.get(STATEMENT) == command.statement:
                return changes_noted(version, properties)
    if any(version not in versions for version in range(command.version + 1, latest.version)):
        raise VersionNotFoundError(f"{latest}: the version of the last change was removed")
    return RowChanges(latest.version)
