"""The unenforced primary key of a table: which fields are in it, and the rules of the table page.

Implements "Unenforced Primary Key" of the table page and "Primary Key Metadata" of the schema page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lance_spark._proto import file_pb2 as pb
from lance_spark.errors import InvalidOperationError
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, Field, Schema

_MAX_POSITION = 2**32 - 1
_TRUE = (b"true", b"1", b"yes")


def primary_key(schema: Schema) -> tuple[Field, ...]:
    """The fields of the table's primary key, in its order; empty if there is none."""
    return tuple(path[-1] for path in _key_paths(schema))


def primary_key_position(field: Field) -> int | None:
    """The position of the field in the primary key, from 1; 0 for the order of field ids, None if it is not in the key.

    A field that Arrow's metadata does not mark may have the two fields of the message alone.
    """
    if field.metadata:
        position = field.metadata.get(PRIMARY_KEY_POSITION, b"")
        if _is_position(position):
            return int(position)
        if field.metadata.get(PRIMARY_KEY, b"").lower() in _TRUE:
            return 0
    return _position_in_message(field.unknown) if field.unknown else None


def check_rules(schema: Schema, known: Schema | None = None) -> None:
    """Raise InvalidOperationError for a field that must not be in the primary key. Columns that `known` has, too, are not checked."""
    before = {} if known is None else {f.id: f for f in known.fields}
    for path in schema.paths():
        if before.get(path[0].id) == path[0] or not _is_marked(path[-1]):
            continue
        if (rule := broken_rule(path)) is not None:
            raise InvalidOperationError(f"column {_name(path)!r} is in the primary key, so {rule}")


def broken_rule(path: Sequence[Field]) -> str | None:
    """The rule that the last field of a path breaks if it is in the primary key; None if it may be in it."""
    *parents, field = path
    position = field.metadata.get(PRIMARY_KEY_POSITION)
    if position is not None and not _is_position(position):
        return f"its position must be an integer from 1, not {position.decode(errors='replace')!r}"
    for parent in parents:
        if parent.logical_type != "struct":
            kind = "map" if parent.logical_type == "map" else "list"
            return f"it must not be within a {kind}, as in {parent.name!r}"
    if field.children:
        return f"it must be a leaf, without fields in it; it is of the type {field.logical_type}"
    if field.nullable:
        return "it must not be nullable"
    if nullable := [parent.name for parent in parents if parent.nullable]:
        return f"its parent {nullable[0]!r} must not be nullable"
    return None


def check_kept(before: Schema, after: Schema, *, overwritten: bool) -> None:
    """Raise InvalidOperationError if `after` does not have the primary key of `before`: it is fixed once it is set.

    A field is the same if it has the same path, or, unless the table is `overwritten`, which numbers fields anew, the same id.
    """
    old, new = _key_paths(before), _key_paths(after)
    if not old:
        return
    for place, path in enumerate(old):
        there = new[place] if place < len(new) else None
        has_id = there is not None and not overwritten and there[-1].id == path[-1].id
        if there is None or (not has_id and _names(there) != _names(path)):
            raise InvalidOperationError(
                f"column {_name(path)!r} is in the primary key at position {place + 1}; a primary key that is set cannot be changed or "
                "removed. Keep the column and its place in the key: an overwrite keeps the columns as they are with overwriteSchema=false"
            )
    if len(new) > len(old):
        key = ", ".join(_name(path) for path in old)
        raise InvalidOperationError(
            f"the table has the primary key {key}, which cannot be changed; leave column {_name(new[len(old)])!r} out of it"
        )


def _key_paths(schema: Schema) -> list[tuple[Field, ...]]:
    """The paths of the key's fields: those with a position by it, then the others by their ids."""
    found = [path for path in schema.paths() if primary_key_position(path[-1]) is not None]
    return sorted(found, key=lambda path: (primary_key_position(path[-1]) or _MAX_POSITION + 1, path[-1].id))


def _is_marked(field: Field) -> bool:
    """Whether the field is in the key, or would be in it at a position that is no position."""
    return PRIMARY_KEY_POSITION in field.metadata or primary_key_position(field) is not None


def _is_position(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 10 and int(text) <= _MAX_POSITION


@lru_cache(1024)
def _position_in_message(unknown: bytes) -> int | None:
    message = pb.Field.FromString(unknown)
    return message.unenforced_primary_key_position or (0 if message.unenforced_primary_key else None)


def _names(path: Sequence[Field]) -> tuple[str, ...]:
    return tuple(f.name for f in path)


def _name(path: Sequence[Field]) -> str:
    return ".".join(_names(path))
