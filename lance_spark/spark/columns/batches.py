"""Conversion of a scan's Arrow batches to exactly the Arrow schema that Spark expects.

Buffers are not copied if their bytes stay the same. Columns and struct children are found by name, so the schema may omit some. A value
that Spark's type cannot hold raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from lance_spark.arrow.types import is_bytes, is_list
from lance_spark.arrow.validity import validity_of
from lance_spark.display.words import nearest
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.variants import is_variant
from lance_spark.spark.columns.types import is_bfloat16, promised

_MS_PER_DAY = 86_400_000


@dataclass(frozen=True)
class Conversion:
    """Converts batches to the `promised` schema. `truncate` rounds nanoseconds down to microseconds; otherwise they raise an error.

    `keeps_dictionaries`: columns of texts, bytes and decimals that have a dictionary keep it.
    """

    promised: pa.Schema
    truncate: bool = False
    keeps_dictionaries: bool = False

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch. Raises UnsupportedFeatureError, which names the column, for a value that Spark cannot hold."""
        columns, schema = [], self.promised
        for i, target in enumerate(self.promised):
            at = _child_index(batch.schema, target.name, target.name)
            source, array = batch.schema.field(at), batch.column(at)
            if self.keeps_dictionaries and _has_plain_dictionary(array) and has_codes(target.type):
                items = self._column(array.dictionary, source.with_type(source.type.value_type), target)
                _check_nulls(array, target)
                # The reader has verified the indices, and there are as many items as before.
                columns.append(pa.DictionaryArray.from_arrays(array.indices, items, safe=False))
                schema = schema.set(i, target.with_type(columns[-1].type))
            else:
                columns.append(self._column(array, source, target))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, array: pa.Array, source: pa.Field, target: pa.Field) -> pa.Array:
        try:
            out = self._convert(array, source, target, target.name)
        except pa.ArrowInvalid as e:
            raise UnsupportedFeatureError(
                f"column {target.name!r} has a value that Spark's type for it cannot hold ({e}); "
                "exclude it by listing the other columns in the option `columns`"
            ) from e
        _check_nulls(out, target)
        return out

    def _convert(self, array: pa.Array, source: pa.Field, target: pa.Field, path: str) -> pa.Array:
        """Convert `array` to the type of `target`. The metadata of `source`, its field, may declare two bytes to be a bfloat16."""
        if is_bfloat16(source):
            return _widen_bfloat16(_storage(array))
        array = _storage(array)
        t = array.type
        if pa.types.is_dictionary(t):
            return self._convert(array.dictionary_decode(), source.with_type(t.value_type), target, path)
        if pa.types.is_struct(t):
            converted = self._struct(array, target, path)
            if is_variant(source):
                _check_variants(converted, path)
            return converted
        if pa.types.is_map(t):
            return self._map(array, target, path)
        if pa.types.is_fixed_size_list(t):
            offsets = np.arange(len(array) + 1, dtype=np.int64) * t.list_size
            return self._list(array, offsets, array.offset * t.list_size, target, path)
        if is_list(t):
            return self._list(array, array.offsets.to_numpy(), 0, target, path)
        if t == target.type:
            return array
        if pa.types.is_date64(t):
            return _in_units(array, _MS_PER_DAY, pa.int32(), target.type)
        if (pa.types.is_timestamp(t) or pa.types.is_duration(t)) and t.unit == "ns":
            return self._from_nanoseconds(array, target.type, path)
        return array.cast(target.type)

    def _from_nanoseconds(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        whole = _in_units(array, 1000, pa.int64(), pa.int64())
        if not self.truncate and not pc.multiply(whole, 1000).equals(array.view(pa.int64())):
            raise UnsupportedFeatureError(
                f"column {path!r} has values with nanosecond precision, but Spark's type has microseconds; "
                "read it with the option nanoseconds=truncate, or exclude it with the option `columns`"
            )
        return whole.view(target)

    def _struct(self, array: pa.StructArray, target: pa.Field, path: str) -> pa.Array:
        children = []
        for child in target.type:
            at = _child_index(array.type, child.name, f"{path}.{child.name}")
            children.append(self._convert(array.field(at), array.type.field(at), child, f"{path}.{child.name}"))
        return pa.Array.from_buffers(target.type, len(array), [validity_of(array)], array.null_count, children=children)

    def _list(self, array: pa.Array, offsets: np.ndarray, shift: int, target: pa.Field, path: str) -> pa.Array:
        """A list array of the converted items; `offsets` + `shift` are positions in `array.values`."""
        first, last = int(offsets[0]), int(offsets[-1])
        if last - first >= 2**31:
            raise UnsupportedFeatureError(f"column {path!r}: {last - first} list items in one batch; read with a smaller `batch_size`")
        items = array.values.slice(first + shift, last - first)
        items = self._convert(items, array.type.value_field, target.type.value_field, f"{path}.element")
        buffer = pa.py_buffer(np.ascontiguousarray(offsets - first, dtype=np.int32))
        return pa.Array.from_buffers(target.type, len(array), [validity_of(array), buffer], array.null_count, children=[items])

    def _map(self, array: pa.MapArray, target: pa.Field, path: str) -> pa.Array:
        offsets = array.offsets.to_numpy()
        entries = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        fields = [target.type.key_field, target.type.item_field]
        parts = zip(
            ("key", "value"), (array.type.key_field, array.type.item_field), fields
        )  # by position, since writers may choose any names
        children = [self._convert(entries.field(i), f, to, f"{path}.{step}") for i, (step, f, to) in enumerate(parts)]
        entries = pa.StructArray.from_arrays(children, fields=fields)
        buffer = pa.py_buffer(offsets - offsets[0])
        return pa.Array.from_buffers(target.type, len(array), [validity_of(array), buffer], array.null_count, children=[entries])


def has_codes(t: pa.DataType) -> bool:
    """Whether the values of a column of this type in Spark may be those of a dictionary."""
    return is_bytes(t) or bool(pa.types.is_decimal(t))


def _has_plain_dictionary(array: pa.Array) -> bool:
    return pa.types.is_dictionary(array.type) and not array.dictionary.null_count


def _check_nulls(array: pa.Array, target: pa.Field) -> None:
    if not target.nullable and array.null_count:
        raise CorruptFileError(f"column {target.name!r} has nulls, but is not nullable in the table's schema")


def _check_variants(array: pa.StructArray, path: str) -> None:
    """Raise CorruptFileError for variants without their metadata or value, which Spark would not expect."""
    there = array.is_valid()
    for part in ("metadata", "value"):
        if pc.any(pc.and_(there, array.field(part).is_null())).as_py():
            raise CorruptFileError(f"column {path!r}: a variant that is not null has no {part}")


def conversion_to(schema: StructType) -> Conversion:
    """The conversion to what Spark expects for its `schema`."""
    return Conversion(promised(schema))


def blank(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `schema` with arbitrary values: nulls, and zeros in columns that are not nullable."""
    columns = [pa.nulls(rows, f.type) if f.nullable else _zeros(pa.nulls(rows, f.type)) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _zeros(nulls: pa.Array) -> pa.Array:
    """Turn an array of nulls into zeros, empty strings and empty lists (or structs of these) by dropping its validity."""
    t = nulls.type
    if pa.types.is_struct(t):
        children = [_zeros(nulls.field(i)) for i in range(t.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(t)) if children else nulls.fill_null({})
    children = [nulls.values] if pa.types.is_nested(t) else []
    return pa.Array.from_buffers(t, len(nulls), [None, *nulls.buffers()[1 : t.num_buffers]], 0, children=children)


def _child_index(parent: pa.Schema | pa.StructType, name: str, path: str) -> int:
    """The index of the column or child: an exact match, else a case-insensitive one, as in Spark."""
    names = parent.names
    found = [i for i, n in enumerate(names) if n == name] or [i for i, n in enumerate(names) if n.lower() == name.lower()]
    if len(found) != 1:
        hint = nearest(name, names) or f"; existing columns: {', '.join(names) or 'none'}"
        raise SchemaMismatchError(f"{'no' if not found else 'more than one'} column {path!r}{hint}")
    return found[0]


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _in_units(array: pa.Array, divisor: int, storage: pa.DataType, target: pa.DataType) -> pa.Array:
    """Divide the array's integers, rounding down (before 1970 too). The result has the type `target`, which is stored as `storage`."""
    numbers = np.floor_divide(array.view(pa.int64()).fill_null(0).to_numpy(), divisor)
    whole = pa.Array.from_buffers(pa.int64(), len(array), [validity_of(array), pa.py_buffer(numbers)], array.null_count)
    return whole.cast(storage).view(target)


def _widen_bfloat16(array: pa.FixedSizeBinaryArray) -> pa.Array:
    """Convert bfloat16 values, which are the upper halves of floats."""
    halves = np.frombuffer(array.buffers()[1] or b"", "<u2")[array.offset : array.offset + len(array)]
    floats = pa.py_buffer(halves.astype("<u4") << 16)
    return pa.Array.from_buffers(pa.float32(), len(array), [validity_of(array), floats], array.null_count)
