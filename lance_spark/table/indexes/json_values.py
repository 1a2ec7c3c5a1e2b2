"""What a JSON index is built of: the values at a path, which have the type of the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lance_spark.metadata.fragment import Fragment
from lance_spark.predicate.json_functions import GETTERS, value_type
from lance_spark.predicate.json_paths import lance_path, written
from lance_spark.predicate.tree import Call, Column, Literal
from lance_spark.table.indexes.segment import Definition, rows_of
from lance_spark.table.scan.plan import plan_group
from lance_spark.table.versions.snapshot import Snapshot

_VALUE_TYPE = "value_type"


def with_value_type(snapshot: Snapshot, definition: Definition, fragments: Sequence[Fragment]) -> Definition:
    """The definition of a JSON index with the type of the first value in these fragments, string if there is none; others unchanged.

    Reads the documents up to the first one with a value. Raises InvalidOptionError if that is an object or an array.
    """
    if has_value_type(definition):
        return definition
    found = next((t for fragment in fragments if (t := _first_type(snapshot, definition, fragment)) is not None), pa.string())
    return replace(definition, parameters={**definition.parameters, _VALUE_TYPE: found})


def _first_type(snapshot: Snapshot, definition: Definition, fragment: Fragment) -> pa.DataType | None:
    text = str(definition.parameters["path"])
    scan = plan_group(snapshot, definition.scan(snapshot), [fragment])
    types = (value_type(rows.column("value"), lance_path(text), text) for rows in rows_of(definition, scan, definition.numbers(snapshot)))
    return next((t for t in types if t is not None), None)


def has_value_type(definition: Definition) -> bool:
    """Whether the types of the values in the index are known: a JSON index without values has none yet."""
    return definition.kind.target is None or _VALUE_TYPE in definition.parameters


def without_value_type(definition: Definition) -> Definition:
    """The definition of an index that is built anew: the type of a JSON index follows from the present rows."""
    return replace(definition, parameters={k: v for k, v in definition.parameters.items() if k != _VALUE_TYPE})


def value_of(definition: Definition, column: Column) -> Call:
    """The value that a JSON index has of a document, as a filter asks for it."""
    t = definition.parameters.get(_VALUE_TYPE, pa.string())
    name = next(name for name, known in GETTERS.items() if known == t)
    path = written(lance_path(str(definition.parameters["path"])))
    return Call(name, (column, Literal(path, pa.string())), t)
