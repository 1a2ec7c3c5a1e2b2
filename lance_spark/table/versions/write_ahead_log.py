"""Rows in a table's write-ahead log (MemWAL), which this package does not read: how many shards of the log have some.

Implements "Shard Manifest" and "WAL Storage Layout" of the MemTable and WAL specification. `_mem_wal/{shard}/` is written by one writer at
a time. `manifest/{version}.binpb` names its SSTables, and the last entry of the log that they contain; `wal/{position}.arrow` are the
entries. In both names, the number has its 64 bits in reverse order. The entry `__lance_mem_wal` in the table's index section says which
SSTables were merged into the table.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.display.words import counted
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import MEM_WAL
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)
_FOLDER = "_mem_wal"
_BITS = 64
_SHARDS_AT_OPEN = 16
"""Opening a table looks at so many shards: each takes a listing and two or three small reads."""
_CONNECTIONS = 8
_MOST_ENTRY_BYTES = 4096
"""An entry that only marks where a new writer took over has no columns; such entries have about 200 bytes."""
_MOST_MARKS = 32
"""After so many marks in a row, a shard counts as one with rows that are not read."""


@dataclass(frozen=True)
class UnreadShards:
    """How many of a log's `shards` have rows that are not in the table; only `known` shards were looked at."""

    unread: int
    known: int
    shards: int

    def __bool__(self) -> bool:
        """Whether there are rows that are not read, or there may be some."""
        return self.unread > 0 or self.known < self.shards

    def __str__(self) -> str:
        least = "at least " if self.known < self.shards else ""
        rows = "rows or deletions that are not merged into the table and are not read"
        return f"the write-ahead log has {rows}, in {least}{self.unread} of {counted(self.shards, 'shard')}"


def has_log(manifest: Manifest) -> bool:
    """Whether a version has a write-ahead log."""
    return any(index.name == MEM_WAL for index in manifest.indexes)


def unread_shards(snapshot: Snapshot, most: int | None = None) -> UnreadShards:
    """The shards of the log now that have rows which are not in this version of the table; looks at no more than `most` of them.

    Raises CorruptFileError if the log's files are invalid, and the store's errors.
    """
    entries = [index for index in snapshot.manifest.indexes if index.name == MEM_WAL]
    if not entries:
        return UnreadShards(0, 0, 0)
    merged: dict[str, int] = {}
    for entry in entries:
        details = parse_message(pb.MemWalIndexDetails, entry.details, f"{snapshot}: the details of index {MEM_WAL!r}")
        merged.update((_text(table.shard_id.uuid), table.generation) for table in details.compacted_sstables)
    shards = sorted(name for name in snapshot.store.names(_FOLDER) if _is_shard(name))
    chosen = shards[:most]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        unread = sum(pool.map(lambda shard: _is_unread(snapshot.store, shard, merged.get(shard, 0)), chosen))
    return UnreadShards(unread, len(chosen), len(shards))


def warn_of_unread(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot; log a warning if a write-ahead log has rows that are not read. Call it once each time a user opens a table."""
    if has_log(snapshot.manifest):
        try:
            if found := unread_shards(snapshot, _SHARDS_AT_OPEN):
                _LOG.warning("%s: %s", snapshot, found)
        except LanceError as e:
            _LOG.warning("%s: rows in the write-ahead log are not read; whether there are any is unknown: %s", snapshot, e)
    return snapshot


def _is_shard(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name)) == name
    return False


def _text(identifier: bytes) -> str:
    return str(uuid.UUID(bytes=identifier)) if len(identifier) == 16 else ""


def _reversed(number: int) -> str:
    return f"{number:0{_BITS}b}"[::-1]


def _is_unread(store: Store, shard: str, merged: int) -> bool:
    """Whether a shard has SSTables after the generation that was `merged`, or entries that are in no SSTable yet."""
    folder = f"{_FOLDER}/{shard}/manifest"
    names = (name.removesuffix(".binpb") for name in store.names(folder) if name.endswith(".binpb"))
    latest = max((name for name in names if len(name) == _BITS and set(name) <= {"0", "1"}), key=lambda name: name[::-1], default=None)
    if latest is None:
        return False
    path = f"{folder}/{latest}.binpb"
    manifest = parse_message(pb.ShardManifest, store.read(path), f"{store.uri}/{path}")
    if any(table.generation > merged for table in manifest.sstables):
        return True
    first = manifest.replay_after_wal_entry_position + 1
    for position in range(first, first + _MOST_MARKS):
        path = f"{_FOLDER}/{shard}/wal/{_reversed(position)}.arrow"
        try:
            is_mark = store.size(path) <= _MOST_ENTRY_BYTES and _is_mark(store, path)
        except FileNotFoundError:
            return False
        if not is_mark:
            return True
    return True


def _is_mark(store: Store, path: str) -> bool:
    try:
        with pa.ipc.open_stream(store.read(path)) as stream:
            return b"fence_sentinel" in (stream.schema.metadata or {})
    except pa.ArrowException as e:
        raise CorruptFileError(f"{store.uri}/{path}: not a valid entry of a write-ahead log: {e}") from e
