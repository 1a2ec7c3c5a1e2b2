"""Which columns of a new table may be null: all that nobody has declared to be otherwise.

Spark infers from literals and `range` that a DataFrame has no nulls, which says nothing of rows that come later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from lance_spark.arrow.types import is_list
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lance_spark.schema.variants import is_variant

_KEY = (PRIMARY_KEY, PRIMARY_KEY_POSITION)


def loosened(new: pa.Schema, old: pa.Schema | None = None, declared: Collection[str] = ()) -> pa.Schema:
    """The columns of a DataFrame, nullable with all that is in them, except where the table that has them already (`old`) is not.

    The columns `declared`, and those of a primary key, stay as they are if there is no table yet. Of these, one that is declared to be
    nullable comes from a query, of which Spark says this of each column: it is in no key, which its values may repeat.
    """
    known = {} if old is None else {f.name.lower(): f for f in old}
    fields = []
    for f in new:
        before = known.get(f.name.lower())
        is_kept = before is None and (f.name in declared or PRIMARY_KEY in (f.metadata or {}))
        if is_kept:
            fields.append(_without_null_key(f) if f.name in declared else f)
        else:
            fields.append(_loosened(f, before))
    return pa.schema(fields)


def with_key(columns: pa.Schema, old: pa.Schema) -> pa.Schema:
    """The columns that replace those of a table, where a column in its primary key stays in it: a key that is set is never removed."""
    in_key = {f.name.lower(): f for f in old if _has_key(f)}
    fields = []
    for f in columns:
        before = in_key.get(f.name.lower())
        is_same = before is not None and _loosened(f, None).type == _loosened(before, None).type
        if before is not None and is_same:
            f = pa.field(f.name, before.type, before.nullable, {**(f.metadata or {}), **_key_of(before)})
        fields.append(f)
    return pa.schema(fields)


def _without_null_key(field: pa.Field, is_in_nullable: bool = False) -> pa.Field:
    """The field, in which none that may be null is in a primary key."""
    may_be_null, t = is_in_nullable or field.nullable, field.type
    if pa.types.is_struct(t) and not is_variant(field):
        t = pa.struct([_without_null_key(child, may_be_null) for child in t])
    metadata = field.metadata or {}
    if may_be_null:
        metadata = {key: value for key, value in metadata.items() if key not in _KEY}
    return pa.field(field.name, t, field.nullable, metadata or None)


def _has_key(field: pa.Field) -> bool:
    is_struct = pa.types.is_struct(field.type) and not is_variant(field)
    return bool(_key_of(field)) or (is_struct and any(_has_key(child) for child in field.type))


def _key_of(field: pa.Field) -> dict[bytes, bytes]:
    """What the metadata of the field says of the primary key."""
    return {key: value for key, value in (field.metadata or {}).items() if key in _KEY}


def _loosened(new: pa.Field, old: pa.Field | None) -> pa.Field:
    """The field, nullable unless the old one is not.

    Items of vectors and parts of variants stay as they are; keys of maps are never null.
    """
    t, was = new.type, pa.null() if old is None else old.type
    if pa.types.is_struct(t) and not is_variant(new):
        t = pa.struct(_in_struct(list(t), list(was) if pa.types.is_struct(was) else []))
    elif pa.types.is_map(t):
        t = pa.map_(t.key_field, _loosened(t.item_field, was.item_field if pa.types.is_map(was) else None))
    elif pa.types.is_fixed_size_list(t):
        t = pa.list_(_vector_item(t.value_field, was), t.list_size)
    elif is_list(t):
        t = pa.list_(_loosened(t.value_field, was.value_field if _has_items(was) else None))
    return pa.field(new.name, t, new.nullable or old is None or old.nullable, new.metadata)


def _in_struct(new: Iterable[pa.Field], old: Sequence[pa.Field]) -> list[pa.Field]:
    known = {f.name.lower(): f for f in old}
    return [_loosened(f, known.get(f.name.lower())) for f in new]


def _vector_item(item: pa.Field, was: pa.DataType) -> pa.Field:
    return item.with_nullable(item.nullable or (_has_items(was) and was.value_field.nullable))


def _has_items(t: pa.DataType) -> bool:
    return is_list(t) or bool(pa.types.is_fixed_size_list(t))
