"""The shards of a table's write-ahead log (MemWAL), and which of them have rows that are not in the table.

Implements "Shard Manifest" and "WAL Storage Layout" of the MemTable and WAL specification. `_mem_wal/{shard}/` is written by one writer at
a time. `manifest/{version}.binpb` names its SSTables, and the position of an entry of the log up to which they contain all entries;
`wal/{position}.arrow` are the entries. In both names, the number has its 64 bits in reverse order. An SSTable may contain later entries,
too, which were written when it was begun: each entry notes the generation to which it belongs. The entry `__lance_mem_wal` in the table's
index section says which SSTables were merged into the table.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.messages import parse_message
from lance_spark.display.words import counted
from lance_spark.errors import CorruptFileError, LanceError, MissingFileError
from lance_spark.metadata.locations import check_relative
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import MEM_WAL, SYSTEM_INDEXES
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.snapshot import Snapshot, standing

_LOG = logging.getLogger(__name__)
_FOLDER = "_mem_wal"
_BITS = 64
_SHARDS_AT_OPEN = 16
"""Opening a table looks at so many shards: each takes a listing and two or three small reads."""
_CONNECTIONS = 8
_ENTRY = ".arrow"
_STATE = ".binpb"
_MOST_ENTRY_BYTES = 4096
"""An entry that only marks where a new writer took over has no columns; such entries have about 200 bytes."""
_HEAD_BYTES = 64 << 10
"""An entry begins with its schema and metadata, which take less space in most tables."""
NUMBERS = "lance_spark.numbers"
"""The key of the metadata with numbers of writes. It is that of the first batch: pylance takes no entry whose schema has other keys."""
_MOST_MISSED = 1000
"""A listing is not older by more entries."""
_MOST_DIGITS = 20
"""The digits of the largest number of 64 bits."""


@dataclass(frozen=True)
class Shard:
    """A shard of the log: what is not in a version of the table. `sstables` are numbers of generations and folders, oldest first.

    `entries` are the positions of the entries that are in no SSTable, ascending; some are only marks.
    """

    name: str
    sstables: tuple[tuple[int, str], ...]
    entries: tuple[int, ...]

    @property
    def folder(self) -> str:
        """Its folder in the table's root."""
        return f"{_FOLDER}/{self.name}"

    def entry(self, position: int) -> str:
        """The path of an entry."""
        return f"{self.folder}/wal/{_reversed(position)}{_ENTRY}"

    def is_unread(self, store: Store) -> bool:
        """Whether it has rows or deletions that are not in the version."""
        return bool(self.sstables) or any(not _is_mark(store, self.entry(position)) for position in self.entries)


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
        rows = "rows or deletions that are not merged into the table"
        return f"the write-ahead log has {rows}, in {least}{self.unread} of {counted(self.shards, 'shard')}"


def has_log(manifest: Manifest) -> bool:
    """Whether a version has a write-ahead log."""
    return any(index.name == MEM_WAL for index in manifest.indexes)


def shards_of(snapshot: Snapshot, most: int | None = None) -> list[Shard]:
    """The shards of the log now, no more than `most`, with what is not in this version of the table.

    Raises CorruptFileError if the log's files are invalid, and the store's errors.
    """
    merged = _merged(snapshot)
    names = shard_names(snapshot.store)[:most]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return list(pool.map(lambda name: _shard(snapshot, name, merged.get(name, 0)), names))


def unread_shards(snapshot: Snapshot, most: int | None = None) -> UnreadShards:
    """The shards of the log now which have rows that are not in this version of the table; looks at no more than `most` of them.

    Raises CorruptFileError if the log's files are invalid, and the store's errors.
    """
    if not has_log(snapshot.manifest):
        return UnreadShards(0, 0, 0)
    known = shards_of(snapshot, most)
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        unread = sum(pool.map(lambda shard: shard.is_unread(snapshot.store), known))
    return UnreadShards(unread, len(known), len(shard_names(snapshot.store)))


def shard_names(store: Store) -> list[str]:
    """The names of the shards, ascending."""
    return sorted(name for name in store.names(_FOLDER) if _is_shard(name))


def _merged(snapshot: Snapshot) -> dict[str, int]:
    """The last generation of each shard that is in the version."""
    merged: dict[str, int] = {}
    for details in _details(snapshot.manifest, str(snapshot)):
        merged.update(_by_shard(details.compacted_sstables))
    return merged


def _details(manifest: Manifest, where: str) -> Iterator[pb.MemWalIndexDetails]:
    for entry in manifest.indexes:
        if entry.name == MEM_WAL:
            yield parse_message(pb.MemWalIndexDetails, entry.details, f"{where}: the details of index {MEM_WAL!r}")


def _by_shard(tables: Iterable[pb.CompactedSsTable]) -> dict[str, int]:
    return {_text(table.shard_id.uuid): table.generation for table in tables}


def dispensable(manifest: Manifest, where: str) -> dict[str, int]:
    """The last generation of each shard that no reader of the version needs: those that are merged, and are in each index.

    See "Garbage Collector" of the specification: pylance's readers look into an SSTable while an index of the table lacks its rows.
    """
    names = {index.name for index in manifest.indexes} - SYSTEM_INDEXES
    found: dict[str, int] = {}
    for details in _details(manifest, where):
        known = {progress.index_name: _by_shard(progress.caught_up_generations) for progress in details.index_catchup}
        for shard, generation in _by_shard(details.compacted_sstables).items():
            found[shard] = min([generation, *(known.get(name, {}).get(shard, 0) for name in names)])
    return found


def warn_of_unread(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot; log a warning if a write-ahead log has rows. Call it once each time a user opens a table to change it."""
    if has_log(snapshot.manifest):
        try:
            if found := unread_shards(snapshot, _SHARDS_AT_OPEN):
                _LOG.warning("%s: %s; DELETE, UPDATE and MERGE change only rows of the table", snapshot, found)
        except LanceError as e:
            _LOG.warning("%s: whether the write-ahead log has rows is unknown: %s", snapshot, e)
    return snapshot


def flushed(store: Store) -> list[bytes]:
    """The last SSTable of each shard that has been flushed, merged or not, as a message CompactedSsTable. Raises CorruptFileError."""
    found = []
    for name in shard_names(store):
        latest = latest_state(store, Shard(name, (), ()))
        if latest is None:
            continue
        path, content = latest
        last = parse_message(pb.ShardManifest, content, f"{store.uri}/{path}").current_generation - 1
        if last > 0:
            shard = pb.UUID(uuid=uuid.UUID(name).bytes)
            found.append(pb.CompactedSsTable(shard_id=shard, generation=last).SerializeToString())
    return found


def _is_shard(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name)) == name
    return False


def _text(identifier: bytes) -> str:
    return str(uuid.UUID(bytes=identifier)) if len(identifier) == 16 else ""


def _reversed(number: int) -> str:
    return f"{number:0{_BITS}b}"[::-1]


def state_path(shard: Shard, version: int) -> str:
    """The path of a version of the shard's state, its manifest."""
    return f"{shard.folder}/manifest/{_reversed(version)}{_STATE}"


def latest_state(store: Store, shard: Shard) -> tuple[str, bytes] | None:
    """The path and the content of the latest version of a shard's state; None if the shard is new."""
    latest = max(_numbered(store, f"{shard.folder}/manifest", _STATE), default=0)
    # A listing may be older than what another client has put: states are put one after the other, and stay.
    while store.exists(state_path(shard, latest + 1)):
        latest += 1
    if not latest:
        return None
    path = state_path(shard, latest)
    return path, store.read(path)


def positions(store: Store, shard: Shard, covered: int) -> list[int]:
    """The positions of the entries of a shard, ascending, also of those that a listing misses because it is older.

    Entries up to `covered` are in SSTables by a state of the shard. Those before it may be cleaned up; after it, none is missing.
    """
    found = set(_numbered(store, f"{shard.folder}/wal", _ENTRY))
    position = max([0, covered - _MOST_MISSED, *found]) + 1
    while (is_there := store.exists(shard.entry(position))) or position <= covered:
        if is_there:
            found.add(position)
        position += 1
    return sorted(found)


def not_in_sstables(store: Store, shard: Shard, entries: range, generation: int) -> range:
    """The positions of `entries` from the first one with rows that are in no SSTable; the next SSTable will have the `generation`."""
    for position in entries:
        if not _is_in(store, shard.entry(position), generation):
            return range(position, entries.stop)
    return range(entries.stop, entries.stop)


def _shard(snapshot: Snapshot, name: str, merged: int) -> Shard:
    """A shard without the SSTables up to the generation that was `merged`. Raises MissingFileError if later ones were cleaned up."""
    store, new = snapshot.store, Shard(name, (), ())
    found = latest_state(store, new)
    if found is None:
        return new
    path, content = found
    manifest = parse_message(pb.ShardManifest, content, f"{store.uri}/{path}")
    sstables = sorted((table.generation, table.path) for table in manifest.sstables if table.generation > merged)
    oldest = sstables[0][0] if sstables else manifest.current_generation
    # Those between belong to no generation, or the version was removed, and what was merged since then, too.
    if oldest > merged + 1 and standing(snapshot) is not Standing.SAME:
        what = f"generation {merged + 1} of the write-ahead log was removed while this version was read; open the table again"
        raise MissingFileError(f"{snapshot}, shard {name}: {what}")
    for _, table in sstables:
        check_relative(table, "SSTable")
    covered = manifest.replay_after_wal_entry_position
    entries = [position for position in positions(store, new, covered) if position > covered]
    shard = Shard(name, tuple(sstables), tuple(entries))
    first = covered + 1
    for expected, there in enumerate(entries, first):
        # A listing may have missed an entry that was written meanwhile.
        if expected != there and not store.exists(shard.entry(expected)):
            raise CorruptFileError(
                f"{store.uri}/{shard.entry(expected)}: this entry of the write-ahead log is missing, but there are later ones"
            )
    if not entries:
        return shard
    every = range(first, entries[-1] + 1)
    return replace(shard, entries=tuple(not_in_sstables(store, shard, every, manifest.current_generation)))


def _numbered(store: Store, folder: str, suffix: str) -> Iterator[int]:
    """The numbers that are names of files in a folder: 64 bits in reverse order."""
    for name in store.names(folder):
        bits = name.removesuffix(suffix)
        if name.endswith(suffix) and len(bits) == _BITS and set(bits) <= {"0", "1"}:
            yield int(bits[::-1], 2)


def _is_mark(store: Store, path: str) -> bool:
    """Whether an entry only marks where a new writer took over."""
    return store.size(path) <= _MOST_ENTRY_BYTES and b"fence_sentinel" in metadata_of(store, path)


def _is_in(store: Store, path: str, current: int) -> bool:
    """Whether an SSTable contains the rows of an entry, if any: whether it notes a generation that is older than the `current` one."""
    # The first generation is 1, and none is older.
    if current <= 1:
        return False
    noted = metadata_of(store, path)
    generation = generation_of(noted)
    # Entries of older generations may follow the mark of a writer that has taken over in the middle of one.
    return b"fence_sentinel" in noted if generation is None else generation < current


def generation_of(noted: Mapping[bytes, bytes]) -> int | None:
    """The generation that an entry with this metadata belongs to; None if it does not say."""
    text = noted.get(b"generation", b"")
    # More digits than a number of 64 bits has say nothing.
    return int(text) if len(text) <= _MOST_DIGITS and text.isdigit() else None


def numbers_in(entry: bytes) -> bytes | None:
    """What an entry notes of numbered writes; None if it notes nothing."""
    with pa.ipc.open_stream(entry) as stream:
        try:
            _, noted = stream.read_next_batch_with_custom_metadata()
        except StopIteration:
            return None
    found: bytes | None = None if noted is None else noted.get(NUMBERS.encode())
    return found


def metadata_of(store: Store, path: str, most: int = _HEAD_BYTES) -> Mapping[bytes, bytes]:
    """What an entry notes about itself, which is in its first `most` bytes at most times."""
    size = store.size(path)
    (head,) = store.read_ranges(path, [ByteRange(0, min(size, most))])
    try:
        with pa.ipc.open_stream(head) as stream:
            return stream.schema.metadata or {}
    except (pa.ArrowException, OSError) as e:
        if size > most:
            return metadata_of(store, path, size)
        raise CorruptFileError(f"{store.uri}/{path}: not a valid entry of a write-ahead log: {e}") from e
