"""Remapping of indexes to the rows that a compaction has moved: segments with addresses are written anew, zones are summarised again.

A clustering mixes the rows of fragments: segments are then built of the new fragments, beside the rows that stay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, InvalidOptionError, MissingFileError, UnsupportedFeatureError, on_failure
from lance_spark.index.files import IndexFiles
from lance_spark.index.moves import Chain, Group, Kept, Moves, OldFragment, Translation
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.metadata.deletion_file import live_offsets
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.operations import RewriteGroup, RewrittenIndex
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.indexes.json_values import has_value_type
from lance_spark.table.indexes.merge import MAX_MERGED_ROWS, index_files, live_rows
from lance_spark.table.indexes.optimize import definition_of
from lance_spark.table.indexes.segment import BuildTask, Definition, attempted, build, discard, discard_attempts, folder
from lance_spark.table.indexes.vectors import has_model
from lance_spark.table.scan.moved_rows import may_lack, reuse_moves
from lance_spark.table.scan.plan import plan_group
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)


def remappable(snapshot: Snapshot) -> dict[bytes, Definition]:
    """The segments, by uuid, that can follow their rows. Those of row ids are among them: their rows keep their names."""
    indexes = snapshot.manifest.indexes
    found = {}
    for index, now in zip(indexes, through_reuse(indexes)):
        # If the bitmap does not tell where the rows are now, the index must be optimized first.
        if index.name not in SYSTEM_INDEXES and fragments_of(index) == fragments_of(now):
            definition = definition_of(snapshot, [index])
            if definition is not None:
                found[index.uuid] = definition
    return found


@dataclass(frozen=True)
class RemapTask:
    """Writes a segment anew for rows that moved. `scan` reads the rows of the new fragments, for kinds of zones."""

    snapshot: Snapshot
    segment: IndexMetadata
    definition: Definition
    groups: tuple[RewriteGroup, ...]
    scan: ScanTask | None
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def needs_addresses(snapshot: Snapshot, fragments: BitMap) -> list[tuple[IndexMetadata, Definition]]:
    """The segments that can follow and name rows of these fragments by address."""
    stable, definitions = snapshot.manifest.has_stable_row_ids, remappable(snapshot)
    found = []
    for index in snapshot.manifest.indexes:
        definition = definitions.get(index.uuid)
        if definition is None or not definition.kind.has_addresses(index.index_version, stable):
            continue
        if (fragments_of(index) or BitMap()) & fragments:
            found.append((index, definition))
    return found


def remap(runner: Runner, snapshot: Snapshot, groups: Sequence[RewriteGroup], only_zones: bool = False) -> tuple[RewrittenIndex, ...]:
    """Write the segments for the rows of `groups`, whose new fragments have their final ids; or only those of kinds of zones.

    A segment that cannot be read is left as it is: it no longer covers the rows.
    """
    moved = BitMap(f.id for group in groups for f in group.old_fragments)
    tasks = []
    for segment, definition in needs_addresses(snapshot, moved):
        if only_zones and not definition.kind.zoned:
            continue
        covered = fragments_of(segment) or BitMap()
        own = tuple(g for g in groups if BitMap(f.id for f in g.old_fragments) & covered)
        new = [f for g in own for f in g.new_fragments]
        scan = plan_group(snapshot, definition.scan(snapshot), new) if definition.kind.zoned else None
        tasks.append(RemapTask(snapshot, segment, definition, own, scan))
    with on_failure(lambda: discard_attempts(snapshot.store, tasks)):
        done = runner.run(tasks, partial(attempted, write_anew))
    return tuple(rewritten for rewritten in done if rewritten is not None)


def write_anew(task: RemapTask) -> RewrittenIndex | None:
    """Write one segment; None if the old one cannot be read. If this fails, the files are deleted."""
    target, old = IndexTarget(task.snapshot.store, folder(task.uuid)), task.segment
    try:
        with on_failure(lambda: discard(target.store, task.uuid)):
            trained = _of_zones(task, target) if task.scan is not None else _of_addresses(task, target)
            return RewrittenIndex(old.uuid, task.uuid, old.details_type, old.details, old.index_version or 0, trained.files)
    except (CorruptFileError, UnsupportedFeatureError, MissingFileError) as e:
        _LOG.warning("%s: a segment of index %r does not follow its rows: %s", task.snapshot, task.segment.name, e)
        return None


def _of_addresses(task: RemapTask, target: IndexTarget) -> Trained:
    covered = fragments_of(task.segment) or BitMap()
    files = index_files(task.snapshot, task.segment, task.definition.field, covered)
    if may_lack(task.snapshot, task.segment, files, covered):
        raise CorruptFileError("its writer may have lost the rows that a compaction moved twice")
    before = () if task.snapshot.manifest.has_stable_row_ids else reuse_moves(task.snapshot.manifest.indexes)
    existing = _Existing(covered & BitMap(f.id for f in task.snapshot.manifest.fragments))
    moves = Moves([_group(task.snapshot, group) for group in task.groups])
    return task.definition.kind.rewrite([(files, Chain((*before, existing, moves)))], target)


@dataclass(frozen=True)
class _Existing(Translation):
    """Only rows of these fragments: an index may still name rows of others, which are gone."""

    fragments: BitMap

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = np.asarray(self.fragments.to_array(), np.uint32)
        return numbers, np.isin((numbers >> np.uint64(32)).astype(np.uint32), own)

    def rows(self, rows: dict[int, BitMap]) -> dict[int, BitMap]:
        return {fragment: found for fragment, found in rows.items() if fragment in self.fragments}


def _group(snapshot: Snapshot, group: RewriteGroup) -> Group:
    old = []
    for fragment in group.old_fragments:
        live = None if fragment.deletion is None else live_offsets(fragment, snapshot.locations)
        old.append(OldFragment(fragment.id, fragment.physical_rows, live))
    return Group(tuple(old), tuple((f.id, f.physical_rows) for f in group.new_fragments))


def _of_zones(task: RemapTask, target: IndexTarget) -> Trained:
    """The zones of the fragments that stay, and new ones of the new fragments."""
    assert task.scan is not None
    moved = BitMap(f.id for g in task.groups for f in g.old_fragments)
    new = [f for g in task.groups for f in g.new_fragments]
    return _with_new_fragments(task.snapshot, task.segment, task.definition, moved, new, task.scan, target)


def _with_new_fragments(
    snapshot: Snapshot,
    segment: IndexMetadata,
    definition: Definition,
    moved: BitMap,
    new: Sequence[Fragment],
    scan: ScanTask,
    target: IndexTarget,
) -> Trained:
    """Write the rows of a segment that have not moved, and those of the new fragments, which `scan` reads."""
    kept = (fragments_of(segment) or BitMap()) & BitMap(f.id for f in snapshot.manifest.fragments) - moved
    stable = snapshot.manifest.has_stable_row_ids
    part = BuildTask(definition, scan, definition.numbers(snapshot), target.store, BitMap(f.id for f in new), snapshot.version, stable)
    trained = build(part)
    try:
        sizes, known = {f.id: f.physical_rows for f in new}, {f.path: f.size for f in trained.files}
        files = IndexFiles(target.store, part.folder, definition.field, sizes, sizes=known, details=trained.details)
        staying = Chain(() if definition.kind.zoned else (Kept(live_rows(snapshot, definition, segment, kept)),))
        sources = [(index_files(snapshot, segment, definition.field, kept), staying), (files, Chain(()))]
        return definition.kind.rewrite(sources if kept else sources[1:], target)
    finally:
        discard(target.store, part.uuid)


@dataclass(frozen=True)
class RebuildTask:
    """Writes a segment anew with all rows of the `new` fragments, and with those of its rows that are not in the fragments `moved`."""

    snapshot: Snapshot
    segment: IndexMetadata
    definition: Definition
    moved: BitMap
    new: tuple[Fragment, ...]
    scan: ScanTask
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def rebuild(runner: Runner, snapshot: Snapshot, old: Sequence[Fragment], new: Sequence[Fragment]) -> tuple[RewrittenIndex, ...]:
    """Build the segments that name the rows of `old` otherwise than they are in `new`, which have their final ids but no version yet.

    Each index gets one segment that covers all of `new`. One that cannot be built, or would be too large, is left out.
    """
    moved, definitions = BitMap(f.id for f in old), remappable(snapshot)
    rows = sum(f.physical_rows for f in new)
    stays = {f.id: f.physical_rows for f in snapshot.manifest.fragments if f.id not in moved}
    tasks = []
    for name in sorted({i.name for i in snapshot.manifest.indexes} - SYSTEM_INDEXES):
        segments = [i for i in snapshot.manifest.indexes if i.name == name and i.uuid in definitions]
        if segments and not _follows(snapshot, segments, definitions, moved):
            segment = max(segments, key=lambda s: len(fragments_of(s) or ()))
            definition = definitions[segment.uuid]
            total = rows + sum(stays.get(f, 0) for f in fragments_of(segment) or ())
            if total <= MAX_MERGED_ROWS and has_value_type(definition) and has_model(definition):
                scan = plan_group(snapshot, definition.scan(snapshot), new)
                tasks.append(RebuildTask(snapshot, segment, definition, moved, tuple(new), scan))
    with on_failure(lambda: discard_attempts(snapshot.store, tasks)):
        done = runner.run(tasks, partial(attempted, build_anew))
    return tuple(segment for segment in done if segment is not None)


def _follows(snapshot: Snapshot, segments: Sequence[IndexMetadata], definitions: Mapping[bytes, Definition], moved: BitMap) -> bool:
    """Whether an index names the moved rows by their ids, and one segment has them all."""
    stable = snapshot.manifest.has_stable_row_ids
    addresses = any(definitions[s.uuid].kind.has_addresses(s.index_version, stable) for s in segments)
    return not addresses and any(moved <= (fragments_of(s) or BitMap()) for s in segments)


def build_anew(task: RebuildTask) -> RewrittenIndex | None:
    """Write one segment; None if the old one cannot be read, or does not take a value. If this fails, the files are deleted."""
    snapshot, definition, target = task.snapshot, task.definition, IndexTarget(task.snapshot.store, folder(task.uuid))
    try:
        with on_failure(lambda: discard(target.store, task.uuid)):
            trained = _with_new_fragments(snapshot, task.segment, definition, task.moved, task.new, task.scan, target)
    except (CorruptFileError, UnsupportedFeatureError, MissingFileError, InvalidOptionError) as e:
        _LOG.warning("%s: a segment of index %r does not follow its rows: %s", snapshot, task.segment.name, e)
        return None
    version = definition.kind.new_version(trained.version, snapshot.manifest.has_stable_row_ids)
    return RewrittenIndex(task.segment.uuid, task.uuid, definition.details_type, trained.details, version, trained.files, rebuilt=True)
