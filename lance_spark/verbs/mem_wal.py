"""MERGE of a write-ahead log into its table."""

from __future__ import annotations

from lance_spark.table.changes.merge.log import MergedSsTable, merge_log
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.target import Target


class LogVerbs:
    """What a `LanceTable` does with the table's write-ahead log."""

    _target: Target

    def mergeMemWal(self, commit_message: str | None = None) -> list[MergedSsTable]:
        """Merge what the write-ahead log has flushed into the table, each generation in one commit, the oldest first.

        The log's writers can go on; what they have not flushed yet stays in the log. A generation is in the driver's memory while tasks
        look for its keys in the table and change its rows. Returns what was merged. See docs/mem-wal.md.
        """
        runner = OnExecutors(self._target.spark, self._target.cores())
        return self._target.refreshed(list(merge_log(self._target.latest(), WriteOptions(commit_message=commit_message), runner)))
