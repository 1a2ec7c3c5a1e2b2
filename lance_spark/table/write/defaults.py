"""The DEFAULT of a column: its text, which values it may have, and what they are.

Spark keeps the texts in the metadata of fields, and so does this package, under the same keys, so that either knows what the other one
declared. A table may come from anyone, and Spark evaluates a default as an expression. So only literals and a few functions count, which
are recognised here; any other text means nothing, and stays in the table.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from lance_spark.arrow.types import is_binary, is_list, is_text
from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.declared_types import COLLATIONS, DeclaredType, declared, is_generated
from lance_spark.schema.schema import Field

CURRENT_DEFAULT, EXISTS_DEFAULT = "CURRENT_DEFAULT", "EXISTS_DEFAULT"
"""The metadata of a column in which Spark has its default for new rows, and its default for existing rows."""
_KEY = CURRENT_DEFAULT.encode()
MACHINE = "the machine's"
"""The time zone of a session that sets none."""
_LONGEST = 10_000
"""Characters of a default, far more than a statement has."""
_STRING = r"'(?:[^'\\\n]|\\[^\n]|'')*'"
_NUMBER = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
_FLOAT = rf"{_NUMBER}(?:E[+-]?[0-9]{{1,3}})?"
_MOMENT = r"'([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})?)'"
_TODAY = r"CURRENT_DATE(?:\(\))?|CURDATE\(\)"
_NOW = r"CURRENT_TIMESTAMP(?:\(\))?|NOW\(\)"
_LOCAL_NOW = r"LOCALTIMESTAMP(?:\(\))?"
_USER = r"CURRENT_USER(?:\(\))?|SESSION_USER(?:\(\))?|USER\(\)"
_INTERVAL = r"INTERVAL ?'(-?)([0-9]{1,8}) ((?:[01][0-9]|2[0-3])):([0-5][0-9]):([0-5][0-9](?:\.[0-9]{1,6})?)' DAY TO SECOND"
_CHANGING = re.compile(r"\b(current_\w+|curdate|now|localtimestamp|\w*unix_timestamp|session_user|user|rand\w*|uuid)\b", re.IGNORECASE)
"""Functions whose value is another one at another time or for another user."""
_ITEMS = re.compile(r"((?:'(?:[^'\\\n]|\\[^\n])*'|[^,'])+)(?:,|$)")
"""The texts between commas outside of strings. Each text matches in one way only, so the time is linear."""
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}
"""What Spark makes of a character after a backslash; any other character is itself."""
_ESCAPED = re.compile(r"''|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_SUFFIXES: Mapping[int, str] = {8: "(?:Y|S|L)?", 16: "(?:S|L)?", 32: "L?", 64: "L?", 0: "(?:BD)?"}
"""What may follow a whole number, by the bits of its type in Spark (0: a decimal)."""


@dataclass(frozen=True)
class Moment:
    """What functions in defaults return: the time of a write, who writes, and the zone of local times (None: unknown; or `MACHINE`)."""

    time: datetime.datetime
    user: str
    zone: str | None = None

    def local(self) -> datetime.datetime:
        """The local time. Raises SchemaMismatchError without a zone."""
        return self.time.astimezone(self._zone()).replace(tzinfo=None)

    def instant(self, local: datetime.datetime) -> datetime.datetime:
        """The instant of a local time. Raises SchemaMismatchError without a zone."""
        zone = self._zone()
        return local.astimezone() if zone is None else local.replace(tzinfo=zone)

    def _zone(self) -> ZoneInfo | None:
        """The zone; None for that of the machine."""
        if self.zone is None:
            raise SchemaMismatchError("it depends on the time zone of a session, which is not known here; give the column")
        return None if self.zone == MACHINE else ZoneInfo(self.zone)


@dataclass(frozen=True)
class Default:
    """The default of a column: a text that is allowed and is not NULL, and the type of its value."""

    field: Field
    text: str
    type: pa.DataType

    @property
    def needs_zone(self) -> bool:
        """True if the value depends on a time zone."""
        if not pa.types.is_timestamp(self.type) or self.type.tz is None:
            return re.fullmatch(f"{_TODAY}|{_LOCAL_NOW}", self.text, re.IGNORECASE) is not None
        is_now = re.fullmatch(_NOW, self.text, re.IGNORECASE)
        return is_now is None and _datetime(self.text).tzinfo is None

    def value(self, moment: Moment) -> pa.Array:
        """An array with the value at a moment."""
        try:
            return pa.array([_value(self.text, self.type, moment)], self.type)
        except SchemaMismatchError as e:
            raise SchemaMismatchError(f"column {self.field.name!r} has the DEFAULT {self.text}: {e}") from e


def default_of(field: Field) -> Default | None:
    """The default of a column; None without one, for NULL, and for a text that is not allowed."""
    text = field.metadata.get(_KEY) if field.metadata else None
    if text is None:
        return None
    shown, t = text.decode(errors="replace").strip(), _type_of_value(field)
    if shown.upper() == "NULL" or not is_checked(shown, t) or not is_short(shown, declared(field)):
        return None
    return Default(field, shown, t)


def is_required(field: Field) -> bool:
    """True if inserted rows must have a value for the column: it is not nullable, has no default and is not generated."""
    return not field.nullable and default_of(field) is None and not is_generated(field)


def is_checked(text: str, t: pa.DataType) -> bool:
    """True if `text` is NULL, a literal of the type, or a call of one of the functions."""
    text = text.strip()
    if len(text) > _LONGEST:
        return False
    if text.upper() == "NULL":
        return True
    return _is_array(text, t) if _is_list(t) else _is_literal(text, t)


def is_short(text: str, t: DeclaredType | None) -> bool:
    """True if the default is not longer than a column of this declared type permits."""
    return t is None or not t.length or len(text) <= t.length + len("''")


def changes(text: str) -> bool:
    """True if an expression may have another value at another time, so that its value of today is no replacement."""
    return _CHANGING.search(re.sub(_STRING, "", text)) is not None


def _type_of_value(field: Field) -> pa.DataType:
    """The type in which values of a column are given."""
    if field.logical_type == "json":
        return pa.string()
    t = field.type
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    return pa.duration("us") if pa.types.is_duration(t) else t


def _pattern(t: pa.DataType) -> str | None:
    """The literals of a type, without regard to case; the groups are the values that are checked further."""
    if pa.types.is_integer(t):
        return rf"([+-]?[0-9]{{1,20}}){_SUFFIXES[_shown_bits(t)]}"
    if pa.types.is_floating(t):
        name, suffix = ("DOUBLE", "D?") if t.bit_width == 64 else ("FLOAT", "[FD]?")
        return rf"({_FLOAT}){suffix}|CAST\('(?:({_FLOAT})|NaN|-?Infinity)' AS {name}\)"
    if pa.types.is_timestamp(t):
        if t.tz is None:
            return rf"TIMESTAMP_NTZ ?{_MOMENT}|{_LOCAL_NOW}"
        return rf"TIMESTAMP(?:_LTZ)? ?{_MOMENT}|{_NOW}"
    return next((pattern for is_kind, pattern in _PATTERNS if is_kind(t)), None)


_PATTERNS = (
    (pa.types.is_boolean, "TRUE|FALSE"),
    (pa.types.is_decimal, rf"({_NUMBER})(?:BD)?"),
    (is_text, rf"{_STRING}(?: COLLATE (?:{COLLATIONS}))?|{_USER}"),
    (is_binary, r"X'(?:[0-9a-f]{2})*'"),
    (pa.types.is_date, rf"DATE ?'([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})'|{_TODAY}"),
    (pa.types.is_duration, _INTERVAL),
)


def _shown_bits(t: pa.DataType) -> int:
    """The bits of the integer that Spark shows, which has no unsigned ones; 0 for a decimal."""
    bits = t.bit_width * (1 if pa.types.is_signed_integer(t) else 2)
    return bits if bits in _SUFFIXES else 0


def _is_literal(text: str, t: pa.DataType) -> bool:
    pattern = _pattern(t)
    found = None if pattern is None else re.fullmatch(pattern, text, re.IGNORECASE)
    if found is None:
        return False
    if pa.types.is_duration(t):
        return True
    try:
        return all(_fits(value, t) for value in found.groups() if value is not None)
    except (ValueError, ArithmeticError):
        return False


def _fits(value: str, t: pa.DataType) -> bool:
    if pa.types.is_integer(t):
        half = 1 << (t.bit_width - 1)
        least, end = (-half, half) if pa.types.is_signed_integer(t) else (0, 2 * half)
        return bool(least <= int(value) < end)
    if pa.types.is_decimal(t):
        _, digits, exponent = decimal.Decimal(value).as_tuple()
        after = max(-int(exponent), 0)
        return bool(after <= t.scale and len(digits) - after <= t.precision - t.scale)
    if pa.types.is_floating(t):
        return abs(float(value)) < (1.7e308 if t.bit_width == 64 else 3.4e38)
    if pa.types.is_date(t):
        datetime.date.fromisoformat(value)
    else:
        datetime.datetime.fromisoformat(value)
    return True


def _is_list(t: pa.DataType) -> bool:
    return is_list(t) or bool(pa.types.is_fixed_size_list(t))


def _is_array(text: str, t: pa.DataType) -> bool:
    """True for `ARRAY(..)` of literals of the type of its items."""
    items = _items(text)
    return items is not None and all(item.upper() == "NULL" or _is_literal(item, t.value_type) for item in items)


def _items(text: str) -> list[str] | None:
    """The texts of the items of `ARRAY(..)`; None for other texts."""
    inside = re.fullmatch(r"ARRAY ?\((.*)\)", text, re.IGNORECASE | re.DOTALL)
    if inside is None:
        return None
    rest = inside[1].strip()
    items = _ITEMS.findall(rest) if rest else []
    return [item.strip() for item in items] if ",".join(items) == rest else None


def _value(text: str, t: pa.DataType, moment: Moment) -> Any:
    """The value of a text that `is_checked`, as Python has it."""
    if text.upper() == "NULL":
        return None
    if _is_list(t):
        return [_value(item, t.value_type, moment) for item in _items(text) or ()]
    if pa.types.is_boolean(t):
        return text.upper() == "TRUE"
    if pa.types.is_integer(t):
        return int(text.rstrip("yYsSlLbBdD"))
    if pa.types.is_decimal(t):
        return decimal.Decimal(text.rstrip("bBdD"))
    if pa.types.is_floating(t):
        quoted = re.match(r"CAST\('(.*)'", text, re.IGNORECASE)
        return float(quoted[1] if quoted else text.rstrip("fFdD"))
    if is_text(t):
        return moment.user if re.fullmatch(_USER, text, re.IGNORECASE) else _unescaped(text[1 : text.rindex("'")])
    if is_binary(t):
        return bytes.fromhex(text[2:-1])
    if pa.types.is_date(t):
        today = re.fullmatch(_TODAY, text, re.IGNORECASE)
        return moment.local().date() if today else datetime.date.fromisoformat(text.split("'")[1])
    if pa.types.is_duration(t):
        return _interval(text)
    if re.fullmatch(_NOW, text, re.IGNORECASE):
        return moment.time
    if re.fullmatch(_LOCAL_NOW, text, re.IGNORECASE):
        return moment.local()
    time = _datetime(text)
    return moment.instant(time) if t.tz is not None and time.tzinfo is None else time


def _datetime(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.split("'")[1])


def _interval(text: str) -> datetime.timedelta:
    found = re.fullmatch(_INTERVAL, text, re.IGNORECASE)
    assert found is not None
    sign, days, hours, minutes, seconds = found.groups()
    whole, _, digits = seconds.partition(".")
    micros = int(digits.ljust(6, "0"))
    length = datetime.timedelta(int(days), int(whole), micros, 0, int(minutes), int(hours))
    return -length if sign else length


def _unescaped(text: str) -> str:
    """The text between the quotes of a literal, as Spark reads it."""

    def character(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        if code := found[1] or found[2]:
            return chr(int(code, 16))
        return chr(int(found[3], 8)) if found[3] else _ESCAPES.get(found[4], found[4])

    return _ESCAPED.sub(character, text)
