"""The possible partition values of rows between two constants.

Years and truncated values ascend with their sources, so each bound alone is useful. Months, days and hours repeat; if both bounds are known
and close to each other, all values between them are listed. In time zones whose clocks go back, local time does not ascend; near the
bounds, such zones are checked second by second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.partitioned.comparisons import Bounds
from lance_spark.namespace.partitioned.local_time import has_fixed_offset, part
from lance_spark.namespace.partitioned.transforms import Transform

_S = 1_000_000
_CLOCK_CHANGE = 26 * 3600 * _S
"""The maximum by which clocks ever went back, in microseconds."""
_LONGEST = 400 * 86400 * _S
_STEPS = {"month": 86400 * _S, "day": 86400 * _S, "hour": 3600 * _S}
_ZONED_STEP = 900 * _S


def between(values: pa.Array, transform: Transform, source: pa.DataType, bounds: Bounds) -> pa.Array:
    """For each partition value: whether a row within `bounds` can have it. True if unknown, False for null."""
    mask = values.is_valid()
    try:
        transform.result_type(source)
        if transform.kind in _STEPS:
            wanted = _listed(transform.kind, source, bounds)
            return mask if wanted is None else pc.and_(mask, pc.is_in(values, value_set=wanted))
        low = _extreme(transform, source, bounds.low, True)
        high = _extreme(transform, source, bounds.high, False)
        if low is not None:
            mask = pc.and_(mask, pc.greater_equal(values, low.cast(values.type)))
        if high is not None:
            mask = pc.and_(mask, pc.less_equal(values, high.cast(values.type)))
        return mask
    except (InvalidOptionError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        return values.is_valid()


def _extreme(transform: Transform, source: pa.DataType, bound: object, lowest: bool) -> pa.Scalar | None:
    """The lowest partition value of rows at or above `bound`, or the highest of rows at or below it."""
    if bound is None:
        return None
    if transform.kind != "year":
        return transform.apply(pa.array([bound], source))[0]
    at = _micros(source, bound)
    if has_fixed_offset(source):
        return part("year", _instants(np.array([at]), source))[0]
    near = np.arange(0, _CLOCK_CHANGE + _S, _S)
    years = part("year", _instants(at + near if lowest else at - near, source))
    return pc.min_max(years)["min" if lowest else "max"]


def _listed(kind: str, source: pa.DataType, bounds: Bounds) -> pa.Array | None:
    """All values of a calendar part between the bounds; None if a bound is missing or they are far apart."""
    if bounds.low is None or bounds.high is None:
        return None
    low, high = _micros(source, bounds.low), _micros(source, bounds.high)
    if high - low > _LONGEST:
        return None
    if high < low:
        return pa.array([], pa.int32())
    if has_fixed_offset(source):
        return part(kind, _instants(np.append(np.arange(low, high, _STEPS[kind]), high), source)).unique()
    seconds = np.arange(0, min(_CLOCK_CHANGE, high - low) + 1, _S)
    points = np.concatenate([np.arange(low, high, _ZONED_STEP), low + seconds, high - seconds])
    return part(kind, _instants(points, source)).unique()


def _micros(source: pa.DataType, bound: object) -> int:
    """A date or time in microseconds since 1970."""
    zone = "UTC" if pa.types.is_timestamp(source) and source.tz else None
    dates = pa.types.is_date(source)
    if dates:
        first = pa.array([bound], pa.date32()).cast(pa.timestamp("us"))
    else:
        first = pa.array([bound], pa.timestamp("us", zone))
    return int(first.cast(pa.int64())[0].as_py())


def _instants(micros: np.ndarray, source: pa.DataType) -> pa.Array:
    return pa.array(micros, pa.int64()).view(pa.timestamp("us", source.tz if pa.types.is_timestamp(source) else None))
