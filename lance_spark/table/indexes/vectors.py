"""Vector indexes: a model (centroids and a quantizer) is trained first; the tasks that build segments share it.

The model is a segment without rows, which is deleted at the end. New segments of an existing index have the model of its others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import url_of
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.index_coverage import fragments_of
from lance_spark.table.indexes.merge import MAX_MERGED_ROWS, MergeTask, index_files, merge
from lance_spark.table.indexes.segment import BuildTask, Definition
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.make.recipe import Recipe

_LOG = logging.getLogger(__name__)
_MODEL, _GRAPHS, _RECIPE = "model", "graphs", "recipe"


def define_vectors(snapshot: Snapshot, column: str, kind: str, name: str | None, parameters: Mapping[str, object]) -> Definition:
    """The definition of a new vector index. Raises InvalidOptionError, SchemaMismatchError or UnsupportedFeatureError."""
    from lance_spark.index.vector.make.recipe import recipe_of

    steps = snapshot.manifest.schema.resolve(column)
    recipe = recipe_of(kind, column, steps[-1].type, parameters)
    path = tuple(f.name for f in steps)
    details = recipe.details(vectors_in(steps[-1].type).list_size)
    return Definition(name or f"{'.'.join(path)}_idx", path, steps[-1], url_of("VECTOR"), {_RECIPE: recipe}, details)


def vectors_in(t: pa.DataType) -> pa.FixedSizeListType:
    """The type of the vectors in a column, or in its lists."""
    from lance_spark.index.vector.vectors import vector_type

    found, _ = vector_type(t)
    assert found is not None, "other columns have no such index"
    return found


def has_model(definition: Definition) -> bool:
    """Whether segments can be built: a vector index without a segment that can be read has no model."""
    return not definition.kind.trained or _MODEL in definition.parameters


def with_model(snapshot: Snapshot, definition: Definition, model: IndexMetadata) -> Definition:
    """The definition for the tasks that build segments with the model of this one."""
    return replace(definition, parameters={**definition.parameters, _MODEL: model_files(snapshot, definition, model)})


def model_files(snapshot: Snapshot, definition: Definition, model: IndexMetadata) -> IndexFiles:
    """The files of a segment as a model; those of its rows are not."""
    return index_files(snapshot, model, definition.field, BitMap())


def recipe_for(definition: Definition) -> Recipe:
    """How the index is made."""
    from lance_spark.index.vector.make.recipe import Recipe

    recipe = definition.parameters[_RECIPE]
    assert isinstance(recipe, Recipe)
    return recipe


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
        try:
            model = model_of(model_files(snapshot, definition, segment))
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


def in_parts(tasks: Sequence[BuildTask]) -> list[BuildTask]:
    """The tasks that build the segments of a new vector index. If these are joined then, graphs are made when they are."""
    if len(tasks) < 2:
        return [*tasks]
    return [replace(task, definition=replace(task.definition, parameters={**task.definition.parameters, _GRAPHS: False})) for task in tasks]


def gather_tasks(snapshot: Snapshot, definition: Definition, built: Sequence[IndexMetadata]) -> list[MergeTask]:
    """The tasks that join the new segments of a vector index, which have the same model, as `in_parts` has them built."""
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
    lack = len(built) > 1 and recipe_for(definition).graph is not None
    joined = [(tuple(g), c) for g, c in zip(groups, covers) if len(g) > 1 or lack]
    return [MergeTask(definition, snapshot, group, covered) for group, covered in joined]


def gather(task: MergeTask) -> IndexMetadata:
    """Write the joined segment. Raises CorruptFileError if one of them cannot be read."""
    if (merged := merge(task)) is None:
        raise CorruptFileError(f"{task.snapshot}: the new segments of the index {task.definition.name!r} cannot be joined")
    return merged
