"""Checks for many pages at once whether a condition can be true for a value between the bounds of the page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.bind import NUMBERS, kind
from lance_spark.predicate.evaluate import calculate
from lance_spark.predicate.one_column import VALUE, holds
from lance_spark.predicate.regex import like_parts
from lance_spark.predicate.tree import MIRRORED, And, Call, Cast, Column, Compare, Expression, Formula, In, IsNull, Like, Literal, Or

_DATES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class PageBounds:
    """A lower and an upper bound of the values of each page, as stored in the column; null or NaN if unknown."""

    lower: pa.Array
    upper: pa.Array

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def nbytes(self) -> int:
        """The memory of the bounds."""
        return int(self.lower.nbytes + self.upper.nbytes)

    @cached_property
    def lower_unknown(self) -> np.ndarray:
        """Whether the lower bound of each page is null or NaN."""
        return _unknown(self.lower)

    @cached_property
    def upper_unknown(self) -> np.ndarray:
        """Whether the upper bound of each page is null or NaN."""
        return _unknown(self.upper)


def pages_that_may_hold(condition: Expression, bounds: PageBounds) -> np.ndarray:
    """For each page: whether a value between its bounds can satisfy the condition (see `one_column.over_values`). Nulls are not considered.

    Raises InvalidOptionError if the condition cannot be evaluated on a bound.
    """
    kept: np.ndarray
    match condition:
        case And(operands):
            kept = np.logical_and.reduce([pages_that_may_hold(o, bounds) for o in operands])
        case Or(operands):
            kept = np.logical_or.reduce([pages_that_may_hold(o, bounds) for o in operands])
        case Compare(op, Literal() as left, right) if op in MIRRORED and not isinstance(right, Literal):
            kept = pages_that_may_hold(Compare(MIRRORED[op], right, left), bounds)
        case Compare("=" | "<=>", left, Literal(value) as right) if value is not None:
            kept = np.logical_and(*(pages_that_may_hold(Compare(op, left, right), bounds) for op in ("<=", ">=")))
        case Compare("<" | "<=" | ">" | ">=" as op, left, Literal()) if _keeps_order(left):
            # If it is true for any value, it is true for the bound at that end.
            below = op.startswith("<")
            kept = holds(condition, bounds.lower if below else bounds.upper) | (bounds.lower_unknown if below else bounds.upper_unknown)
            if pa.types.is_floating(bounds.lower.type):
                # NaN is the largest value, but indexes have it first if it has a sign.
                kept |= _is_nan(bounds.lower)
        case In(operand, values) if values and _keeps_order(operand):
            kept = _with_one_of(condition, bounds)
        case Call("startswith", (Column(), Literal(str(prefix)))):
            kept = _with_prefix(prefix, bounds)
        case Like(Column(), pattern) if (parts := like_parts(pattern)) and parts[0]:
            kept = _with_prefix(parts[0], bounds)
        case IsNull(Column()):
            kept = np.zeros(len(bounds), dtype=bool)
        case _:
            kept = np.ones(len(bounds), dtype=bool)
    return kept


def _keeps_order(operand: Expression) -> bool:
    """Whether the operand orders values as the column does: the column, or a cast of it between numbers or between dates."""
    match operand:
        case Column():
            return True
        case Cast(inner, t):
            families = {kind(inner.type), kind(t)}
            return _keeps_order(inner) and (len(families) == 1 or families <= set(NUMBERS) or families <= set(_DATES))
        case _:
            return False


def _unknown(ends: pa.Array) -> np.ndarray:
    """For each bound: whether it is null or NaN."""
    found: np.ndarray = pc.is_null(ends, nan_is_null=True).to_numpy(zero_copy_only=False)
    return found


def _is_nan(ends: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(pc.is_nan(ends), False).to_numpy(zero_copy_only=False)
    return found


def _with_one_of(condition: In, bounds: PageBounds) -> np.ndarray:
    """The pages between whose bounds is one of the values of `condition`."""
    operand = Formula(condition.operand, "the condition")
    ends = [calculate(operand, pa.record_batch({VALUE: end})) for end in (bounds.lower, bounds.upper)]
    known = pa.array([v for v in condition.values if v == v], condition.operand.type)
    everything = pa.concat_arrays([known, *ends])
    if pa.types.is_floating(everything.type):
        everything = pc.add(everything, pa.scalar(0.0, everything.type))  # -0.0 equals 0.0
    ranks = pc.rank(everything, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    wanted, lower, upper = np.split(ranks, [len(known), len(known) + len(bounds)])
    low_unknown, high_unknown = bounds.lower_unknown, bounds.upper_unknown
    lower, upper = np.where(low_unknown, -1, lower), np.where(high_unknown, len(ranks) + 1, upper)
    wanted = np.sort(wanted)
    found = np.searchsorted(wanted, lower, side="left") < np.searchsorted(wanted, upper, side="right")
    # Where there are NaNs, a bound is unknown.
    kept: np.ndarray = found | high_unknown | low_unknown if len(known) < len(condition.values) else found
    return kept


def _with_prefix(prefix: str, bounds: PageBounds) -> np.ndarray:
    """The pages between whose bounds a text may start with `prefix`."""
    low = pc.or_(pc.less_equal(bounds.lower, prefix), pc.starts_with(bounds.lower, prefix))
    high = pc.greater_equal(bounds.upper, prefix)
    kept: np.ndarray = pc.and_(pc.fill_null(low, True), pc.fill_null(high, True)).to_numpy(zero_copy_only=False)
    return kept
