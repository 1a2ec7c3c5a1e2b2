"""Joining segments of an index to one."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError, on_failure
from lance_spark.index.answer import Rows, of_numbers, union
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import kind_of
from lance_spark.index.moves import Chain, Kept, Translation
from lance_spark.index.target import IndexTarget
from lance_spark.metadata.deletion_file import live_offsets
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.row_ids import all_values, load_sequence, parse_row_ids
from lance_spark.schema.schema import Field
from lance_spark.table.indexes.segment import Definition, discard, folder, metadata
from lance_spark.table.scan.moved_rows import reuse_moves, reused_fragments
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)

MAX_MERGED_ROWS = 1 << 25
"""Segments with more rows than these together are not joined: it takes memory, and the time of one task."""


def index_files(snapshot: Snapshot, segment: IndexMetadata, field: Field, fragments: BitMap) -> IndexFiles:
    """The files of a segment, limited to these fragments."""
    store, place = snapshot.locations.index_folder(segment)
    rows = {f.id: f.physical_rows for f in snapshot.manifest.fragments if f.id in fragments}
    kind = kind_of(segment.details_type, segment.details)
    if kind is not None and not kind.zoned:
        # Rows that moved are still at their old addresses.
        rows = {**reused_fragments(snapshot.manifest.indexes), **rows}
    sizes = {file.path: file.size for file in segment.files if file.size}
    return IndexFiles(store, place, field, rows, sizes=sizes, details=segment.details, verify_checksums=snapshot.verify_checksums)


@dataclass(frozen=True)
class MergeTask:
    """Joins segments to one, each with the rows of some of the fragments."""

    definition: Definition
    snapshot: Snapshot
    segments: tuple[IndexMetadata, ...]
    fragments: tuple[BitMap, ...]
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def merge(task: MergeTask) -> IndexMetadata | None:
    """Write the joined segment; None if one of the segments cannot be read. If this fails, its files are deleted."""
    snapshot, definition = task.snapshot, task.definition
    stable = snapshot.manifest.has_stable_row_ids
    moves = () if stable else reuse_moves(snapshot.manifest.indexes)
    sources: list[tuple[IndexFiles, Translation]] = []
    try:
        with on_failure(lambda: discard(snapshot.store, task.uuid)):
            for segment, fragments in zip(task.segments, task.fragments):
                files = index_files(snapshot, segment, definition.field, fragments)
                sources.append((files, Chain((*moves, Kept(live_rows(snapshot, definition, segment, fragments))))))
            trained = definition.kind.rewrite(sources, IndexTarget(snapshot.store, folder(task.uuid)))
    except (CorruptFileError, UnsupportedFeatureError) as e:
        _LOG.warning("%s: the index %r is built again: %s", snapshot, definition.name, e)
        return None
    return metadata(definition, snapshot.version, stable, task.uuid, trained, BitMap().union(*task.fragments))


def live_rows(snapshot: Snapshot, definition: Definition, segment: IndexMetadata, fragments: BitMap) -> Rows:
    """The rows of the fragments that are not deleted, as the segment names them: by address or by row id."""
    addresses = definition.kind.has_addresses(segment.index_version, snapshot.manifest.has_stable_row_ids)
    return union(_live(snapshot, f, addresses) for f in snapshot.manifest.fragments if f.id in fragments)


def _live(snapshot: Snapshot, fragment: Fragment, addresses: bool) -> Rows:
    live = live_offsets(fragment, snapshot.locations)
    if addresses:
        return {fragment.id: live}
    if fragment.row_ids is None:
        raise CorruptFileError(f"fragment {fragment.id} has no row ids, but the table has stable row ids: the manifest is corrupt")
    ids = all_values(parse_row_ids(load_sequence(fragment.row_ids, snapshot.locations), fragment.physical_rows))
    return of_numbers(ids[np.asarray(live.to_array(), dtype=np.int64)])
