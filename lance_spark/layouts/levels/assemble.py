"""Leaf arrays -> nested arrays: `nest` wraps one leaf in structs and lists, `merge` joins the leaves of one field.

In between, a field is a path in which every struct has one child. A map's path is a list of structs with its key or its value; merging both
makes the map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.maps import map_array
from lance_spark.arrow.selection import take
from lance_spark.arrow.validity import validity_of
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.levels.read import Slots
from lance_spark.reading import spans
from lance_spark.reading.spans import Spans
from lance_spark.schema.schema import Field

Path = tuple[Field, ...]
"""A column's fields, from the top level down to the leaf. The children of the fields are not used."""


def paths(field: Field) -> list[Path]:
    """The paths of the leaves of `field`, in the order of `Field.leaves`."""
    if field.is_leaf:
        return [(field,)]
    return [(field, *path) for child in field.children for path in paths(child)]


def is_fixed_size_list(field: Field) -> bool:
    """True if the field is a fixed-size list with its own layer, such as a list of structs."""
    return not field.is_leaf and field.logical_type.startswith("fixed_size_list")


def is_list(field: Field) -> bool:
    """Whether the field is a list or map."""
    return not field.is_leaf and field.logical_type != "struct" and not is_fixed_size_list(field)


def dimension(field: Field) -> int:
    """The size of a fixed-size list."""
    return int(field.logical_type.rsplit(":", 1)[-1])


def row_width(path: Path) -> int:
    """The items that a page counts for each row: the product of the sizes of the fixed-size lists on the path."""
    return math.prod(dimension(field) for field in path[:-1] if is_fixed_size_list(field))


def nest(path: Path, slots: Sequence[Slots], leaf: pa.Array) -> pa.Array:
    """`leaf` within the structs and lists of `path`; `slots` are those of every layer, innermost first.

    With levels, fixed-size lists and the layers around them have a slot for each item; with sparse structure one for each list.
    """
    if len(slots) != len(path):
        raise CorruptFileError(f"expected {len(path)} layers in the page, found {len(slots)}")
    array, repeats = leaf, 1
    for layer, child, field in zip(slots[1:], reversed(path), reversed(path[:-1])):
        if (layer.offsets is not None) != is_list(field):
            raise CorruptFileError(f"the list layers of the page do not match those of the column at {field.name!r}")
        inner = pa.field(child.name, array.type, child.nullable, dict(child.metadata) or None)
        if layer.offsets is not None:
            array, repeats = _list(field, layer, inner, array, repeats), 1
            continue
        count = len(array)
        if is_fixed_size_list(field):
            size = dimension(field)
            if count % size:
                raise CorruptFileError(f"{count} items are not a multiple of the fixed list size {size}")
            count, repeats, t = count // size, repeats * size, pa.list_(inner, size)
        else:
            t = pa.struct([inner])
        array = pa.Array.from_buffers(t, count, [_validity_of_slots(layer, count, repeats)], children=[array])
    return array


def pick(array: pa.Array, rows_read: Spans, wanted: Spans) -> pa.Array:
    """The rows `wanted` of an array that has the rows `rows_read`, all of which it must have."""
    if (expected := spans.count(rows_read)) != len(array):
        raise CorruptFileError(f"expected {expected} rows, found {len(array)}")
    if len(wanted) == 0:
        return array.slice(0, 0)
    if spans.count(wanted) == len(array):
        return array
    at = spans.within(wanted, rows_read)
    first, count = int(at[0, 0]), spans.count(at)
    if at[-1, 1] - first == count:
        return array.slice(first, count)
    return take(array, pa.array(spans.rows(at)))


def _list(field: Field, layer: Slots, inner: pa.Field, items: pa.Array, repeats: int) -> pa.Array:
    offsets = layer.offsets
    assert offsets is not None
    if offsets[-1] != len(items):
        if repeats == 1 or offsets[-1] != len(items) * repeats or (offsets % repeats).any():
            raise CorruptFileError(f"expected {offsets[-1]} list items, found {len(items)}")
        offsets = offsets // repeats
    large = field.logical_type.startswith("large_list")
    t, dtype = (pa.large_list(inner), np.int64) if large else (pa.list_(inner), np.int32)
    if offsets[-1] > np.iinfo(dtype).max:  # pragma: no cover: takes 2 GiB of levels
        raise CorruptFileError(f"a page with {offsets[-1]} list items exceeds 32-bit offsets of {field.logical_type}")
    buffers = [None if layer.validity is None else pa.py_buffer(layer.validity), pa.py_buffer(offsets.astype(dtype, copy=False))]
    return pa.Array.from_buffers(t, layer.count, buffers, children=[items])


def _validity_of_slots(layer: Slots, count: int, repeats: int) -> pa.Buffer | None:
    """The validity of a layer of `count` structs or fixed-size lists, which may have `repeats` slots each."""
    if layer.count not in (count, count * repeats):
        raise CorruptFileError(f"expected {count} slots in a layer, found {layer.count}")
    if layer.validity is None:
        return None
    if layer.count == count:
        return pa.py_buffer(layer.validity)
    bits = np.unpackbits(layer.validity, count=layer.count, bitorder="little")[::repeats]
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def merge(field: Field, parts: Sequence[pa.Array]) -> pa.Array:
    """Merge arrays of the same rows, whose structs have different children of `field`, into one array.

    The parts differ only in the children of their structs. Children are in the order of `field`; if two parts have the same leaf, the first
    is used.
    """
    if not parts:
        raise CorruptFileError(f"no column has values of {field.name!r}")
    first = parts[0]
    if any(len(p) != len(first) for p in parts):
        raise CorruptFileError(f"the columns of {field.name!r} have different numbers of rows: {sorted({len(p) for p in parts})}")
    if field.is_leaf or (len(parts) == 1 and len(paths(field)) == 1):
        return first
    for part in parts:
        if not _is_made_for(field, part.type):
            raise CorruptFileError(f"expected values of type {field.logical_type} in a column of {field.name!r}, found {part.type}")
    if field.logical_type == "struct":
        return _merge_structs(field, parts)
    item = field.children[0]
    if is_fixed_size_list(field):
        items = merge(item, [list_items(p) for p in parts])
        t = pa.list_(_shown(item, items), dimension(field))
        return pa.Array.from_buffers(t, len(first), [validity_of(first)], children=[items])
    extents = [extents_of(p) for p in parts]
    if any(not np.array_equal(extents[0][0], e[0]) for e in extents[1:]):
        raise CorruptFileError(f"the columns of {field.name!r} have different list lengths")
    items = merge(item, [e[1] for e in extents])
    buffers = [validity_of(first), pa.py_buffer(extents[0][0])]
    if field.logical_type == "map":
        return map_array(pa.map_(items.type.field(0).with_nullable(False), items.type.field(1)), len(first), buffers, items)
    t = (pa.large_list if pa.types.is_large_list(first.type) else pa.list_)(_shown(item, items))
    return pa.Array.from_buffers(t, len(first), buffers, children=[items])


def _is_made_for(field: Field, t: pa.DataType) -> bool:
    if field.logical_type == "struct":
        return bool(pa.types.is_struct(t))
    if is_fixed_size_list(field):
        return bool(pa.types.is_fixed_size_list(t))
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_map(t))


def _merge_structs(field: Field, parts: Sequence[pa.Array]) -> pa.Array:
    children, fields = [], []
    for child in field.children:
        having = [p.field(i) for p in parts if (i := p.type.get_field_index(child.name)) >= 0]
        children.append(merge(child, having))
        fields.append(_shown(child, children[-1]))
    return pa.Array.from_buffers(pa.struct(fields), len(parts[0]), [validity_of(parts[0])], children=children)


def _shown(field: Field, array: pa.Array) -> pa.Field:
    return pa.field(field.name, array.type, field.nullable, dict(field.metadata) or None)


def leaf_of(array: pa.Array, depth: int) -> pa.Array:
    """The array `depth` levels below `array`, whose structs have one child each, without items that no list refers to."""
    for _ in range(depth):
        array = inner_of(array)[0]
    return array


def with_leaf(array: pa.Array, depth: int, leaf: pa.Array) -> pa.Array:
    """`array` with `leaf` in place of `leaf_of(array, depth)`."""
    if not depth:
        return leaf
    items, buffers = inner_of(array)
    items = with_leaf(items, depth - 1, leaf)
    t, inner = array.type, array.type.field(0).with_type(items.type)
    if pa.types.is_struct(t):
        made = pa.struct([inner])
    elif pa.types.is_fixed_size_list(t):
        made = pa.list_(inner, t.list_size)
    else:
        made = pa.large_list(inner) if pa.types.is_large_list(t) else pa.list_(inner)
    return pa.Array.from_buffers(made, len(array), buffers, children=[items])


def inner_of(array: pa.Array) -> tuple[pa.Array, list[pa.Buffer | None]]:
    """The child of a struct or list, and the buffers of the parent with just that child."""
    validity = validity_of(array)
    if pa.types.is_struct(array.type):
        return array.field(0), [validity]
    if pa.types.is_fixed_size_list(array.type):
        return list_items(array), [validity]
    offsets, items = extents_of(array)
    return items, [validity, pa.py_buffer(offsets)]


def list_items(lists: pa.Array) -> pa.Array:
    """All items of lists of fixed size, also those of null lists, which `flatten` leaves out."""
    size = lists.type.list_size
    return lists.values.slice(lists.offset * size, len(lists) * size)


def extents_of(lists: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The offsets of lists, relative to the first, and the items that they span."""
    offsets = lists.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    return offsets - start if start else offsets, lists.values.slice(start, stop - start)
