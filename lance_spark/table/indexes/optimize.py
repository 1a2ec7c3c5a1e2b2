"""Extending indexes to the fragments that were added since, and joining their segments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError, on_failure
from lance_spark.index import json_path
from lance_spark.index.answer import Rows, of_numbers, union
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import kind_of
from lance_spark.index.moves import Chain, Kept, Translation
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.metadata.deletion_file import live_offsets
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.row_ids import all_values, load_sequence, parse_row_ids
from lance_spark.schema.schema import Field
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.indexes.create import build_segments, commit_segments, no_index, segments_of
from lance_spark.table.indexes.json_values import has_value_type, without_value_type
from lance_spark.table.indexes.segment import Definition, discard, folder, metadata
from lance_spark.table.scan.moved_rows import reuse_moves, reused_fragments
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot, in_use

_LOG = logging.getLogger(__name__)

MAX_MERGED_ROWS = 1 << 25
"""Segments with more rows than these together are not joined: it takes memory for all of them."""


@dataclass(frozen=True)
class Optimization:
    """The arguments of `optimize_indices`; see `table.changes.optimize.Optimizer.optimize_indices`."""

    merge: int | None = None
    names: Sequence[str] | None = None
    retrain: bool = False


def optimize_indices(runner: Runner, snapshot: Snapshot, how: Optimization, properties: dict[str, str]) -> Snapshot:
    """Extend each scalar index to all fragments, each in one commit. Indexes of unknown kinds stay as they are."""
    snapshot = with_own_ids(snapshot)
    existing = {i.name for i in snapshot.manifest.indexes} - SYSTEM_INDEXES
    for name in how.names or ():
        if name not in existing:
            raise no_index(snapshot, name)
    for name in sorted(existing if how.names is None else set(how.names)):
        definition = definition_of(snapshot, segments_of(snapshot, name))
        if definition is None:
            if how.names is not None:
                raise UnsupportedFeatureError(f"the index {name!r} is of a kind or version that cannot be extended")
            _LOG.warning("%s: the index %r is of a kind or version that cannot be extended", snapshot, name)
            continue
        try:
            snapshot = _optimize(runner, snapshot, definition, how, properties)
        except InvalidOptionError as e:
            if how.names is not None:
                raise
            _LOG.warning("%s: the index %r is not extended: %s", snapshot, name, e)
    return snapshot


def _optimize(runner: Runner, snapshot: Snapshot, definition: Definition, how: Optimization, properties: dict[str, str]) -> Snapshot:
    segments = segments_of(snapshot, definition.name)
    now = {i.uuid: fragments_of(i) or BitMap() for i in through_reuse(snapshot.manifest.indexes)}
    fragments = snapshot.manifest.fragments
    existing = BitMap(f.id for f in fragments)
    covered = BitMap().union(*(now[s.uuid] for s in segments))
    anew = how.retrain or (bool(existing - covered) and not has_value_type(definition))
    if anew:
        definition, covered = without_value_type(definition), BitMap()
    built: list[IndexMetadata] = []
    joined: list[IndexMetadata] = list(segments) if anew else []
    with on_failure(lambda: discard(snapshot.store, *(b.uuid for b in built))):
        if anew or existing - covered:
            built = build_segments(runner, snapshot, definition, [f for f in fragments if f.id not in covered])
        merged = [] if anew else _to_merge(segments, built, how.merge)
        if merged:
            kept = {**now, **{b.uuid: fragments_of(b) or BitMap() for b in built}}
            task = merge_task(snapshot, definition, [*merged, *built], kept)
            if task.rows <= MAX_MERGED_ROWS:
                built, joined = _merge(runner, snapshot, task, built), merged
    return commit_segments(snapshot, built, joined, properties) if built or joined else snapshot


def _to_merge(segments: Sequence[IndexMetadata], built: Sequence[IndexMetadata], merge: int | None) -> list[IndexMetadata]:
    """The segments to be joined with each other and with new ones: all, or the newest `merge` of them."""
    if merge is not None:
        segments = sorted(segments, key=lambda s: (s.dataset_version, s.created_at or 0))[len(segments) - min(merge, len(segments)) :]
    return list(segments) if len(segments) + len(built) > 1 else []


def definition_of(snapshot: Snapshot, segments: Sequence[IndexMetadata]) -> Definition | None:
    """The definition of an existing index; None if its kind, a version, or a column is unknown, or if it is damaged."""
    first = segments[0]
    kind = kind_of(first.details_type, first.details)
    alike = all(s.details_type == first.details_type and s.fields == first.fields and s.fragment_bitmap for s in segments)
    path = _path(snapshot.manifest.schema.fields, first.fields[0]) if len(first.fields) == 1 else ()
    if kind is None or not alike or not path or any((s.index_version or 0) > kind.version for s in segments):
        return None
    definition = Definition(first.name, tuple(f.name for f in path), path[-1], first.details_type, details=first.details)
    if kind.target is not None:
        if not json_path.same_values(s.details for s in segments) or (snapshot.manifest.has_stable_row_ids and not kind.stable):
            return None
        given = {"path": json_path.path_of(first.details), "target_index_type": kind.target.name}
        definition = replace(definition, parameters=given)
    if kind.zoned or kind.target is not None:
        try:
            files = index_files(snapshot, first, path[-1], BitMap())
            return replace(definition, parameters=kind.parameters(files))
        except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError) as e:
            _LOG.warning("%s: the index %r is rebuilt with the default parameters: %s", snapshot, first.name, e)
    return definition


def _path(fields: Iterable[Field], wanted: int) -> tuple[Field, ...]:
    """The fields from the top level down to the one with the id `wanted`."""
    for f in fields:
        if f.id == wanted:
            return (f,)
        if below := _path(f.children, wanted):
            return (f, *below)
    return ()


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
    """Joins segments to one. `rows` is how many rows they have together."""

    definition: Definition
    snapshot: Snapshot
    segments: tuple[IndexMetadata, ...]
    fragments: tuple[BitMap, ...]
    rows: int
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def merge_task(snapshot: Snapshot, definition: Definition, segments: Sequence[IndexMetadata], covered: dict[bytes, BitMap]) -> MergeTask:
    """The task that joins the segments, each with the rows of the fragments that it covers now."""
    existing = {f.id: f for f in snapshot.manifest.fragments}
    live = [covered[s.uuid] & BitMap(existing) for s in segments]
    rows = sum(existing[f].physical_rows for of in live for f in of)
    return MergeTask(definition, snapshot, tuple(segments), tuple(live), rows)


def _merge(runner: Runner, snapshot: Snapshot, task: MergeTask, built: Sequence[IndexMetadata]) -> list[IndexMetadata]:
    """Join the segments. The files of the ones in `built` are deleted. Segments that cannot be read are built again from the rows."""
    everything = BitMap().union(*task.fragments)
    try:
        with in_use(snapshot):
            (trained,) = runner.run([task], merge)
        stable = snapshot.manifest.has_stable_row_ids
        done = [metadata(task.definition, snapshot.version, stable, task.uuid, trained, everything)]
    except (CorruptFileError, UnsupportedFeatureError) as e:
        _LOG.warning("%s: the index %r is built again: %s", snapshot, task.definition.name, e)
        wanted = [f for f in snapshot.manifest.fragments if f.id in everything]
        done = build_segments(runner, snapshot, task.definition, wanted)
    discard(snapshot.store, *(b.uuid for b in built))
    return done


def merge(task: MergeTask) -> Trained:
    """Write the joined segment. If this fails, its files are deleted."""
    snapshot, definition = task.snapshot, task.definition
    moves = reuse_moves(snapshot.manifest.indexes) if not snapshot.manifest.has_stable_row_ids else ()
    sources: list[tuple[IndexFiles, Translation]] = []
    with on_failure(lambda: discard(snapshot.store, task.uuid)):
        for segment, fragments in zip(task.segments, task.fragments):
            files = index_files(snapshot, segment, definition.field, fragments)
            sources.append((files, Chain((*moves, Kept(live_rows(snapshot, definition, segment, fragments))))))
        return definition.kind.rewrite(sources, IndexTarget(snapshot.store, folder(task.uuid)))


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
