"""The procedures of Iceberg's catalogs, with the names, arguments and columns that its users know. Each does what one of ours does."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.spark.catalog import procedures
from lance_spark.spark.catalog.procedures import Job, Procedure, Results, Rows, Stage
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.compaction.optimize import STAGES as COMPACTION_STAGES
from lance_spark.table.versions.snapshot import Snapshot

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


def _rewrite_stage(number: int) -> Stage:
    stage = procedures.compaction(number)
    return Stage(lambda snapshot, before, **given: stage.tasks(snapshot, before, **_rewriting(snapshot, given)), stage.run)


def _commit_rewrite(snapshot: Snapshot, done: Results, **given: Any) -> Rows:
    [(_, _, _, removed, added, *_)] = procedures.commit_compaction(snapshot, done, **_rewriting(snapshot, given))
    return [(removed, added, 0)]


def _expire(snapshot: Snapshot, older_than: int | None = None, retain_last: int | None = None, **without_effect: Any) -> Rows:
    _warn("expire_snapshots", without_effect)
    before = procedures.micros(datetime.now(UTC) - _EXPIRY) if older_than is None else older_than
    [(_, versions, data, _, _, deletions, _)] = procedures.clean_up(
        snapshot, retain_versions=retain_last, before_timestamp=before, error_if_tagged_old_versions=False
    )
    return [(data, deletions, 0, versions, 0, 0)]


def _remove_orphans(snapshot: Snapshot, older_than: int | None = None, dry_run: bool = False, **without_effect: Any) -> Rows:
    if older_than is not None:
        raise UnsupportedFeatureError(
            "remove_orphan_files: a file that no version names is removed when it is 7 days old, since a writer may be about to commit it; "
            "leave out older_than"
        )
    _warn("remove_orphan_files", without_effect)
    [(*_, files)] = procedures.clean_up(snapshot, before_version=1, dry_run=dry_run)
    return [(file,) for file in files]


def _set_current(snapshot: Snapshot, snapshot_id: int | None = None, ref: str | None = None) -> Rows:
    if (snapshot_id is None) == (ref is None):
        raise InvalidOptionError("set_current_snapshot needs either snapshot_id (the number of a version) or ref (a tag)")
    [(version,)] = procedures.restore(snapshot, ref if snapshot_id is None else str(snapshot_id))
    return [(snapshot.version, version)]


def _roll_back(snapshot: Snapshot, timestamp: int) -> Rows:
    [(version,)] = procedures.restore(snapshot, timestamp=timestamp)
    return [(snapshot.version, version)]


def _fast_forward(snapshot: Snapshot, branch: str, to: str) -> Rows:
    raise UnsupportedFeatureError(
        f"fast_forward: each branch of a lance table has versions of its own, so {branch!r} cannot be moved to {to!r}; "
        f"write INSERT OVERWRITE with the rows of the branch {to!r}"
    )


_EXPIRED: Sequence[str] = (
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
    "deleted_manifest_files_count",
    "deleted_manifest_lists_count",
    "deleted_statistics_files_count",
)
_MOVED = "previous_snapshot_id bigint, current_snapshot_id bigint"
_FORWARDED = "branch_updated string, previous_ref bigint, updated_ref bigint"
ICEBERG: Mapping[str, Procedure] = {
    "rewrite_data_files": Procedure(
        "rewritten_data_files_count bigint, added_data_files_count bigint, failed_data_files_count bigint",
        Job(tuple(map(_rewrite_stage, range(COMPACTION_STAGES))), _commit_rewrite),
        {"strategy": "string", "sort_order": "string", "options": "map<string,string>", "where": "string"},
    ),
    "expire_snapshots": Procedure(
        ", ".join(f"{name} bigint" for name in _EXPIRED),
        _expire,
        {"older_than": "timestamp", "retain_last": "bigint", "max_concurrent_deletes": "bigint", "stream_results": "boolean"},
    ),
    "remove_orphan_files": Procedure(
        "orphan_file_location string",
        _remove_orphans,
        {"older_than": "timestamp", "dry_run": "boolean", "max_concurrent_deletes": "bigint"},
    ),
    "rollback_to_snapshot": Procedure(_MOVED, _set_current, {"snapshot_id": "bigint"}, 1),
    "rollback_to_timestamp": Procedure(_MOVED, _roll_back, {"timestamp": "timestamp"}, 1),
    "set_current_snapshot": Procedure(_MOVED, _set_current, {"snapshot_id": "bigint", "ref": "string"}),
    "fast_forward": Procedure(
        "branch_updated string, previous_ref bigint, updated_ref bigint", _fast_forward, {"branch": "string", "to": "string"}, 2
    ),
}
