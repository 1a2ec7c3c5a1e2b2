"""Creating and dropping indexes. Large tables get several segments: each is built from some fragments, in memory."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pyroaring import BitMap

from lance_spark.errors import InvalidOptionError, check_type, on_refusal
from lance_spark.index import json_path
from lance_spark.index.kinds import kind_of
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import CreateIndex
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.commit.commit import commit, with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.indexes.json_values import with_value_type
from lance_spark.table.indexes.measure import MeasureTask, measure, measure_tasks, measured_segments
from lance_spark.table.indexes.merge import MergeTask
from lance_spark.table.indexes.segment import BuildTask, Definition, build_segment, define, discard
from lance_spark.table.indexes.stages import run_writing, segments_in, writing
from lance_spark.table.indexes.training import STAGES as TRAINING
from lance_spark.table.indexes.training import models_in, training, untrained
from lance_spark.table.indexes.vectors import define_vectors, gather, gather_tasks, in_parts, with_model
from lance_spark.table.scan.plan import plan_fragments, plan_group
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot

MAX_SEGMENT_BYTES = 256 << 20
"""Bytes of values and row numbers that one segment is built from; a fragment is never divided."""

MIN_SEGMENT_BYTES = 32 << 20
"""Less is not worth a segment for each core."""

_NUMBER_BYTES = 8
"""The number of a row, which is stored beside its value."""


@dataclass(frozen=True)
class NewIndex:
    """The arguments of `create_index`; see `Dataset.create_scalar_index`."""

    column: str
    kind: str
    name: str | None
    replace: bool
    train: bool
    parameters: dict[str, object]

    def __post_init__(self) -> None:
        check_type("column", self.column, str, "the name of a column")
        check_type("the kind of an index", self.kind, str, "text, such as BTREE")
        if self.name is not None:
            check_type("the name of an index", self.name, str, "text")
            if not self.name:
                raise ValueError("the name of an index must not be empty")


def create_index(runner: Runner, snapshot: Snapshot, new: NewIndex, properties: dict[str, str]) -> Snapshot:
    """Build an index of all rows and commit it. Raises what `define` and `commit` raise."""
    if done := done_before(snapshot.store, properties):
        return done
    snapshot = with_own_ids(snapshot)
    return commit_created(snapshot, new, run_writing(runner, snapshot, STAGES, new), properties)


def _trained(snapshot: Snapshot, new: NewIndex) -> list[Definition]:
    """A vector index has a model."""
    definition, _ = _checked(snapshot, new)
    return [definition] if definition.kind.trained and new.train else []


def _build_tasks(snapshot: Snapshot, new: NewIndex, cores: int, results: Results) -> list[BuildTask]:
    """Segments for all fragments."""
    definition, _ = _checked(snapshot, new)
    if definition.kind.trained:
        models = [m for m in models_in(results).values() if m.files]
        if not models:
            return []
        definition = with_model(snapshot, definition, models[0])
    tasks = build_tasks(cores, snapshot, definition, snapshot.manifest.fragments if new.train else ())
    return in_parts(tasks) if definition.kind.trained else tasks


def _gather_tasks(snapshot: Snapshot, new: NewIndex, cores: int, results: Results) -> list[MergeTask]:
    """One segment for those of a vector index."""
    definition, _ = _checked(snapshot, new)
    return gather_tasks(snapshot, definition, [*segments_in(results[TRAINING : TRAINING + 1]).values()]) if definition.kind.trained else []


def _added(snapshot: Snapshot, new: NewIndex, results: Results) -> tuple[list[IndexMetadata], set[bytes]]:
    """The new segments of the index, and the uuids of those that were joined to them."""
    built, joined = (segments_in(of) for of in (results[TRAINING : TRAINING + 1], results[TRAINING + 1 :]))
    sources = {segment.uuid for task in _gather_tasks(snapshot, new, 1, results) for segment in task.segments}
    return [s for s in (*built.values(), *joined.values()) if s.uuid not in sources], sources


def _measure_tasks(snapshot: Snapshot, new: NewIndex, cores: int, results: Results) -> list[MeasureTask]:
    """What searches of a vector index find."""
    definition, _ = _checked(snapshot, new)
    return measure_tasks(snapshot, definition, _added(snapshot, new, results)[0]) if definition.kind.trained else []


def commit_created(snapshot: Snapshot, new: NewIndex, results: Results, properties: dict[str, str]) -> Snapshot:
    """Commit the results of all stages for the same version."""
    definition, before = _checked(snapshot, new)
    models = segments_in(results[:TRAINING])
    added, sources = _added(snapshot, new, results)
    if not added:
        added = [*models_in(results).values()] or [untrained(snapshot, definition, uuid4().bytes)]
    temporary = [uuid for uuid in (*models, *sources) if uuid not in {s.uuid for s in added}]
    with on_refusal(lambda: discard(snapshot.store, *temporary)):
        done = commit_segments(snapshot, measured_segments(added, results), before, properties)
    discard(snapshot.store, *temporary)
    return done


def _checked(snapshot: Snapshot, new: NewIndex) -> tuple[Definition, tuple[IndexMetadata, ...]]:
    """The definition, and the segments that are replaced: those of an index of the same column."""
    define_kind = define_vectors if new.kind.upper().startswith("IVF") else define
    definition = define_kind(snapshot, new.column, new.kind, new.name, new.parameters)
    if new.name is None:
        definition = replace(definition, name=_free_name(snapshot, definition))
    before = segments_of(snapshot, definition.name)
    if any(i.fields != (definition.field.id,) for i in before):
        raise InvalidOptionError(f"{snapshot} already has an index {definition.name!r} of another column; give another name, or drop it")
    if before and not new.replace:
        raise InvalidOptionError(f"{snapshot} already has an index {definition.name!r}; drop it, give another name, or pass replace=True")
    return definition, before


def _free_name(snapshot: Snapshot, definition: Definition) -> str:
    """The default name, with a number if an index of another column, of another kind, or of another path of a JSON column has it."""
    name, path = definition.name, json_path.path_of(definition.details) if definition.kind.target else ""

    def is_same(index: IndexMetadata) -> bool:
        kind = kind_of(index.details_type, index.details)
        if index.fields != (definition.field.id,) or kind is None or kind.name != definition.kind.name:
            return False
        return kind.target is None or json_path.path_of(index.details) == path

    numbered = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    return next(name for name in numbered if all(is_same(index) for index in segments_of(snapshot, name)))


def drop_index(snapshot: Snapshot, name: str, properties: dict[str, str]) -> Snapshot:
    """Drop all segments of an index in one commit. Raises InvalidOptionError."""
    if done := done_before(snapshot.store, properties):
        return done
    segments = segments_of(snapshot, name)
    if not segments or name in SYSTEM_INDEXES:
        raise no_index(snapshot, name)
    return commit_segments(snapshot, (), segments, properties)


def segments_of(snapshot: Snapshot, name: str) -> tuple[IndexMetadata, ...]:
    """The segments of an index; none if there is no such index."""
    return tuple(i for i in snapshot.manifest.indexes if i.name == name)


def no_index(snapshot: Snapshot, name: str) -> InvalidOptionError:
    """The error for an unknown index."""
    names = sorted({i.name for i in snapshot.manifest.indexes} - SYSTEM_INDEXES)
    return InvalidOptionError(f"{snapshot} has no index {name!r}; its indexes are: {', '.join(names) or 'none'}")


def build_tasks(cores: int, snapshot: Snapshot, definition: Definition, fragments: Sequence[Fragment]) -> list[BuildTask]:
    """The tasks of `build_segment` that write segments for these fragments: one without rows if there are none."""
    check_writable(snapshot.manifest, snapshot.store.uri)
    definition = with_value_type(snapshot, definition, fragments or snapshot.manifest.fragments)
    plan, numbers, stable = definition.scan(snapshot), definition.numbers(snapshot), snapshot.manifest.has_stable_row_ids

    def task(group: Sequence[Fragment]) -> BuildTask:
        covered = BitMap(f.id for f in group)
        return BuildTask(definition, plan_group(snapshot, plan, group), numbers, snapshot.store, covered, snapshot.version, stable)

    return [task(group) for group in _groups(cores, snapshot, definition, fragments) or [()]]


def _groups(cores: int, snapshot: Snapshot, definition: Definition, fragments: Sequence[Fragment]) -> list[tuple[Fragment, ...]]:
    """Neighbouring fragments for one segment each."""
    scans = plan_fragments(snapshot, definition.scan(snapshot), {f.id for f in fragments})
    sizes = {}
    for scan in scans:
        if scan.parts:
            sizes[scan.parts[0].fragment.id] = scan.num_bytes + _NUMBER_BYTES * scan.num_rows
    most = min(MAX_SEGMENT_BYTES, max(MIN_SEGMENT_BYTES, -(-sum(sizes.values()) // cores)))
    groups: list[list[Fragment]] = []
    size = 0
    for fragment in fragments:
        own = sizes.get(fragment.id, 0)
        # Fragments of the same size are shared out evenly, though a sum of theirs may be a little larger.
        if not groups or size + own // 2 > most:
            groups.append([])
            size = 0
        groups[-1].append(fragment)
        size += own
    return [tuple(group) for group in groups]


def commit_segments(
    snapshot: Snapshot, new: Sequence[IndexMetadata], removed: Collection[IndexMetadata], properties: dict[str, str]
) -> Snapshot:
    """Add and remove segments in one version. If the commit has certainly failed, the files of the new ones are deleted.

    A segment that is added and removed stays, with other details.
    """
    transaction = Transaction(snapshot.version, CreateIndex(tuple(new), tuple(removed)), properties=properties)
    there = {index.uuid for index in removed}
    with on_refusal(lambda: discard(snapshot.store, *(index.uuid for index in new if index.uuid not in there))):
        return commit(snapshot.store, transaction, base=snapshot)


STAGES = (
    *training(_trained),
    writing(_build_tasks, build_segment),
    writing(_gather_tasks, gather),
    Stage(_measure_tasks, measure),
)
