"""What a path has at one version, for Spark's reads and writes: a table, or a partitioned namespace.

Both have columns, and tasks that read their rows. What only a table has is asked for with `table_for`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lance_spark.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.table_location import store_of
from lance_spark.spark.read.reader import Tasks
from lance_spark.storage.store import Store
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.snapshot import Snapshot, check_identity, open_pinned, open_snapshot, standing
from lance_spark.table.versions.write_ahead_log import has_log

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion


class Opened(Protocol):
    """A table or a partitioned namespace at one version."""

    @property
    def shape(self) -> Snapshot:
        """The table, or an empty one with the columns of the namespace."""

    @property
    def identity(self) -> str:
        """What distinguishes it from others of this version at the same place; see `table.versions.identity`."""

    @property
    def has_log(self) -> bool:
        """Whether rows of a write-ahead log are read, too: only tasks know how many."""

    @property
    def num_fragments(self) -> int | None:
        """The number of fragments; None if only tasks find them."""

    @property
    def numbered(self) -> Snapshot:
        """The table with the number of the version: that of a namespace is `__manifest`."""

    def pinned(self) -> Callable[[ReadOptions, bool], Opened]:
        """What opens the same version again, in another process; the flag says that it is for a search."""

    def check(self, plan: ScanPlan) -> None:
        """Raise UnsupportedFeatureError for columns that it does not have."""

    def tasks(self, plan: ScanPlan, with_log: bool = True) -> Tasks:
        """What divides a scan into tasks; `with_log`: the rows of the write-ahead log are read, too, unless an option says otherwise."""

    def table_for(self, what: str) -> Snapshot:
        """The table, for what only tables have. Raises UnsupportedFeatureError: the namespace, and `what`."""


@dataclass(frozen=True)
class OpenedTable:
    """A version of a table."""

    shape: Snapshot

    @property
    def identity(self) -> str:
        return self.shape.identity

    @property
    def has_log(self) -> bool:
        return self.shape.mem_wal == "merged" and has_log(self.shape.manifest)

    @property
    def num_fragments(self) -> int | None:
        return None if has_log(self.shape.manifest) else len(self.shape.manifest.lazy_fragments)

    @property
    def numbered(self) -> Snapshot:
        return self.shape

    def pinned(self) -> Callable[[ReadOptions, bool], Opened]:
        return partial(_table_again, self.shape.store, self.shape.version, self.identity)

    def check(self, plan: ScanPlan) -> None:
        """A table has all columns."""

    def tasks(self, plan: ScanPlan, with_log: bool = True) -> Tasks:
        if with_log and has_log(self.shape.manifest):
            from lance_spark.table.mem_wal.tasks import Log, plan_merged

            if (log := Log.of(self.shape)) is not None:
                return partial(plan_merged, log, replace(plan, with_dictionaries=False))
        return partial(plan_tasks, self.shape, plan)

    def table_for(self, what: str) -> Snapshot:
        return self.shape


@dataclass(frozen=True)
class OpenedNamespace:
    """A version of a partitioned namespace. Most reads import nothing of these."""

    version: PartitionedVersion
    num_fragments = None
    has_log = False

    @property
    def shape(self) -> Snapshot:
        return self.version.shape

    @property
    def identity(self) -> str:
        return self.version.identity

    @property
    def numbered(self) -> Snapshot:
        assert self.version.manifest.snapshot is not None, "a namespace has a version"
        return self.version.manifest.snapshot

    def pinned(self) -> Callable[[ReadOptions, bool], Opened]:
        return partial(_namespace_again, self.version.root, self.version.version, self.identity)

    def check(self, plan: ScanPlan) -> None:
        from lance_spark.namespace.partitioned.scan import check_row_columns

        check_row_columns(plan, self.version)

    def tasks(self, plan: ScanPlan, with_log: bool = True) -> Tasks:
        from lance_spark.namespace.partitioned.scan import plan_partitioned

        return partial(plan_partitioned, self.version, replace(plan, with_dictionaries=False))

    def table_for(self, what: str) -> Snapshot:
        raise UnsupportedFeatureError(f"{self.version.root.uri} is a partitioned namespace{what}")


def _table_again(store: Store, version: int, identity: str, options: ReadOptions, searches: bool) -> OpenedTable:
    if searches:
        from lance_spark.table.search.segments import opened as opened_before  # loads the decoders

        found = opened_before(store, version, identity, options.allow_other_stores, options.verify_checksums)
        return OpenedTable(found if options.mem_wal == "merged" else replace(found, mem_wal=options.mem_wal))
    snapshot = _opened_last(store, version, identity, options.allow_other_stores)
    return OpenedTable(replace(snapshot, verify_checksums=options.verify_checksums, mem_wal=options.mem_wal))


_last: dict[tuple[Store, int, str, bool], Snapshot] = {}
"""The version that this process has opened last, since it plans one query of a DataFrame or view after the other."""


def _opened_last(*version: Any) -> Snapshot:
    """As `open_pinned`. The manifest of the version that was opened last is not read again, but must still be there."""
    found = _last.get(version)
    if found is None or standing(found) is not Standing.SAME:
        # Only one is in memory at a time: it may have a million fragments.
        _last.clear()
        found = _last[version] = open_pinned(*version)
    return found


def _namespace_again(store: Store, version: int, identity: str, options: ReadOptions, _: bool) -> OpenedNamespace:
    from lance_spark.namespace.partitioned.root import opened, with_flags

    found = with_flags(opened(store, version), options.allow_other_stores, options.verify_checksums)
    check_identity(found, identity)
    return OpenedNamespace(found)


def open_version(options: ReadOptions, identity: str = "") -> Opened:
    """Open the version of a table or of a partitioned namespace that the options choose; a table's had this `identity`, if it is given."""
    store, feed = store_of(options), options.feed
    version = feed.ending_version if feed.changes else options.version
    timestamp = feed.ending_timestamp if feed.changes else options.timestamp
    try:
        snapshot = open_snapshot(
            store,
            version=version,
            tag=options.tag,
            branch=options.branch,
            timestamp=timestamp,
            allow_other_stores=options.allow_other_stores,
            identity=identity,
        )
    except (TableNotFoundError, VersionNotFoundError):
        from lance_spark.namespace.partitioned.root import open_partitioned, with_flags

        # A tag is looked for before the versions are.
        found = open_partitioned(store, version, timestamp)
        if found is None:
            raise
        if options.tag is not None or options.branch is not None:
            what = "is a partitioned namespace, which has no tags and branches; use version or timestamp"
            raise InvalidOptionError(f"{store.uri} {what}") from None
        if identity and version is not None:
            check_identity(found, identity)
        return OpenedNamespace(with_flags(found, options.allow_other_stores, options.verify_checksums))
    return OpenedTable(replace(snapshot, verify_checksums=options.verify_checksums, mem_wal=options.mem_wal))
