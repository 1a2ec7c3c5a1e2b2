"""A version together with its write-ahead log as one table, for what finds rows by their addresses: searches, `take` and samples.

Of the table's fragments, the rows that the log replaces or deletes count as deleted, so that indexes do not return them. The rows of the
log are further fragments, of which the indexes of SSTables cover theirs. Scans do not need this, see
`mem_wal.tasks`: it takes reading the primary key of the whole table before the first row is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.held_file import HeldFile
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import BasePath, Fragment, HeldDeletions, LogFragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_address import by_fragment
from lance_spark.schema.schema import quoted
from lance_spark.table.build.index_coverage import fragments_of
from lance_spark.table.mem_wal.entries import TOMBSTONE
from lance_spark.table.mem_wal.keys import TABLE_RANK, ShardKeys, all_keys, are_few, read_once
from lance_spark.table.mem_wal.tasks import Log, LogShard, LogTable
from lance_spark.table.scan.plan import ScanPlan, plan_parts, plan_tasks
from lance_spark.table.versions.snapshot import LogIndex, LogRows, Snapshot

_ADDRESS = "_rowaddr"
_FRAGMENT_BYTES = 1 << 10
"""About the memory of a fragment."""


def with_log(snapshot: Snapshot) -> Snapshot:
    """The version with the rows of its log; itself if there are none, or they are not to be read.

    It stays in memory with the version, as long as the log does not change.
    """
    log = Log.of(snapshot)
    if log is None:
        return snapshot
    key = "with log", tuple((shard.shard.name, shard.shard.sstables, shard.shard.entries) for shard in log.shards)
    return snapshot.locations.kept.get(key, lambda: with_rows(snapshot, _rows(log)), _nbytes)


def with_rows(snapshot: Snapshot, rows: LogRows) -> Snapshot:
    """The version with these rows of its log."""
    manifest = snapshot.manifest
    fragments = manifest.lazy_fragments.changed({f.id: f for f in rows.masked}, ()) + rows.added
    return replace(
        snapshot,
        manifest=replace(manifest, fragments=fragments, base_paths=(*manifest.base_paths, *rows.folders)),
        log=rows,
    )


def _nbytes(snapshot: Snapshot) -> int:
    assert snapshot.log is not None
    fragments = (*snapshot.log.masked, *snapshot.log.added)
    return sum(_FRAGMENT_BYTES + 4 * (f.deletion.num_deleted or 0 if f.deletion else 0) for f in fragments)


def _rows(log: Log) -> LogRows:
    snapshot = log.snapshot
    shards = tuple(shard.keys for shard in log.shards if shard.keys is not None)
    gone = _replaced(_of_table(log), shards, TABLE_RANK) if shards else np.empty(0, np.uint64)
    fragments = snapshot.manifest.lazy_fragments.of_ids(np.unique(gone >> np.uint64(32)).tolist())
    masked = tuple(_without(fragments[i], offsets, snapshot) for i, offsets in by_fragment(gone))
    added: list[Fragment] = []
    folders: list[BasePath] = []
    indexes: list[LogIndex] = []
    number = _first_free(snapshot.manifest)
    base_id = max((base.id for base in snapshot.manifest.base_paths), default=0) + 1
    for shard in log.shards:
        for rank, table in enumerate(shard.tables, TABLE_RANK + 1):
            folder = BasePath(base_id + len(folders), table.snapshot.store.uri, True)
            folders.append(folder)
            numbers = {}
            for fragment in _of_sstable(log, shard, table, rank):
                files = tuple(replace(file, base_id=folder.id) for file in fragment.files)
                deletion = fragment.deletion
                place = number + len(added)
                own = LogFragment(place, files, fragment.physical_rows, deletion, overlays=fragment.overlays, has_addresses=True)
                added.append(own)
                numbers[fragment.id] = place
            indexes += _indexes_of(snapshot, table, numbers, folder)
        if shard.entries.paths and (entries := _of_entries(snapshot, shard, number + len(added))) is not None:
            added.append(entries)
    return LogRows(masked, tuple(added), tuple(folders), tuple(indexes), len(gone))


def _first_free(manifest: Manifest) -> int:
    """The first id that no fragment has had: indexes may cover fragments that are gone."""
    return max(int(manifest.lazy_fragments.ids.max(initial=-1)), -1 if manifest.max_fragment_id is None else manifest.max_fragment_id) + 1


def _keys_plan(log: Log) -> ScanPlan:
    return ScanPlan((*(quoted([f.name]) for f in log.keys), _ADDRESS))


def _of_table(log: Log) -> Iterator[pa.RecordBatch]:
    """The keys and addresses of the table's rows."""
    tasks = plan_tasks(log.snapshot, _keys_plan(log))
    kept = are_few(tasks)
    for task in tasks:
        yield from read_once(task).to_batches() if kept else task.read()


def _replaced(batches: Iterable[pa.RecordBatch], shards: tuple[ShardKeys, ...], rank: int) -> np.ndarray:
    """The addresses of rows with tombstones, and of those for whose keys the shards have rows above `rank`, ascending."""
    return np.unique(np.concatenate([np.empty(0, np.uint64), *_each_replaced(batches, shards, rank)]))


def _each_replaced(batches: Iterable[pa.RecordBatch], shards: tuple[ShardKeys, ...], rank: int) -> Iterator[np.ndarray]:
    for batch in batches:
        gone = all_keys(shards).superseded(batch, rank)
        if TOMBSTONE in batch.schema.names and rank > TABLE_RANK:
            gone = np.union1d(gone, np.flatnonzero(batch.column(TOMBSTONE).to_numpy(zero_copy_only=False)))
        if len(gone):
            yield batch.column(_ADDRESS).to_numpy()[gone]


def _without(fragment: Fragment, offsets: np.ndarray, snapshot: Snapshot) -> Fragment:
    """The fragment, whose rows at these offsets count as deleted, too."""
    return replace(fragment, deletion=HeldDeletions.of(np.union1d(read_deletions(fragment, snapshot.locations), offsets)))


def _of_sstable(log: Log, shard: LogShard, table: LogTable, rank: int) -> Iterator[Fragment]:
    """The fragments of an SSTable with rows that are read, without those that are not."""
    own = table.snapshot
    gone: dict[int, np.ndarray] = {}
    if shard.keys is not None:
        plan = _keys_plan(log)
        if table.has_tombstones:
            plan = replace(plan, columns=(*(plan.columns or ()), quoted([TOMBSTONE])))
        places = [replace(part, fragment=_addressed(part.fragment)) for part in table.parts]
        gone = dict(by_fragment(_replaced(read_once(plan_parts(own, plan, places)).to_batches(), (shard.keys,), rank)))
    for part in table.parts:
        if any(file.base_id is not None for file in part.fragment.files):
            raise UnsupportedFeatureError(f"{own}: an SSTable with files elsewhere can be scanned, but not searched; merge the log first")
        fragment = _without(part.fragment, gone.get(part.fragment.id, np.empty(0, np.uint32)), own)
        if fragment.deletion is not None and fragment.deletion.num_deleted == fragment.physical_rows:
            continue
        yield fragment


def _indexes_of(snapshot: Snapshot, table: LogTable, numbers: Mapping[int, int], folder: BasePath) -> Iterator[LogIndex]:
    """The segments of an SSTable that searches of the version ask: those of indexes that the version has.

    `numbers` are the ids of the fragments in the version, by their ids in the SSTable.
    """
    own = table.snapshot.manifest
    known = {(index.name, index.fields, index.details_type) for index in snapshot.manifest.indexes}
    for index in () if own.has_stable_row_ids else own.indexes:
        covered = fragments_of(index)
        if (index.name, index.fields, index.details_type) in known and covered is not None:
            pairs = tuple((f, numbers[f]) for f in covered if f in numbers)
            yield LogIndex(replace(index, base_id=folder.id), pairs)


def _addressed(fragment: Fragment) -> Fragment:
    return replace(fragment, has_addresses=True) if isinstance(fragment, LogFragment) else fragment


def _of_entries(snapshot: Snapshot, shard: LogShard, number: int) -> Fragment | None:
    """The entries of a shard as a fragment; None if they have no rows."""
    tombstones = shard.entries.newest().column(TOMBSTONE)
    rows, deleted = len(tombstones), np.flatnonzero(tombstones.to_numpy(zero_copy_only=False))
    if len(deleted) == rows:
        return None
    ids = tuple(f.id for f in snapshot.manifest.schema.walk())
    file = HeldFile(f"{shard.shard.folder}/wal", ids, tuple(range(len(ids))), (2, 1), source=shard.entries, num_rows=rows)
    return LogFragment(number, (file,), rows, HeldDeletions.of(deleted) if len(deleted) else None, has_addresses=True)
