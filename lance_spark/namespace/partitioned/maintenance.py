"""Maintenance of all tables of a partitioned namespace: compaction, cleanup and verification.

Every version of a table that `__manifest` refers to has a tag. The tag is removed only after the last version of `__manifest` that refers
to it, so that cleanups of a table keep all versions that the namespace can read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from lance_spark.display.words import counted
from lance_spark.errors import InvalidOptionError, LanceError, VersionNotFoundError, one_line
from lance_spark.metadata.operations import ReserveFragments, Rewrite
from lance_spark.namespace.manifest_table import NOTHING_NOTED, ManifestTable, change, open_manifest
from lance_spark.namespace.partitioned import leaf_commit
from lance_spark.namespace.partitioned.addresses import Addresses
from lance_spark.namespace.partitioned.leaves import Leaf, Pin, leaves_of, open_leaf
from lance_spark.namespace.partitioned.root import READ_VERSION, PartitionedVersion, leaf_store, opened, parsed
from lance_spark.namespace.partitioned.scan import plan_partitioned
from lance_spark.predicate import parse
from lance_spark.storage.store import Store
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions, plan_compaction
from lance_spark.table.compaction.optimize import CompactionMetrics, optimize
from lance_spark.table.indexes.check import check_indexes
from lance_spark.table.maintenance.cleanup import UNVERIFIED_AGE, CleanupPolicy, CleanupStats, cleanup_old_versions
from lance_spark.table.maintenance.progress import tracker
from lance_spark.table.maintenance.verify import Report, verify
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot, list_versions, open_snapshot
from lance_spark.table.write.options import NO_OPTIONS

_OF_ONE_TABLE = ("max_source_fragments", "max_source_rows", "max_source_bytes", "excluded_fragment_ids")
_FIGURES = ("fragments_removed", "fragments_added", "files_removed", "files_added")
_FOLDER = re.compile(r"[0-9a-f]{8}_v\d+\$(?:[^/]+\$)?dataset")
"""Matches the folders of tables of partitioned namespaces."""


@dataclass(frozen=True)
class PartitionedCompaction:
    """The result of a compaction: the numbers of compacted tables and of tables that were skipped because other writers changed them.

    The figures of fragments and files are the sums of those of the tables.
    """

    version: int
    tables: int = 0
    conflicts: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @property
    def metrics(self) -> CompactionMetrics:
        """The result in the form of that of a table."""
        return CompactionMetrics(self.version, conflicts=self.conflicts, **{name: getattr(self, name) for name in _FIGURES})


@dataclass(frozen=True)
class PartitionedCleanup:
    """The result of a cleanup. `manifest` is that of `__manifest`, `tables` the sums of all tables.

    `folders` are the removed folders of tables that no version of the namespace refers to.
    """

    manifest: CleanupStats
    tables: CleanupStats
    folders: tuple[str, ...]


@dataclass(frozen=True)
class PartitionedReport:
    """The report on one version of a namespace: a report on each table, and the problems of the namespace itself.

    `ahead` are the tables with unpublished versions after the one that the namespace refers to. `orphans` are folders of tables that this
    version does not refer to; older versions may.
    """

    uri: str
    version: int
    tables: tuple[Report, ...]
    problems: tuple[str, ...]
    ahead: tuple[str, ...]
    orphans: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there are no problems; orphans and tables that are ahead are harmless."""
        return not self.problems and all(report.ok for report in self.tables)

    def __str__(self) -> str:
        problems = len(self.problems) + sum(len(report.problems) for report in self.tables)
        found = f"{counted(len(self.tables), 'table')}, {counted(problems, 'problem')}, {len(self.ahead)} ahead"
        head = f"{one_line(self.uri)}, version {self.version}: {found}, {counted(len(self.orphans), 'orphan')}"
        lines = [f"problem: {p}" for p in self.problems]
        lines += [f"ahead: {a}" for a in self.ahead]
        lines += [f"orphan: {o}" for o in self.orphans]
        return "\n".join([head, *map(one_line, lines), *(str(report) for report in self.tables if not report.ok)])


def compact(
    version: PartitionedVersion,
    options: CompactionOptions = COMPACTION,
    chosen: Container[int] | None = None,
    properties: Mapping[str, str] = NOTHING_NOTED,
    progress: bool | None = False,
) -> PartitionedCompaction:
    """Compact the tables with these numbers (None: all), see `addresses`, and publish their new versions in one version of `__manifest`.

    Tables that another writer changes meanwhile, and tables that need no compaction, keep their version. The new version has
    `properties`. `progress` shows a progress bar. Raises InvalidOptionError for options that are for the fragments of a single table.
    """
    if given := [name for name in _OF_ONE_TABLE if getattr(options, name) not in (None, ())]:
        raise InvalidOptionError(f"{version}: {', '.join(given)} count the fragments of one table; compact the table of a partition")
    root = version.root
    if done_before(version.manifest.store, properties):
        return PartitionedCompaction(opened(root).version)
    made: dict[str, tuple[Pin, Snapshot]] = {}
    conflicts, figures = 0, CompactionMetrics(version.version)
    leaves = [leaf for number, leaf in enumerate(leaves_of(version, version.leaves)) if chosen is None or number in chosen]
    for leaf in tracker(progress)(leaves, "compacting"):
        pinned = open_leaf(version, leaf)
        if pinned is None or not plan_compaction(pinned, options).groups:
            continue
        done = _compacted(pinned, leaf.pin, options)
        if done is None:
            conflicts += 1
        elif done[0].version != pinned.version:
            made[leaf.location] = leaf.pin, done[0]
            figures = _added(figures, done[1])
    published: set[str] = set()

    def edit(table: ManifestTable) -> pa.Table | None:
        now = parsed(table)
        leaves = leaves_of(now, now.leaves) if now is not None else []
        published.clear()
        own = [leaf for leaf in leaves if leaf.location in made]
        published.update(leaf.location for leaf in own if made[leaf.location][0] == leaf.pin)
        pins = [made[location][1].version if location in published else None for location in table.rows["location"].to_pylist()]
        at = table.rows.schema.get_field_index(READ_VERSION)
        if not published or at < 0:
            return None
        old = table.rows[READ_VERSION].to_pylist()
        new = [o if n is None else n for o, n in zip(old, pins, strict=True)]
        field = table.rows.schema.field(at)
        return table.rows.set_column(at, field, pa.array(new, field.type))

    named = {location for location, (pin, _) in made.items() if pin != Pin()}
    if named:
        change(root, edit, properties)
    counted = {name: getattr(figures, name) for name in _FIGURES}
    return PartitionedCompaction(opened(root).version, len(made), conflicts + len(named - published), **counted)


def _added(a: CompactionMetrics, b: CompactionMetrics) -> CompactionMetrics:
    return replace(a, **{name: getattr(a, name) + getattr(b, name) for name in _FIGURES})


def with_rows_for(version: PartitionedVersion, where: str) -> set[int]:
    """The numbers of the tables with a row for which a condition of Spark's SQL is true."""
    addresses, predicate = Addresses.of(version), parse(where, version.shape.manifest.schema)
    found: set[int] = set()
    for task in plan_partitioned(version, ScanPlan((ROW_ADDRESS,), predicate)):
        for batch in task.read():
            found.update(number for number, _, _ in addresses.by_table(batch.column(0).to_numpy()))
    return found


def _compacted(pinned: Snapshot, pin: Pin, options: CompactionOptions) -> tuple[Snapshot, CompactionMetrics] | None:
    """A compacted version with the rows of `pinned`, and figures; None if another writer has added rows."""
    base = open_snapshot(pinned.store) if pin == Pin() else leaf_commit.restored(pinned)
    if base is None:
        return None
    metrics = optimize(Here(), base, None, options, NO_OPTIONS)
    latest = metrics.version
    for number in range(base.version + 1, latest + 1):
        if not isinstance(transaction_of(open_snapshot(pinned.store, version=number)).operation, Rewrite | ReserveFragments):
            return None
    done = open_snapshot(pinned.store, version=latest)
    if pin != Pin() and latest != pinned.version:
        leaf_commit.keep(pinned)
        leaf_commit.keep(done)
    return done, metrics


def cleanup(root: Store, policy: CleanupPolicy) -> PartitionedCleanup:
    """Remove old versions of `__manifest`, then unreferenced versions of the tables, then unneeded files.

    Folders of tables that no version of `__manifest` refers to are removed if all their files are older than seven days, or with
    `delete_unverified`.
    """
    policy = replace(policy, error_if_tagged_old_versions=False)
    version = opened(root)
    assert version.manifest.snapshot is not None
    manifest = cleanup_old_versions(version.manifest.snapshot, policy)
    named = _named(root)
    tables = CleanupStats()
    for location in sorted(named):
        store = leaf_store(root, location)
        try:
            latest = open_snapshot(store)
        except LanceError:
            continue  # only declared, or reported by `verify`
        if not policy.dry_run:
            _set_tags(store, named[location])
        tables = _sum(tables, cleanup_old_versions(latest, policy))
    folders = tuple(_orphans(root, set(named), policy.delete_unverified))
    for folder in folders if not policy.dry_run else ():
        leaf_commit.remove_table(root.at(f"{root.uri.rstrip('/')}/{folder}"))
    return PartitionedCleanup(manifest, tables, folders)


def _named(root: Store) -> dict[str, set[Pin]]:
    """The tables and their versions that any version of `__manifest` refers to, by location."""
    found: dict[str, set[Pin]] = {}
    for number in list_versions(open_manifest(root).store):
        try:
            version = parsed(open_manifest(root, number))
        except VersionNotFoundError:
            continue  # removed by another cleanup
        for leaf in leaves_of(version, version.leaves) if version is not None else ():
            found.setdefault(leaf.location, set()).add(leaf.pin)
    return found


def _set_tags(store: Store, pins: set[Pin]) -> None:
    """Tag the referenced versions, and remove the tags of older, unreferenced versions."""
    there = leaf_commit.tagged(store)
    versions = {pin.version for pin in pins if pin.version is not None and pin.branch is None}
    for number in versions - there.keys():
        leaf_commit.keep(open_snapshot(store, version=number))
    # A writer may be about to publish a later version.
    for number, name in there.items():
        if number not in versions and number < max(versions, default=0):
            leaf_commit.drop_tag(store, name)


def _orphans(root: Store, named: set[str], young_too: bool) -> Iterator[str]:
    """The unreferenced folders of tables, without those with young files, which a writer may be about to publish."""
    now, newest = datetime.now(UTC), dict[str, datetime | None]()
    for entry in root.walk(""):
        folder = entry.name.partition("/")[0]
        if _FOLDER.fullmatch(folder) and folder not in named:
            before = newest.get(folder, entry.modified)
            newest[folder] = None if before is None or entry.modified is None else max(before, entry.modified)
    for folder, modified in sorted(newest.items()):
        if young_too or (modified is not None and now - modified > UNVERIFIED_AGE):
            yield folder


def _sum(a: CleanupStats, b: CleanupStats) -> CleanupStats:
    return CleanupStats(
        a.bytes_removed + b.bytes_removed,
        a.old_versions + b.old_versions,
        a.data_files_removed + b.data_files_removed,
        a.transaction_files_removed + b.transaction_files_removed,
        a.index_files_removed + b.index_files_removed,
        a.deletion_files_removed + b.deletion_files_removed,
        a.files + b.files,
    )


def verify_partitioned(version: PartitionedVersion, decode: bool = True) -> PartitionedReport:
    """Verify every table at the version that the namespace refers to, see `table.maintenance.verify`."""
    reports, problems, ahead = [], list[str](), list[str]()
    leaves = leaves_of(version, version.leaves)
    for leaf in leaves:
        try:
            snapshot = open_leaf(version, leaf)
            if snapshot is None:
                continue
            reports.append(verify(snapshot, decode, contents=check_indexes(snapshot) if decode else ()))
            problems += _pin_problems(leaf, snapshot)
            latest = max(list_versions(snapshot.store))
            if leaf.pin != Pin() and latest > snapshot.version:
                ahead.append(f"{leaf.location}: version {latest}, the namespace names {snapshot.version}")
        except LanceError as e:
            problems.append(f"{leaf.location}: {e}")
    orphans = tuple(_orphans(version.root, {leaf.location for leaf in leaves}, young_too=True))
    return PartitionedReport(version.root.uri, version.version, tuple(reports), tuple(problems), tuple(ahead), orphans)


def _pin_problems(leaf: Leaf, snapshot: Snapshot) -> Iterator[str]:
    """Report referenced versions without a tag, which a cleanup of the table could remove."""
    if leaf.pin.version is not None and leaf.pin.branch is None and snapshot.version not in leaf_commit.tagged(snapshot.root):
        latest = max(list_versions(snapshot.store))
        if latest > snapshot.version:
            yield f"{leaf.location}: version {snapshot.version} is not tagged, so that a cleanup of the table may remove it"
