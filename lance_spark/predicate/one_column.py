"""Conditions on one column, as an index evaluates them: on its own values, with the same evaluator as a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import evaluate
from lance_spark.predicate.tree import (
    And,
    ArrowCondition,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
    walk,
)

VALUE = "value"
"""The name of the column in conditions from `over_values`."""

_NUMPY: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def without_not(node: Expression) -> Expression:
    """The same condition with NOT only directly above what has no opposite: De Morgan's laws hold in three-valued logic."""
    match node:
        case Not(Not(operand)):
            return without_not(operand)
        case Not(And(operands)):
            return Or(tuple(without_not(Not(o)) for o in operands))
        case Not(Or(operands)):
            return And(tuple(without_not(Not(o)) for o in operands))
        case Not(Compare(op, left, right)) if op in _OPPOSITE:
            return Compare(_OPPOSITE[op], left, right)
        case And(operands):
            return And(tuple(without_not(o) for o in operands))
        case Or(operands):
            return Or(tuple(without_not(o) for o in operands))
        case _:
            return node


def columns_of(node: Expression) -> set[tuple[str, ...]]:
    """The paths of the columns that a condition uses."""
    return {n.path for n in walk(node) if isinstance(n, Column)}


def over_values(node: Expression) -> Expression:
    """The condition, which uses one column, with that column named `VALUE`."""
    return substituted(node, lambda n: Column((VALUE,), n.type) if isinstance(n, Column) else None)


def substituted(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with what `change` returns in the place of each part for which that is not None."""
    changed = change(node)
    if changed is not None:
        return changed
    match node:
        case And(operands) | Or(operands):
            return replace(node, operands=tuple(substituted(o, change) for o in operands))
        case ArrowCondition(columns):
            others = tuple(substituted(column, change) for column in columns)
            return replace(node, operands=tuple(other for other in others if isinstance(other, Column)))
        case Call(name, arguments, t):
            return Call(name, tuple(substituted(a, change) for a in arguments), t)
        case Compare(op, left, right):
            return Compare(op, substituted(left, change), substituted(right, change))
        case Cast() | In() | Like() | IsNull() | TextMatch() | Not():
            return replace(node, operand=substituted(node.operand, change))
        case Column() | Literal():
            return node


def holds(condition: Expression, values: pa.Array) -> np.ndarray:
    """For each of `values`, as stored in the column: whether the condition of `over_values` is true. Raises InvalidOptionError."""
    match condition:
        case Compare(op, Column(_, t), Literal(int(wanted), other)) if (
            t == other == values.type and pa.types.is_integer(t) and op in _NUMPY and not values.null_count
        ):
            # The evaluator does the same, but takes several times as long for a few values.
            return _NUMPY[op](values.to_numpy(), wanted)
    selected = evaluate(Predicate(condition, "the condition"), pa.RecordBatch.from_arrays([values], [VALUE]))
    found: np.ndarray = (pc.fill_null(selected, False) if selected.null_count else selected).to_numpy(zero_copy_only=False)
    return found


def holds_for_null(condition: Expression, t: pa.DataType) -> bool:
    """Whether the condition of `over_values` is true where the column, of the storage type `t`, is null."""
    return bool(holds(condition, pa.nulls(1, t))[0])
