"""Vector indexes: a model (centroids and a quantizer) is trained first; the tasks that build segments share it.

The model is a segment without rows, which is deleted at the end. New segments of an existing index have the model of its others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError, on_failure
from lance_spark.index.kinds import url_of
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import quoted
from lance_spark.table.build.index_coverage import fragments_of
from lance_spark.table.indexes.merge import MAX_MERGED_ROWS, MergeTask, index_files
from lance_spark.table.indexes.segment import Definition, discard, folder, metadata
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.take import take
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.make.recipe import Recipe

_LOG = logging.getLogger(__name__)
_MODEL, _RECIPE = "model", "recipe"
_MAX_SAMPLE_BYTES = 1 << 30
"""So much is trained with at most: a process holds it a few times."""

_MORE = 4
"""If too few of the sampled rows have vectors, so many times as many are sampled."""


def define_vectors(snapshot: Snapshot, column: str, kind: str, name: str | None, parameters: Mapping[str, object]) -> Definition:
    """The definition of a new vector index. Raises InvalidOptionError, SchemaMismatchError or UnsupportedFeatureError."""
    from lance_spark.index.vector.make.recipe import recipe_of

    steps = snapshot.manifest.schema.resolve(column)
    recipe = recipe_of(kind, column, steps[-1].type, parameters)
    path = tuple(f.name for f in steps)
    details = recipe.details(steps[-1].type.list_size)
    return Definition(name or f"{'.'.join(path)}_idx", path, steps[-1], url_of("VECTOR"), {_RECIPE: recipe}, details)


def has_model(definition: Definition) -> bool:
    """Whether segments can be built: a vector index without a segment that can be read has no model."""
    return not definition.kind.trained or _MODEL in definition.parameters


def with_model(snapshot: Snapshot, definition: Definition, model: IndexMetadata) -> Definition:
    """The definition for the tasks that build segments with the model of this one."""
    files = index_files(snapshot, model, definition.field, BitMap())
    return replace(definition, parameters={**definition.parameters, _MODEL: files})


def without_model(definition: Definition) -> Definition:
    """The definition of an index that is trained anew."""
    return replace(definition, parameters={k: v for k, v in definition.parameters.items() if k != _MODEL})


def existing_vectors(snapshot: Snapshot, definition: Definition, segments: Sequence[IndexMetadata]) -> Definition | None:
    """The definition of an existing index, with the model of its newest segment that can be read; None if it cannot be made."""
    from lance_spark.index.vector.make.recipe import KINDS, kind_in, metric_in, recipe_in
    from lance_spark.index.vector.make.segment import model_of

    kind, metric = kind_in(definition.details), metric_in(definition.details)
    for segment in sorted(segments, key=lambda s: (s.dataset_version, s.created_at or 0), reverse=True):
        if not segment.files:
            continue  # it was not trained
        found = with_model(snapshot, definition, segment)
        files = index_files(snapshot, segment, definition.field, BitMap())
        try:
            model = model_of(files)
        except UnsupportedFeatureError:
            return None
        except (CorruptFileError, MissingFileError) as e:
            _LOG.warning("%s: a segment of the index %r cannot be read: %s", snapshot, definition.name, e)
            continue
        recipe = recipe_in(definition.details, model.kind, model.metric)
        return replace(found, parameters={**found.parameters, _RECIPE: recipe})
    if kind not in KINDS:
        return None
    return replace(definition, parameters={_RECIPE: recipe_in(definition.details, kind, metric)})


@dataclass(frozen=True)
class TrainTask:
    """Trains the model of an index with a sample of all rows."""

    definition: Definition
    snapshot: Snapshot
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def train_model(task: TrainTask) -> IndexMetadata:
    """Write a segment without rows that has the model; one without files if there are too few vectors. If this fails, it is deleted."""
    from lance_spark.index.vector.make.recipe import Recipe
    from lance_spark.index.vector.make.train import train_model as train

    snapshot, definition = task.snapshot, task.definition
    recipe = definition.parameters[_RECIPE]
    assert isinstance(recipe, Recipe)
    sample, rows = _sample(snapshot, definition, recipe)
    if not len(sample) or rows < recipe.least_rows:
        _LOG.warning("%s: the index %r has no rows yet: %d vectors are too few to train it", snapshot, definition.name, rows)
        return untrained(snapshot, definition, task.uuid)
    with on_failure(lambda: discard(snapshot.store, task.uuid)):
        trained = train(sample, rows, recipe, IndexTarget(snapshot.store, folder(task.uuid)))
    return _segment(snapshot, definition, task.uuid, trained)


def untrained(snapshot: Snapshot, definition: Definition, unique: bytes) -> IndexMetadata:
    """A segment without rows and files."""
    return _segment(snapshot, definition, unique, Trained(definition.details, 1, ()))


def _segment(snapshot: Snapshot, definition: Definition, unique: bytes, trained: Trained) -> IndexMetadata:
    return metadata(definition, snapshot.version, snapshot.manifest.has_stable_row_ids, unique, trained, BitMap())


def _sample(snapshot: Snapshot, definition: Definition, recipe: Recipe) -> tuple[np.ndarray, int]:
    """Random vectors to train with, and about the number of all vectors."""
    from lance_spark.index.vector.make.encode import comparable
    from lance_spark.index.vector.make.train import sample_size
    from lance_spark.index.vector.vectors import matrix

    total = int(all_live_rows(snapshot).sum())
    t = definition.field.type
    wanted = min(sample_size(recipe, total), max(_MAX_SAMPLE_BYTES // (4 * t.list_size), 1))
    column, size, rng = Column(definition.path, t), wanted, np.random.default_rng(total)
    while True:
        chosen = np.sort(rng.choice(total, size, replace=False))
        found = [matrix(raw_values(column, b)) for b in take(snapshot, chosen, ScanPlan((quoted(definition.path),))).to_batches()]
        parts = []
        for values, valid in found:
            vectors, usable = comparable(values, recipe.metric)
            parts.append(vectors[usable & valid])
        sample = np.concatenate(parts) if parts else np.empty((0, t.list_size), t.value_type.to_pandas_dtype())
        if len(sample) >= wanted or size == total:
            return sample[:wanted], round(total * len(sample) / size) if size else 0
        size = min(total, size * _MORE)


def gather_tasks(snapshot: Snapshot, definition: Definition, built: Sequence[IndexMetadata]) -> list[MergeTask]:
    """The tasks that join the new segments of a vector index, which have the same model."""
    physical = {f.id: f.physical_rows for f in snapshot.manifest.fragments}
    groups: list[list[IndexMetadata]] = []
    rows = 0
    for segment in built:
        own = sum(physical[f] for f in fragments_of(segment) or ())
        if not groups or rows + own > MAX_MERGED_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(segment)
        rows += own
    covers = [tuple(fragments_of(s) or BitMap() for s in group) for group in groups]
    return [MergeTask(definition, snapshot, tuple(g), c) for g, c in zip(groups, covers) if len(g) > 1]
