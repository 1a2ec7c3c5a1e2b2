"""Writing SSTables: the newest rows of a generation as a table of its own, with the indexes that the log maintains.

Implements "SSTable" of the MemTable and WAL specification. Rows that a newer one of the generation replaces are not
written, so that no deletion file has to hide them.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.errors import StorageError, UnsupportedFeatureError, on_failure
from lance_spark.index import btree
from lance_spark.index.kinds import kind_of
from lance_spark.index.target import IndexTarget
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.schema.schema import Field, Schema, from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.indexes.create import build_tasks, commit_segments
from lance_spark.table.indexes.optimize import definition_of
from lance_spark.table.indexes.segment import build_segment
from lance_spark.table.indexes.vectors import has_model
from lance_spark.table.mem_wal.entries import TOMBSTONE, last_of_each
from lance_spark.table.mem_wal_writing.key_filter import key_filter
from lance_spark.table.mem_wal_writing.key_tuples import key_values
from lance_spark.table.versions.shard_states import WrittenSsTable
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.write_ahead_log import Shard
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.options import NO_OPTIONS
from lance_spark.table.write.rules import NO_RULES
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import commit_write

_LOG = logging.getLogger(__name__)
_ONE_FILE = 1 << 62
"""An SSTable has one fragment, of any number of rows and bytes."""


def write_sstable(
    base: Snapshot,
    shard: Shard,
    generation: int,
    batches: Sequence[pa.RecordBatch],
    keys: tuple[Field, ...],
    indexes: Sequence[IndexMetadata],
) -> WrittenSsTable:
    """Write the rows of a generation, of one or more batches in their order, with the columns of `base` and `_tombstone`.

    No shard names the SSTable yet. If this fails, its files are deleted, where the store allows it.
    """
    path = f"{secrets.token_hex(4)}_gen_{generation}"
    folder = f"{shard.folder}/{path}"
    store = base.store.at(f"{base.store.uri}/{folder}")
    with on_failure(lambda: _discard(base.store, folder)):
        newest = _newest(batches, keys)
        own = _write_rows(base, store, newest, keys)
        own = _with_indexes(own, base, indexes)
        if keys:
            _write_keys(own.store, _keys_of(newest, keys))
        base.store.sync(shard.folder)
    size, count = sum(batch.nbytes for batch in newest), sum(batch.num_rows for batch in newest)
    return WrittenSsTable(path, size, count, _keys_of(newest, keys).nbytes if keys else None)


def maintained(base: Snapshot, names: tuple[str, ...] | None) -> list[IndexMetadata]:
    """A segment of each index that SSTables have: those with these names, or all that can be made (None).

    Raises UnsupportedFeatureError for one that is named, but cannot be made.
    """
    found: dict[str, IndexMetadata] = {}
    for index in base.manifest.indexes:
        if index.name in SYSTEM_INDEXES or (names is not None and index.name not in names):
            continue
        if _is_made(index):
            found.setdefault(index.name, index)
        elif names is not None:
            what = "SSTables of the write-ahead log can have indexes of the kinds BTREE, INVERTED and IVF"
            raise UnsupportedFeatureError(f"{base}: the index {index.name!r} cannot be maintained: {what}")
    return list(found.values())


def _is_made(index: IndexMetadata) -> bool:
    kind = kind_of(index.details_type, index.details)
    return kind is not None and (kind.name in ("BTREE", "INVERTED") or kind.trained)


def _newest(batches: Sequence[pa.RecordBatch], keys: tuple[Field, ...]) -> list[pa.RecordBatch]:
    """The batches without the rows that a later one with the same key replaces."""
    if not keys:
        return [*batches]
    last = last_of_each(_keys_of(batches, keys))
    bounds = np.searchsorted(last, np.cumsum([0, *(batch.num_rows for batch in batches)]))
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    kept = [last[begin:end] - start for begin, end, start in zip(bounds, bounds[1:], starts)]
    return [_rows_of(batch, rows) for batch, rows in zip(batches, kept, strict=True) if len(rows)]


def _rows_of(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    numbers = pa.array(rows)
    return pa.RecordBatch.from_arrays([take(column, numbers) for column in batch.columns], schema=batch.schema)


def _keys_of(batches: Sequence[pa.RecordBatch], keys: tuple[Field, ...]) -> pa.Table:
    """The keys of all rows, without metadata, which is not the same in all batches."""
    names = [f.name for f in keys]
    return pa.concat_tables([pa.table(batch.select(names).columns, names=names) for batch in batches])


def _write_rows(base: Snapshot, store: Store, batches: Sequence[pa.RecordBatch], keys: tuple[Field, ...]) -> Snapshot:
    """The first version of the SSTable: the rows, whose columns have the ids of the table's."""
    schema = base.manifest.schema
    names = {f.name for f in keys}
    # Tombstones have nulls in all columns but those of the key.
    fields = [f if f.name in names else replace(f, nullable=True) for f in schema.fields]
    [tombstone] = from_arrow(pa.schema([pa.field(TOMBSTONE, pa.bool_(), nullable=False)])).fields
    own = Schema((*fields, replace(tombstone, id=schema.max_field_id + 1)), schema.metadata)
    options = replace(NO_OPTIONS, max_rows_per_file=_ONE_FILE, max_bytes_per_file=_ONE_FILE)
    target = WriteTarget(store, own, base.manifest.data_format, "create", 0, options, NO_RULES)
    writer = FragmentWriter(target)
    for batch in batches:
        writer.write_stored(batch)
    return commit_write(target, writer.finish())


def _with_indexes(own: Snapshot, base: Snapshot, indexes: Sequence[IndexMetadata]) -> Snapshot:
    """The SSTable with indexes of its rows as the table has them: vectors have the codes of the table's model."""
    added = []
    for index in indexes:
        definition = definition_of(base, [i for i in base.manifest.indexes if i.name == index.name])
        if definition is None or not has_model(definition):
            _LOG.info("%s: the SSTable has no index %r, as that of the table cannot be read", own, index.name)
            continue
        added += [build_segment(task) for task in build_tasks(1, own, definition, own.manifest.fragments)]
    return commit_segments(own, added, (), {}) if added else own


def _write_keys(store: Store, keys: pa.Table) -> None:
    """Write the index of the keys, which readers of pylance open beside the table, and the filter of the keys."""
    values = key_values(keys)

    def batches() -> Iterator[pa.RecordBatch]:
        numbers = pa.array(np.arange(len(values), dtype=np.uint64))
        yield pa.RecordBatch.from_arrays([values, numbers], names=["value", "row"])

    btree.train(batches(), values.type, IndexTarget(store, "_pk_index"), {})
    store.put("bloom_filter.bin", key_filter(keys))


def _discard(store: Store, folder: str) -> None:
    with contextlib.suppress(StorageError):
        store.delete_folder(folder)
