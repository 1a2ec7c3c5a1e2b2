"""`merge_mem_wal`: merge a write-ahead log into its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lance_spark.actions.action import Action, Parameter
from lance_spark.table.changes.merge.log import MergedSsTable, merge_log
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions


def _merge(snapshot: Snapshot, commit_message: str | None = None) -> Iterable[MergedSsTable]:
    return merge_log(snapshot, WriteOptions(commit_message=commit_message), Here())


def _rows(merged: Iterable[MergedSsTable]) -> Iterable[Sequence[Any]]:
    for one in merged:
        changes = one.changes
        figures = (changes.num_updated_rows, changes.num_inserted_rows, changes.num_deleted_rows)
        yield (changes.version, one.shard, one.generation, *figures)


MERGE_MEM_WAL = Action(
    "merge_mem_wal",
    "merge what the write-ahead log has flushed into the table, each generation in one commit",
    {
        "version": "bigint",
        "shard": "string",
        "generation": "bigint",
        "num_updated_rows": "bigint",
        "num_inserted_rows": "bigint",
        "num_deleted_rows": "bigint",
    },
    _merge,
    # The number of a write is that of one commit, so it is none of the parameters.
    (Parameter("commit_message", "string", "the commit message of each commit"),),
    effect="rows",
    methods={"Dataset": ("merge_mem_wal",), "LanceTable": ("mergeMemWal",)},
    as_rows=_rows,
    see="See [write-ahead logs](mem-wal.md).",
)
ACTIONS = (MERGE_MEM_WAL,)
