"""How many rows of a version come from where: from the table, from each generation of each shard of its log, and from its entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.display.words import counted
from lance_spark.schema.schema import quoted
from lance_spark.table.mem_wal.entries import TOMBSTONE
from lance_spark.table.mem_wal.tasks import Log, LogTable
from lance_spark.table.scan.plan import ScanPlan, plan_parts
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class LogPart:
    """Part of a shard of the log: an SSTable with the rows of a generation, or, without a `generation`, what is only in entries.

    `rows` and `deletions` are those of distinct keys; newer parts of the shard may have the same keys.
    """

    shard: str
    generation: int | None
    rows: int
    deletions: int

    def __str__(self) -> str:
        place = "entries" if self.generation is None else f"generation {self.generation}"
        deleted = f", {counted(self.deletions, 'deletion')}" if self.deletions else ""
        return f"shard {self.shard}, {place}: {counted(self.rows, 'row')}{deleted}"


def log_parts(snapshot: Snapshot) -> list[LogPart]:
    """The parts of the log that are not in this version, oldest first in each shard. Reads the tombstones of SSTables, and the entries.

    Raises the errors of reading the log.
    """
    log = Log.of(snapshot)
    return [] if log is None else list(_parts(log))


def _parts(log: Log) -> Iterator[LogPart]:
    for shard in log.shards:
        for (generation, _), table in zip(shard.shard.sstables, shard.tables):
            yield _part(shard.shard.name, generation, _tombstones(table))
        if shard.entries.paths:
            found = shard.entries.newest().column(TOMBSTONE)
            if len(found):
                yield _part(shard.shard.name, None, found.to_numpy(zero_copy_only=False))


def _part(shard: str, generation: int | None, tombstones: np.ndarray) -> LogPart:
    deletions = int(np.count_nonzero(tombstones))
    return LogPart(shard, generation, len(tombstones) - deletions, deletions)


def _tombstones(table: LogTable) -> np.ndarray:
    """Whether each row of an SSTable is a deletion."""
    if not table.has_tombstones:
        return np.zeros(sum(part.num_rows for part in table.parts), np.bool_)
    plan = ScanPlan((quoted([TOMBSTONE]),))
    batches = list(plan_parts(table.snapshot, plan, table.parts).read())
    found: np.ndarray = pa.Table.from_batches(batches, schema=plan.schema(table.snapshot)).column(0).to_numpy()
    return found.astype(np.bool_)
