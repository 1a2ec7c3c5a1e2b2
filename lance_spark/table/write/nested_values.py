"""Merges whose source lacks nested fields of a column: updated rows keep the table's values in these fields, as top-level columns do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import take
from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.write.conform import matched


def lacks_fields(t: pa.DataType, field: Field) -> bool:
    """Whether values of the type `t`, which fit the field, lack a field below it."""
    if not field.children or field.is_blob or pa.types.is_null(t):
        return False
    if pa.types.is_struct(t):
        places = matched([t.field(i).name for i in range(t.num_fields)], field.children)
        pairs = zip(field.children, places, strict=True)
        return any(at is None or lacks_fields(t.field(at).type, child) for child, at in pairs)
    if pa.types.is_map(t):
        return lacks_fields(t.item_type, field.children[0].children[1])
    return lacks_fields(t.value_type, field.children[0])


def check_has_fields(rows: pa.RecordBatch, columns: Schema) -> None:
    """Raise SchemaMismatchError for values of columns that lack fields below them, which rows of the table would lose."""
    for field, at in zip(columns.fields, matched(rows.schema.names, columns.fields), strict=True):
        if at is None:
            continue
        given = rows.column(at).type
        if isinstance(given, pa.BaseExtensionType):
            given = given.storage_type
        if lacks_fields(given, field):
            what = f"column {field.name!r}: the values lack fields that the table has ({given}; expected {field.type})"
            raise SchemaMismatchError(f"{what}; give all fields, or use a merge, which keeps the others")


def completed(new: pa.Array, old: pa.Array, field: Field, path: str) -> pa.Array:
    """The values `new`, with those of `old`, which are the table's values of `field` in the same rows, in the fields that `new` lacks.

    A struct is null only if both are. Items of lists are completed by position, as pylance does. Raises SchemaMismatchError if the lists
    have different lengths, and for maps: it is unknown which of the old items belong to the new ones.
    """
    if not lacks_fields(new.type, field):
        return new
    if pa.types.is_struct(new.type):
        return _completed_struct(new, old, field, path)
    if pa.types.is_map(new.type) or pa.types.is_fixed_size_list(new.type):
        raise SchemaMismatchError(f"column {path!r}: the source lacks fields of the table's structs; values of {new.type} must have all")
    lengths, known = (pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64) for lists in (new, old))
    if len(wrong := np.flatnonzero((known > 0) & (lengths != known))):
        row = wrong[0]
        raise SchemaMismatchError(
            f"column {path!r}: the source lacks fields of the table's structs, and a list has {lengths[row]} items, "
            f"but {known[row]} in the table; give all fields, or as many items"
        )
    ends = np.cumsum(lengths)
    # Lists without items in the table have nothing to be kept: their new items are null there.
    # Item i of the new lists is item i - moved[i] of the old ones.
    moved = np.repeat(ends - np.cumsum(known), lengths)
    places = np.where(np.repeat(known > 0, lengths), np.arange(lengths.sum()) - moved, -1)
    there = take(old.flatten(), pa.array(places, mask=places < 0))
    items = completed(new.flatten(), there, field.children[0], f"{path}[]")
    large = pa.types.is_large_list(new.type)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64() if large else pa.int32())
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(offsets, items, mask=new.is_null() if new.null_count else None)


def _completed_struct(new: pa.StructArray, old: pa.StructArray, field: Field, path: str) -> pa.Array:
    names = [new.type.field(i).name for i in range(new.type.num_fields)]
    children = []
    for number, (child, at) in enumerate(zip(field.children, matched(names, field.children), strict=True)):
        # struct_field, unlike the child itself, is null where a parent is.
        kept = pc.struct_field(old, [number])
        if at is None:
            children.append(kept)
        else:
            given = pc.struct_field(new, [at])
            children.append(completed(given, kept, child, f"{path}.{child.name}"))
    fields = [pa.field(child.name, values.type) for child, values in zip(field.children, children)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.and_(new.is_null(), old.is_null()))
