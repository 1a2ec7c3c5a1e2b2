"""Input data -> the columns of a table: matched by name, missing ones null, types cast where a value keeps its meaning.

Integers and floats widen and narrow, decimals rescale or become the nearest float, text, lists and dictionaries change their layout; a
value that does not fit is an error. Any other type (text for a number, an instant for a local time) is a difference; the error
lists all differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep, take
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.declared_types import as_declared, declared
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.write.defaults import is_required


def check_fits(data: pa.Schema, table: Schema) -> None:
    """Raise SchemaMismatchError, listing every difference, unless data of the schema `data` can be written to `table`."""
    found = _struct_differences(list(data), table.fields, "")
    if found:
        raise SchemaMismatchError("the data does not fit the table:\n" + "\n".join(f"  - {d}" for d in found))


def conform(batch: pa.RecordBatch, table: Schema) -> pa.RecordBatch:
    """The rows of `batch`, whose schema fits (`check_fits`), as the columns of `table` in their storage types.

    CHAR columns are padded. Raises SchemaMismatchError, naming the column, for a value that does not fit its type or its declared length,
    and for a null in a non-nullable field.
    """
    rows = of_declared_lengths(as_columns(batch, table, {}), table)
    check_nulls(rows, table)
    return rows


def as_columns(batch: pa.RecordBatch, table: Schema, missing: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The columns of `table`, matched by name and cast, or `batch` itself if it has just these.

    A column that the batch lacks has the one value that `missing` has for it, or is null.
    """
    if _is_as_stored(batch.schema, table.fields):
        return batch
    target = pa.schema([f.to_arrow() for f in table.fields])
    found, given = matched(batch.schema.names, table.fields), batch.columns
    columns = []
    for field, t, at in zip(table.fields, target.types, found, strict=True):
        array = given[at] if at is not None else _repeated(missing.get(field.name), batch.num_rows, t)
        columns.append(array if array.type == t else _cast(array, field, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _is_as_stored(data: pa.Schema, fields: Sequence[Field]) -> bool:
    """True if rows of the schema `data` have these columns in their storage types."""
    if data.names != [f.name for f in fields]:
        return False
    pairs = zip(data, fields, strict=True)
    return all(given.nullable == f.nullable and given.type == f.type for given, f in pairs)


def _repeated(value: pa.Array | None, count: int, t: pa.DataType) -> pa.Array:
    return pa.nulls(count, t) if value is None else take(value, pa.array(np.zeros(count, np.int64)))


def of_declared_lengths(rows: pa.RecordBatch, table: Schema) -> pa.RecordBatch:
    """The rows with padded CHAR columns, or `rows` itself. Raises SchemaMismatchError for a value that is longer than declared."""
    for at, field in enumerate(table.fields):
        t = declared(field)
        if t is not None:
            rows = rows.set_column(at, rows.schema.field(at), as_declared(rows.column(at), t, field.name))
    return rows


def check_nulls(rows: pa.RecordBatch, table: Schema) -> None:
    """Raise SchemaMismatchError for a null in a non-nullable field, unless its parent is null."""
    for array, field in zip(rows.columns, table.fields, strict=True):
        _check_nulls(array, field, field.name)


def matched(names: Sequence[str], fields: Sequence[Field]) -> Sequence[int | None]:
    """The index of each field in `names`: an exact match, else one that differs only in case; None without a match.

    A name that is exactly that of a field is not taken for another field.
    """
    if _are_distinct(names, fields):
        return range(len(names))
    exact = {name: i for i, name in enumerate(names)}
    own = {f.name for f in fields}
    folded = {name.lower(): i for i, name in enumerate(names) if name not in own}
    return [exact.get(f.name, folded.get(f.name.lower())) for f in fields]


def _are_distinct(names: Sequence[str], fields: Sequence[Field]) -> bool:
    """True if `names` are those of the fields, in order, and no name is duplicated."""
    if not len(names) == len(fields) == len(set(names)):
        return False
    return all(name == f.name for name, f in zip(names, fields))


def _struct_differences(data: Sequence[pa.Field], fields: Sequence[Field], path: str) -> list[str]:
    names = [f.name for f in data]
    if _are_distinct(names, fields):
        found = []
        for given, field in zip(data, fields):
            found += _differences(given.type, field, path + repr(field.name))
        return found
    own = {f.name for f in fields}
    exact, inexact = Counter(names), Counter(name.lower() for name in names if name not in own)
    alike = Counter(f.name.lower() for f in fields)
    twice = sorted({name for name in names if exact[name] > 1 or inexact[name.lower()] > 1})
    found = [f"{path}{name!r} is duplicated (names that differ only in case are equal)" for name in twice]
    places = matched(names, fields)
    ambiguous = sorted({name for name in names if name not in own and alike[name.lower()] > 1})
    found += [f"{path}{name!r} is ambiguous: the table has columns that differ only in case" for name in ambiguous]
    unknown = [i for i in sorted({*range(len(names))} - {*places}) if names[i] not in twice]
    found += [f"{path}{names[i]!r} ({data[i].type}) is not in the table" for i in unknown]
    for field, at in zip(fields, places, strict=True):
        if at is not None:
            found += _differences(data[at].type, field, f"{path}{field.name!r}")
        elif is_required(field) if not path else not field.nullable:
            found.append(f"{path}{field.name!r} is missing, but the table requires it (not nullable)")
    return found


def _differences(t: pa.DataType, field: Field, path: str) -> list[str]:
    """Incompatibilities of the type `t` with `field`."""
    t, target = _storage(t), field.type
    if field.logical_type == "json":
        return [] if _is_text(t) or pa.types.is_null(t) else [f"{path} is {t}; expected JSON text"]
    if field.is_blob and pa.types.is_struct(t):
        return [] if t.get_field_index("data") >= 0 else [f"{path} is {t}; expected a blob, bytes or a struct with a field 'data'"]
    if t == target or pa.types.is_null(t):
        return []
    if pa.types.is_struct(target) and pa.types.is_struct(t):
        return _struct_differences(list(t), field.children, f"{path}.")
    if pa.types.is_map(target) and pa.types.is_map(t):
        key, item = field.children[0].children
        return _differences(t.key_type, key, f"{path}.key") + _differences(t.item_type, item, f"{path}.value")
    if _is_list(target) and _is_list(t):
        if pa.types.is_fixed_size_list(target) and pa.types.is_fixed_size_list(t) and t.list_size != target.list_size:
            return [f"{path} has lists of {t.list_size} items; expected {target.list_size}"]
        return _differences(t.value_type, _item(field), f"{path}[]")
    if pa.types.is_dictionary(t):
        return _differences(t.value_type, field, path)
    if pa.types.is_dictionary(target):
        target = target.value_type
    can_cast = any(is_from(t) and is_to(target) for is_from, is_to in _CASTS)
    if t == target or (can_cast and _same_zone(t, target)):
        return []
    return [f"{path} is {t}; expected {target}"]


def _same_zone(t: pa.DataType, target: pa.DataType) -> bool:
    """For timestamps: whether both are instants or both are local times."""
    return not pa.types.is_timestamp(t) or (t.tz is None) == (target.tz is None)


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: pa.DataType) -> bool:
    varies = pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t)
    return bool(varies or pa.types.is_fixed_size_binary(t))


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _is_list(t: pa.DataType) -> bool:
    views = pa.types.is_list_view(t) or pa.types.is_large_list_view(t)
    return bool(views or pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))


# Allowed casts, from types of the data to types of the table; each value is checked.
_CASTS = (
    (pa.types.is_integer, _is_number),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_decimal, pa.types.is_integer),  # Spark represents uint64 as a decimal
    (pa.types.is_decimal, pa.types.is_floating),  # the SQL literal 2.5 is a decimal
    (_is_text, _is_text),
    (_is_bytes, _is_bytes),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_time, pa.types.is_time),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_duration, pa.types.is_duration),
)


def _storage(t: pa.DataType) -> pa.DataType:
    return t.storage_type if isinstance(t, pa.BaseExtensionType) else t


def _item(field: Field) -> Field:
    """The item field of a list; a fixed-size list of primitives has none, so one is made."""
    if field.children:
        return field.children[0]
    return Field("item", -1, field.logical_type.split(":", 1)[1].rsplit(":", 1)[0])


def _cast(array: pa.Array, field: Field, path: str) -> pa.Array:
    """`array` cast to the storage type of `field`."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    target = field.type
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if array.type.equals(target):
        return array
    if field.logical_type == "json":
        return _json(array, path)
    if field.is_blob and pa.types.is_struct(array.type):
        return _blob_data(array, path)
    if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        array = _list_of_view(array)
    if pa.types.is_struct(target):
        return _cast_struct(array, field, path)
    if pa.types.is_map(target):
        entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        entries = _cast_struct(entries, field.children[0], path)
        return _of_buffers(array, target, entries)
    if _is_list(target):
        return _cast_list(array, field, path)
    try:
        return _cast_leaf(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SchemaMismatchError(f"column {path!r}: a value does not fit {target}: {e}") from e


def _json(array: pa.Array, path: str) -> pa.Array:
    from lance_spark.arrow.jsonb import from_text  # loads the kernels of reading, which planning a write does not need

    try:
        return from_text(array)
    except SchemaMismatchError as e:
        raise SchemaMismatchError(f"column {path!r}: {e}") from e


def _blob_data(array: pa.StructArray, path: str) -> pa.Array:
    """The bytes of blobs that are given as structs, such as those of pylance's blob_array."""
    data, uri = array.field("data"), array.type.get_field_index("uri")
    if uri >= 0 and pc.any(pc.and_(array.is_valid(), array.field(uri).is_valid())).as_py():
        raise UnsupportedFeatureError(f"column {path!r}: writing blobs as references to a URI is not supported; give their bytes")
    return pc.if_else(array.is_valid(), data, pa.scalar(None, data.type)).cast(pa.large_binary())


def _list_of_view(array: pa.Array) -> pa.Array:
    """A chunked list array as one array; pyarrow's own cast makes an offset buffer that is too short."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    validity = None if not array.null_count else pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
    t = pa.large_list(array.type.value_field)
    return pa.Array.from_buffers(t, len(array), [validity, pa.py_buffer(offsets)], children=[array.flatten()])


def _cast_struct(array: pa.StructArray, field: Field, path: str) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    children = []
    for child, at in zip(field.children, matched(names, field.children), strict=True):
        if at is None:
            children.append(pa.nulls(len(array), child.type))
        else:
            children.append(_cast(array.field(at), child, f"{path}.{child.name}"))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=[c.to_arrow() for c in field.children], mask=mask)


def _of_buffers(array: pa.Array, target: pa.DataType, items: pa.Array) -> pa.Array:
    """The list or map array with its items replaced by `items`."""
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [items])


def _cast_list(array: pa.Array, field: Field, path: str) -> pa.Array:
    target = field.type
    if pa.types.is_fixed_size_list(target):
        items = _cast(_fixed_items(array, target.list_size, path), _item(field), f"{path}[]")
        mask = array.is_null() if array.null_count else None
        return pa.FixedSizeListArray.from_arrays(items, type=target, mask=mask)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    items = _cast(array.values, _item(field), f"{path}[]")
    if pa.types.is_large_list(array.type) is pa.types.is_large_list(target):
        return _of_buffers(array, target, items)
    make = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
    try:
        return _of_buffers(array, make(target.value_field), items).cast(target)
    except pa.ArrowInvalid as e:
        raise SchemaMismatchError(f"column {path!r}: the lists are too long for {target}: {e}") from e


def _fixed_items(array: pa.Array, size: int, path: str) -> pa.Array:
    """The items of fixed-size lists of `size`; null lists get null items."""
    if pa.types.is_fixed_size_list(array.type):
        return array.values.slice(array.offset * size, len(array) * size)
    lengths = pc.fill_null(pc.list_value_length(array), size)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        wrong = int(np.flatnonzero(np.asarray(lengths) != size)[0])
        raise SchemaMismatchError(f"column {path!r}: row {wrong} has {lengths[wrong]} items; expected {size}, the table's list size")
    if not array.null_count:
        return array.flatten()
    starts = np.asarray(array.offsets)[:-1].astype(np.int64)
    places = (starts[:, None] + np.arange(size)).ravel()
    missing = np.repeat(np.asarray(array.is_null()), size)
    return take(array.values, pa.array(np.where(missing, 0, places), mask=missing))


def _cast_leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(target):
        values = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return values.cast(target.value_type).dictionary_encode().cast(target)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_fixed_size_binary(target):
        # The cast through plain binary checks the lengths.
        return array.cast(pa.binary()).cast(target)
    if pa.types.is_decimal(array.type) and pa.types.is_floating(target):
        array = array.cast(pa.float64())
    done = array.cast(target)
    if pa.types.is_floating(target) and pc.any(pc.and_(pc.is_finite(array), pc.is_inf(done))).as_py():
        raise pa.ArrowInvalid("it is too large")
    return done


def _check_nulls(array: pa.Array, field: Field, path: str) -> None:
    """Raise SchemaMismatchError for a null in a non-nullable field, unless its parent is null."""
    if not field.nullable and array.null_count:
        raise SchemaMismatchError(f"column {path!r} is not nullable, but {array.null_count} of {len(array)} values are null")
    if not any(not f.nullable for child in field.children for f in child.walk()):
        return
    if pa.types.is_struct(array.type):
        children = array.flatten() if array.null_count == 0 else keep(array, array.is_valid()).flatten()
    else:
        children = [keep(array, array.is_valid()).flatten() if not pa.types.is_map(array.type) else _entries(array)]
    for child, values in zip(field.children, children, strict=True):
        _check_nulls(values, child, f"{path}.{child.name}")


def _entries(array: pa.MapArray) -> pa.StructArray:
    there = keep(array, array.is_valid())
    first, last = int(there.offsets[0].as_py()), int(there.offsets[-1].as_py())
    return there.values.slice(first, last - first)
