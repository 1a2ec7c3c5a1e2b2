"""What a user reads of a version: the table with the rows of its write-ahead log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.mem_wal.contents import log_parts
from lance_spark.table.mem_wal.tasks import Log, indexes_of_sstables, plan_merged
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.scan import Scan, Task
from lance_spark.table.versions.snapshot import Snapshot, in_use
from lance_spark.table.versions.write_ahead_log import has_log, unread_shards


@dataclass(frozen=True, repr=False)
class MergedScan(Scan):
    """A scan of a version and of its log, from `Dataset.scan`."""

    def tasks(self, plan: ScanPlan) -> Sequence[Task]:
        log = Log.of(self.snapshot)
        return super().tasks(plan) if log is None else plan_merged(log, plan)

    def explain(self) -> str:
        """What the scan will do, as `Scan.explain`, and what it reads of each shard of the log."""
        log = Log.of(self.snapshot)
        if log is None:
            return super().explain()
        looked_up = [f"    indexes of an SSTable: {used}" for used in indexes_of_sstables(plan_merged(log, self.plan))]
        parts = [f"    {part}" for part in log_parts(self.snapshot)]
        return "\n".join([super().explain(), f"  write-ahead log: {log}", *parts, *looked_up])


def count_rows(snapshot: Snapshot) -> int:
    """The number of rows. Only the manifest is read, and the log if it has rows."""
    if snapshot.mem_wal == "merged" and has_log(snapshot.manifest):
        return MergedScan(snapshot, ScanPlan(columns=())).count_rows()
    return int(all_live_rows(snapshot).sum())


def check_no_log(snapshot: Snapshot, what: str) -> None:
    """Raise UnsupportedFeatureError if there are rows in the log of a version that is read with them; `what` finds no rows of the log."""
    if snapshot.mem_wal == "merged" and has_log(snapshot.manifest):
        with in_use(snapshot):
            if found := unread_shards(snapshot):
                raise UnsupportedFeatureError(
                    f"{snapshot}: {found}; {what} does not read them: merge them into the table, or leave them out by mem_wal=base"
                )
