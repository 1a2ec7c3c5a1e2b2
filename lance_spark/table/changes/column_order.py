"""The order of columns, and of fields in structs: it is changed in the schema alone, and field ids stay.

Implements "Reorder Columns" of "Schema Evolution" of the schema page. Data files keep their order: readers find columns by field ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.schema import Field, Schema


@dataclass(frozen=True)
class Move:
    """The column at `path` becomes the first one of its struct or table, or the one after the column of the name `after`."""

    path: str
    after: str | None = None


def moved(schema: Schema, moves: Sequence[Move]) -> Schema:
    """The schema after the moves, one after the other.

    Raises SchemaMismatchError for a name that does not exist, and UnsupportedFeatureError for fields of a map or a packed struct.
    """
    for move in moves:
        path = _path(schema, move.path)
        parent, field = _parent(path), path[-1]
        others = [f for f in _siblings(schema, parent) if f.id != field.id]
        place = 0 if move.after is None else others.index(_sibling(others, move.after, move.path)) + 1
        schema = _with_order(schema, {_id(parent): (*others[:place], field, *others[place:])})
    return schema


def reordered(schema: Schema, order: Sequence[str]) -> Schema:
    """The schema with the columns `order` first, in this order, each in its struct or the table; the others follow as they are.

    Raises SchemaMismatchError for a name that does not exist or occurs twice, and UnsupportedFeatureError as `moved`.
    """
    first: dict[int | None, list[Field]] = {}
    parents: dict[int | None, Field | None] = {}
    for name in order:
        path = _path(schema, name)
        parent = _parent(path)
        siblings = first.setdefault(_id(parent), [])
        if path[-1] in siblings:
            raise SchemaMismatchError(f"the order has the column {name!r} twice")
        siblings.append(path[-1])
        parents[_id(parent)] = parent
    orders = {}
    for i, named in first.items():
        rest = [f for f in _siblings(schema, parents[i]) if f not in named]
        orders[i] = (*named, *rest)
    return _with_order(schema, orders)


def _path(schema: Schema, name: str) -> tuple[Field, ...]:
    path = schema.resolve_field(name)
    parent = _parent(path)
    if parent is not None and (parent.logical_type != "struct" or parent.is_packed):
        kind = "a packed struct, whose rows are stored in the order of its fields" if parent.is_packed else f"a {parent.logical_type}"
        raise UnsupportedFeatureError(f"column {name!r} cannot be moved: {parent.name!r} is {kind}; only fields of structs have an order")
    if len(path) > 2 and path[-3].logical_type == "map" and path[-2].name == "entries":
        raise UnsupportedFeatureError(f"column {name!r} cannot be moved: the key of a map comes before its value")
    return path


def _parent(path: Sequence[Field]) -> Field | None:
    return path[-2] if len(path) > 1 else None


def _id(field: Field | None) -> int | None:
    return None if field is None else field.id


def _siblings(schema: Schema, parent: Field | None) -> Sequence[Field]:
    return schema.fields if parent is None else parent.children


def _sibling(others: Sequence[Field], name: str, moved: str) -> Field:
    found = [f for f in others if f.name == name] or [f for f in others if f.name.lower() == name.lower()]
    if len(found) != 1:
        known = ", ".join(f.name for f in others)
        raise SchemaMismatchError(f"column {moved!r} cannot be moved after {name!r}; expected one of: {known or 'none'}")
    return found[0]


def _with_order(schema: Schema, orders: Mapping[int | None, Sequence[Field]]) -> Schema:
    """The schema with other orders, by the id of the struct (None: the table)."""

    def ordered(field: Field) -> Field:
        if not field.children:
            return field
        children = orders.get(field.id, field.children)
        return replace(field, children=tuple(ordered(child) for child in children))

    return replace(schema, fields=tuple(ordered(f) for f in orders.get(None, schema.fields)))
