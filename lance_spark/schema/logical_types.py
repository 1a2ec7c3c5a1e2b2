"""Logical types: the strings that represent Arrow types in a schema.

Implements the data types of the schema page of the table specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

EXTENSION_NAME = b"ARROW:extension:name"
EXTENSION_METADATA = b"ARROW:extension:metadata"
BFLOAT16 = "lance.bfloat16"

PRIMITIVES: dict[str, pa.DataType] = {
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
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "blob": pa.large_binary(),
    "json": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
    BFLOAT16: pa.binary(2),
}
_NAMES = {t: n for n, t in PRIMITIVES.items() if n not in ("blob", "json", BFLOAT16)}
_NAMES |= {pa.string_view(): "string", pa.binary_view(): "binary"}
LISTS = (
    ("large_list", (pa.types.is_large_list, pa.types.is_large_list_view)),
    ("list", (pa.types.is_list, pa.types.is_list_view)),
)
_MAX_PARTS = 64
"""Maximum number of parts, separated by colons, of a logical type."""


def nested_type(logical_type: str, name: str, children: Sequence[pa.Field]) -> pa.DataType:
    kind = logical_type.split(":")[0]
    if kind == "struct":
        return pa.struct(children)
    if len(children) != 1:
        raise CorruptFileError(f"column {name!r}: expected one child of type {logical_type!r}, found {len(children)}")
    if kind in ("list", "list.struct"):
        return pa.list_(children[0])
    if kind in ("large_list", "large_list.struct"):
        return pa.large_list(children[0])
    if kind == "fixed_size_list":
        return pa.list_(children[0], _positive(logical_type.rsplit(":", 1)[-1], logical_type, name))
    if kind == "map":
        entries = children[0].type
        if not pa.types.is_struct(entries) or entries.num_fields != 2:
            raise CorruptFileError(f"column {name!r}: expected map entries of key and value, found {entries}")
        return pa.map_(entries.field(0).with_nullable(False), entries.field(1))
    raise UnsupportedFeatureError(f"column {name!r}: unknown nested type {logical_type!r}")


def _positive(text: str, logical_type: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not 0 < int(text) < 2**31:
        raise CorruptFileError(f"column {name!r}: type {logical_type!r} has an invalid size")
    return int(text)


def parse_logical_type(text: str, name: str, children: Sequence[pa.Field] = ()) -> pa.DataType:
    """The Arrow storage type of a logical type string; `name` is the column, for the error message.

    Raises UnsupportedFeatureError for an unknown type, CorruptFileError for invalid parameters.
    """
    if text in PRIMITIVES:
        return PRIMITIVES[text]
    if text.count(":") > _MAX_PARTS:
        raise CorruptFileError(f"column {name!r}: type {text[:100]!r}... is nested too deeply")
    kind, _, rest = text.partition(":")
    if children or kind == "struct":
        return nested_type(text, name, children)
    parts = rest.split(":")
    try:
        if kind == "decimal" and len(parts) == 3:
            make = {"128": pa.decimal128, "256": pa.decimal256}[parts[0]]
            return make(int(parts[1]), int(parts[2]))
        if kind == "timestamp" and len(parts) >= 2:
            zone = ":".join(parts[1:])
            return pa.timestamp(parts[0], None if zone == "-" else zone)
        if kind == "timestamp" and len(parts) == 1:
            return pa.timestamp(parts[0])
        if kind == "dict" and len(parts) >= 3:
            *value, index, ordered = parts
            return pa.dictionary(PRIMITIVES[index], parse_logical_type(":".join(value), name), ordered == "true")
    except (KeyError, TypeError, ValueError, OverflowError) as e:
        raise CorruptFileError(f"column {name!r}: type {text!r} has invalid parameters") from e
    if kind == "fixed_size_binary":
        return pa.binary(_positive(rest, text, name))
    if kind == "fixed_size_list" and ":" in rest:
        item, _, size = rest.rpartition(":")
        # The item has no field of its own to store its extension type.
        metadata = {EXTENSION_NAME: BFLOAT16.encode(), EXTENSION_METADATA: b""} if item == BFLOAT16 else None
        return pa.list_(pa.field("item", parse_logical_type(item, name), metadata=metadata), _positive(size, text, name))
    raise UnsupportedFeatureError(f"column {name!r}: unknown logical type {text!r}")


def primitive_name(t: pa.DataType) -> str | None:
    """The logical type string of an Arrow type without parameters; None for all others."""
    return None if isinstance(t, pa.BaseExtensionType) else _NAMES.get(t)


def logical_type(t: pa.DataType, name: str) -> str:
    """The logical type string of an Arrow storage type. Raises UnsupportedFeatureError for a type without a Lance equivalent."""
    if t in _NAMES:
        return _NAMES[t]
    if pa.types.is_decimal(t) and t.bit_width in (128, 256):
        return f"decimal:{t.bit_width}:{t.precision}:{t.scale}"
    if pa.types.is_timestamp(t):
        return f"timestamp:{t.unit}:{t.tz or '-'}"
    if (pa.types.is_fixed_size_binary(t) and t.byte_width < 1) or (pa.types.is_fixed_size_list(t) and t.list_size < 1):
        raise UnsupportedFeatureError(f"column {name!r}: {t} has the size 0; expected at least 1")
    if pa.types.is_fixed_size_binary(t):
        return f"fixed_size_binary:{t.byte_width}"
    if pa.types.is_dictionary(t):
        # The conversion table of the specification has no ordered dictionaries, and pylance appends to no table with one.
        return f"dict:{logical_type(t.value_type, name)}:{logical_type(t.index_type, name)}:false"
    if pa.types.is_struct(t):
        return "struct"
    if pa.types.is_map(t):
        return "map"
    if pa.types.is_fixed_size_list(t):
        return f"fixed_size_list:{_item_type(t, name)}:{t.list_size}"
    for word, checks in LISTS:
        if any(check(t) for check in checks):
            return word + (".struct" if pa.types.is_struct(t.value_type) else "")
    raise UnsupportedFeatureError(f"column {name!r}: Arrow type {t} is not supported; cast the column or omit it")


def _item_type(t: pa.FixedSizeListType, name: str) -> str:
    """The logical type of a fixed-size list's item, including its extension type, since the item has no field."""
    item, extension = t.value_type, (t.value_field.metadata or {}).get(EXTENSION_NAME, b"").decode()
    if isinstance(item, pa.BaseExtensionType):
        item, extension = item.storage_type, item.extension_name
    return BFLOAT16 if extension == BFLOAT16 else logical_type(item, name)
