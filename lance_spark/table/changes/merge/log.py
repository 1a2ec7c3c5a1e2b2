"""Merging a write-ahead log into its table: one commit for each generation of a shard, while the log's writers go on.

Implements "Compaction" of the MemTable and WAL specification: the rows of an SSTable are merged by the primary key, its tombstones delete
rows, and the transaction says which generation of the shard is now in the table. Without a primary key, the rows are appended. Entries
that are in no SSTable stay in the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_spark._proto import table_pb2 as pb
from lance_spark.predicate import parse
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Schema, from_arrow, quoted
from lance_spark.table.changes.delta import DELETED, INSERTED, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.merge.pairing import SOURCE, ByKeys, Rows
from lance_spark.table.changes.merge.rows import MergeClause, MergeRows, column, merge_in_tasks, plan_merge
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.mem_wal.entries import TOMBSTONE
from lance_spark.table.mem_wal.tasks import open_sstable
from lance_spark.table.scan.plan import ScanPlan, plan_parts
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.versions.write_ahead_log import Shard, has_log, shards_of
from lance_spark.table.write.options import WriteOptions


@dataclass(frozen=True)
class MergedSsTable:
    """A generation of a shard that was merged into the table, and the rows that this changed."""

    shard: str
    generation: int
    changes: RowChanges


def merge_log(snapshot: Snapshot, options: WriteOptions, runner: Runner) -> Iterator[MergedSsTable]:
    """Merge the SSTables that the log has now, the oldest of each shard first; each is one commit, and yields its result.

    An SSTable is in the memory of this process while it is merged. Raises the errors of reading the log and of commits.
    """
    if not has_log(snapshot.manifest):
        return
    for shard in shards_of(snapshot):
        for generation, path in shard.sstables:
            done = change_rows(reopened(snapshot), options, partial(_plan, shard, generation, path, runner))
            yield MergedSsTable(shard.name, generation, done)


def _plan(shard: Shard, generation: int, path: str, runner: Runner, snapshot: Snapshot) -> RowPlan:
    if (generation, path) not in next((now.sstables for now in shards_of(snapshot) if now.name == shard.name), ()):
        # Another process has merged it.
        return RowPlan(DeltaPlan(snapshot, lambda delta: []).write)
    schema, keys = snapshot.manifest.schema, primary_key(snapshot.manifest.schema)
    rows = _rows(snapshot, shard, path)
    names = tuple(f.name for f in keys)
    merged = MergeRows(ByKeys(rows, names, schema) if keys else _Unpaired(rows), tuple(_clauses(rows.schema)))
    compacted = pb.CompactedSsTable(shard_id=pb.UUID(uuid=uuid.UUID(shard.name).bytes), generation=generation)

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        return merge_in_tasks(merged, snapshot, delta, runner, plan_merge(merged, snapshot, runner.cores))

    intent = Intent(compacted=(compacted.SerializeToString(),))
    return RowPlan(DeltaPlan(snapshot, parts, intent, schema.names, keys).write)


def _rows(snapshot: Snapshot, shard: Shard, path: str) -> pa.Table:
    """The rows of an SSTable with the columns of the table, and with `_tombstone`."""
    table = open_sstable(snapshot, shard, path)
    columns = [*snapshot.manifest.schema.names, *([TOMBSTONE] if table.has_tombstones else [])]
    plan = ScanPlan(tuple(quoted([name]) for name in columns))
    found = pa.Table.from_batches(list(plan_parts(table.snapshot, plan, table.parts).read()), schema=plan.schema(table.snapshot))
    if table.has_tombstones:
        return found
    return found.append_column(TOMBSTONE, pa.repeat(pa.scalar(False), found.num_rows))


def _clauses(source: pa.Schema) -> Iterator[MergeClause]:
    """Tombstones delete the rows that they match, and other rows replace those that they match."""
    sides = Schema(from_arrow(pa.schema([(SOURCE, pa.struct([source.field(TOMBSTONE)]))])).fields)
    values = {name: column(SOURCE, name) for name in source.names if name != TOMBSTONE}
    yield MergeClause("matched", DELETED, parse(f"{SOURCE}.{TOMBSTONE}", sides), {})
    yield MergeClause("matched", UPDATED, None, values)
    yield MergeClause("not matched", INSERTED, parse(f"NOT {SOURCE}.{TOMBSTONE}", sides), values)


@dataclass(frozen=True)
class _Unpaired:
    """Rows of a table without a primary key: each is a new one."""

    source: pa.Table

    columns: tuple[str, ...] = ()
    scan_rows = 1
    is_empty = True

    def pairs(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """None."""
        yield from ()
