"""Conditions of polars as filters of a scan, which leave no row out that polars keeps.

polars evaluates its condition again on the rows that come back. So what has no node here, or might mean something else, is
left out: it takes more reading, and changes no row.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from lance_spark.errors import LanceError
from lance_spark.predicate import Predicate, bind
from lance_spark.predicate.tree import And, Call, Column, Expression, IsNull, Literal, Not, Or
from lance_spark.schema.schema import Schema, quoted

_COMPARISONS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_TEXT_TESTS = {"StartsWith": "startswith", "EndsWith": "endswith"}
_BOUNDS = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_INTEGERS = {"Int8", "Int16", "Int32", "Int64"}
_EPOCH = datetime.date(1970, 1, 1)
_SINCE = datetime.datetime(1970, 1, 1)
_MICROSECONDS = {"Milliseconds": 1000, "Microseconds": 1}


@dataclass(frozen=True)
class _Condition:
    """`node` is true in all rows in which polars' condition is; if `exact`, it is true, false and null in the same rows."""

    node: Expression
    exact: bool = True


def from_polars(tree: str, schema: Schema) -> Predicate | None:
    """A filter for the condition whose `meta.serialize(format="json")` is `tree`; None if it tells nothing about the rows."""
    try:
        found = _condition(json.loads(tree), schema)
    except (KeyError, ValueError, TypeError, AttributeError, LanceError):
        return None  # another version of polars may write its conditions otherwise
    return None if found is None else Predicate(found.node, "the condition of polars")


def _condition(node: Any, schema: Schema) -> _Condition | None:
    match node:
        case {"Column": str()}:
            column = _column(node, schema)
            return _Condition(column) if column is not None and types.is_boolean(column.type) else None
        case {"Alias": [inner, _]}:
            return _condition(inner, schema)
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _both(_condition(left, schema), _condition(right, schema))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _either(_condition(left, schema), _condition(right, schema))
        case {"BinaryExpr": {"left": left, "op": str(name), "right": right}} if name in _COMPARISONS:
            return _comparison(_COMPARISONS[name], left, right, schema)
        case {"Function": {"input": [operand, *others], "function": {"Boolean": function}}}:
            return _boolean(function, operand, others, schema)
        case {"Function": {"input": [operand, pattern], "function": {"StringExpr": function}}}:
            return _text_test(function, operand, pattern, schema)
    return None


def _both(left: _Condition | None, right: _Condition | None) -> _Condition | None:
    if left is None or right is None:
        known = right if left is None else left
        return None if known is None else _Condition(known.node, False)
    return _Condition(And((left.node, right.node)), left.exact and right.exact)


def _either(left: _Condition | None, right: _Condition | None) -> _Condition | None:
    if left is None or right is None:
        return None
    return _Condition(Or((left.node, right.node)), left.exact and right.exact)


def _boolean(function: Any, operand: Any, others: Sequence[Any], schema: Schema) -> _Condition | None:
    if function == "Not":
        inner = _condition(operand, schema)
        return _Condition(Not(inner.node)) if inner is not None and inner.exact else None
    column = _column(operand, schema)
    if column is None:
        return None
    match function:
        case "IsNull":
            return _Condition(IsNull(column))
        case "IsNotNull":
            return _Condition(Not(IsNull(column)))
        case {"IsIn": {"nulls_equal": False}}:
            return _is_in(column, others[0])
        case {"IsBetween": {"closed": str(closed)}}:
            low, high = _BOUNDS[closed]
            return _both(
                _comparison(low, operand, others[0], schema),
                _comparison(high, operand, others[1], schema),
            )
    return None


def _is_in(column: Column, values: Any) -> _Condition | None:
    match values:
        case {"Literal": {"Scalar": {"List": list(data)}}} | {"Literal": {"Series": list(data)}}:
            found = pa.ipc.open_stream(bytes(data)).read_all().column(0).combine_chunks()
        case _:
            return None
    if "Series" not in values["Literal"]:
        found = found.values if types.is_large_list(found.type) or types.is_list(found.type) else found
    kind = bind.kind(column.type)
    if types.is_string_view(found.type):
        found = found.cast(pa.large_string())
    if kind not in ("int", "string", "date") or bind.kind(found.type) != kind:
        return None
    if kind == "int" and pa.uint64() in (column.type, found.type):
        return None
    known = found.drop_null()
    if not len(known):
        return None
    literals = [Literal(value, known.type) for value in known.to_pylist()]
    return _Condition(bind.is_in(column, literals), not found.null_count)


def _text_test(function: Any, operand: Any, pattern: Any, schema: Schema) -> _Condition | None:
    column, literal = _column(operand, schema), _literal(pattern)
    if column is None or bind.kind(column.type) != "string" or literal is None or not isinstance(literal.value, str):
        return None
    match function:
        case {"Contains": {"literal": True}}:
            name = "contains"
        case str() if function in _TEXT_TESTS:
            name = _TEXT_TESTS[function]
        case _:
            return None
    return _Condition(Call(name, (column, Literal(literal.value, pa.string())), pa.bool_()))


def _comparison(op: str, left: Any, right: Any, schema: Schema) -> _Condition | None:
    column, literal = _column(left, schema), _literal(right)
    if column is None:
        column, literal = _column(right, schema), _literal(left)
        op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    if column is None or literal is None or not _compares_alike(column.type, literal.type):
        return None
    return _Condition(bind.compare(op, column, literal))


def _compares_alike(t: pa.DataType, other: pa.DataType) -> bool:
    """Whether polars compares values of the type `t` with a constant of the other type as we do."""
    if t == pa.float64():
        return bool(types.is_floating(other) or types.is_integer(other))
    if types.is_integer(t):
        # Other integers and floats meet in a type that depends on polars.
        return bool(t != pa.uint64() and (types.is_integer(other) or (other == pa.float64() and t in (pa.int32(), pa.int64()))))
    return bind.kind(t) == bind.kind(other) and bind.kind(t) in ("string", "bool", "date", "timestamp_ntz")


def _column(node: Any, schema: Schema) -> Column | None:
    match node:
        case {"Column": str(name)}:
            column = bind.column(schema, quoted((name,)))
            stored = schema.resolve(column.quoted)[-1]
            if column.path != (name,) or stored.logical_type == "json":
                return None
            # Nanoseconds would lose their last digits.
            is_exact = stored.type == column.type or (types.is_timestamp(stored.type) and stored.type.unit != "ns")
            return column if is_exact else None
    return None


def _literal(node: Any) -> Literal | None:
    """A constant. Numbers that are not finite have no form in JSON: polars writes null."""
    match node:
        case {"Alias": [inner, _]}:
            return _literal(inner)
        case {"Cast": {"expr": inner, "dtype": {"Literal": "Date"}}}:
            moment = _literal(inner)
            if moment is None or moment.type != bind.UNZONED:
                return None
            return Literal(moment.value.date(), pa.date32())
        case {"Literal": {"Dyn": {"Int": int(value)}}}:
            return Literal(value, pa.int64()) if -(2**63) <= value < 2**63 else None
        case {"Literal": {"Dyn": {"Float": float(value)}}} | {"Literal": {"Scalar": {"Float64": float(value)}}}:
            return Literal(value, pa.float64()) if math.isfinite(value) else None
        case {"Literal": {"Scalar": {"String": str(value)}}}:
            return Literal(value, pa.string())
        case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
            return Literal(value, pa.bool_())
        case {"Literal": {"Scalar": {"Date": int(days)}}}:
            return Literal(_EPOCH + datetime.timedelta(days), pa.date32())
        case {"Literal": {"Scalar": {"Datetime": [int(ticks), str(unit), None]}}} if unit in _MICROSECONDS:
            return Literal(_SINCE + datetime.timedelta(microseconds=ticks * _MICROSECONDS[unit]), bind.UNZONED)
        case {"Literal": {"Scalar": dict(scalar)}} if scalar.keys() <= _INTEGERS:
            (value,) = scalar.values()
            return Literal(int(value), pa.int64())
    return None
