"""The metadata of a table's fields and of Spark's columns, which is the only place where a Lance field can tell Spark more than its type.

Spark and its other data sources act on the metadata of columns: they evaluate defaults, pad strings, take numbers out of it. A table may
come from anyone. So Spark is only shown what is listed here and has been checked; everything else stays in the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.declared_types import COMPUTED, DECLARED, IDENTITY, DeclaredType, parse
from lance_spark.spark import protocol
from lance_spark.spark.protocol import DECLARED_COLUMN
from lance_spark.table.write import defaults
from lance_spark.table.write.defaults import CURRENT_DEFAULT, EXISTS_DEFAULT, changes, is_short

COMMENT = "comment"
PLAIN: Mapping[type[st.DataType], pa.DataType] = {
    st.NullType: pa.null(),
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.DayTimeIntervalType: pa.duration("us"),
}
"""The Arrow types of Spark's types without parameters."""
CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark has the declared type of a column of the type CHAR or VARCHAR; its own type is string then."""
_OF_LANCE = ("lance-encoding:", "lance-schema:")
"""Keys of the format begin with these. Spark does not know them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that act on a terminal, except for tabs and ends of lines."""


def shown(metadata: Mapping[bytes, bytes] | None, t: st.DataType, is_column: bool) -> dict[str, Any]:
    """What Spark may see of a field's metadata. `is_column`: the field is not in a struct."""
    found: dict[str, Any] = {}
    texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (metadata or {}).items()}
    for key, value in texts.items():
        if key.startswith(_OF_LANCE):
            found[key] = value
    if COMMENT in texts:
        found[COMMENT] = printable(texts[COMMENT])
    declared = declared_type(metadata, "")
    if is_column and declared is not None and declared.length and type(t) is st.StringType:
        found[CHAR] = declared.text
    default = texts.get(CURRENT_DEFAULT)
    if is_column and default is not None and is_checked(default, t) and is_short(default, declared):
        # Spark needs both keys. Existing rows have values, so theirs is never used.
        found |= {CURRENT_DEFAULT: default, EXISTS_DEFAULT: "NULL"}
    return found


def printable(text: str) -> str:
    """The text, with escapes for the characters that act on a terminal."""
    return _CONTROL.sub(lambda c: f"\\u{ord(c[0]):04x}", text)


def declared_type(metadata: Mapping[bytes, bytes] | None, inner: str) -> DeclaredType | None:
    """The declared type of the field itself (`inner` is ""), or of the strings in its lists and maps at the path `inner`, "element."."""
    text = (metadata or {}).get(inner.encode() + DECLARED)
    return None if text is None else parse(text.decode(errors="replace"))


def string_type(metadata: Mapping[bytes, bytes] | None, inner: str) -> st.StringType:
    """The type of the strings in a field: with a collation, if one is declared."""
    declared = declared_type(metadata, inner)
    return st.StringType(declared.collation) if declared is not None and declared.collation else st.StringType()


def kept(f: st.StructField, is_column: bool) -> dict[str, str]:
    """The metadata of a new field: that of Spark's column, with the types that Lance lacks.

    Keys that start with two underscores are Spark's own, for one session. Raises UnsupportedFeatureError for CHAR and VARCHAR in structs,
    arrays and maps, and for a declared default that is not constant.
    """
    if DECLARED_COLUMN in f.metadata:
        f = constant_default(f)
    texts = {key: value for key, value in f.metadata.items() if isinstance(value, str) and not key.startswith(("__", "lance-spark:"))}
    generated = {own.decode(): texts.pop(key) for key, own in _GENERATED.items() if key in texts}
    return texts | generated | _declarations(_declared(f), "", f.name, is_column)


_GENERATED = {protocol.COMPUTED: COMPUTED, protocol.IDENTITY: IDENTITY}
"""What a statement says of GENERATED columns, and the keys under which tables have it."""


def _declared(f: st.StructField) -> st.DataType:
    """The column's type, in Spark's catalog also CHAR or VARCHAR. That rows of a query have been CHAR declares nothing."""
    text = f.metadata.get(CHAR) if DECLARED_COLUMN in f.metadata else None
    found = parse(text) if isinstance(text, str) else None
    if found is None or not found.length:
        return f.dataType
    return st.CharType(found.length) if found.kind == "char" else st.VarcharType(found.length)


def _declarations(t: st.DataType, inner: str, name: str, is_column: bool = False) -> dict[str, str]:
    key = inner + DECLARED.decode()
    if isinstance(t, st.CharType | st.VarcharType):
        found = parse(t.simpleString())
        if found is None or not is_column:
            advice = "CHAR has at most 8000 characters, and structs, arrays and maps have no CHAR and VARCHAR; use STRING"
            raise UnsupportedFeatureError(f"column {name!r}: {t.simpleString()} is not possible here: {advice}")
        return {key: found.text}
    if isinstance(t, st.StringType):
        collation = getattr(t, "collation", None) or "UTF8_BINARY"
        if collation == "UTF8_BINARY":
            return {}
        found = parse(f"string collate {collation}")
        if found is None:
            what = f"the collation {collation}; lance tables have UTF8_LCASE, UNICODE, UNICODE_CI, UNICODE_AI and UNICODE_CI_AI"
            raise UnsupportedFeatureError(f"column {name!r} has {what}, each also with _RTRIM")
        return {key: found.text}
    if isinstance(t, st.ArrayType):
        return _declarations(t.elementType, f"{inner}element.", name)
    if isinstance(t, st.MapType):
        return _declarations(t.keyType, f"{inner}key.", name) | _declarations(t.valueType, f"{inner}value.", name)
    return {}


def constant_default(f: st.StructField) -> st.StructField:
    """A declared column whose default is a literal, for an expression the value that Spark has calculated.

    Raises UnsupportedFeatureError if the expression has another value at another time, or a value that has no literal here.
    """
    default = f.metadata.get(CURRENT_DEFAULT)
    plain = st.StringType() if isinstance(f.dataType, st.CharType | st.VarcharType) else f.dataType
    if default is None or is_checked(default, plain):
        return f
    value = f.metadata.get(EXISTS_DEFAULT, "")
    if changes(default) or not is_checked(value, plain):
        expected = "expected a constant, or current_timestamp(), current_date(), localtimestamp() or current_user() alone"
        raise UnsupportedFeatureError(f"column {f.name!r}: the DEFAULT {default} cannot be kept in a lance table; {expected}")
    return st.StructField(f.name, f.dataType, f.nullable, {**f.metadata, CURRENT_DEFAULT: value})


def is_checked(text: str, t: st.DataType) -> bool:
    """True if `text` is NULL, or a default that columns of this type may have; see `table.write.defaults`."""
    arrow = _arrow(t)
    return text.strip().upper() == "NULL" if arrow is None else defaults.is_checked(text, arrow)


def _arrow(t: st.DataType) -> pa.DataType | None:
    """The Arrow type of values; None for a type that has no literals here."""
    if isinstance(t, st.ArrayType):
        item = _arrow(t.elementType)
        return None if item is None else pa.list_(item)
    if isinstance(t, st.DecimalType):
        return pa.decimal128(t.precision, t.scale)
    return PLAIN.get(type(t))
