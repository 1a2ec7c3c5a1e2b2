"""The arguments of aggregates: columns, and arithmetic on decimals, from the planner's JSON (PushedAggregates.java)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.from_json import column_from_json
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Schema
from lance_spark.spark.aggregation import exact
from lance_spark.spark.aggregation.exact import Exact


@dataclass(frozen=True)
class Constant:
    """The decimal `number` / 10**`scale`."""

    number: int
    scale: int


@dataclass(frozen=True)
class ToDecimal:
    """An integer or decimal as a decimal with `scale`, which can hold every value of the operand."""

    operand: Expression
    scale: int


@dataclass(frozen=True)
class Arithmetic:
    """`left operator right` for decimals; the operator is one of + - *."""

    operator: str
    left: Expression
    right: Expression


Expression = Column | Constant | ToDecimal | Arithmetic


def from_json(tree: list[Any], schema: Schema) -> Expression:
    """The expression `tree`: ["c", name, ...] a column, ["l", digits, scale] a decimal, ["cast", operand, scale], otherwise
    [operator, left, right].
    """
    match tree:
        case ["c", *_]:
            return column_from_json(tree, schema)
        case ["l", digits, scale]:
            return Constant(int(digits), scale)
        case ["cast", operand, scale]:
            return ToDecimal(from_json(operand, schema), scale)
        case ["+" | "-" | "*" as operator, left, right]:
            return Arithmetic(operator, from_json(left, schema), from_json(right, schema))
    raise UnsupportedFeatureError(f"unknown expression {tree[0]!r} in an aggregate")


def columns(expression: Expression) -> list[Column]:
    """The columns of an expression."""
    match expression:
        case Column():
            return [expression]
        case Constant():
            return []
        case ToDecimal(operand):
            return columns(operand)
        case Arithmetic(_, left, right):
            return [*columns(left), *columns(right)]


def values(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """The values of a column of any type, or of arithmetic, for each row."""
    return raw_values(expression, batch) if isinstance(expression, Column) else numbers(expression, batch).values


def numbers(expression: Expression, batch: pa.RecordBatch) -> Exact:
    """The exact numbers of an expression for each row. Raises InvalidOptionError if one has more than 38 digits."""
    found = _numbers(expression, batch)
    return Exact(pa.repeat(found.values, batch.num_rows), found.most) if isinstance(found.values, pa.Scalar) else found


def _numbers(expression: Expression, batch: pa.RecordBatch) -> Exact:
    match expression:
        case Column():
            return exact.from_column(raw_values(expression, batch))
        case Constant(number, scale):
            return exact.constant(number, scale)
        case ToDecimal(operand, scale):
            return exact.to_decimal(_numbers(operand, batch), scale)
        case Arithmetic(operator, left, right):
            a, b = _numbers(left, batch), _numbers(right, batch)
            if operator == "*":
                return exact.multiply(a, b)
            return exact.add(a, exact.negate(b) if operator == "-" else b)
