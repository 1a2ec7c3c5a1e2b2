"""The procedures of Iceberg's catalogs, with the names, arguments and columns that its users know. Each does what one of ours does."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_spark.actions import compact
from lance_spark.actions.action import REQUIRED, Action, Job, Parameter
from lance_spark.actions.cleanup import clean_up
from lance_spark.actions.restore import restore
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.table.branches.heads import latest_of, name_of
from lance_spark.table.branches.merge import cherry_pick
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.compaction.optimize import STAGES, Compaction, CompactionMetrics, optimize
from lance_spark.table.maintenance.cleanup import CleanupPolicy, cleanup_old_versions
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.history import history
from lance_spark.table.versions.snapshot import Snapshot, list_versions

_LOG = logging.getLogger("lance_spark")
_EXPIRY = timedelta(days=5)
"""The age of snapshots that Iceberg expires, if a call does not say it."""
_BYTES_OF_FILE = "target-file-size-bytes"
_Z_ORDER = re.compile(r"(?i)\s*zorder\s*\((.*)\)\s*")


def _warn(procedure: str, without_effect: Mapping[str, Any]) -> None:
    for name in without_effect:
        _LOG.warning("the argument %s of %s has no effect", name, procedure)


def _rewriting(snapshot: Snapshot, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `compact` that those of `rewrite_data_files` mean."""
    strategy = given.get("strategy", "sort" if "sort_order" in given else "binpack").lower()
    if strategy not in ("binpack", "sort") or (strategy == "binpack" and "sort_order" in given):
        raise InvalidOptionError(f"rewrite_data_files: the strategy is 'binpack', or 'sort' with a sort_order, not {strategy!r}")
    if strategy == "sort" and "sort_order" not in given and not Clustered.of(snapshot).columns:
        raise InvalidOptionError(
            f"rewrite_data_files: {snapshot} has no order; pass sort_order => 'a, b', or write OPTIMIZE t ZORDER BY (a, b)"
        )
    options = dict(given.get("options", {}))
    size = options.pop(_BYTES_OF_FILE, None)
    _warn("rewrite_data_files", options)
    if size is not None and not size.isdecimal():
        raise InvalidOptionError(f"rewrite_data_files: the option {_BYTES_OF_FILE!r} is a number of bytes, not {size!r}")
    where = {"where": given["where"]} if "where" in given else {}
    order = {"sort_by": _columns(given["sort_order"])} if "sort_order" in given else {}
    return {**where, **order, **({} if size is None else {"max_bytes_per_file": int(size)})}


def _columns(order: str) -> list[str]:
    """The columns in a sort order of Iceberg: `a, b` or `zorder(a, b)`."""
    z_order = _Z_ORDER.fullmatch(order)
    columns = [re.sub(r"(?i)\s+asc$", "", name.strip()) for name in (order if z_order is None else z_order[1]).split(",")]
    if any(not name or re.search(r"(?i)\s(desc|nulls)\b", name) for name in columns):
        raise UnsupportedFeatureError(
            f"rewrite_data_files: the sort_order {order!r} has a direction, but rows are sorted by columns without one; write 'a, b' or "
            "'zorder(a, b)'"
        )
    return columns


Rows = Iterable[Sequence[Any]]


def _asked(snapshot: Snapshot, **given: Any) -> Compaction:
    return compact.compaction(snapshot, **_rewriting(snapshot, given))


def _commit(snapshot: Snapshot, how: Compaction, results: Results) -> CompactionMetrics:
    return compact.commit(snapshot, how, results)


def _rewrite(runner: Runner, snapshot: Snapshot, how: Compaction) -> CompactionMetrics:
    return optimize(runner, snapshot, how.fragments, how.options, how.write)


def _rewritten(metrics: CompactionMetrics) -> Rows:
    return [(metrics.files_removed, metrics.files_added, None, 0, None)]


def _expire(
    snapshot: Snapshot,
    older_than: datetime | None = None,
    retain_last: int | None = None,
    snapshot_ids: Sequence[int] = (),
    **without_effect: Any,
) -> Rows:
    _warn("expire_snapshots", without_effect)
    if snapshot_ids:
        if older_than is not None or retain_last is not None:
            raise InvalidOptionError("expire_snapshots: give either snapshot_ids, or older_than and retain_last")
        removed = cleanup_old_versions(snapshot, _expiry_of(snapshot, frozenset(snapshot_ids)))
    else:
        removed = clean_up(
            snapshot,
            retain_versions=retain_last,
            before_timestamp=datetime.now(UTC) - _EXPIRY if older_than is None else older_than,
            error_if_tagged_old_versions=False,
        )
    deletions = removed.deletion_files_removed
    return [(removed.data_files_removed, deletions, 0, removed.old_versions, 0, 0)]


def _expiry_of(snapshot: Snapshot, versions: frozenset[int]) -> CleanupPolicy:
    """The removal of just these versions. Raises VersionNotFoundError, and InvalidOptionError for the latest one."""
    if unknown := sorted(versions - list_versions(snapshot.store).keys()):
        raise VersionNotFoundError(f"expire_snapshots: {snapshot} has no version {unknown[0]}; t.snapshots lists them")
    if snapshot.version in versions:
        raise InvalidOptionError(f"expire_snapshots: version {snapshot.version} is the latest one, which stays; leave it out")
    return CleanupPolicy(versions=versions)


_ONE_LISTING = ("location", "file_list_view", "equal_schemes", "equal_authorities", "prefix_mismatch_mode")
"""Arguments of `remove_orphan_files` that say which files are looked at."""


def _remove_orphans(
    snapshot: Snapshot,
    older_than: datetime | None = None,
    dry_run: bool = False,
    **given: Any,
) -> Rows:
    if chosen := [name for name in _ONE_LISTING if name in given]:
        raise UnsupportedFeatureError(
            f"remove_orphan_files: the folders of a table are listed, and compared with its manifests; leave out {chosen[0]}"
        )
    if older_than is not None:
        raise UnsupportedFeatureError(
            "remove_orphan_files: a file that no version names is removed when it is 7 days old, since a writer may be about to commit it; "
            "leave out older_than"
        )
    _warn("remove_orphan_files", given)
    return [(file,) for file in clean_up(snapshot, before_version=1, dry_run=dry_run).files]


def _set_current(snapshot: Snapshot, snapshot_id: int | None = None, ref: str | None = None) -> Rows:
    if (snapshot_id is None) == (ref is None):
        raise InvalidOptionError("set_current_snapshot needs either snapshot_id (the number of a version) or ref (a tag)")
    version = ref if snapshot_id is None else str(snapshot_id)
    return [(snapshot.version, restore(snapshot, version).version)]


def _roll_back(snapshot: Snapshot, timestamp: datetime) -> Rows:
    return [(snapshot.version, restore(snapshot, timestamp=timestamp).version)]


def _ancestors(snapshot: Snapshot, snapshot_id: int | None = None) -> Rows:
    newest = snapshot.version if snapshot_id is None else snapshot_id
    if newest > snapshot.version:
        raise VersionNotFoundError(f"ancestors_of: {snapshot} is the latest version, there is no version {newest}")
    found = [entry for entry in history(snapshot.store) if entry.version <= newest]
    return [(entry.version, round(entry.timestamp.timestamp() * 1000)) for entry in found]


def _pick(snapshot: Snapshot, snapshot_id: int) -> Rows:
    """Commit what a version of another branch has changed to the branch of `snapshot`."""
    found = list(_branches_with(snapshot, snapshot_id))
    if len(found) == 1:
        return [(snapshot_id, cherry_pick(snapshot, snapshot_id, found[0], name_of(snapshot)).version)]
    has = f"the branches {', '.join(found)} have" if found else "no other branch has"
    write = f"CALL cherry_pick(table => 't', version => {snapshot_id}, branch => 'dev')"
    raise InvalidOptionError(f"cherrypick_snapshot: {has} a version {snapshot_id} that is not of another one; name the branch: {write}")


def _branches_with(snapshot: Snapshot, version: int) -> Iterator[str]:
    """The other branches that made a version with this number after they parted."""
    for name, branch in sorted(refs.branches(snapshot.root).items()):
        is_own = name != name_of(snapshot) and version > branch.parent_version
        if is_own and version in list_versions(latest_of(snapshot, name).store):
            yield name


def _only_called(snapshot: Snapshot, **given: Any) -> Rows:
    raise UnsupportedFeatureError("create_changelog_view makes a view of a session: write CALL, or table_changes('t', 1, 2)")


def _no_manifests(snapshot: Snapshot, **without_effect: Any) -> Rows:
    _warn("rewrite_manifests", without_effect)
    return [(0, 0)]


_EXPIRED: Sequence[str] = (
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
    "deleted_manifest_files_count",
    "deleted_manifest_lists_count",
    "deleted_statistics_files_count",
)
_MOVED = {"previous_snapshot_id": "bigint", "current_snapshot_id": "bigint"}
_NO_EFFECT, _LEFT_OUT = "has no effect", "must be left out"
ADD_FILES = Action(
    "add_files",
    "load the files of a folder that the table does not have yet, each once, as COPY INTO does",
    {"num_affected_rows": "bigint", "num_inserted_rows": "bigint"},
    _only_called,
    (
        Parameter(
            "source_table", "string", "the format and the folder, parquet.`/path`; their rows are written as files of Lance", REQUIRED
        ),
        Parameter("partition_filter", "map<string,string>", "the names and values of the partition folders to load, in their order"),
        Parameter("check_duplicate_files", "boolean", "false: files are loaded again that the table has"),
        Parameter("parallelism", "bigint", "has no effect"),
    ),
    command=None,
    effect="rows",
    see="Does `COPY INTO`.",
)
CHANGELOG_VIEW = Action(
    "create_changelog_view",
    "make a temporary view of what versions have changed, as in Iceberg",
    {"changelog_view": "string"},
    _only_called,
    (
        Parameter("changelog_view", "string", "the name of the view (default: that of the table and _changes)"),
        Parameter(
            "options",
            "map<string,string>",
            "a map with start-snapshot-id (the version before the first one) and end-snapshot-id, or start-timestamp and end-timestamp",
        ),
        Parameter("compute_updates", "boolean", "whether updates are UPDATE_BEFORE and UPDATE_AFTER, or DELETE and INSERT"),
        Parameter("identifier_columns", "array<string>", "with them, compute_updates is true by default: rows are known by their ids"),
        Parameter("net_changes", "boolean", _LEFT_OUT),
    ),
    command=None,
    see="Does `table_changes`.",
)
ACTIONS = (
    Action(
        "rewrite_data_files",
        "compact, as in Iceberg",
        {
            "rewritten_data_files_count": "bigint",
            "added_data_files_count": "bigint",
            "rewritten_bytes_count": "bigint",
            "failed_data_files_count": "bigint",
            "removed_delete_files_count": "bigint",
        },
        Job(_asked, STAGES, _commit, _rewrite),
        (
            Parameter("strategy", "string", "binpack, or sort"),
            Parameter("sort_order", "string", "a, b or zorder(a, b)"),
            Parameter("options", "map<string,string>", "a map with target-file-size-bytes"),
            Parameter("where", "string", "only fragments with such a row"),
        ),
        effect="keeps",
        command=None,
        as_rows=_rewritten,
        see="Does `compact`. Bytes and delete files are not counted: they are null.",
    ),
    Action(
        "expire_snapshots",
        "remove versions that are older than 5 days by default, as in Iceberg",
        dict.fromkeys(_EXPIRED, "bigint"),
        _expire,
        (
            Parameter("older_than", "timestamp", "versions before this time"),
            Parameter("retain_last", "bigint", "the number of latest versions to keep"),
            Parameter("max_concurrent_deletes", "bigint", _NO_EFFECT),
            Parameter("stream_results", "boolean", _NO_EFFECT),
            Parameter("snapshot_ids", "array<bigint>", "instead, the numbers of the versions to remove"),
            Parameter("clean_expired_metadata", "boolean", _NO_EFFECT),
        ),
        effect="keeps",
        command=None,
        see="Does `cleanup`.",
    ),
    Action(
        "remove_orphan_files",
        "remove files that no version names and that are older than 7 days, as in Iceberg",
        {"orphan_file_location": "string"},
        _remove_orphans,
        (
            Parameter("older_than", "timestamp", _LEFT_OUT),
            Parameter("location", "string", _LEFT_OUT),
            Parameter("dry_run", "boolean", "tell what would be removed"),
            Parameter("max_concurrent_deletes", "bigint", _NO_EFFECT),
            Parameter("file_list_view", "string", _LEFT_OUT),
            Parameter("equal_schemes", "map<string,string>", _LEFT_OUT),
            Parameter("equal_authorities", "map<string,string>", _LEFT_OUT),
            Parameter("prefix_mismatch_mode", "string", _LEFT_OUT),
            Parameter("prefix_listing", "boolean", _NO_EFFECT),
            Parameter("stream_results", "boolean", _NO_EFFECT),
        ),
        effect="keeps",
        command=None,
        see="Does `cleanup`.",
    ),
    Action(
        "rollback_to_snapshot",
        "make an earlier version the latest one, as in Iceberg",
        _MOVED,
        _set_current,
        (Parameter("snapshot_id", "bigint", "the number of the version", REQUIRED),),
        effect="columns",
        command=None,
        see="Does `restore`.",
    ),
    Action(
        "rollback_to_timestamp",
        "make the version of a time the latest one, as in Iceberg",
        _MOVED,
        _roll_back,
        (Parameter("timestamp", "timestamp", "the time", REQUIRED),),
        effect="columns",
        command=None,
        see="Does `restore`.",
    ),
    Action(
        "set_current_snapshot",
        "make an earlier version the latest one, as in Iceberg",
        _MOVED,
        _set_current,
        (
            Parameter("snapshot_id", "bigint", "the number of the version"),
            Parameter("ref", "string", "or its tag"),
        ),
        effect="columns",
        command=None,
        see="Does `restore`.",
    ),
    Action(
        "cherrypick_snapshot",
        "commit what a version of another branch has changed to this one, as in Iceberg",
        {"source_snapshot_id": "bigint", "current_snapshot_id": "bigint"},
        _pick,
        (Parameter("snapshot_id", "bigint", "the number of the version, which one other branch has", REQUIRED, least=1),),
        effect="columns",
        command=None,
        see="Does `cherry_pick`.",
    ),
    Action(
        "ancestors_of",
        "list a version and those before it, newest first, as in Iceberg",
        {"snapshot_id": "bigint", "timestamp": "bigint"},
        _ancestors,
        (Parameter("snapshot_id", "bigint", "the number of the version (default: the latest)"),),
        command=None,
        see="Times are milliseconds since 1970. See [history](time-travel.md).",
    ),
    CHANGELOG_VIEW,
    ADD_FILES,
    Action(
        "rewrite_manifests",
        "do nothing: a version has one manifest, which each commit writes as a whole",
        {"rewritten_manifests_count": "int", "added_manifests_count": "int"},
        _no_manifests,
        (
            Parameter("use_caching", "boolean", _NO_EFFECT),
            Parameter("spec_id", "bigint", _NO_EFFECT),
            Parameter("sort_by", "array<string>", _NO_EFFECT),
        ),
        command=None,
    ),
)
