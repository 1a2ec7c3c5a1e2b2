"""Extending indexes to the fragments that were added since, and joining their segments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from lance_spark.errors import (
    CorruptFileError,
    InvalidOptionError,
    MissingFileError,
    UnsupportedFeatureError,
    check_type,
    on_refusal,
)
from lance_spark.index import json_path
from lance_spark.index.kinds import kind_of
from lance_spark.index.minhash.parameters import known_min_hash
from lance_spark.index.text.analysis.parameters import has_items
from lance_spark.index.text.text_index import told_parameters
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.indexes.create import build_tasks, commit_segments, no_index, segments_of
from lance_spark.table.indexes.describe import complaints
from lance_spark.table.indexes.json_values import has_value_type, without_value_type
from lance_spark.table.indexes.measure import (
    Measurement,
    MeasureTask,
    is_outdated,
    measure,
    measure_tasks,
    measured_segments,
)
from lance_spark.table.indexes.merge import MAX_MERGED_ROWS, MergeTask, index_files, merge
from lance_spark.table.indexes.segment import BuildTask, Definition, build_segment, discard, layout_of
from lance_spark.table.indexes.stages import Refused, run_writing, segments_in, writing
from lance_spark.table.indexes.training import STAGES as TRAINING
from lance_spark.table.indexes.training import models_in, training
from lance_spark.table.indexes.vectors import existing_vectors, gather_tasks, has_model, in_parts, with_model, without_model
from lance_spark.table.scan.moved_rows import may_lack
from lance_spark.table.scan.parts import live_by_id
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Optimization:
    """The arguments of `optimize_indices`; see `table.compaction.optimize.Optimizer.optimize_indices`."""

    merge: int | None = None
    names: Sequence[str] | None = None
    retrain: bool = False


def optimize_indices(runner: Runner, snapshot: Snapshot, optimization: Optimization, properties: dict[str, str]) -> Snapshot:
    """Extend indexes to all fragments, in one commit. Indexes of unknown kinds stay as they are.

    An index that is not named in `optimization` stays as it is, too, if new rows have a value that it cannot have.
    """
    if done := done_before(snapshot.store, properties):
        return done
    snapshot = with_own_ids(snapshot)
    results = run_writing(runner, snapshot, STAGES, optimization)
    return commit_optimized(snapshot, optimization, results, properties)


def _trained(snapshot: Snapshot, optimization: Optimization) -> list[Definition]:
    """Vector indexes that are built anew."""
    return [w.definition for w in _wanted(snapshot, optimization) if w.anew and not has_model(w.definition)]


def _build_tasks(snapshot: Snapshot, optimization: Optimization, cores: int, results: Results) -> list[BuildTask]:
    """New segments for the fragments that an index does not cover."""
    models = models_in(results)
    tasks = []
    for wanted in _wanted(snapshot, optimization):
        definition = wanted.definition
        if (model := models.get(definition.name)) is not None:
            if not model.files:
                continue  # there are too few rows to train it
            definition = with_model(snapshot, definition, model)
        if wanted.left or wanted.anew:
            try:
                built = build_tasks(cores, snapshot, definition, wanted.left)
                tasks += in_parts(built) if wanted.anew and definition.kind.trained else built
            except InvalidOptionError as e:
                _refuse(snapshot, optimization, wanted.definition.name, e)
    return tasks


def _build(task: BuildTask) -> IndexMetadata | Refused:
    try:
        return build_segment(task)
    except (InvalidOptionError, UnsupportedFeatureError) as e:  # a value that the index cannot have, or a tokenizer
        return Refused(task.definition.name, e)


def _refuse(snapshot: Snapshot, optimization: Optimization, name: str, error: InvalidOptionError | UnsupportedFeatureError) -> None:
    if optimization.names is not None:
        raise error
    _LOG.warning("%s: the index %r is not extended: %s", snapshot, name, error)


def _merge_tasks(snapshot: Snapshot, optimization: Optimization, cores: int, results: Results) -> list[MergeTask]:
    """One segment for the new ones and others of an index."""
    built, models = [r for r in results[TRAINING] if isinstance(r, IndexMetadata)], models_in(results)
    refused = {r.name for r in results[TRAINING] if isinstance(r, Refused)}
    covers = _covers(snapshot) | {b.uuid: fragments_of(b) or BitMap() for b in built}
    tasks = []
    for wanted in _wanted(snapshot, optimization):
        name = wanted.definition.name
        new = [b for b in built if b.name == name]
        if wanted.anew and wanted.definition.kind.trained and new:
            # If they cannot be joined, they are built again with the model.
            tasks += gather_tasks(snapshot, with_model(snapshot, wanted.definition, models[name]), new)
        # Without new segments, the build was refused when it was planned.
        if not wanted.anew and name not in refused and (new or not wanted.left):
            task = _merge_task(snapshot, wanted.definition, wanted.segments, new, covers, optimization.merge)
            tasks += [task] if task is not None else []
    return tasks


def _rebuild_tasks(snapshot: Snapshot, optimization: Optimization, cores: int, results: Results) -> list[BuildTask]:
    """New segments in the place of those that cannot be read."""
    tasks = []
    for task, merged in zip(_merge_tasks(snapshot, optimization, cores, results), results[TRAINING + 1], strict=True):
        if merged is None:
            covered = BitMap().union(*task.fragments)
            tasks += build_tasks(cores, snapshot, task.definition, [f for f in snapshot.manifest.fragments if f.id in covered])
    return tasks


def _changes(snapshot: Snapshot, optimization: Optimization, results: Results) -> _Changes:
    """What the results of the stages that write change."""
    new, removed, temporary = segments_in(results), list[IndexMetadata](), list[bytes]()
    for task in _merge_tasks(snapshot, optimization, 1, results):
        temporary += [s.uuid for s in task.segments if s.uuid in new]
        removed += [s for s in task.segments if s.uuid not in new]
    temporary += segments_in(results[:TRAINING])
    removed += [segment for wanted in _wanted(snapshot, optimization) if wanted.anew for segment in wanted.segments]
    for refused in (r for done in results for r in done if isinstance(r, Refused)):
        _refuse(snapshot, optimization, refused.name, refused.error)
        temporary += [uuid for uuid, segment in new.items() if segment.name == refused.name]
        removed = [segment for segment in removed if segment.name != refused.name]
    added = [segment for uuid, segment in new.items() if uuid not in temporary]
    # An index whose new segments were refused when they were planned keeps its old ones.
    removed = [r for r in removed if any(a.name == r.name for a in added)]
    return _Changes(added, removed, temporary)


def _measure_tasks(snapshot: Snapshot, optimization: Optimization, cores: int, results: Results) -> list[MeasureTask]:
    """What searches of vector indexes find in new segments, and in those of which it is not known."""
    changes = _changes(snapshot, optimization, results)
    gone = {s.uuid for s in changes.removed}
    tasks = []
    for wanted in _wanted(snapshot, optimization):
        if wanted.definition.kind.trained:
            kept = [s for s in wanted.segments if s.uuid not in gone and is_outdated(snapshot, wanted.definition, s)]
            new = [s for s in changes.added if s.name == wanted.definition.name]
            tasks += measure_tasks(snapshot, wanted.definition, [*kept, *new])
    return tasks


def commit_optimized(snapshot: Snapshot, optimization: Optimization, results: Results, properties: dict[str, str]) -> Snapshot:
    """Commit the results of all stages for the same version."""
    changes = _changes(snapshot, optimization, results)
    added, removed = measured_segments(changes.added, results), changes.removed
    told = {r.uuid for stage in results for r in stage if isinstance(r, Measurement) and r.measured is not None}
    again = [s for s in snapshot.manifest.indexes if s.uuid in told]
    known = [s for s, new in zip(again, measured_segments(again, results)) if s.details != new.details]
    added += measured_segments(known, results)
    with on_refusal(lambda: discard(snapshot.store, *changes.temporary)):
        done = commit_segments(snapshot, added, [*removed, *known], properties) if added else snapshot
    discard(snapshot.store, *changes.temporary)
    for name, complaint in complaints(done).items():
        _LOG.warning("%s: train the index %r again (retrain): %s", done, name, complaint)
    return done


@dataclass(frozen=True)
class _Changes:
    """The segments that are added and removed, and the uuids of those that were written on the way."""

    added: list[IndexMetadata]
    removed: list[IndexMetadata]
    temporary: list[bytes]


@dataclass(frozen=True)
class _Wanted:
    """An index that is optimized, and its segments: whether it is built anew, and the fragments of which new segments are built."""

    definition: Definition
    segments: tuple[IndexMetadata, ...]
    anew: bool
    left: Sequence[Fragment]


def _wanted(snapshot: Snapshot, optimization: Optimization) -> list[_Wanted]:
    existing = {i.name for i in snapshot.manifest.indexes} - SYSTEM_INDEXES
    check_type("index_names", optimization.names or (), Iterable, "a sequence of names")
    for name in optimization.names or ():
        if name not in existing:
            raise no_index(snapshot, name)
    covers, fragments = _covers(snapshot), snapshot.manifest.fragments
    found = []
    for name in sorted(existing if optimization.names is None else set(optimization.names)):
        segments = segments_of(snapshot, name)
        definition = definition_of(snapshot, segments)
        if definition is None:
            if optimization.names is not None:
                raise UnsupportedFeatureError(f"the index {name!r} is of a kind or version that cannot be extended")
            _LOG.warning("%s: the index %r is of a kind or version that cannot be extended", snapshot, name)
            continue
        covered = BitMap().union(*(covers[s.uuid] for s in segments))
        left = [f for f in fragments if f.id not in covered]
        lost = any(_may_lack(snapshot, definition, s, covers[s.uuid]) for s in segments)
        if optimization.retrain or lost or (left and not (has_value_type(definition) and has_model(definition))):
            found.append(_Wanted(without_model(without_value_type(definition)), segments, True, fragments))
        else:
            found.append(_Wanted(definition, segments, False, left))
    return found


def uncovered(snapshot: Snapshot) -> dict[str, int]:
    """By the name of each index that would be extended or built anew, the rows of which it would get new segments."""
    rows = live_by_id(snapshot)
    wanted = (w for w in _wanted(snapshot, Optimization()) if w.left)
    return {w.definition.name: sum(rows[f.id] for f in w.left) for w in wanted}


def _covers(snapshot: Snapshot) -> dict[bytes, BitMap]:
    """The existing fragments that each segment covers now."""
    existing = BitMap(f.id for f in snapshot.manifest.fragments)
    return {i.uuid: (fragments_of(i) or BitMap()) & existing for i in through_reuse(snapshot.manifest.indexes)}


def _may_lack(snapshot: Snapshot, definition: Definition, segment: IndexMetadata, covered: BitMap) -> bool:
    try:
        return bool(may_lack(snapshot, segment, index_files(snapshot, segment, definition.field, covered), covered))
    except (CorruptFileError, UnsupportedFeatureError, MissingFileError):
        return False  # which is found when segments are joined


def definition_of(snapshot: Snapshot, segments: Sequence[IndexMetadata]) -> Definition | None:
    """The definition of an existing index; None if its kind, a version, or a column is unknown, or if it is damaged."""
    first = segments[0]
    kind = kind_of(first.details_type, first.details)
    alike = all(s.details_type == first.details_type and s.fields == first.fields and s.fragment_bitmap for s in segments)
    paths = (p for p in snapshot.manifest.schema.paths() if (p[-1].id,) == first.fields)
    path = next(paths, None)
    if kind is None or not alike or path is None or not all(kind.knows(s.index_version) for s in segments):
        return None
    definition = Definition(first.name, tuple(f.name for f in path), path[-1], first.details_type, details=first.details)
    if kind.trained:
        return existing_vectors(snapshot, definition, segments)
    if kind.name == "INVERTED":
        if any(has_items(s.details) for s in segments):
            return None  # items of lists that are documents of their own are not written
        try:
            known = told_parameters([index_files(snapshot, s, path[-1], BitMap()) for s in segments], f"the index {first.name!r}")
        except CorruptFileError as e:
            _LOG.warning("%s: %s", snapshot, e)
            return None
        return replace(definition, parameters={"parameters": known})
    if kind.name == "MINHASHLSH":
        known_hash = known_min_hash([s.details for s in segments])
        return None if known_hash is None else replace(definition, parameters={"parameters": known_hash})
    if kind.target is not None:
        if not json_path.same_values(s.details for s in segments) or (snapshot.manifest.has_stable_row_ids and not kind.stable):
            return None
        given = {"path": json_path.path_of(first.details), "target_index_type": kind.target.name}
        definition = replace(definition, parameters=given)
    if kind.name == "RTREE":
        try:
            definition = replace(definition, parameters={"layout": layout_of(path[-1], ".".join(definition.path))})
        except (InvalidOptionError, UnsupportedFeatureError) as e:
            _LOG.warning("%s: the index %r is not extended: %s", snapshot, first.name, e)
            return None
    if kind.zoned or kind.target is not None or kind.name == "RTREE":
        try:
            files = index_files(snapshot, first, path[-1], BitMap())
            return replace(definition, parameters={**definition.parameters, **kind.parameters(files)})
        except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError) as e:
            _LOG.warning("%s: the index %r is rebuilt with the default parameters: %s", snapshot, first.name, e)
    return definition


def _merge_task(
    snapshot: Snapshot,
    definition: Definition,
    segments: Sequence[IndexMetadata],
    built: Sequence[IndexMetadata],
    covers: Mapping[bytes, BitMap],
    newest: int | None,
) -> MergeTask | None:
    """The task that joins the new segments and the smallest others, or only of the `newest` of them; None if there is nothing to join."""
    physical = {f.id: f.physical_rows for f in snapshot.manifest.fragments}
    rows = {}
    for segment in (*segments, *built):
        rows[segment.uuid] = sum(physical[f] for f in covers[segment.uuid])
    if newest is not None:
        by_age = sorted(segments, key=lambda s: (s.dataset_version, s.created_at or 0))
        segments = by_age[max(len(by_age) - newest, 0) :]
    chosen, total = list(built), sum(rows[b.uuid] for b in built)
    for segment in sorted(segments, key=lambda s: rows[s.uuid]):
        total += rows[segment.uuid]
        if total > MAX_MERGED_ROWS:
            break
        chosen.append(segment)
    if len(chosen) < 2 or len(chosen) == len(built):
        return None
    return MergeTask(definition, snapshot, tuple(chosen), tuple(covers[c.uuid] for c in chosen))


STAGES = (
    *training(_trained),
    writing(_build_tasks, _build),
    writing(_merge_tasks, merge),
    writing(_rebuild_tasks, _build),
    Stage(_measure_tasks, measure),
)
