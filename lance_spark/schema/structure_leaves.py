"""Leaf columns that are read only for the structure of their parents.

If no requested leaf of a struct or list is in any data file of a fragment, another leaf of it is read, which has the
validity and the list lengths of its parents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from lance_spark.schema.schema import Field, Schema


def lacks_structure(schema: Schema, ids: Collection[int]) -> bool:
    """Whether a struct or list has no requested leaf among the fields `ids`, which the files have."""
    return any(_lacks(f, ids) for f in schema.fields)


def _lacks(field: Field, ids: Collection[int]) -> bool:
    if field.is_leaf:
        return False
    if all(leaf.id not in ids for leaf in field.leaves()):
        return True
    return any(_lacks(child, ids) for child in field.children)


def with_structure_leaves(schema: Schema, ids: Collection[int], in_files: Iterable[Field]) -> Schema:
    """The schema with a structure leaf added wherever one is needed; `in_files` are all fields of the data files' own schemas."""
    known: dict[int, list[Field]] = {}
    for field in in_files:
        known.setdefault(field.id, []).append(field)
    return Schema(tuple(_with_structure_leaf(f, ids, known) for f in schema.fields), schema.metadata)


def _with_structure_leaf(field: Field, ids: Collection[int], known: dict[int, list[Field]]) -> Field:
    if field.is_leaf:
        return field
    field = replace(field, children=tuple(_with_structure_leaf(child, ids, known) for child in field.children))
    if field.logical_type != "struct" or any(leaf.id in ids for leaf in field.leaves()):
        return field  # an item's structure includes that of its list
    for stored in known.get(field.id, ()):
        path = _first_leaf(stored, ids)
        if path is not None and path.children:
            return replace(field, children=(*field.children, path.children[0]))
    return field


def _first_leaf(field: Field, ids: Collection[int]) -> Field | None:
    """The field with only the first of its leaves that is among `ids`; the names of fields below it are made unique."""
    if field.is_leaf:
        return field if field.id in ids else None
    for child in field.children:
        found = _first_leaf(child, ids)
        if found is not None:
            return replace(field, children=(replace(found, name=f"structure {found.id}"),))
    return None
