"""The primary keys of a shard's rows: a row of the table, or an older one of the log, is not read if the log has a newer one of its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from lance_spark.arrow.equal_keys import equal_keys
from lance_spark.buffers.cache import Cache
from lance_spark.table.mem_wal.entries import Entries, last_of_each
from lance_spark.table.scan.key_hash import KeySet, are_hashed, key_hashes
from lance_spark.table.scan.task import ScanTask

TABLE_RANK = 0
"""The rank of the rows of the table. The SSTables of a shard have the ranks 1, 2 and so on, in the order of their generations."""

_KEPT = 8
"""A process keeps the keys of so many states of shards."""
_KEPT_BYTES = 64 << 20
_read = Cache(_KEPT_BYTES)
"""What was read of SSTables and versions of tables, which never change: when a log has grown, only the keys of what is new are read."""


@dataclass(frozen=True)
class Keys:
    """Primary keys, and the rank of the newest row of each. Its memory grows with the number of keys."""

    keys: pa.Table
    newest: np.ndarray

    def superseded(self, batch: pa.RecordBatch, rank: int) -> np.ndarray:
        """The numbers of the rows of a batch for whose keys there are rows above `rank`."""
        names = self.keys.column_names
        rows, keys = np.arange(batch.num_rows), np.arange(self.keys.num_rows)
        if self._hashed is not None:
            known, order, starts, counts = self._hashed
            rows, places = known.find([batch.column(name) for name in names])
            places = np.unique(places)
            ends = np.cumsum(counts[places])
            within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts[places], counts[places])
            keys = order[np.repeat(starts[places], counts[places]) + within]
        if not len(rows) or not len(keys):
            return rows[:0]
        some = pa.Table.from_batches([batch.select(names)]).take(pa.array(rows))
        which, found = equal_keys(self.keys.take(pa.array(keys)), some, names)
        gone: np.ndarray = rows[found[self.newest[keys[which]] > rank]]
        return gone

    @cached_property
    def _hashed(self) -> tuple[KeySet, np.ndarray, np.ndarray, np.ndarray] | None:
        """The distinct hashes of the keys; the keys by hash, and where those of each hash begin and how many there are."""
        if not all(are_hashed(column.type) for column in self.keys.columns):
            return None
        hashes, _ = key_hashes([column.combine_chunks() for column in self.keys.columns])
        order = np.argsort(hashes, kind="stable")
        distinct, starts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
        return KeySet(distinct), order, starts, counts


@dataclass(frozen=True)
class ShardKeys:
    """Where the keys of a shard are: `scans` read those of its SSTables, oldest first, and `entries` has those of the log.

    `name` tells shards, and states of one, apart. The keys are read when they are needed, once in each process.
    """

    name: tuple[str, ...]
    names: tuple[str, ...]
    scans: tuple[ScanTask, ...] = field(compare=False)
    entries: Entries = field(compare=False)

    def load(self) -> Keys:
        """The keys. Raises the errors of reading them."""
        return _loaded(self)


@lru_cache(maxsize=_KEPT)
def _loaded(shard: ShardKeys) -> Keys:
    tables = [read_once(scan) for scan in shard.scans]
    if shard.entries.paths:
        tables.append(pa.Table.from_batches([shard.entries.newest().select(list(shard.names))]))
    together = pa.concat_tables([_plain(table) for table in tables])
    ranks = np.repeat(np.arange(len(tables)) + TABLE_RANK + 1, [table.num_rows for table in tables])
    last = last_of_each(together)
    return Keys(together.take(pa.array(last)), ranks[last])


def read_once(scan: ScanTask) -> pa.Table:
    """The rows of a task that reads keys. They stay in the memory of the process, unless they are many."""
    pin, given = scan.common.pin, scan.common.given

    def read() -> pa.Table:
        return pa.Table.from_batches(list(scan.read()), schema=given.to_arrow())

    # The identity tells an SSTable from that of a table which was at this place before.
    columns = tuple((f.id, f.name) for f in given.fields)
    parts = slice(scan.start, scan.stop)
    rows = scan.pool.starts[parts].tobytes(), scan.pool.stops[parts].tobytes()
    key = pin.store.uri, pin.identity, columns, scan.fragment_ids.tobytes(), rows
    return _read.get(key, read, lambda keys: keys.nbytes)


def are_few(scans: Sequence[ScanTask]) -> bool:
    """Whether what the tasks read may stay in memory beside the keys of a log."""
    return sum(scan.num_bytes for scan in scans) <= _KEPT_BYTES // 4


def all_keys(shards: Sequence[ShardKeys]) -> Keys:
    """The keys of all shards, which rows of the table may have."""
    return _all(tuple(shards))


@lru_cache(maxsize=_KEPT)
def _all(shards: tuple[ShardKeys, ...]) -> Keys:
    found = [shard.load() for shard in shards]
    return Keys(pa.concat_tables([one.keys for one in found]), np.concatenate([one.newest for one in found]))


def _plain(table: pa.Table) -> pa.Table:
    """The table without metadata, which is not the same in all SSTables."""
    return pa.table(table.columns, schema=pa.schema([pa.field(f.name, f.type) for f in table.schema]))
