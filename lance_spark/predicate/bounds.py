"""Checks whether a condition can be true for a value between two bounds, such as the statistics of an unread page."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import evaluate
from lance_spark.predicate.tree import And, Column, Compare, Expression, In, Literal, Or, Predicate


@dataclass(frozen=True)
class Bounds:
    """A lower and an upper bound of a column's values, as an array of two. Nulls are ignored, NaN is not."""

    values: pa.Array


def may_hold(condition: Expression, name: str, bounds: Bounds) -> bool:
    """Whether a value of the column `name` within `bounds` can satisfy the condition, which uses only that column; True if
    this is not known.
    """
    match condition:
        case And(operands):
            return all(may_hold(o, name, bounds) for o in operands)
        case Or(operands):
            return any(may_hold(o, name, bounds) for o in operands)
        case Compare(op, Column(), Literal()) | Compare(op, Literal(), Column()) if op in ("<", "<=", ">", ">="):
            # If it is true for any value, it is true for one of the bounds.
            batch = pa.record_batch({name: bounds.values})
            return bool(pc.any(evaluate(Predicate(condition, ""), batch)).as_py())
        case Compare("=", Column(), Literal()) | Compare("=", Literal(), Column()):
            return all(may_hold(replace(condition, op=op), name, bounds) for op in ("<=", ">="))
        case In(Column(_, t), values) if values and all(v == v for v in values):
            known, (low, high) = pa.array(values, t), bounds.values
            return bool(pc.any(pc.and_(pc.greater_equal(known, low), pc.less_equal(known, high))).as_py())
        case _:
            return True
