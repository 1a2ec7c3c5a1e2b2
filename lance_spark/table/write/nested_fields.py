"""Fields within columns: new fields of structs, and the part of a column that is written when fields in it get new values.

A data file has columns of leaf fields, so a struct's fields may be in several files of a fragment ("Data Evolution" of the table
specification). Files of storage version 2.0 are an exception, which other readers cannot join: there whole columns are written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.fragment import TOMBSTONE, DataFile, Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_columns import check_new_names
from lance_spark.schema.blobs import of_version
from lance_spark.schema.schema import Field, Schema, check_ids, from_arrow
from lance_spark.schema.storage_version import StorageVersion
from lance_spark.table.write.new_schema import numbered

New = tuple[Field | None, pa.Field]
"""A new field, and the struct that gets it (None: the table)."""

_QUOTED_LAST = re.compile(r"(.+)\.`((?:[^`]|``)+)`", re.DOTALL)


def named(schema: Schema, columns: pa.Schema) -> list[New]:
    """New columns whose names may be paths, `s.x` for a field `x` of the struct `s`; a name with dots is quoted with backticks.

    Raises SchemaMismatchError if there is no such struct.
    """
    return [_named(schema, column) for column in columns]


def _named(schema: Schema, column: pa.Field) -> New:
    quoted = _QUOTED_LAST.fullmatch(column.name)
    parent, dot, name = (quoted[1], ".", quoted[2].replace("``", "`")) if quoted else column.name.rpartition(".")
    if not dot:
        return None, column
    try:
        path = schema.resolve_field(parent)
    except SchemaMismatchError:
        check_new_names(from_arrow(pa.schema([column])).fields)
        raise
    return _struct(path[-1], parent), column.with_name(name)


def _struct(field: Field, path: str) -> Field:
    """The field, or the item of the list, if it is a struct that may have new fields."""
    found = field.children[0] if _is_list(field) and field.children else field
    if found.logical_type != "struct" or found.is_packed or found.is_blob:
        raise SchemaMismatchError(f"{path!r} is {field.logical_type}; only a struct that is not packed can have new fields")
    return found


def _is_list(field: Field) -> bool:
    return field.logical_type in ("list", "large_list", "list.struct", "large_list.struct") or field.logical_type.startswith(
        "fixed_size_list"
    )


def within(fields: Sequence[Field], columns: Iterable[pa.Field], parent: Field | None = None, path: str = "") -> list[New]:
    """New columns that are given with their parents, as pylance takes them: a struct that exists has only its new fields.

    Raises SchemaMismatchError for a field that exists.
    """
    found: list[New] = []
    for column in columns:
        name = f"{path}{column.name}"
        known = [f for f in fields if f.name == column.name] or [f for f in fields if f.name.lower() == column.name.lower()]
        if not known:
            found.append((parent, column))
            continue
        inner = column.type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner) or pa.types.is_fixed_size_list(inner):
            inner = inner.value_type
        if not pa.types.is_struct(inner) or not known[0].children:
            raise SchemaMismatchError(f"duplicate column names {name!r}: the table has this column")
        struct = _struct(known[0], name)
        found += within(struct.children, list(inner), struct, f"{name}.")
    return found


def extended(manifest: Manifest, new: Sequence[New], first_id: int) -> tuple[Schema, list[Field]]:
    """The schema of a table with new fields, whose ids begin with `first_id`; and these fields. They are the last ones in their structs.

    Raises SchemaMismatchError for a name that a struct or the table has already, and UnsupportedFeatureError if there are too few ids.
    """
    schema, version = manifest.schema, StorageVersion.parse(manifest.data_format)
    made: list[Field] = []
    by_parent: dict[int | None, list[Field]] = {}
    for parent, column in new:
        (plain,) = of_version(from_arrow(pa.schema([column])), version).fields
        added = numbered(plain, itertools.count(first_id))
        stop = max(f.id for f in added.walk()) + 1
        check_ids(first_id, stop, [column.name])
        first_id = stop
        made.append(added)
        siblings = by_parent.setdefault(None if parent is None else parent.id, [])
        names = {f.name.lower() for f in (*(schema.fields if parent is None else parent.children), *siblings)}
        if added.name.lower() in names:
            where = "the table" if parent is None else f"the struct {parent.name!r}"
            raise SchemaMismatchError(f"{where} already has the columns {added.name!r}")
        siblings.append(added)

    def with_new(field: Field) -> Field:
        children = tuple(with_new(child) for child in field.children)
        return replace(field, children=(*children, *by_parent.get(field.id, ())))

    return replace(schema, fields=(*map(with_new, schema.fields), *by_parent.get(None, ()))), made


def pruned(field: Field, ids: Collection[int]) -> Field | None:
    """The field with only those below it whose ids are in `ids`, and their parents; None if there are none."""
    if field.id in ids:
        return field
    children = tuple(kept for child in field.children if (kept := pruned(child, ids)) is not None)
    return replace(field, children=children) if children else None


def written_part(column: Field, ids: Collection[int], data_format: str) -> Field | None:
    """The part of a column to be written if the fields `ids` in it get new values; None if none of them is in it.

    Raises UnsupportedFeatureError for columns that cannot be written in part.
    """
    part = pruned(column, ids)
    if part is None or column.id in ids:
        return part
    if data_format == "0.1":
        raise UnsupportedFeatureError(f"column {column.name!r}: fields in columns of storage version 0.1 cannot get new values")
    parents = [f for f in part.walk() if f.id not in ids]
    if any(f.logical_type == "map" for f in parents):
        raise UnsupportedFeatureError(f"column {column.name!r}: keys and values of a map cannot get new values")
    if any(f.is_packed for f in parents):
        raise UnsupportedFeatureError(f"column {column.name!r}: fields of a packed struct cannot get new values")
    if data_format != "2.0":
        return part
    if any(f.is_blob for f in column.walk()):
        raise UnsupportedFeatureError(f"column {column.name!r} has blobs, so its fields cannot get new values in storage version 2.0")
    return column


@dataclass(frozen=True)
class Rebuilding:
    """How columns get other fields: `values` of new fields, by id; and `cast(array, field)` for fields that replace others, whose ids
    `origins` has by the new id.
    """

    values: Mapping[int, pa.Array] = field(default_factory=dict)
    origins: Mapping[int, int] = field(default_factory=dict)
    cast: Callable[[pa.Array, Field], pa.Array] | None = None

    def __call__(self, array: pa.Array, old: Field, new: Field) -> pa.Array:
        """`array`, a column `old`, as the column `new`, which may lack some of its fields.

        Values of new fields have a row for each row of their struct; what they are where the struct is null does not count.
        """
        if new.id in self.origins and self.cast is not None:
            return self.cast(array, new)
        if not new.children or array.type.equals(new.type):
            return array
        known = {child.id: child for child in old.children}
        if not pa.types.is_struct(array.type):
            (child,) = new.children
            return _with_items(array, self(array.values, known[self.origins.get(child.id, child.id)], child), child)
        # The children are null where the struct is.
        there = {array.type.field(i).name: child for i, child in enumerate(array.flatten())}
        children = []
        for child in new.children:
            before = known.get(self.origins.get(child.id, child.id))
            children.append(self.values[child.id] if before is None else self(there[before.name], before, child))
        fields = [pa.field(c.name, a.type, c.nullable) for c, a in zip(new.children, children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def with_file(fragment: Fragment, new: DataFile, ids: Collection[int]) -> Fragment:
    """The fragment with the new file, whose columns are struck in others, and without files that have none of the fields `ids`."""
    written = set(new.fields)
    struck = []
    for file in fragment.files:
        left = tuple(TOMBSTONE if i in written else i for i in file.fields)
        if not set(left).isdisjoint(ids):
            struck.append(file if left == file.fields else replace(file, fields=left))
    return replace(fragment, files=(*struck, new))


def _with_items(array: pa.Array, items: pa.Array, item: Field) -> pa.Array:
    """The list with other items, in the same places. `item` names them."""
    shown = pa.field(item.name, items.type, item.nullable)
    if pa.types.is_fixed_size_list(array.type):
        t, buffers = pa.list_(shown, array.type.list_size), array.buffers()[:1]
    else:
        make = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
        t, buffers = make(shown), array.buffers()[:2]
    return pa.Array.from_buffers(t, len(array), buffers, array.null_count, array.offset, [items])
