"""Evaluation of a predicate on Arrow batches: three-valued, a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.predicate.arrays import ARRAY_FUNCTIONS
from lance_spark.predicate.arrow_condition import by_arrow
from lance_spark.predicate.compare import COMPARISONS, Values, as_seen, cast, equals_one_of, plain
from lance_spark.predicate.functions import FUNCTIONS, OPERATORS
from lance_spark.predicate.geometry import GEOMETRY_FUNCTIONS, run
from lance_spark.predicate.json_functions import JSON_FUNCTIONS
from lance_spark.predicate.tree import (
    And,
    ArrowCondition,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    Formula,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
)

RUN: dict[str, Callable[..., Values]] = {
    **{name: f.run for name, f in FUNCTIONS.items()},
    **OPERATORS,
    **ARRAY_FUNCTIONS,
    **JSON_FUNCTIONS,
    **{name: run(name) for name in GEOMETRY_FUNCTIONS},
}
"""The functions and operators of calls, by name."""


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Evaluate the predicate for each row of `batch`: true, false or null (unknown, which selects nothing).

    `batch` must have the predicate's columns under their own names; structs may be pruned. Raises InvalidOptionError for values
    that the filter cannot be evaluated on, for example where an integer overflows.
    """
    try:
        result = _value(predicate.root, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise InvalidOptionError(f"the filter {predicate.text!r} cannot be evaluated: {e}") from e
    if isinstance(result, pa.Scalar):
        return pa.repeat(pc.cast(result, pa.bool_()), batch.num_rows)
    return result


def calculate(formula: Formula, batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The value of the formula for each row of `batch`; otherwise like `evaluate`."""
    try:
        result = _value(formula.root, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise InvalidOptionError(f"{formula.text!r} cannot be evaluated: {e}") from e
    return pa.repeat(result, batch.num_rows) if isinstance(result, pa.Scalar) else result


def _value(node: Expression, batch: pa.RecordBatch | pa.Table) -> Values:
    match node:
        case Column():
            return column_values(node, batch)
        case Literal(value, t):
            return pa.scalar(value, t)
        case Cast(operand, t, strict):
            return cast(_value(operand, batch), t, strict)
        case Call(name, arguments, t):
            values = [_value(a, batch) for a in arguments]
            return cast(RUN[name](*values), t, True)
        case Compare(op, left, right):
            return COMPARISONS[op](_value(left, batch), _value(right, batch))
        case In():
            return _in(node, _value(node.operand, batch))
        case Like(operand, pattern):
            return pc.match_substring_regex(_value(operand, batch), pattern)
        case IsNull(operand):
            return pc.is_null(_value(operand, batch))
        case TextMatch(operand, text):
            if node.test is None:
                raise InvalidOptionError(f"nothing tells here how texts are split into words, so they cannot be searched for {text!r}")
            return node.test(node, _value(operand, batch))
        case ArrowCondition():
            return by_arrow(node, [raw_values(column, batch) for column in node.operands], batch.num_rows)
        case Not(operand):
            return pc.invert(_value(operand, batch))
        case And(operands):
            return _connected(pc.and_kleene, operands, batch, decided=False)
        case Or(operands):
            return _connected(pc.or_kleene, operands, batch, decided=True)


def _connected(
    connect: Callable[[Values, Values], Values],
    operands: Sequence[Expression],
    batch: pa.RecordBatch | pa.Table,
    decided: bool,
) -> Values:
    """The conditions connected by AND or OR. A condition decides for a row where it is `decided`, so the others may fail on this row."""
    result = _value(operands[0], batch)
    for operand in operands[1:]:
        try:
            values = _value(operand, batch)
        except (pa.ArrowInvalid, InvalidOptionError):
            values = _on_open_rows(operand, batch, result, decided)
        result = connect(result, values)
    return result


def _on_open_rows(operand: Expression, batch: pa.RecordBatch | pa.Table, before: Values, decided: bool) -> Values:
    """The condition for the rows for which those `before` do not decide, and null for the others."""
    if isinstance(before, pa.Scalar):
        before = pa.repeat(pc.cast(before, pa.bool_()), batch.num_rows)
    is_open = pc.fill_null(pc.not_equal(before, decided), True)
    values = _value(operand, batch.filter(is_open))
    if isinstance(values, pa.Scalar):
        return values
    return pc.replace_with_mask(pa.nulls(batch.num_rows, pa.bool_()), is_open, values)


def column_values(node: Column, batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The column's values in `batch`, cast to the type in which they are compared."""
    return as_seen(raw_values(node, batch), node.type)


def raw_values(node: Column, batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The column's values in `batch` as they are stored; null where a parent is null."""
    head, *rest = node.path
    at = batch.schema.get_field_index(head)
    if at < 0:
        raise SchemaMismatchError(f"the filter needs column {head!r}, which the batch lacks")
    values = batch.column(at)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    for name in rest:
        # struct_field, unlike the child itself, is null where a parent is. By position: names that begin with a dot would be paths.
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return plain(values)


def _in(node: In, values: Values) -> Values:
    found = equals_one_of(values, pa.array(node.values, node.operand.type))
    return pc.if_else(found, found, pa.scalar(None, pa.bool_())) if node.has_null else found
