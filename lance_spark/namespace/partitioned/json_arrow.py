"""Arrow schemas as JSON: the JsonArrowSchema of the Lance namespace client specification.

That form lacks the parameters of types. Therefore types with parameters are written as `timestamp[us,tz=UTC]` and `decimal128(10,2)`, as in
Daft. `{"type": "decimal128", "length": 10002}` (pylance) and types without parameters can be read, too.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from lance_spark.arrow.types import is_list
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NAMES = {t: name for name, t in _PLAIN.items()} | {pa.string_view(): "utf8", pa.binary_view(): "binary"}
_SYNONYMS = {
    "boolean": pa.bool_(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    # Without parameters, the units are those of Spark.
    "timestamp": pa.timestamp("us"),
    "duration": pa.duration("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
}
VAGUE = ("timestamp", "duration", "time32", "time64")
"""Types that some writers name without their unit and time zone."""
_UNIT = re.compile(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)(?:, ?tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"(decimal128|decimal256)\((\d{1,3}), ?(-?\d{1,3})\)")


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """The schema as a JSON object. Raises UnsupportedFeatureError naming the column of a type that the form cannot hold."""
    return {"fields": [_field_to_json(f) for f in schema]}


def schema_from_json(value: Any) -> pa.Schema:
    """The schema in a JSON object. Raises CorruptFileError for another form."""
    try:
        return pa.schema([_field_from_json(f) for f in value["fields"]])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise CorruptFileError(f"expected a JSON schema with a list of fields: {e}") from e


def type_to_json(t: pa.DataType, name: str) -> dict[str, Any]:
    """The type of the column `name` as a JSON object."""
    if t in _NAMES:
        return {"type": _NAMES[t]}
    if pa.types.is_timestamp(t):
        return {"type": f"timestamp[{t.unit}{f',tz={t.tz}' if t.tz else ''}]"}
    if pa.types.is_duration(t) or pa.types.is_time(t):
        kind = "duration" if pa.types.is_duration(t) else "time32" if pa.types.is_time32(t) else "time64"
        return {"type": f"{kind}[{t.unit}]"}
    if pa.types.is_decimal128(t) or pa.types.is_decimal256(t):
        return {"type": f"decimal{t.bit_width}({t.precision},{t.scale})"}
    if pa.types.is_fixed_size_binary(t):
        return {"type": "fixed_size_binary", "length": t.byte_width}
    if pa.types.is_dictionary(t):
        return type_to_json(t.value_type, name)
    if pa.types.is_fixed_size_list(t):
        return {"type": "fixed_size_list", "length": t.list_size, "fields": [_field_to_json(t.value_field)]}
    if is_list(t):
        return {"type": "list" if pa.types.is_list(t) else "large_list", "fields": [_field_to_json(t.value_field)]}
    if pa.types.is_struct(t):
        return {"type": "struct", "fields": [_field_to_json(t.field(i)) for i in range(t.num_fields)]}
    if pa.types.is_map(t):
        entries = pa.field("entries", pa.struct([t.key_field, t.item_field]), nullable=False)
        return {"type": "map", "fields": [_field_to_json(entries)]}
    raise UnsupportedFeatureError(f"column {name!r}: the schema of a namespace cannot hold Arrow's type {t}; cast the column")


def type_from_json(value: Any) -> pa.DataType:
    """The type in a JSON object. Raises ValueError or KeyError for another form."""
    name, children = value["type"], value.get("fields") or []
    plain = _PLAIN.get(name) or _SYNONYMS.get(name)
    if name in ("decimal128", "decimal256"):  # the length is precision * 1000 + scale
        return _decimal(name, *divmod(int(value["length"]), 1000))
    if plain is not None:
        return plain
    if match := _UNIT.fullmatch(name):
        make = {"timestamp": pa.timestamp, "duration": pa.duration, "time32": pa.time32, "time64": pa.time64}[match[1]]
        return make(match[2], match[3]) if match[3] else make(match[2])
    if match := _DECIMAL.fullmatch(name):
        return _decimal(match[1], int(match[2]), int(match[3]))
    if name == "fixed_size_binary":
        return pa.binary(int(value["length"]))
    fields = [_field_from_json(child) for child in children]
    if name == "struct":
        return pa.struct(fields)
    if len(fields) == 1 and name in ("list", "large_list"):
        return pa.list_(fields[0]) if name == "list" else pa.large_list(fields[0])
    if len(fields) == 1 and name == "fixed_size_list":
        return pa.list_(fields[0], int(value["length"]))
    if len(fields) == 1 and name == "map":
        entries = fields[0].type
        if pa.types.is_struct(entries) and entries.num_fields == 2:
            return pa.map_(entries.field(0).with_nullable(False), entries.field(1))
    raise ValueError(f"unknown type {str(name)[:100]!r}")


def _decimal(name: str, precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if name == "decimal128" else pa.decimal256(precision, scale)


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    t = field.type
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    if isinstance(t, pa.BaseExtensionType):
        raise UnsupportedFeatureError(f"column {field.name!r}: give the storage type with the extension's name in the field metadata")
    out: dict[str, Any] = {"name": field.name, "nullable": field.nullable, "type": type_to_json(t, field.name)}
    return {**out, "metadata": metadata} if metadata else out


def _field_from_json(value: Any) -> pa.Field:
    metadata = {str(k): str(v) for k, v in (value.get("metadata") or {}).items()}
    return pa.field(str(value["name"]), type_from_json(value["type"]), bool(value.get("nullable", True)), metadata or None)
