"""Arrow types of Lance tables <-> Spark types. docs/types.md has the user's table of them.

Implements the schema page of the table specification for Spark. If Spark has no type for the values of a Lance type, the
error names the column; nothing is silently rounded or truncated.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lance_spark.arrow.types import is_list
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.schema import variants
from lance_spark.schema.logical_types import EXTENSION_NAME
from lance_spark.schema.schema import NO_METADATA
from lance_spark.spark.columns.field_metadata import PLAIN, kept, shown, string_type
from lance_spark.spark.workers.version import SPARK_VERSION

FIXED_SIZE = "arrow.fixed-size-list.size"
BFLOAT16 = b"lance.bfloat16"
_ROW_COLUMNS = {f.name: f.name in ("_rowid", "_rowaddr") for f in ROW_COLUMNS}
"""Columns that are not stored in files, and whether they are never null. Unsigned in Lance, but long in Spark, as in the JVM connector."""

NO_SIZES: Mapping[str, int] = MappingProxyType({})
_LEAVE_OUT = "leave it out by naming the other columns in the `columns` option"

_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_TO_SPARK: Mapping[pa.DataType, st.DataType] = {
    pa.null(): st.NullType(),
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float16(): st.FloatType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.binary(): st.BinaryType(),
    pa.large_binary(): st.BinaryType(),
    pa.binary_view(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.date64(): st.DateType(),
    **{pa.duration(unit): st.DayTimeIntervalType() for unit in ("s", "ms", "us", "ns")},
}

_REFUSED: Mapping[str, str] = {
    "VectorUDT": "turn it into an array with pyspark.ml.functions.vector_to_array",
    "MatrixUDT": "turn it into an array of arrays",
    "CalendarIntervalType": "write its months, days and microseconds as numbers",
    "YearMonthIntervalType": "write it as a number of months",
    "GeometryType": "turn it into binary with st_asbinary",
    "GeographyType": "turn it into binary with st_asbinary",
}


def to_spark(schema: pa.Schema) -> st.StructType:
    """The Spark schema of a table's scan. Raises UnsupportedFeatureError, which names the column, for a type that Spark lacks."""
    fields = []
    for f in schema:
        if f.name in _ROW_COLUMNS and f.type == pa.uint64():
            f = pa.field(f.name, pa.int64(), not _ROW_COLUMNS[f.name])
        fields.append(_spark_field(f, f.name, True))
    return st.StructType(fields)


def _spark_field(f: pa.Field, path: str, is_column: bool) -> st.StructField:
    """The StructField, with what Spark may see of the field's metadata, and the sizes of fixed-size lists in it."""
    t = _spark_type(f, path, f.metadata)
    return st.StructField(f.name, t, f.nullable, {**shown(f.metadata, t, is_column), **_sizes(f.type, "")})


def _sizes(t: pa.DataType, prefix: str) -> dict[str, int]:
    """The sizes of fixed-size lists in a type, not inside structs, by path ("element." for the items of a list)."""
    t = storage_type(t)
    if pa.types.is_fixed_size_list(t):
        return {prefix + FIXED_SIZE: t.list_size, **_sizes(t.value_type, prefix + "element.")}
    if is_list(t):
        return _sizes(t.value_type, prefix + "element.")
    if pa.types.is_map(t):
        return {**_sizes(t.key_type, prefix + "key."), **_sizes(t.item_type, prefix + "value.")}
    return {}


def storage_type(t: pa.DataType) -> pa.DataType:
    """The storage type of an extension type, the value type of a dictionary, otherwise the type itself."""
    if isinstance(t, pa.BaseExtensionType):
        return storage_type(t.storage_type)
    return storage_type(t.value_type) if pa.types.is_dictionary(t) else t


def is_bfloat16(f: pa.Field) -> bool:
    """True if the field has Lance's bfloat16, which in Arrow is two bytes with an extension name."""
    if isinstance(f.type, pa.BaseExtensionType):
        return bool(f.type.extension_name.encode() == BFLOAT16)
    return bool(f.type == pa.binary(2) and (f.metadata or {}).get(EXTENSION_NAME) == BFLOAT16)


def _spark_type(f: pa.Field, path: str, metadata: Mapping[bytes, bytes] | None, inner: str = "") -> st.DataType:
    """The type of a field. `metadata` is that of the StructField that it is in, at the path `inner` (see `_sizes`)."""
    t = storage_type(f.type)
    if is_bfloat16(f):
        return st.FloatType()
    if variants.is_variant(f):
        variants.check_whole(t, path)
        return st.VariantType()
    if t in _STRINGS:
        return string_type(metadata, inner)
    if t in _TO_SPARK:
        return _TO_SPARK[t]
    if pa.types.is_timestamp(t):
        return st.TimestampNTZType() if t.tz is None else st.TimestampType()
    if pa.types.is_decimal(t):
        if t.precision > 38 or not 0 <= t.scale <= t.precision:
            raise UnsupportedFeatureError(
                f"column {path!r}: {t} has more than the 38 digits of Spark's decimals; {_LEAVE_OUT}, or read it as Arrow with Dataset"
            )
        return st.DecimalType(t.precision, t.scale)
    if pa.types.is_time(t):
        return _time_type(t, path)
    if pa.types.is_fixed_size_binary(t):
        return st.BinaryType()
    if is_list(t) or pa.types.is_fixed_size_list(t):
        return st.ArrayType(_spark_type(t.value_field, f"{path}.element", metadata, f"{inner}element."), t.value_field.nullable)
    if pa.types.is_map(t):
        value = t.item_field
        key_type = _spark_type(t.key_field, f"{path}.key", metadata, f"{inner}key.")
        return st.MapType(key_type, _spark_type(value, f"{path}.value", metadata, f"{inner}value."), value.nullable)
    if pa.types.is_struct(t):
        return st.StructType([_spark_field(child, f"{path}.{child.name}", False) for child in t])
    raise UnsupportedFeatureError(f"column {path!r}: Spark has no type for Arrow's {t}; {_LEAVE_OUT}")


def _time_type(t: pa.DataType, path: str) -> st.DataType:
    if SPARK_VERSION < (4, 1):
        raise UnsupportedFeatureError(
            f"column {path!r}: Spark {pyspark.__version__} has no type for a time of day ({t}), Spark 4.1 has; {_LEAVE_OUT}"
        )
    # Spark stores times in nanoseconds at any precision; since 4.3 it has a type that shows all nine digits.
    return st.TimeType(9 if t.unit == "ns" and SPARK_VERSION >= (4, 3) else 6)


def of_json(schema: str) -> st.StructType:
    """A schema from Spark's JSON."""
    return st.StructType.fromJson(json.loads(schema))


def promised(schema: st.StructType) -> pa.Schema:
    """The exact Arrow schema, including names and nullability, of the batches that Spark expects from a source with this schema.

    Spark 4.2 and later compare it with the first batch; 4.0 and 4.1 take columns and children by position.
    """
    zone: dict[str, Any] = {"timezone": "UTC"} if SPARK_VERSION >= (4, 2) else {}
    return to_arrow_schema(schema, **zone)


def stored(schema: st.StructType, sizes: Mapping[str, int]) -> pa.Schema:
    """The Arrow schema of a new table made from a DataFrame of this schema.

    `sizes` are the write options `<col>.arrow.fixed-size-list.size` by lower-cased column path; they take precedence over the metadata of
    that name in the StructField. Raises UnsupportedFeatureError for a type that Lance lacks, with an alternative, and InvalidOptionError
    for a size on a column that is not an array.
    """
    used: set[str] = set()
    out = pa.schema([_arrow_field(f, f.name, _Sizes(sizes, used), True) for f in schema.fields])
    unused = sizes.keys() - used
    if unused:
        raise InvalidOptionError(f"option '{min(unused)}.{FIXED_SIZE}' does not refer to an array column of the data")
    return out


def inferred(schema: st.StructType, sizes: Mapping[str, int] = NO_SIZES) -> pa.Schema:
    """As `stored`, for columns that a DataFrame adds to a table: they are nullable (see `table.write.nullability`)."""
    from lance_spark.table.write.nullability import loosened  # reads do without

    return loosened(stored(schema, sizes))


@dataclass(frozen=True)
class _Sizes:
    """The requested list sizes: from options, by path, and from the metadata of the current StructField, by `inner` path."""

    options: Mapping[str, int]
    used: set[str]
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inner: str = ""

    def at(self, path: str) -> int:
        """The fixed size of the list at `path`; -1 if it has none."""
        if path.lower() in self.options:
            self.used.add(path.lower())
            return self.options[path.lower()]
        value = self.metadata.get(self.inner + FIXED_SIZE, -1)
        text = str(value)
        if value != -1 and not (text.isdigit() and 0 < int(text) < 2**31):
            raise InvalidOptionError(f"column {path!r}: the metadata {self.inner + FIXED_SIZE} is {value!r}; expected a size of at least 1")
        return int(text)

    def into(self, step: str) -> _Sizes:
        """The sizes for the elements of a list, or for the keys or values of a map."""
        return replace(self, inner=f"{self.inner}{step}.")


def _arrow_field(f: st.StructField, path: str, sizes: _Sizes, is_column: bool = False) -> pa.Field:
    metadata = {key: value for key, value in kept(f, is_column).items() if not key.endswith(FIXED_SIZE)}
    within = replace(sizes, metadata=f.metadata, inner="")
    return _typed_field(f.name, f.dataType, path, within, f.nullable, metadata)


def _typed_field(
    name: str, t: st.DataType, path: str, sizes: _Sizes, nullable: bool, metadata: Mapping[Any, Any] = NO_METADATA
) -> pa.Field:
    """The field for values of a Spark type: some types are in its metadata."""
    if isinstance(t, st.VariantType):
        return pa.field(name, variants.STORED, nullable, {**metadata, **variants.FIELD_METADATA})
    return pa.field(name, _arrow_type(t, path, sizes), nullable, dict(metadata) or None)


def _arrow_type(t: st.DataType, path: str, sizes: _Sizes) -> pa.DataType:
    if type(t) in PLAIN:
        return PLAIN[type(t)]
    if isinstance(t, (st.CharType, st.VarcharType)):
        return pa.string()
    if isinstance(t, st.DecimalType):
        return pa.decimal128(t.precision, t.scale)
    if type(t).__name__ == "TimeType":  # Spark 4.0 lacks the class
        return pa.time64("ns" if t.simpleString() in ("time(7)", "time(8)", "time(9)") else "us")
    if isinstance(t, st.ArrayType):
        # Other Lance writers use the name "item" and compare names when they append.
        item = _typed_field("item", t.elementType, f"{path}.element", sizes.into("element"), t.containsNull)
        return pa.list_(item, sizes.at(path))
    if isinstance(t, st.MapType):
        key = pa.field("key", _arrow_type(t.keyType, f"{path}.key", sizes.into("key")), False)
        return pa.map_(key, _typed_field("value", t.valueType, f"{path}.value", sizes.into("value"), t.valueContainsNull))
    if isinstance(t, st.StructType):
        return pa.struct([_arrow_field(f, f"{path}.{f.name}", sizes) for f in t.fields])
    way = _REFUSED.get(type(t).__name__, "cast it to a type of docs/types.md")
    raise UnsupportedFeatureError(f"column {path!r}: Lance has no type for Spark's {t.simpleString()}; {way}")
