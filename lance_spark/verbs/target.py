"""The table that a verb changes: its location, and its rows as a Spark DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError, logged
from lance_spark.options.field import used
from lance_spark.schema.schema import quoted
from lance_spark.spark.catalog.views import check_no_view
from lance_spark.spark.catalog_settings import Catalog, branch_of, is_lance_catalog
from lance_spark.spark.options.given import storage_options
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.place import STORAGE
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.protocol import identified
from lance_spark.spark.stopped import check_running, is_stopped
from lance_spark.storage.location import absolute, of_hadoop
from lance_spark.storage.store import Store
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.feed.request import feed
from lance_spark.table.scan.plan import ScanPlan, names
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot, reopened
from lance_spark.table.versions.write_ahead_log import warn_of_unread
from lance_spark.table.write.options import NOTED, WriteOptions

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion

T = TypeVar("T")
_PLACE = used(ReadOptions, "place")
PLACE = ", ".join((f"{STORAGE}*", *_PLACE))
"""The options that locate a table, for messages."""


def is_of_place(key: str) -> bool:
    """True for an option that locates a table."""
    return key.lower().startswith(STORAGE) or key.lower() in _PLACE


def locating(options: Mapping[str, str]) -> dict[str, str]:
    """The options that locate a table, in lower case. Raises InvalidOptionError for others, which would have no effect."""
    parse_options(ReadOptions, options)
    for key in options:
        if not is_of_place(key):
            raise InvalidOptionError(f"the option {key!r} does not locate a table; expected: {PLACE}")
    return {key.lower(): value for key, value in options.items()}


@dataclass(frozen=True)
class Target:
    """A table, or a branch of it, in a session. `options` are the read options that locate it: `storage.*`, `branch` and so on.

    `name` is that of the catalog and the table, quoted, by which Spark may have cached its rows; None for a path.
    """

    session: SparkSession
    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    alias: str | None = None
    name: str | None = None

    @property
    def spark(self) -> SparkSession:
        """The session. Raises InvalidOperationError if it was stopped."""
        check_running(self.session, self.name or self.uri)
        return self.session

    def refreshed(self, change: T, *, columns: bool = False) -> T:
        """The result of a change that has landed, after Spark has noted it under the table's name.

        Spark drops the rows that it cached. The session catalog notes that the table has a version, and, if the change may be one of
        `columns`, the columns that the table has now.
        """
        session: Any = None if is_stopped(self.session) else getattr(self.session, "_jsparkSession", None)
        if self.name is not None and session is not None:
            with logged(f"the change of {self.name} has landed, but noting it in Spark's catalog and cache"):
                if self.name.startswith(quoted(["spark_catalog"])):
                    from lance_spark.spark.jvm import install as planner  # needs py4j, which a pure Connect client lacks

                    planner.note_change(self.spark, self.name, columns)
                if not session.sharedState().cacheManager().isEmpty():
                    self.spark.catalog.refreshTable(self.name)
        return change

    def store(self) -> Store:
        """The root of the table."""
        return Store(self.uri, storage_options(self.options))

    def current(self) -> Snapshot | PartitionedVersion:
        """The latest version of the table, or of the partitioned namespace. Raises TableNotFoundError."""
        others = self.options.get("allow_other_stores", "false").lower() == "true"
        verifies = self.options.get("verify_checksums", "true").lower() == "true"
        try:
            opened = open_snapshot(self.store(), branch=self.options.get("branch"), allow_other_stores=others)
        except TableNotFoundError:
            from lance_spark.namespace.partitioned.root import open_partitioned, with_flags

            if (found := open_partitioned(self.store())) is None:
                raise
            return with_flags(found, others, verifies)
        return replace(opened, verify_checksums=verifies)

    def _at(self, version: int | None) -> Snapshot | PartitionedVersion:
        """A version of the table, or of the partitioned namespace; None: the latest."""
        current = self.current()
        if version is None:
            return current
        if isinstance(current, Snapshot):
            return reopened(current, version)
        from lance_spark.namespace.partitioned.root import opened, with_flags

        return with_flags(opened(current.root, version), current.allow_other_stores, current.verify_checksums)

    def latest(self) -> Snapshot:
        """The latest version of the table. Raises UnsupportedFeatureError for a partitioned namespace."""
        current = self.current()
        if isinstance(current, Snapshot):
            return current
        what = "LanceTable only reads it, and deletes, updates, merges and compacts its rows"
        advice = "use lance_spark.PartitionedNamespace, or the table of a partition"
        raise UnsupportedFeatureError(f"{self.uri} is a partitioned namespace: {what}; {advice}")

    def opened(self) -> Target:
        """This table, which exists; warns of rows that cannot be changed. Raises TableNotFoundError."""
        current = self.current()
        if isinstance(current, Snapshot):
            warn_of_unread(current)
        return self

    def rows(self, snapshot: Snapshot | PartitionedVersion, *, addressed: bool = True, fragments: Iterable[int] | None = None) -> DataFrame:
        """The rows of a version with the alias, and with the column `_rowaddr` if they will be changed.

        With `fragments` (not empty), only their rows: each fragment in one partition, in the order of its rows.
        """
        options = {**identified(self.options, snapshot.identity), "version": str(snapshot.version)}
        if addressed:
            options["mem_wal"] = "base"
        if fragments is not None:
            options["fragments"] = ",".join(map(str, sorted(fragments)))
        if addressed:
            options["with_row_address"] = "true"
        df = self.spark.read.format("lance").options(**options).load(absolute(self.uri))
        return df.alias(self.alias) if self.alias else df

    def changes(self, begin: int, end: int | None, *, columns: Sequence[str] | None, filter: str | None, net: bool) -> DataFrame:
        """The changes after the version `begin`, up to `end` (None: the latest)."""
        last, plan = self._at(end), ScanPlan(names(columns), blob_handling="bytes")
        # This raises errors of the arguments here.
        if isinstance(last, Snapshot):
            feed(last, plan, filter, begin, FeedOptions(net=net))
        else:
            from lance_spark.namespace.partitioned.feed import changes

            changes(last, begin, plan, filter, net=net)
        options = {**identified(self.options, last.identity), "readChangeFeed": "true", "netChanges": str(net).lower()}
        options |= {"startingVersion": str(begin + 1), "endingVersion": str(last.version)}
        options |= {} if columns is None else {"columns": json.dumps(list(columns))}
        options |= {} if filter is None else {"filter": filter}
        df = self.spark.read.format("lance").options(**options).load(absolute(self.uri))
        return df.alias(self.alias) if self.alias else df

    @property
    def address(self) -> str:
        """The name of the row address column in `rows`, quoted."""
        return quoted([self.alias, ROW_ADDRESS]) if self.alias else ROW_ADDRESS

    def cores(self) -> int:
        """The number of tasks that run at once, as reported by the session."""
        return int(self.spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or self._default_parallelism())

    def _default_parallelism(self) -> int:
        # A Spark Connect client has no SparkContext.
        context = getattr(self.spark, "_sc", None)
        return int(context.defaultParallelism) if context is not None else 8


def named_target(spark: SparkSession, name: str) -> Target:
    """A table of the session catalog, or of a catalog of lance tables. Raises TableNotFoundError if it is no Lance table."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        raise UnsupportedFeatureError("Spark Connect cannot look up the location of a catalog table; use LanceTable.forPath")
    state = session.sessionState()
    manager, convert = state.catalogManager(), spark.sparkContext._jvm.scala.jdk.javaapi.CollectionConverters  # type: ignore[union-attr]
    parts = [str(part) for part in convert.asJava(state.sqlParser().parseMultipartIdentifier(name))]
    is_full = len(parts) > 1 and manager.isCatalogRegistered(parts[0])
    catalog = manager.catalog(parts[0]) if is_full else manager.currentCatalog()
    id = parts[1:] if is_full else parts if len(parts) > 1 else [*manager.currentNamespace(), *parts]
    full = quoted([str(catalog.name()), *id])
    if is_lance_catalog(catalog.getClass()):
        return replace(_in_lance_catalog(spark, Catalog(dict(catalog.settings())), id), name=full)
    if not spark.catalog.tableExists(name) or catalog.name() != "spark_catalog":
        raise TableNotFoundError(f"the catalog {catalog.name()} has no lance table {name}")
    table = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(quoted(id)))
    provider = table.provider().getOrElse(None)
    if provider is None or str(provider).lower() != "lance":
        raise TableNotFoundError(f"{name} is not a Lance table: its provider in the catalog is {provider}")
    own = dict(convert.asJava(table.storage().properties()))
    options = {key.lower(): value for key, value in own.items() if is_of_place(key)}
    location = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(table.location())  # type: ignore[union-attr]
    return Target(spark, own.get("path") or of_hadoop(str(location.toString())), options, name=full)


def _in_lance_catalog(spark: SparkSession, catalog: Catalog, id: Sequence[str]) -> Target:
    """A table of `lance_spark.catalog`; if there is no table `t.branch_x`, the branch x of the table t."""
    branch = branch_of(id)
    try:
        return Target(spark, catalog.store(catalog.own_id(id)).uri, catalog.storage)
    except TableNotFoundError:
        check_no_view(catalog, catalog.own_id(id), "the name of its table")
        if branch is None:
            raise
    return Target(spark, catalog.store(catalog.own_id(branch[0])).uri, {**catalog.storage, "branch": branch[1]})


def given(noted: Mapping[str, Any]) -> WriteOptions:
    """The properties to store in the transaction of a verb."""
    names = {**NOTED, "properties": "properties"}
    if unknown := noted.keys() - names:
        name = min(unknown)
        raise TypeError(f"unknown argument {name!r}{nearest(name, names) or '; expected one of: ' + ', '.join(names)}")
    return WriteOptions(**{names[key]: value for key, value in noted.items() if value is not None})
