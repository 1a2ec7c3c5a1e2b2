"""Tables with a write-ahead log, as pylance makes them: a base with the ids 1 and 2, and shards with other rows."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
from lance.mem_wal import CompactedSsTable, ShardWriter

_KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=_KEY), pa.field("v", pa.string()), pa.field("w", pa.int32())])


def rows(*ids: int) -> pa.Table:
    """One row for each id."""
    return pa.table({"id": ids, "v": [str(i) for i in ids], "w": ids}, schema=SCHEMA)


def make(uri: str) -> str:
    """A table with a log that has no shards yet; its version 1 has no log."""
    lance.write_dataset(rows(1, 2), uri).initialize_mem_wal()
    return uri


def flushed(uri: str, *ids: int, shard: str | None = None) -> str:
    """Put rows into a shard (None: a new one), and close it: they are in an SSTable. Returns the shard."""
    shard = shard or str(uuid.uuid4())
    with lance.dataset(uri).mem_wal_writer(shard) as writer:
        if ids:
            writer.put(rows(*ids))
    return shard


def unflushed(uri: str, *ids: int, shard: str | None = None) -> ShardWriter:
    """Put rows into a shard (None: a new one), and leave it open: they are in the log alone."""
    writer = lance.dataset(uri).mem_wal_writer(shard or str(uuid.uuid4()))
    writer.put(rows(*ids))
    return writer


def merge(uri: str, shard: str, generation: int) -> None:
    """Merge the rows of an SSTable into the table, as a background job of the log's writer does."""
    (folder,) = Path(uri, "_mem_wal", shard).glob(f"*_gen_{generation}")
    done = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    done.mark_sstables_as_compacted([CompactedSsTable(shard, generation)]).execute(lance.dataset(folder).to_table(SCHEMA.names))


def all_rows(uri: str, shard: str) -> list[int]:
    """The ids that a reader finds which knows the log."""
    with lance.dataset(uri).mem_wal_writer(shard) as writer:
        return sorted(writer.lsm_scanner().to_table().column("id").to_pylist())
