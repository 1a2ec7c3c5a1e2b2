"""Whether a condition can hold of any value between two bounds: what statistics can say of a page without reading it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import evaluate
from lance_spark.predicate.tree import And, Column, Compare, Expression, In, Literal, Or, Predicate


@dataclass(frozen=True)
class Bounds:
    """An array of a value that is not above any of a column's, and one that is not below any. Nulls do not count, NaN does."""

    values: pa.Array


def may_hold(condition: Expression, name: str, bounds: Bounds) -> bool:
    """Whether a value of the column `name` within `bounds` can fulfil the condition, which is about that column alone; True where
    that cannot be told.
    """
    match condition:
        case And(operands):
            return all(may_hold(o, name, bounds) for o in operands)
        case Or(operands):
            return any(may_hold(o, name, bounds) for o in operands)
        case Compare(op, Column(), Literal()) | Compare(op, Literal(), Column()) if op in ("<", "<=", ">", ">="):
            # If it holds of any value at all, then of one of the bounds.
            batch = pa.record_batch({name: bounds.values})
            return bool(pc.any(evaluate(Predicate(condition, ""), batch)).as_py())
        case Compare("=", Column(), Literal()) | Compare("=", Literal(), Column()):
            return all(may_hold(replace(condition, op=op), name, bounds) for op in ("<=", ">="))
        case In(Column(_, t) as column, values) if values and all(v == v for v in values):
            ends = ((">=", min(values)), ("<=", max(values)))
            return all(may_hold(Compare(op, column, Literal(v, t)), name, bounds) for op, v in ends)
        case _:
            return True
