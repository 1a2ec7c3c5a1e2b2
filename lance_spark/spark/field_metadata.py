"""The metadata of a table's fields and of Spark's columns, which is the only place where a Lance field can tell Spark more than its type.

Spark and its other data sources act on the metadata of columns: they evaluate defaults, pad strings, take numbers out of it. A table may
come from anyone. So Spark is only shown what is listed here and has been checked; everything else stays in the table.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as st

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.declared_types import COLLATIONS, DECLARED, DeclaredType, parse

CURRENT_DEFAULT, EXISTS_DEFAULT = "CURRENT_DEFAULT", "EXISTS_DEFAULT"
"""The metadata of a column in which Spark has its default for new rows, and its default for existing rows."""
_LONGEST = 10_000
"""Characters of a default, far more than a statement has."""
_STRING = r"'(?:[^'\\\n]|\\[^\n]|'')*'"
_NUMBER = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
_FLOAT = rf"{_NUMBER}(?:E[+-]?[0-9]{{1,3}})?"
_MOMENT = r"'([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})?)'"
_PATTERNS: Mapping[type[st.DataType], str] = {
    st.BooleanType: r"TRUE|FALSE",
    st.ByteType: r"([+-]?[0-9]{1,20})(?:Y|S|L)?",
    st.ShortType: r"([+-]?[0-9]{1,20})(?:S|L)?",
    st.IntegerType: r"([+-]?[0-9]{1,20})L?",
    st.LongType: r"([+-]?[0-9]{1,20})L?",
    st.FloatType: rf"({_FLOAT})[FD]?|CAST\('(?:({_FLOAT})|NaN|-?Infinity)' AS FLOAT\)",
    st.DoubleType: rf"({_FLOAT})D?|CAST\('(?:({_FLOAT})|NaN|-?Infinity)' AS DOUBLE\)",
    st.DecimalType: rf"({_NUMBER})(?:BD)?",
    st.StringType: _STRING,
    st.BinaryType: r"X'(?:[0-9a-f]{2})*'",
    st.DateType: r"DATE ?'([0-9]{4}-[0-9]{2}-[0-9]{2})'|CURRENT_DATE(?:\(\))?|CURDATE\(\)",
    st.TimestampType: rf"TIMESTAMP(?:_LTZ)? ?{_MOMENT}|CURRENT_TIMESTAMP(?:\(\))?|NOW\(\)",
    st.TimestampNTZType: rf"TIMESTAMP_NTZ ?{_MOMENT}|LOCALTIMESTAMP(?:\(\))?",
    st.DayTimeIntervalType: r"INTERVAL ?'-?[0-9]{1,8} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?' DAY TO SECOND",
}
"""For each type, the texts of its literals, without regard to case; the groups are the values that are checked further."""
_OF_USER = r"CURRENT_USER(?:\(\))?|SESSION_USER(?:\(\))?|USER\(\)"
_BITS: Mapping[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}
_CHANGING = re.compile(r"\b(current_\w+|curdate|now|localtimestamp|\w*unix_timestamp|session_user|user|rand\w*|uuid)\b", re.IGNORECASE)
"""Functions whose value is another one at another time or for another user."""


_ITEMS = re.compile(r"((?:'(?:[^'\\\n]|\\[^\n])*'|[^,'])+)(?:,|$)")
"""The texts between commas outside of strings. Each text matches in one way only, so the time is linear."""
COMMENT = "comment"
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
    is_short = declared is None or not declared.length or len(default or "") <= declared.length + len("''")
    if is_column and default is not None and is_checked(default, t) and is_short:
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
    arrays and maps.
    """
    texts = {key: value for key, value in f.metadata.items() if isinstance(value, str) and not key.startswith(("__", "lance-spark:"))}
    return texts | _declarations(f.dataType, "", f.name, is_column)


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
    """True if `text` is NULL, a literal of the type, or a call of one of the functions."""
    text = text.strip()
    if len(text) > _LONGEST:
        return False
    if text.upper() == "NULL":
        return True
    return _is_array(text, t) if isinstance(t, st.ArrayType) else _is_literal(text, t)


def changes(text: str) -> bool:
    """True if an expression may have another value at another time, so that its value of today is no replacement."""
    return _CHANGING.search(re.sub(_STRING, "", text)) is not None


def _is_literal(text: str, t: st.DataType) -> bool:
    pattern = _PATTERNS.get(type(t))
    if type(t) is st.StringType:
        pattern = f"{_STRING}(?: COLLATE (?:{COLLATIONS}))?|{_OF_USER}"
    found = None if pattern is None else re.fullmatch(pattern, text, re.IGNORECASE)
    if found is None:
        return False
    values = [value for value in found.groups() if value is not None]
    try:
        return all(_fits(value, t) for value in values)
    except (ValueError, ArithmeticError):
        return False


def _fits(value: str, t: st.DataType) -> bool:
    if type(t) in _BITS:
        half = 1 << (_BITS[type(t)] - 1)
        return -half <= int(value) < half
    if isinstance(t, st.DecimalType):
        number = decimal.Decimal(value)
        _, digits, exponent = number.as_tuple()
        after = max(-int(exponent), 0)
        return after <= t.scale and len(digits) - after <= t.precision - t.scale
    if isinstance(t, st.FloatType | st.DoubleType):
        return abs(float(value)) < (3.4e38 if isinstance(t, st.FloatType) else 1.7e308)
    if isinstance(t, st.DateType):
        datetime.date.fromisoformat(value)
    else:
        datetime.datetime.fromisoformat(value)
    return True


def _is_array(text: str, t: st.ArrayType) -> bool:
    """True for `ARRAY(..)` of literals of the type of its items."""
    inside = re.fullmatch(r"ARRAY ?\((.*)\)", text, re.IGNORECASE | re.DOTALL)
    if inside is None:
        return False
    rest = inside[1].strip()
    items = _ITEMS.findall(rest) if rest else []
    whole = ",".join(items) == rest
    return whole and all(item.strip().upper() == "NULL" or _is_literal(item.strip(), t.elementType) for item in items)
