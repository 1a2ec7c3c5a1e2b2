"""The scalar functions that a filter may call: a table of name, argument kinds, result type and implementation on Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.kernels.remainders import remainders
from lance_spark.predicate.compare import Values


@dataclass(frozen=True)
class Function:
    """`kinds` are the type families (see bind.kind) allowed for the first argument, `others` for those after it.

    `type` is None when the result has the first argument's type, or the common type of SAME_TYPE.
    """

    kinds: tuple[str, ...]
    arguments: range
    type: pa.DataType | None
    run: Callable[..., Values]
    others: tuple[str, ...] = ()


def _substring(text: Values, start: pa.Scalar, length: pa.Scalar | None = None) -> Values:
    """Spark's substring: positions count from 1, 0 is the same as 1, negative ones from the end."""
    first, size = start.as_py(), None if length is None else length.as_py()
    if first is None or (length is not None and size is None):
        return pa.scalar(None, text.type)
    begin = first - 1 if first > 0 else first
    if size is None:
        return pc.utf8_slice_codeunits(text, begin)
    end = begin + max(size, 0)
    if begin < 0 <= end:
        # Positions past the last character give empty text.
        return pc.utf8_slice_codeunits(text, begin)
    return pc.utf8_slice_codeunits(text, begin, max(end, begin))


def _in_case(texts: Values, ascii_case: Callable[[Values], Values], case: Callable[[str], str]) -> Values:
    """Spark's lower and upper, which map some characters to several, and a sigma by its place in the word."""
    if isinstance(texts, pa.Scalar):
        return pa.scalar(texts.as_py() and case(texts.as_py()), texts.type)
    plain = pc.string_is_ascii(texts)
    if not pc.any(pc.invert(plain)).as_py():
        return ascii_case(texts)
    # Arrow maps each character to one. Few columns have many distinct texts that are not ASCII.
    others = pc.filter(texts, pc.invert(plain)).dictionary_encode()
    mapped = pa.array(map(case, others.dictionary.to_pylist()), texts.type)
    return pc.replace_with_mask(ascii_case(texts), pc.fill_null(pc.invert(plain), False), mapped.take(others.indices))


def _divide(a: Values, b: Values) -> Values:
    # Only the quotient of the smallest integer and -1 overflows.
    return pc.divide_checked(a, _not_zero(b))


def _not_zero(b: Values) -> Values:
    if isinstance(b, pa.Scalar) and b.is_valid and b.as_py() != 0:
        return b
    return pc.if_else(pc.equal(b, pa.scalar(0, b.type)), pa.scalar(None, b.type), b)


def _modulo(a: Values, b: Values) -> Values:
    """The remainder with the dividend's sign, as in Java."""
    if (
        isinstance(b, pa.Scalar)
        and b.is_valid
        and isinstance(a, pa.Array)
        and a.type == b.type
        and pa.types.is_integer(a.type)
        and b.as_py()
    ):
        return _remainders(a, b.as_py())
    b = _not_zero(b)
    if pa.types.is_floating(a.type):
        return _numpy(np.fmod, a, b)
    # The remainders of -1 and 1 are equal, and no quotient of 1 overflows.
    b = pc.if_else(pc.equal(b, pa.scalar(-1, b.type)), pa.scalar(1, b.type), b)
    quotient = pc.divide(a, b)
    return pc.subtract(a, pc.multiply(quotient, b))


def _remainders(a: pa.Array, divisor: int) -> pa.Array:
    """`_modulo` of integers by one number, not 0, whose sign does not count."""
    known = pc.fill_null(a, pa.scalar(0, a.type)) if a.null_count else a
    found = remainders(known.to_numpy(zero_copy_only=False), divisor)
    return pa.array(found, a.type, mask=np.asarray(a.is_null()) if a.null_count else None)


def _filled(values: Values) -> Any:
    """The operand for numpy, with 0 in place of null."""
    filled = pc.fill_null(values, 0.0)
    return np.asarray(filled.as_py() if isinstance(values, pa.Scalar) else filled)


def _numpy(function: Any, a: Values, b: Values) -> Values:
    """A numpy function of two float operands, null where either is null."""
    null = pc.or_(pc.is_null(a), pc.is_null(b))
    with np.errstate(all="ignore"):
        out = function(_filled(a), _filled(b))
    if isinstance(null, pa.Scalar):
        return pa.scalar(None if null.as_py() else float(out), a.type)
    return pa.array(np.broadcast_to(out, len(null)), a.type, mask=np.asarray(null))


def _concat(*texts: Values) -> Values:
    wide = [pc.cast(t, pa.large_string()) for t in texts]
    return pc.binary_join_element_wise(*wide, pa.scalar("", pa.large_string()), null_handling="emit_null")


def _if(condition: Values, yes: Values, no: Values) -> Values:
    return pc.if_else(pc.fill_null(condition, False), yes, no)


def _days(dates: Values) -> Values:
    return pc.cast(dates, pa.int32())


def _add_days(dates: Values, days: Values) -> Values:
    return pc.cast(pc.add_checked(_days(dates), pc.cast(days, pa.int32())), pa.date32())


def _double(values: Values) -> Values:
    return pc.cast(values, pa.float64(), safe=False)


_TEXT, _NUMBER, _DAY = ("string",), ("int", "float", "decimal"), ("date", "timestamp", "timestamp_ntz")
_INT, _BOOL, _DATE, _TIME = ("int",), ("bool",), ("date",), ("timestamp", "timestamp_ntz")
_ANY = (*_TEXT, *_NUMBER, *_DAY, "bool", "binary", "time", "duration")
# Types that have one order, in Arrow and in Spark, and kernels in Arrow.
_ORDERED = ("int", "decimal", *_TEXT, "date", "timestamp_ntz")
_ONE, _TWO, _MANY = range(1, 2), range(2, 3), range(2, 64)

FUNCTIONS: dict[str, Function] = {
    "lower": Function(_TEXT, _ONE, None, lambda s: _in_case(s, pc.utf8_lower, str.lower)),
    "upper": Function(_TEXT, _ONE, None, lambda s: _in_case(s, pc.utf8_upper, str.upper)),
    # Spark trims only the space character.
    "trim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_trim(s, " ")),
    "ltrim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_ltrim(s, " ")),
    "rtrim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_rtrim(s, " ")),
    "length": Function(_TEXT, _ONE, pa.int64(), lambda s: pc.cast(pc.utf8_length(s), pa.int64())),
    "substring": Function(_TEXT, range(2, 4), None, _substring, _INT),
    "startswith": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.starts_with(s, p.as_py()), _TEXT),
    "endswith": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.ends_with(s, p.as_py()), _TEXT),
    "contains": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.match_substring(s, p.as_py()), _TEXT),
    "concat": Function(_TEXT, _MANY, pa.large_string(), _concat, _TEXT),
    "replace": Function(_TEXT, range(3, 4), None, lambda s, a, b: pc.replace_substring(s, a.as_py(), b.as_py()) if a.as_py() else s, _TEXT),
    "reverse": Function(_TEXT, _ONE, None, pc.utf8_reverse),
    "left": Function(_TEXT, _TWO, None, lambda s, n: pc.utf8_slice_codeunits(s, 0, max(n.as_py(), 0)), _INT),
    "octet_length": Function((*_TEXT, "binary"), _ONE, pa.int64(), lambda s: pc.cast(pc.binary_length(s), pa.int64())),
    "abs": Function(_NUMBER, _ONE, None, pc.abs_checked),
    "negative": Function(_NUMBER, _ONE, None, pc.negate_checked),
    # Spark's isnan(NULL) is false.
    "isnan": Function(("float",), _ONE, pa.bool_(), lambda x: pc.fill_null(pc.is_nan(x), False)),
    "year": Function(_DAY, _ONE, pa.int64(), pc.year),
    "month": Function(_DAY, _ONE, pa.int64(), pc.month),
    "day": Function(_DAY, _ONE, pa.int64(), pc.day),
    "hour": Function(_TIME, _ONE, pa.int64(), pc.hour),
    "minute": Function(_TIME, _ONE, pa.int64(), pc.minute),
    "second": Function(_TIME, _ONE, pa.int64(), pc.second),
    "quarter": Function(_DAY, _ONE, pa.int64(), pc.quarter),
    "dayofyear": Function(_DAY, _ONE, pa.int64(), pc.day_of_year),
    "weekofyear": Function(_DAY, _ONE, pa.int64(), pc.iso_week),
    # Spark's dayofweek counts from Sunday as 1, its weekday from Monday as 0.
    "dayofweek": Function(_DAY, _ONE, pa.int64(), lambda d: pc.day_of_week(d, count_from_zero=False, week_start=7)),
    "weekday": Function(_DAY, _ONE, pa.int64(), pc.day_of_week),
    "date_add": Function(_DATE, _TWO, pa.date32(), _add_days, _INT),
    "date_sub": Function(_DATE, _TWO, pa.date32(), lambda d, n: _add_days(d, pc.negate_checked(n)), _INT),
    "datediff": Function(_DATE, _TWO, pa.int64(), lambda a, b: pc.subtract(pc.cast(_days(a), pa.int64()), _days(b)), _DATE),
    "sqrt": Function(_NUMBER, _ONE, pa.float64(), lambda x: pc.sqrt(_double(x))),
    "sign": Function(_NUMBER, _ONE, pa.float64(), lambda x: pc.sign(_double(x))),
    "div": Function(_INT, _TWO, pa.int64(), lambda a, b: _divide(pc.cast(a, pa.int64()), pc.cast(b, pa.int64())), _INT),
    "bit_and": Function(_INT, _TWO, pa.int64(), lambda a, b: pc.bit_wise_and(pc.cast(a, pa.int64()), pc.cast(b, pa.int64())), _INT),
    "bit_or": Function(_INT, _TWO, pa.int64(), lambda a, b: pc.bit_wise_or(pc.cast(a, pa.int64()), pc.cast(b, pa.int64())), _INT),
    "bit_xor": Function(_INT, _TWO, pa.int64(), lambda a, b: pc.bit_wise_xor(pc.cast(a, pa.int64()), pc.cast(b, pa.int64())), _INT),
    "greatest": Function(_ORDERED, _MANY, None, pc.max_element_wise, _ORDERED),
    "least": Function(_ORDERED, _MANY, None, pc.min_element_wise, _ORDERED),
    "if": Function(_BOOL, range(3, 4), None, _if, _ANY),
    "coalesce": Function(_ANY, range(1, 64), None, pc.coalesce, _ANY),
}
"""By their Spark names. Those whose later arguments must be constants take them as Arrow scalars."""

SYNONYMS = {
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "lcase": "lower",
    "ucase": "upper",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "is_nan": "isnan",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "dayofmonth": "day",
    "day_of_month": "day",
    "signum": "sign",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "day_of_week": "dayofweek",
    "day_of_year": "dayofyear",
    "week_of_year": "weekofyear",
    "curdate": "current_date",
    "regexp": "rlike",
    "array_has": "array_contains",
    "list_has": "array_contains",
    "list_contains": "array_contains",
    "list_has_any": "array_has_any",
    "list_has_all": "array_has_all",
    "make_array": "array",
    "regexp_like": "rlike",
    "regexp_match": "rlike",
    "btrim": "trim",
    "to_date": "date",
}
"""Other names of functions, of Spark and of pylance."""

CONSTANT_ARGUMENTS = ("substring", "startswith", "endswith", "contains", "replace", "left")

SAME_TYPE = {"coalesce": 0, "greatest": 0, "least": 0, "if": 1}
"""The functions whose arguments, from this position on, are cast to a common type."""

OPERATORS: dict[str, Callable[[Values, Values], Values]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": _divide,
    "%": _modulo,
}
"""Arithmetic. Integer overflow is an error, as in Spark's ANSI mode. Division by zero gives null, since it may occur in rows that another
condition excludes."""
