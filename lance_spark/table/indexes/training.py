"""Training the model of a vector index, its centroids and its quantizer: by one task, or by many if the sample is too large for one.

The model is a segment without rows. Many tasks train in steps, and their segments are deleted at the end: a task trains a few centroids;
tasks draw parts of the sample and gather them by the nearest of these; tasks train the final centroids, each those of a few parts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import on_failure
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import quoted
from lance_spark.table.indexes.segment import Definition, discard, folder, metadata
from lance_spark.table.indexes.stages import segments_in, writing
from lance_spark.table.indexes.vectors import model_files, recipe_for, vectors_in
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.scan.take import take
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.make.recipe import Recipe

How = TypeVar("How")
_LOG = logging.getLogger(__name__)

MOST_SAMPLE_BYTES = 1 << 28
"""A task trains with so much at most: its process holds it a few times."""

_MORE = 4
"""If too few of the sampled rows have vectors, so many times as many are sampled."""

_DRAWN_AT_ONCE = 1 << 16
"""Vectors of a large sample that are read at once."""


def training(definitions: Callable[[Snapshot, How], Sequence[Definition]]) -> tuple[Stage[How], ...]:
    """The stages that train the models of these indexes; see `models_in`."""

    def whole(snapshot: Snapshot, options: How, cores: int, results: Results) -> list[TrainTask]:
        return [TrainTask(d, snapshot, _outgrows(snapshot, d)) for d in definitions(snapshot, options)]

    def drawing(snapshot: Snapshot, options: How, cores: int, results: Results) -> list[DrawTask]:
        coarse = {m.name: m for m in segments_in(results[:1]).values() if m.files}
        return [t for d in definitions(snapshot, options) if d.name in coarse for t in _draws(d, snapshot, coarse[d.name])]

    def parts(snapshot: Snapshot, options: How, cores: int, results: Results) -> list[PartTask]:
        found = []
        for definition in definitions(snapshot, options):
            drawn = tuple(s for s in segments_in(results[1:2]).values() if s.name == definition.name)
            found += [PartTask(definition, snapshot, drawn, i) for i in range(len(drawn))]
        return found

    def joining(snapshot: Snapshot, options: How, cores: int, results: Results) -> list[TrainTask]:
        drawn = {s.name for s in segments_in(results[1:2]).values()}
        trained = segments_in(results[2:3]).values()
        wanted = [d for d in definitions(snapshot, options) if d.name in drawn]
        return [TrainTask(d, snapshot, False, tuple(s for s in trained if s.name == d.name)) for d in wanted]

    return writing(whole, train_model), writing(drawing, draw), writing(parts, train_part), writing(joining, train_model)


STAGES = 4
"""The number of stages of `training`."""


def models_in(results: Results) -> dict[str, IndexMetadata]:
    """The models that the first stages have trained, by the name of the index; one without files has too few rows to train it."""
    return {m.name: m for number in (0, STAGES - 1) for m in segments_in(results[number : number + 1]).values()}


@dataclass(frozen=True)
class TrainTask:
    """Trains a model with a sample of all rows; `parts` have its centroids, if those are trained already.

    With `coarse`, it has only centroids, and few of them.
    """

    definition: Definition
    snapshot: Snapshot
    coarse: bool
    parts: tuple[IndexMetadata, ...] = ()
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def train_model(task: TrainTask) -> IndexMetadata:
    """Write a segment without rows that has the model; one without files if there are too few vectors. If this fails, it is deleted."""
    from lance_spark.index.vector.make.train import train_model as train

    snapshot, definition, loss = task.snapshot, task.definition, 0.0
    recipe = recipe_for(definition)
    least = recipe.least_rows
    if task.parts:
        recipe, loss = _joined(task, recipe)
    elif task.coarse:
        recipe = _coarse(snapshot, recipe)
    sample, rows = _sample(snapshot, definition, recipe)
    if not len(sample) or rows < least:
        _LOG.warning("%s: the index %r has no rows yet: %d vectors are too few to train it", snapshot, definition.name, rows)
        return untrained(snapshot, definition, task.uuid)
    with on_failure(lambda: discard(snapshot.store, task.uuid)):
        trained = train(sample, rows, recipe, _target(snapshot, task.uuid), loss)
    return _segment(snapshot, definition, task.uuid, trained)


def _outgrows(snapshot: Snapshot, definition: Definition) -> bool:
    """Whether the sample is too large for a task."""
    recipe, total = recipe_for(definition), int(all_live_rows(snapshot).sum())
    size = recipe.sample_size(total) * 4 * vectors_in(definition.field.type).list_size
    return recipe.centroids is None and recipe.partitions(total) > 1 and size > MOST_SAMPLE_BYTES


def _coarse(snapshot: Snapshot, recipe: Recipe) -> Recipe:
    """How the few first centroids are trained."""
    count = math.isqrt(recipe.partitions(int(all_live_rows(snapshot).sum())))
    return replace(recipe, kind="IVF_FLAT", num_partitions=count, target_partition_size=None, graph=None)


def _joined(task: TrainTask, recipe: Recipe) -> tuple[Recipe, float]:
    """The recipe with the centroids that tasks have trained, and the sum of the distances to them."""
    from lance_spark.index.vector.make.train import centroids_in

    centroids, loss = centroids_in(model_files(task.snapshot, task.definition, part) for part in task.parts)
    return replace(recipe, centroids=centroids), loss


def untrained(snapshot: Snapshot, definition: Definition, unique: bytes) -> IndexMetadata:
    """A segment without rows and files."""
    return _segment(snapshot, definition, unique, Trained(definition.details, 1, ()))


def _segment(snapshot: Snapshot, definition: Definition, unique: bytes, trained: Trained) -> IndexMetadata:
    return metadata(definition, snapshot.version, snapshot.manifest.has_stable_row_ids, unique, trained, BitMap())


def _target(snapshot: Snapshot, unique: bytes) -> IndexTarget:
    return IndexTarget(snapshot.store, folder(unique))


def _sample(snapshot: Snapshot, definition: Definition, recipe: Recipe) -> tuple[np.ndarray, int]:
    """Random vectors to train with, and about the number of all vectors."""
    from lance_spark.index.vector.make.encode import comparable
    from lance_spark.index.vector.vectors import each_vector, matrix

    total = int(all_live_rows(snapshot).sum())
    t = vectors_in(definition.field.type)
    most = max(MOST_SAMPLE_BYTES // (4 * t.list_size), 1)
    size, rng = min(recipe.sample_size(total), most), np.random.default_rng(total)
    while True:
        chosen = np.sort(rng.choice(total, size, replace=False))
        parts = []
        for batch in _taken(snapshot, definition, chosen):
            values, valid = matrix(each_vector(batch.column("value"))[0])
            vectors, usable = comparable(values, recipe.metric)
            parts.append(vectors[usable & valid])
        sample = np.concatenate(parts) if parts else np.empty((0, t.list_size), t.value_type.to_pandas_dtype())
        there = round(total * len(sample) / size) if size else 0  # not as many as rows: these have lists, or nulls
        wanted = min(recipe.sample_size(there), most)
        if len(sample) >= wanted or size == total:
            return sample[:wanted], there
        size = min(total, size * _MORE)


def _taken(snapshot: Snapshot, definition: Definition, chosen: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The values of the rows with these numbers, which are in order, as the kind takes them."""
    column, plan, first = Column(definition.path, definition.field.type), ScanPlan((quoted(definition.path),)), 0
    for batch in take(snapshot, chosen, plan).to_batches():
        numbers = pa.array(chosen[first : first + batch.num_rows].astype(np.uint64))
        yield pa.RecordBatch.from_arrays([raw_values(column, batch), numbers], names=["value", "row"])
        first += batch.num_rows


@dataclass(frozen=True)
class DrawTask:
    """Draws `size` of the rows from the number `first` to `stop`, and gathers their vectors by the nearest centroid of `coarse`."""

    definition: Definition
    snapshot: Snapshot
    coarse: IndexMetadata
    first: int
    stop: int
    size: int
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def _draws(definition: Definition, snapshot: Snapshot, coarse: IndexMetadata) -> list[DrawTask]:
    if not _outgrows(snapshot, definition):
        return []
    total = int(all_live_rows(snapshot).sum())
    size = recipe_for(definition).sample_size(total)
    count = min(-(-size * 4 * vectors_in(definition.field.type).list_size // MOST_SAMPLE_BYTES), size)
    bounds, sizes = ([whole * i // count for i in range(count + 1)] for whole in (total, size))
    tasks = []
    for i in range(count):
        own_size = sizes[i + 1] - sizes[i]
        tasks.append(DrawTask(definition, snapshot, coarse, bounds[i], bounds[i + 1], own_size))
    return tasks


def draw(task: DrawTask) -> IndexMetadata:
    """Write a segment of vectors. If this fails, it is deleted."""
    from lance_spark.index.vector.make.segment import MODEL, train

    snapshot, definition = task.snapshot, task.definition
    rng = np.random.default_rng(task.first)
    chosen = task.first + np.sort(rng.choice(task.stop - task.first, task.size, replace=False))
    pieces = (chosen[at : at + _DRAWN_AT_ONCE] for at in range(0, task.size, _DRAWN_AT_ONCE))
    rows = (batch for piece in pieces for batch in _taken(snapshot, definition, piece))
    model = {MODEL: model_files(snapshot, definition, task.coarse)}
    with on_failure(lambda: discard(snapshot.store, task.uuid)):
        trained = train(rows, definition.field.type, _target(snapshot, task.uuid), model)
    return _segment(snapshot, definition, task.uuid, trained)


@dataclass(frozen=True)
class PartTask:
    """Trains the centroids near some of the coarse ones: of as many equal parts of these as there are `drawn` segments, one."""

    definition: Definition
    snapshot: Snapshot
    drawn: tuple[IndexMetadata, ...]
    number: int
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def train_part(task: PartTask) -> IndexMetadata | None:
    """Write a segment without rows that has the centroids; None if there are none. If this fails, it is deleted."""
    from lance_spark.index.vector.index import open_index
    from lance_spark.index.vector.make.segment import rows_of_partition
    from lance_spark.index.vector.make.train import train_centroids

    snapshot, definition = task.snapshot, task.definition
    recipe, total = recipe_for(definition), int(all_live_rows(snapshot).sum())
    drawn = [open_index(model_files(snapshot, definition, segment)) for segment in task.drawn]
    sizes = np.sum([index.partitions.stops - index.partitions.starts for index in drawn], axis=0)
    rows = round(total * int(sizes.sum()) / recipe.sample_size(total))
    first, stop = (len(sizes) * (task.number + i) // len(task.drawn) for i in range(2))

    def vectors(number: int) -> np.ndarray:
        return np.concatenate([rows_of_partition(index, number)[1]["flat"] for index in drawn])

    with on_failure(lambda: discard(snapshot.store, task.uuid)):
        trained = train_centroids(vectors, sizes, range(first, stop), recipe, rows, _target(snapshot, task.uuid))
    return None if trained is None else _segment(snapshot, definition, task.uuid, trained)
