"""Evaluation of a predicate on Arrow batches: three-valued, a batch at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.predicate.functions import FUNCTIONS, OPERATORS, Values
from lance_spark.predicate.tree import And, Call, Cast, Column, Compare, Expression, Formula, In, IsNull, Like, Literal, Not, Or, Predicate


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Evaluate the predicate for each row of `batch`: true, false or null (unknown, which selects nothing).

    `batch` must have the predicate's columns under their own names; structs may be pruned. Raises InvalidOptionError for values
    that the filter cannot be evaluated on, for example where an integer overflows.
    """
    try:
        result = _value(predicate.root, batch)
    except pa.ArrowInvalid as e:
        raise InvalidOptionError(f"the filter {predicate.text!r} cannot be evaluated: {e}") from e
    if isinstance(result, pa.Scalar):
        return pa.repeat(pc.cast(result, pa.bool_()), batch.num_rows)
    return result


def calculate(formula: Formula, batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The value of the formula for each row of `batch`; otherwise like `evaluate`."""
    try:
        result = _value(formula.root, batch)
    except pa.ArrowInvalid as e:
        raise InvalidOptionError(f"{formula.text!r} cannot be evaluated: {e}") from e
    return pa.repeat(result, batch.num_rows) if isinstance(result, pa.Scalar) else result


def _value(node: Expression, batch: pa.RecordBatch | pa.Table) -> Values:
    match node:
        case Column():
            return column_values(node, batch)
        case Literal(value, t):
            return pa.scalar(value, t)
        case Cast(operand, t, strict):
            return _cast(_value(operand, batch), t, strict)
        case Call(name, arguments, t):
            values = [_value(a, batch) for a in arguments]
            return _cast(OPERATORS[name](*values) if name in OPERATORS else FUNCTIONS[name].run(*values), t, True)
        case Compare(op, left, right):
            return COMPARISONS[op](_value(left, batch), _value(right, batch))
        case In():
            return _in(node, _value(node.operand, batch))
        case Like(operand, pattern, ignore_case):
            return pc.match_substring_regex(_value(operand, batch), pattern, ignore_case=ignore_case)
        case IsNull(operand):
            return pc.is_null(_value(operand, batch))
        case Not(operand):
            return pc.invert(_value(operand, batch))
        case And(operands):
            return reduce(pc.and_kleene, (_value(o, batch) for o in operands))
        case Or(operands):
            return reduce(pc.or_kleene, (_value(o, batch) for o in operands))


def column_values(node: Column, batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The column's values in `batch`, cast to the type in which they are compared."""
    values = raw_values(node, batch)
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        # A plain cast would round toward 1970.
        values = pc.floor_temporal(values, unit="microsecond")
    return _cast(values, node.type, strict=False)


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
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values


def _cast(values: Values, t: pa.DataType, strict: bool) -> Values:
    if values.type == t or pa.types.is_nested(t):
        return values
    if pa.types.is_float16(values.type) and isinstance(values, pa.Array):
        wide = values.to_numpy(zero_copy_only=False).astype(np.float32)
        return pc.cast(pa.array(wide, mask=np.asarray(values.is_null())), t)
    if pa.types.is_floating(values.type) and pa.types.is_integer(t):
        values = pc.trunc(values)
    if pa.types.is_fixed_size_binary(values.type) and t == pa.large_binary():
        values = pc.cast(values, pa.binary())
    if pa.types.is_string(t) and pa.types.is_temporal(values.type):
        return _text(values)
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


def _in(node: In, values: Values) -> Values:
    if _is_float(values):
        # Adding zero turns -0.0 into 0.0; the set lookup treats NaN as equal to itself.
        values = pc.add(values, pa.scalar(0.0, values.type))
    known = pa.array([v + 0.0 if isinstance(v, float) else v for v in node.values], node.operand.type)
    found = pc.is_in(values, value_set=known)
    unknown = pc.is_null(values)
    if node.has_null:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
