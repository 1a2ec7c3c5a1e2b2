"""The parts of a write-ahead log that a cleanup removes: SSTables that no version needs any more, and the entries with their rows.

Implements "Garbage Collector" of the MemTable and WAL specification. A version needs the SSTables that are not merged in it, and
those that an index of it lacks. Some entries stay: the first one of each epoch, since a writer of an older epoch finds its next place
taken by it; the newest one that notes numbers of writes; and those after which a new writer goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.versions.write_ahead_log import (
    Shard,
    dispensable,
    generation_of,
    has_log,
    latest_state,
    metadata_of,
    numbers_in,
    positions,
    shard_names,
)

_SSTABLE = re.compile(r"[0-9a-f]+_gen_([0-9]{1,20})")


@dataclass(frozen=True)
class OldParts:
    """What no version needs of a shard: the `files` of SSTables up to the generation `last`, in `folders`, and of entries."""

    shard: Shard
    last: int
    folders: tuple[str, ...]
    files: tuple[Entry, ...]


class LogCleanup:
    """What the versions of a table that are kept leave of its log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, int] | None = None

    def keep(self, version: int, manifest: Manifest) -> None:
        """Keep what readers of a version need."""
        if not has_log(manifest):
            return
        own = dispensable(manifest, f"{self._store.uri}, version {version}")
        known = own if self._last is None else self._last
        self._last = {shard: min(last, own[shard]) for shard, last in known.items() if shard in own}

    def old_parts(self) -> Iterator[OldParts]:
        """What can be removed, shard by shard. Raises CorruptFileError, and the errors of the store."""
        there = set(shard_names(self._store)) if self._last else set()
        for name, last in sorted((self._last or {}).items()):
            if last and name in there:
                yield self._of_shard(Shard(name, (), ()), last)

    def _of_shard(self, shard: Shard, last: int) -> OldParts:
        names = self._store.contents(shard.folder)[1]
        numbers = ((name, _SSTABLE.fullmatch(name)) for name in names)
        folders = [f"{shard.folder}/{name}" for name, number in numbers if number and int(number[1]) <= last]
        files = [(f"{folder}/{file.name}", file.size) for folder in folders for file in self._store.walk(folder)]
        entries = [shard.entry(position) for position in self._old_entries(shard, last)]
        files += [(path, self._store.size(path)) for path in entries]
        return OldParts(shard, last, tuple(folders), tuple(Entry(path, size, None) for path, size in files))

    def _old_entries(self, shard: Shard, last: int) -> list[int]:
        """The positions of the entries of generations up to `last`, but those that stay."""
        found = latest_state(self._store, shard)
        if found is None:
            return []
        state = parse_message(pb.ShardManifest, found[1], f"{self._store.uri}/{found[0]}")
        there = positions(self._store, shard, state.replay_after_wal_entry_position)
        old, epochs = [], set[bytes]()
        for position in there:
            if position >= state.replay_after_wal_entry_position:
                break
            noted = metadata_of(self._store, shard.entry(position))
            generation, epoch = generation_of(noted), noted.get(b"writer_epoch", b"")
            if epoch in epochs and generation is not None and generation <= last:
                old.append(position)
            epochs.add(epoch)
        numbered = self._newest_numbered(shard, there) if old else None
        return [position for position in old if position != numbered]

    def _newest_numbered(self, shard: Shard, there: list[int]) -> int | None:
        """The position of the newest entry that notes numbers of writes."""
        for position in reversed(there):
            if numbers_in(bytes(self._store.read(shard.entry(position)))) is not None:
                return position
        return None
