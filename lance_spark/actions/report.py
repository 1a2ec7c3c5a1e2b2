"""`maintenance_report`: what maintenance would do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lance_spark.actions.action import Action
from lance_spark.actions.cleanup import CLEANUP, clean_up
from lance_spark.actions.compact import TARGET_ROWS
from lance_spark.display.figures import Figures
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions
from lance_spark.table.compaction.optimize import proposal
from lance_spark.table.indexes.optimize import uncovered
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class MaintenanceReport(Figures):
    """What maintenance would do on a version now.

    Of all `fragments`, a compaction would rewrite `fragments_to_compact`, and leave out
    `fragments_left_out` that an index covers. `indexes_behind` lack `unindexed_rows`, counted for
    each of them. A cleanup would remove `old_versions` and `files_to_remove`, of `bytes_to_remove`.
    """

    version: int
    fragments: int
    fragments_to_compact: int
    fragments_left_out: int
    indexes_behind: int
    unindexed_rows: int
    old_versions: int
    files_to_remove: int
    bytes_to_remove: int


def maintenance_report(
    snapshot: Snapshot,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
) -> MaintenanceReport:
    """Ask the code that would do it; nothing is written or removed."""
    compaction = proposal(snapshot, CompactionOptions(target_rows_per_fragment))
    unindexed = uncovered(snapshot)
    removed = clean_up(snapshot, older_than, retain_versions, dry_run=True, error_if_tagged_old_versions=False)
    return MaintenanceReport(
        snapshot.version,
        compaction.fragments,
        compaction.to_rewrite,
        compaction.left_out,
        len(unindexed),
        sum(unindexed.values()),
        removed.old_versions,
        len(removed.files),
        removed.bytes_removed,
    )


REPORT = Action(
    "maintenance_report",
    "tell what a compaction, an optimization of indexes and a cleanup would do",
    {
        "version": "bigint",
        "fragments": "bigint",
        "fragments_to_compact": "bigint",
        "fragments_left_out": "bigint",
        "indexes_behind": "bigint",
        "unindexed_rows": "bigint",
        "old_versions": "bigint",
        "files_to_remove": "bigint",
        "bytes_to_remove": "bigint",
    },
    maintenance_report,
    (CLEANUP.parameter("older_than"), CLEANUP.parameter("retain_versions"), TARGET_ROWS),
    methods={"Dataset": ("maintenance_report",), "LanceTable": ("maintenanceReport",)},
    see="Nothing is changed; see [maintenance](maintenance.md).",
)
ACTIONS = (REPORT,)
