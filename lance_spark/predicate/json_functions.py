"""Functions of JSON texts in filters: Spark's `get_json_object`, and those of other Lance readers. The library `json` parses each text.

The value of a JSON document is None, a bool, an int, `_Float`, a str, a list, or `_Object`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.compare import Values
from lance_spark.predicate.json_paths import Path, key_or_path, lance_path, spark_path

_SPACES = " \t\n\r"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_SHORT_ESCAPE = re.compile(r"\\(?:u00(..)|.)")
_PAIRS = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class _Float(str):
    """The text of a number with a point or an exponent."""


class _Object(list[tuple[str, Any]]):
    """The members of an object; a name may occur twice."""


class _Missing:
    """What a path that leads nowhere leads to."""


_MISSING = _Missing()


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_float=_Float, parse_constant=_no_constant, strict=False)


def _parsed(text: str) -> Any:
    """The value at the start of the text, `_MISSING` if it is not JSON. What follows the value is ignored, as in Spark."""
    try:
        return _DECODER.raw_decode(text.lstrip(_SPACES))[0]
    except (ValueError, RecursionError):
        return _MISSING


def is_json(text: str) -> bool:
    """Whether the text is that of a JSON value, or is nested too deeply to tell."""
    try:
        _DECODER.decode(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _at(value: Any, path: Path, first: int, past_null: bool) -> Any:
    """The value at the steps of the path from the step `first`. If not `past_null`, members that are null count as missing."""
    if first == len(path):
        return value
    step = path[first]
    if isinstance(value, _Object):
        for name, member in value:
            if name == step.name and (past_null or member is not None):
                found = _at(member, path, first + 1, past_null)
                if found is not _MISSING:
                    return found
    elif isinstance(value, list) and step.position is not None and step.position < len(value):
        return _at(value[step.position], path, first + 1, past_null)
    return _MISSING


class _Mark(str):
    """Text between values."""


def _text(value: Any, write_float: Callable[[str], str]) -> str:
    """The JSON text of a value, without spaces."""
    out: list[str] = []
    todo = [value]
    while todo:
        at = todo.pop()
        if isinstance(at, _Mark):
            out.append(at)
        elif isinstance(at, list):
            first, last = "{}" if isinstance(at, _Object) else "[]"
            todo.append(_Mark(last))
            for i, item in reversed(list(enumerate(at))):
                comma = "," if i else ""
                name, member = item if isinstance(at, _Object) else (None, item)
                todo += [member, _Mark(comma if name is None else f"{comma}{_quoted(name)}:")]
            out.append(first)
        elif isinstance(at, _Float):
            out.append(write_float(at))
        else:
            out.append(_quoted(at) if isinstance(at, str) else json.dumps(at))
    return "".join(out)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _as_in_spark(value: Any) -> str | None:
    """The result of get_json_object: text without quotes, other values as JSON."""
    if value is _MISSING:
        return None
    if isinstance(value, str) and not isinstance(value, _Float):
        return value
    text = _text(value, _java_double)
    if "\\u" in text:
        text = _SHORT_ESCAPE.sub(lambda m: f"\\u00{m[1].upper()}" if m[1] else m[0], text)
    return text if text.isascii() else _PAIRS.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    """The escapes of the UTF-16 code units of a character."""
    units = character[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _java_double(text: str) -> str:
    """A number as Java writes doubles: 1.5, 100.0, 1.0E7, 1.0E-4."""
    number = float(text)
    if math.isinf(number):
        return '"-Infinity"' if number < 0 else '"Infinity"'
    size = abs(number)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(number)
    mantissa, _, exponent = f"{number!r}".partition("e")
    if exponent:
        # Java writes two digits, and the second one of the smallest doubles is not 0.
        mantissa = mantissa if "." in mantissa else f"{number:.1e}".partition("e")[0]
        return f"{mantissa}E{int(exponent)}"
    digits = mantissa.lstrip("-").partition(".")
    shown = (digits[0] + digits[2]).strip("0")
    whole, _, fraction = digits
    zeros = len(fraction) - len(fraction.lstrip("0"))
    power = -1 - zeros if whole == "0" else len(whole) - 1
    return f"{'-' if number < 0 else ''}{shown[0]}.{shown[1:] or '0'}E{power}"


def _as_string(value: Any) -> str | None:
    """Texts, numbers and booleans as text."""
    if isinstance(value, str):
        return str(value)
    return json.dumps(value) if isinstance(value, int) else None


def _as_int(value: Any) -> int | None:
    """Integers of 64 bits; other numbers, also in texts, rounded, halves away from zero; true as 1."""
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) and not isinstance(value, _Float):
            value = int(value)
        else:
            number = _as_float(value)
            if number is None or not math.isfinite(number):
                return None
            value = math.trunc(number) + int(math.copysign(abs(math.modf(number)[0]) >= 0.5, number))
    return int(value) if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


def _as_float(value: Any) -> float | None:
    """Numbers, also in texts, as doubles; true as 1.0."""
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    if not isinstance(value, int):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _as_bool(value: Any) -> bool | None:
    """Booleans, and the texts true, yes, false and no, in any case."""
    if isinstance(value, str):
        return _TRUTH.get(value.lower())
    return value if isinstance(value, bool) else None


def _extracted(value: Any) -> str | None:
    return None if value is _MISSING else _text(value, str)


def _length(value: Any) -> int | None:
    if value is _MISSING:
        return None
    return len(value) if isinstance(value, list) and not isinstance(value, _Object) else 0


def _contains(value: Any, wanted: str) -> bool:
    """Whether an item of the array has the JSON text `wanted`, with or without quotes."""
    if not isinstance(value, list) or isinstance(value, _Object):
        return False
    return any(_text(item, str) in (wanted, f'"{wanted}"') for item in value)


def value_type(texts: pa.Array, path: Path, what: str) -> pa.DataType | None:
    """The type of the first value at a path, which `what` names, that is not null; None if there is none. Raises as `typed_values`."""
    values = (_at(_parsed(text), path, 0, True) for text in texts.drop_null().to_pylist())
    return next((t for value in values if (t := _type_of(value, what)) is not None), None)


def typed_values(texts: pa.Array, path: Path, what: str, t: pa.DataType) -> pa.Array:
    """The values at a path, which `what` names, as the type `t`: bool, int64, float64 (also of integers), or string.

    Raises InvalidOptionError for a value of another type.
    """
    values = []
    for text in texts.to_pylist():
        values.append(None if text is None else _typed(_at(_parsed(text), path, 0, True), what, t))
    return pa.array(values, t)


def _typed(value: Any, what: str, t: pa.DataType) -> Any:
    found = _type_of(value, what)
    if found == t:
        return float(value) if t == pa.float64() else value
    if found is not None and not (found == pa.int64() and t == pa.float64()):
        raise InvalidOptionError(f"a JSON index has values of one type, but {what} has values of {t} and of {found}")
    return None if found is None else float(value)


def _type_of(value: Any, what: str) -> pa.DataType | None:
    """The type of a value, None for null. Integers of more than 64 bits are floats."""
    match value:
        case None | _Missing():
            return None
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.float64()
        case str():
            return pa.float64() if isinstance(value, _Float) else pa.string()
        case _:
            kind = "an object" if isinstance(value, _Object) else "an array"
            raise InvalidOptionError(f"a JSON index has numbers, booleans or strings, but {what} has {kind}")


@dataclass(frozen=True)
class JsonFunction:
    """A function of a text and literals: the first is a path, which `path` reads. `run` takes the value there, and the other literals."""

    path: Callable[[str], Path | None]
    type: pa.DataType
    run: Callable[..., Any]
    literals: int = 1
    past_null: bool = True

    def __call__(self, texts: Values, path: pa.Scalar, *others: pa.Scalar) -> Values:
        """The result for each text; null for a text that is null or not JSON."""
        steps, arguments = self.path(path.as_py()), [o.as_py() for o in others]
        if steps is None:
            return pa.nulls(len(texts), self.type)
        values = [self._of(text, steps, arguments) for text in texts.to_pylist()]
        try:
            return pa.array(values, self.type)
        except UnicodeEncodeError:
            # An escape such as \ud800 alone is no character.
            return pa.array([None if isinstance(v, str) and _SURROGATE.search(v) else v for v in values], self.type)

    def _of(self, text: str | None, path: Path, arguments: Sequence[str]) -> Any:
        value = _MISSING if text is None else _parsed(text)
        return None if value is _MISSING else self.run(_at(value, path, 0, self.past_null), *arguments)


GETTERS: dict[str, pa.DataType] = {
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
    "json_get_string": pa.string(),
}
"""The functions that JSON indexes answer, with their types."""

JSON_FUNCTIONS: dict[str, JsonFunction] = {
    "get_json_object": JsonFunction(spark_path, pa.string(), _as_in_spark, past_null=False),
    "json_get_int": JsonFunction(key_or_path, GETTERS["json_get_int"], _as_int),
    "json_get_float": JsonFunction(key_or_path, GETTERS["json_get_float"], _as_float),
    "json_get_bool": JsonFunction(key_or_path, GETTERS["json_get_bool"], _as_bool),
    "json_get_string": JsonFunction(key_or_path, GETTERS["json_get_string"], _as_string),
    "json_extract": JsonFunction(lance_path, pa.string(), _extracted),
    "json_exists": JsonFunction(lance_path, pa.bool_(), lambda value: value is not _MISSING),
    "json_array_length": JsonFunction(lance_path, pa.int64(), _length),
    "json_array_contains": JsonFunction(lance_path, pa.bool_(), _contains, literals=2),
}
"""By name. The first argument is a column of JSON, or of texts."""
