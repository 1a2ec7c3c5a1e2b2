"""Casts and comparisons of Arrow values by Spark's rules: NaN equals NaN and is greater than every other number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Values: TypeAlias = pa.Array | pa.Scalar


def as_seen(values: pa.Array, t: pa.DataType) -> pa.Array:
    """Stored values as the type `t`, in which they are compared (see `bind.column`)."""
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        # A plain cast would round toward 1970.
        values = pc.floor_temporal(values, unit="microsecond")
    return cast(values, t, strict=False)


def plain(values: pa.Array) -> pa.Array:
    """The values without an extension type or a dictionary."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def cast(values: Values, t: pa.DataType, strict: bool) -> Values:
    """The values as the type `t`; nested values stay as they are. If `strict`, values that do not fit raise ArrowInvalid."""
    if values.type == t or pa.types.is_nested(t):
        return values
    if pa.types.is_float16(values.type) and isinstance(values, pa.Array):
        wide = values.to_numpy(zero_copy_only=False).astype(np.float32)
        return pc.cast(pa.array(wide, mask=np.asarray(values.is_null())), t)
    if pa.types.is_integer(t) and (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        values = pc.trunc(values)
    if pa.types.is_decimal(t) and pa.types.is_decimal(values.type) and t.scale < values.type.scale:
        values = pc.round(values, t.scale, "half_towards_infinity")
    if pa.types.is_fixed_size_binary(values.type) and t == pa.large_binary():
        values = pc.cast(values, pa.binary())
    if pa.types.is_string(t) and pa.types.is_temporal(values.type):
        return _text(values)
    if pa.types.is_decimal(values.type) and pa.types.is_floating(t):
        # Arrow multiplies by a power of ten, which is not the nearest number.
        values = pc.cast(values, pa.string())
    # A cast to a floating point type rounds, as in Spark; that is not an error.
    return pc.cast(values, t, safe=strict and not pa.types.is_floating(t))


def _text(values: Values) -> Values:
    """Dates and times as Spark writes them: years after 9999 have a plus sign, and no fraction ends in zeros."""
    text = pc.cast(values, pa.string())
    if pa.types.is_timestamp(values.type):
        text = pc.replace_substring_regex(text, r"\.?0+$", "")
    return pc.if_else(pc.greater(pc.year(values), 9999), pc.binary_join_element_wise("+", text, ""), text)


def _nan(values: Values) -> Values:
    return pc.is_nan(values)


def _is_float(a: Values) -> bool:
    return bool(pa.types.is_floating(a.type))


def _equal(a: Values, b: Values) -> Values:
    same = pc.equal(a, b)
    return pc.or_(same, pc.and_(_nan(a), _nan(b))) if _is_float(a) else same


def _less(a: Values, b: Values) -> Values:
    less = pc.less(a, b)
    # NaN is greater than every other number.
    return pc.or_(less, pc.and_(_nan(b), pc.invert(_nan(a)))) if _is_float(a) else less


def _less_or_equal(a: Values, b: Values) -> Values:
    return pc.or_(pc.less_equal(a, b), _nan(b)) if _is_float(a) else pc.less_equal(a, b)


def _null_safe_equal(a: Values, b: Values) -> Values:
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    return pc.or_(both, pc.fill_null(_equal(a, b), False))


COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "=": _equal,
    "<>": lambda a, b: pc.invert(_equal(a, b)),
    "<": _less,
    "<=": _less_or_equal,
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: _less_or_equal(b, a),
    "<=>": _null_safe_equal,
}


def equals_one_of(values: Values, known: pa.Array) -> Values:
    """Whether each value equals one of `known`, which has the same type and no nulls; null for a null."""
    if _is_float(values):
        # Adding zero turns -0.0 into 0.0; the set lookup treats NaN as equal to itself.
        values, known = (pc.add(v, pa.scalar(0.0, values.type)) for v in (values, known))
    found = pc.is_in(values, value_set=known)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)
