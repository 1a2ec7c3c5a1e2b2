"""Structs that a file stores as one leaf, although a reader may select some children: packed structs and blob descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from lance_spark.arrow.maps import map_array
from lance_spark.arrow.validity import validity_of
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.levels import assemble
from lance_spark.schema.blobs import descriptor
from lance_spark.schema.schema import Field


def unpruned_field(field: Field, in_file: Mapping[int, Field]) -> Field:
    """The field with all children of its packed structs and descriptors; `in_file` are the fields of the file, by id."""
    if not field.is_leaf:
        return replace(field, children=tuple(unpruned_field(child, in_file) for child in field.children))
    if field.descriptors:
        return descriptor(field)
    if not field.is_packed or field.id not in in_file:
        return field
    wanted = {child.id: child for child in field.children}
    return replace(field, children=tuple(wanted.get(child.id, _renamed(child)) for child in in_file[field.id].children))


def _renamed(child: Field) -> Field:
    # Another child of the table may now have the name of this child in the file.
    return replace(child, name=f"{child.name} of {child.id}")


def pruned(array: pa.Array, read: Field, wanted: Field) -> pa.Array:
    """The values of `wanted`, from those of `read`, which is `unpruned_field(wanted)`."""
    if read == wanted:
        return array
    if wanted.is_leaf or wanted.logical_type == "struct":
        return _struct(array, read, wanted)
    items, buffers = assemble.inner_of(array)
    item = pruned(items, read.children[0], wanted.children[0])
    t = _with_item(array.type, item.type)
    if pa.types.is_map(t):
        return map_array(t, len(array), buffers, item)
    return pa.Array.from_buffers(t, len(array), buffers, children=[item])


def _struct(array: pa.StructArray, read: Field, wanted: Field) -> pa.Array:
    there = {child.id: i for i, child in enumerate(read.children)}
    children, fields = [], []
    for child in wanted.children:
        if child.id not in there:
            raise CorruptFileError(f"the file's struct {wanted.name!r} has no field {child.id} ({child.name!r})")
        i = there[child.id]
        part = array.field(i)
        children.append(part if wanted.is_leaf else pruned(part, read.children[i], child))
        fields.append(array.type.field(i).with_type(children[-1].type))
    return pa.Array.from_buffers(pa.struct(fields), len(array), [validity_of(array)], children=children)


def _with_item(t: pa.DataType, item: pa.DataType) -> pa.DataType:
    if pa.types.is_map(t):
        return pa.map_(item.field(0).with_nullable(False), item.field(1))
    inner = t.value_field.with_type(item)
    if pa.types.is_fixed_size_list(t):
        return pa.list_(inner, t.list_size)
    return pa.large_list(inner) if pa.types.is_large_list(t) else pa.list_(inner)
