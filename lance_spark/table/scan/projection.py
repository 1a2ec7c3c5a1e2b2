"""Make the columns of a scan from those of data files: columns that are in no file become nulls, and JSON becomes text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lance_spark.arrow.jsonb import to_text
from lance_spark.arrow.maps import map_array
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import DataFile
from lance_spark.metadata.row_columns import ROW_COLUMN_IDS
from lance_spark.schema.schema import Field, Schema
from lance_spark.schema.structure_leaves import lacks_structure, with_structure_leaves


@dataclass(frozen=True)
class Stored:
    """The fields of a scan that are in the files of a fragment, by field id, and those to be read from each file.

    `in_files` has the number of a file, its top-level fields, pruned to what is read from it, and the file's columns, by field id.
    """

    fields: Mapping[int, Field]
    in_files: Sequence[tuple[int, tuple[Field, ...], Mapping[int, int]]]


class Projection:
    """The columns that a scan reads of every fragment: `schema`, and `target` as users see it. Files have the `stored_fields`.

    What follows from the schema is computed once, since a table may have many fragments of few rows. `shown` are the fields of the
    schema, each with its type in `target`.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._own = Schema(tuple(f for f in schema.fields if f.id not in ROW_COLUMN_IDS), schema.metadata)
        self.target = schema.to_arrow()
        self.shown = list(zip(schema.fields, self.target.types))
        self.stored_fields = self._own.fields
        self._last: tuple[object, Stored] = (None, Stored({}, ()))

    @classmethod
    def of(cls, schema: Schema) -> Projection:
        """The projection to `schema`, which stays in memory with it, unless its Arrow schema may change."""
        if not schema.is_fixed:
            return cls(schema)
        known: Projection | None = schema.derived.get(cls)
        if known is None:
            known = schema.derived[cls] = cls(schema)
        return known

    @cached_property
    def has_dictionaries(self) -> bool:
        """Whether a column, or a part of one, is of dictionary type."""
        return any(pa.types.is_dictionary(f.type) for f in self.schema.walk())

    @cached_property
    def has_blobs(self) -> bool:
        """Whether a column, or a part of one, has the bytes of blobs."""
        return any(f.is_blob for f in self.schema.walk())

    def project(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a batch with their names, converted to `target`."""
        if batch.schema.equals(self.target):
            return batch
        columns = [projected(batch.column(f.name), f, t, batch.num_rows) for f, t in self.shown]
        return pa.RecordBatch.from_arrays(columns, schema=self.target)

    def stored(self, files: Sequence[DataFile], in_files: Callable[[], Iterable[Field]]) -> Stored:
        """What is read from the files of a fragment; `in_files` returns all fields of the files' own schemas, which are rarely needed."""
        # Most fragments of a table have the same fields in their files. Comparing them is fast, since equal tuples are shared.
        of = [(file.fields, file.column_indices) for file in files]
        known, stored = self._last
        if of != known:
            schema, ids = self._own, {i for file in files for i in file.fields}
            if lacks_structure(schema, ids):
                return _stored(with_structure_leaves(schema, ids, in_files()), files)
            stored = _stored(schema, files)
            self._last = of, stored
        return stored


def _stored(schema: Schema, files: Sequence[DataFile]) -> Stored:
    in_files: list[tuple[int, tuple[Field, ...], Mapping[int, int]]] = []
    taken: set[int] = set()
    for number, file in enumerate(files):
        # Files of the 0.1 family have no column indices; they find their fields by id.
        columns = file.columns
        ids = (set(columns) if file.column_indices else set(file.fields)) - taken
        pruned = schema.keep(lambda leaf, ids=ids: leaf.id in ids)  # type: ignore[misc]
        if pruned.fields:
            in_files.append((number, pruned.fields, columns))
            taken |= {leaf.id for leaf in pruned.leaves()}
    return Stored({f.id: f for f in schema.keep(lambda leaf: leaf.id in taken).fields}, in_files)


def projected(array: pa.Array | None, field: Field, target: pa.DataType, count: int) -> pa.Array:
    """`array` converted to `target`, the type that a scan returns for `field`.

    `array` has the storage type of `field`, except for struct children that are in no data file, are not requested, or have
    another order. None: the field itself is in no file, so that all `count` values are null.
    """
    if array is None:
        return pa.nulls(count, target)
    if array.type.equals(target):
        return array
    if field.logical_type == "json":
        array = to_text(array)
    if isinstance(target, pa.BaseExtensionType):
        storage = projected(array, field, target.storage_type, count) if field.logical_type != "json" else array
        return pa.ExtensionArray.from_storage(target, storage)
    if not field.children or not pa.types.is_nested(target):
        return _relabelled(array, target)
    if pa.types.is_struct(target):
        return _struct(array, field, target)
    items = _items(array)
    child = field.children[0]
    if pa.types.is_map(target):
        entries = pa.struct([target.key_field, target.item_field])
        return _with_children(array, target, projected(items, child, entries, len(items)))
    return _with_children(array, target, projected(items, child, target.value_type, len(items)))


def _struct(array: pa.StructArray, field: Field, target: pa.StructType) -> pa.Array:
    """A struct with its children in the order of `field`; those that are in no file are null."""
    there = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    children = []
    for i, child in enumerate(field.children):
        at = there.get(child.name)
        children.append(projected(None if at is None else array.field(at), child, target.field(i).type, len(array)))
    if not children:
        return _relabelled(array, target)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=[target.field(i) for i in range(target.num_fields)], mask=mask)


def _items(array: pa.Array) -> pa.Array:
    """All items of a list, map or fixed-size list array, including those before its first row."""
    return array.values


def _with_children(array: pa.Array, target: pa.DataType, items: pa.Array) -> pa.Array:
    buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(target) else 2]
    if pa.types.is_map(target):
        return map_array(target, len(array), buffers, items, array.offset)
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, array.offset, [items])


def _relabelled(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same buffers with a type that differs only in the names and nullability of its children."""
    if array.type.equals(target):
        return array
    if pa.types.is_nested(target) and target.num_fields == 1 and array.type.num_fields == 1:
        return _with_children(array, target, _relabelled(_items(array), target.field(0).type))
    try:
        return array.cast(target)
    except pa.ArrowException as e:
        raise CorruptFileError(f"found values of type {array.type}; the schema says {target}") from e
