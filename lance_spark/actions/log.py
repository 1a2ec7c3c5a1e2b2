"""`initialize_mem_wal` and `merge_mem_wal`: give a table a write-ahead log, and merge the log into its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lance_spark.actions.action import NOTED, Action, Parameter, noted
from lance_spark.table.build.sharding import sharding_spec
from lance_spark.table.changes.merge.log import MergedSsTable, merge_log
from lance_spark.table.mem_wal_writing.configuration import initialize_log
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions


def _initialize(
    snapshot: Snapshot,
    bucket_column: str | None = None,
    num_buckets: int | None = None,
    identity_column: str | None = None,
    unsharded: bool = False,
    maintained_indexes: Sequence[str] | None = None,
    **given: Any,
) -> Iterable[Sequence[Any]]:
    schema = snapshot.manifest.schema
    spec = sharding_spec(schema, bucket_column, num_buckets, identity_column, unsharded)
    changed = initialize_log(snapshot, spec, maintained_indexes, properties=noted(given).noted)
    return [(changed.version,)]


def _merge(snapshot: Snapshot, commit_message: str | None = None) -> Iterable[MergedSsTable]:
    return merge_log(snapshot, WriteOptions(commit_message=commit_message), Here())


def _rows(merged: Iterable[MergedSsTable]) -> Iterable[Sequence[Any]]:
    for one in merged:
        changes = one.changes
        figures = (changes.num_updated_rows, changes.num_inserted_rows, changes.num_deleted_rows)
        yield (changes.version, one.shard, one.generation, *figures)


INITIALIZE_MEM_WAL = Action(
    "initialize_mem_wal",
    "give a table a write-ahead log, into which rows can be put",
    {"version": "bigint"},
    _initialize,
    (
        Parameter("bucket_column", "string", "rows belong to shards by a hash of this column"),
        Parameter("num_buckets", "bigint", "the number of these shards", least=1),
        Parameter("identity_column", "string", "instead, rows belong to shards by the values of this column"),
        Parameter("unsharded", "boolean", "instead, all rows belong to one shard", False),
        Parameter("maintained_indexes", "array<string>", "the indexes that SSTables of the log have (default: all)"),
        *NOTED,
    ),
    effect="keeps",
    methods={"Dataset": ("initialize_mem_wal",), "LanceTable": ("initializeMemWal",)},
    see="See [write-ahead logs](mem-wal.md).",
)
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
ACTIONS = (INITIALIZE_MEM_WAL, MERGE_MEM_WAL)
