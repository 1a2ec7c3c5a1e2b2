"""The scalar functions that a filter may call: a table of name, argument kinds, result type and implementation on Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Values: TypeAlias = pa.Array | pa.Scalar


@dataclass(frozen=True)
class Function:
    """`kinds` are the type families (see bind.kind) allowed for the first argument; the others are literals or of its type.

    `type` is None when the result has the first argument's type.
    """

    kinds: tuple[str, ...]
    arguments: range
    type: pa.DataType | None
    run: Callable[..., Values]


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


def _divide(a: Values, b: Values) -> Values:
    return pc.divide(a, _not_zero(b))


def _not_zero(b: Values) -> Values:
    return pc.if_else(pc.equal(b, pa.scalar(0, b.type)), pa.scalar(None, b.type), b)


def _modulo(a: Values, b: Values) -> Values:
    """The remainder with the dividend's sign, as in Java."""
    b = _not_zero(b)
    if pa.types.is_floating(a.type):
        return _numpy(np.fmod, a, b)
    quotient = pc.divide(a, b)
    return pc.subtract(a, pc.multiply(quotient, b))


def _numpy(function: Any, a: Values, b: Values) -> Values:
    """A numpy function of two float operands, null where either is null."""
    null = pc.or_(pc.is_null(a), pc.is_null(b))
    with np.errstate(all="ignore"):
        out = function(*(np.asarray(pc.fill_null(x, 0.0).as_py() if isinstance(x, pa.Scalar) else pc.fill_null(x, 0.0)) for x in (a, b)))
    if isinstance(null, pa.Scalar):
        return pa.scalar(None if null.as_py() else float(out), a.type)
    return pa.array(np.broadcast_to(out, len(null)), a.type, mask=np.asarray(null))


_TEXT, _NUMBER, _DAY = ("string",), ("int", "float", "decimal"), ("date", "timestamp", "timestamp_ntz")
_ANY = (*_TEXT, *_NUMBER, *_DAY, "bool", "binary", "time", "duration")
_ONE, _TWO = range(1, 2), range(2, 3)

FUNCTIONS: dict[str, Function] = {
    "lower": Function(_TEXT, _ONE, None, pc.utf8_lower),
    "upper": Function(_TEXT, _ONE, None, pc.utf8_upper),
    # Spark trims only the space character.
    "trim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_trim(s, " ")),
    "ltrim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_ltrim(s, " ")),
    "rtrim": Function(_TEXT, _ONE, None, lambda s: pc.utf8_rtrim(s, " ")),
    "length": Function(_TEXT, _ONE, pa.int64(), lambda s: pc.cast(pc.utf8_length(s), pa.int64())),
    "substring": Function(_TEXT, range(2, 4), None, _substring),
    "startswith": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.starts_with(s, p.as_py())),
    "endswith": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.ends_with(s, p.as_py())),
    "contains": Function(_TEXT, _TWO, pa.bool_(), lambda s, p: pc.match_substring(s, p.as_py())),
    "abs": Function(_NUMBER, _ONE, None, pc.abs_checked),
    "negative": Function(_NUMBER, _ONE, None, pc.negate_checked),
    # Spark's isnan(NULL) is false.
    "isnan": Function(("float",), _ONE, pa.bool_(), lambda x: pc.fill_null(pc.is_nan(x), False)),
    "year": Function(_DAY, _ONE, pa.int64(), pc.year),
    "month": Function(_DAY, _ONE, pa.int64(), pc.month),
    "day": Function(_DAY, _ONE, pa.int64(), pc.day),
    "coalesce": Function(_ANY, range(1, 64), None, pc.coalesce),
}
"""By their Spark names. Those whose later arguments must be constants take them as Arrow scalars."""

CONSTANT_ARGUMENTS = ("substring", "startswith", "endswith", "contains")

OPERATORS: dict[str, Callable[[Values, Values], Values]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": _divide,
    "%": _modulo,
}
"""Arithmetic. Integers overflow with an error, as in Spark's ANSI mode; dividing by zero gives null, since rows that another
condition excludes are calculated too."""
