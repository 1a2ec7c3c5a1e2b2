"""Type checking of predicates: comparable types and their common type, by Spark's ANSI rules. Builds the nodes of tree.py."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from lance_spark.arrow.types import is_binary, is_list, is_text
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.json_functions import JSON_FUNCTIONS
from lance_spark.predicate.tree import Call, Cast, Column, Compare, Expression, In, Literal, Or, Predicate
from lance_spark.schema.schema import Field, Schema

_KINDS = (
    ("null", types.is_null),
    ("bool", types.is_boolean),
    ("int", types.is_integer),
    ("float", types.is_floating),
    ("decimal", types.is_decimal),
    ("string", is_text),
    ("binary", lambda t: is_binary(t) or types.is_fixed_size_binary(t)),
    ("date", types.is_date),
    ("timestamp", lambda t: types.is_timestamp(t) and t.tz is not None),
    ("timestamp_ntz", types.is_timestamp),
    ("time", types.is_time),
    ("duration", types.is_duration),
)
NUMBERS = ("int", "float", "decimal")
ZONED = pa.timestamp("us", "UTC")
UNZONED = pa.timestamp("us")
_ANY_OF = {"bool": pa.bool_(), "int": pa.int64(), "string": pa.string(), "date": pa.date32(), "timestamp": ZONED, "float": pa.float64()}
"""A type of each kind that a function takes first."""
# The widest decimal that Arrow can calculate with.
_WIDEST = 76


def kind(t: pa.DataType) -> str:
    """The family of types within which Spark compares: "int", "float", "string", ...; "nested" for the rest."""
    return next((name for name, check in _KINDS if check(t)), "nested")


def column(schema: Schema, name: str) -> Column:
    """The column called `name`, matched as `Schema.resolve` does."""
    steps = schema.resolve(name)
    return Column(tuple(f.name for f in steps), _seen_type(steps[-1]))


def _seen_type(field: Field) -> pa.DataType:
    """The type that Spark compares values of `t` as."""
    return _seen_item_type(pa.string() if field.logical_type == "json" else field.type)


def item_type(t: pa.DataType) -> pa.DataType:
    """The type in which Spark compares the items of arrays of the type `t`."""
    return _seen_item_type(t.value_type)


def _seen_item_type(t: pa.DataType) -> pa.DataType:
    if types.is_dictionary(t):
        t = t.value_type
    if types.is_float16(t):
        return pa.float32()
    if types.is_date64(t):
        return pa.date32()
    if types.is_timestamp(t):
        return UNZONED if t.tz is None else ZONED
    return t


def predicate(root: Expression, text: str) -> Predicate:
    """The predicate for `root`. Raises InvalidOptionError for an expression that is not a condition."""
    if kind(root.type) not in ("bool", "null"):
        raise InvalidOptionError(f"the filter {text!r} is not a condition: its type is {root.type}")
    return Predicate(convert(root, pa.bool_()), text)


def compare(op: str, left: Expression, right: Expression) -> Compare:
    """`left op right`, with both sides cast to the type in which Spark compares them."""
    left, right = unify(left, right, f"compare with {op}")
    return Compare(op, left, right)


def is_in(operand: Expression, values: Sequence[Expression]) -> Expression:
    """`operand IN (values)`. Values that are not literals are compared one by one, in the type that all have in common."""
    literals = [v for v in values if isinstance(v, Literal)]
    plain = [v for v in literals if v.value is not None]
    others = [v for v in values if not isinstance(v, Literal)]
    if others and kind(operand.type) != "nested":
        for other in others:
            operand, _ = unify(operand, other, "look up with IN")
        equal = [compare("=", operand, other) for other in others]
        alone = [is_in(operand, literals)] if literals else []
        return Or((*alone, *equal)) if len(alone) + len(equal) > 1 else equal[0]
    if len(plain) > 1 and kind(operand.type) != "nested" and all(v.type == operand.type for v in plain):
        return In(operand, tuple(v.value for v in plain), len(plain) < len(values))
    if kind(operand.type) == "nested":
        raise InvalidOptionError(f"cannot look up with IN: {_named(operand)}")
    # First find a common type for all literals, so that each one compares as it would alone.
    for v in plain:
        operand, _ = unify(operand, v, "look up with IN")
    unified = []
    for v in plain:
        operand, literal = unify(operand, v, "look up with IN")
        unified.append(literal)
    if any(not isinstance(u, Literal) or u.type != operand.type for u in unified):
        raise InvalidOptionError("the values of IN have no common type; use comparisons joined by OR instead")
    return In(operand, tuple(u.value for u in unified if isinstance(u, Literal)), len(plain) < len(values))


def unify(left: Expression, right: Expression, purpose: str) -> tuple[Expression, Expression]:
    """Both sides as their common type. Raises InvalidOptionError when Spark has none."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        right, left = unify(right, left, purpose)
        return left, right
    left, right = _typed_text(left, right), _typed_text(right, left)
    t = _common(left.type, right.type)
    if isinstance(right, Literal) and t is not None:
        exact = _exactly(right, left.type)
        if exact is not None:
            return typed(left), typed(exact)
    if t is None:
        raise InvalidOptionError(f"cannot {purpose}: {_named(left)} and {_named(right)}; cast one of them")
    return typed(convert(left, t)), typed(convert(right, t))


def typed(node: Expression, name: str = "bool") -> Expression:
    """`node`, as a type of this kind if it is null in all rows and has no type of its own."""
    return convert(node, _ANY_OF[name]) if types.is_null(node.type) else node


def array(values: Sequence[Expression]) -> Literal:
    """The array of literals `values`, with a common type. Raises InvalidOptionError."""
    literals = [v for v in values if isinstance(v, Literal)]
    if len(literals) < len(values):
        raise InvalidOptionError("array(...) takes only literals")
    t: pa.DataType = pa.null()
    for v in literals:
        common = _common(t, v.type)
        if common is None:
            raise InvalidOptionError(f"the items of array(...) have no common type: {t} and {v.type}")
        t = common
    return Literal(tuple(_known_as(v, t) for v in literals), pa.list_(t))


def in_array(name: str, lists: Expression, wanted: Expression) -> Call:
    """A function of `arrays.ARRAY_FUNCTIONS`: `lists` is a column of arrays, `wanted` a literal, an item or an array of them."""
    t = lists.type
    if not isinstance(lists, Column) or not (is_list(t) or types.is_fixed_size_list(t)):
        raise InvalidOptionError(f"{name} needs a column of arrays, not {_named(lists)}")
    if not isinstance(wanted, Literal):
        raise InvalidOptionError(f"{name} takes only literals after the first argument")
    many = name != "array_contains"
    if wanted.value is not None and many != types.is_list(wanted.type):
        needed = "an array, such as array(1, 2)," if many else "an item, not an array,"
        raise InvalidOptionError(f"{name} needs {needed} after the first argument; found {_named(wanted)}")
    values = () if wanted.value is None else wanted.value if many else (wanted.value,)
    given = wanted.type.value_type if types.is_list(wanted.type) else wanted.type
    # An item is compared with each value as a column of the items' type would be.
    item: Expression = Column(lists.path, item_type(t))
    for v in values:
        item, _ = unify(item, Literal(v, given), f"look up with {name}")
    known = tuple(_known_as(unify(item, Literal(v, given), name)[1], item.type) for v in values)
    if not many:
        return Call(name, (lists, Literal(known[0] if known else None, item.type)), pa.bool_())
    if name != "arrays_overlap" and None in known:
        raise InvalidOptionError(f"{name} does not look up nulls; use arrays_overlap or array_contains")
    return Call(name, (lists, Literal(None if wanted.value is None else known, pa.list_(item.type))), pa.bool_())


def of_json(name: str, values: Sequence[Expression]) -> Call:
    """A function of `json_functions.JSON_FUNCTIONS`: of a column of JSON or of texts, a path, and other literals."""
    f, texts = JSON_FUNCTIONS[name], values[0]
    literals = [v.value for v in values[1:] if isinstance(v, Literal)]
    if not isinstance(texts, Column) or kind(texts.type) != "string":
        raise InvalidOptionError(f"{name} needs a column of JSON or of strings, not {_named(texts)}")
    if len(literals) < len(values) - 1 or not all(isinstance(v, str) for v in literals):
        raise InvalidOptionError(f"{name} takes only strings in quotes after the first argument")
    f.path(literals[0])
    return Call(name, tuple(values), f.type)


def _known_as(literal: Expression, t: pa.DataType) -> Any:
    """The value of a literal as the type `t`."""
    if isinstance(literal, Literal):
        exact = _exactly(literal, t)
        value = literal.value if exact is None else exact.value
        return value if value is None else pa.scalar(value, literal.type if exact is None else t).cast(t).as_py()
    raise InvalidOptionError("the items of an array have no common type; cast them")


def convert(node: Expression, t: pa.DataType) -> Expression:
    """`node` as type `t`; literals are converted at once."""
    if node.type == t:
        return node
    if isinstance(node, Literal):
        exact = _exactly(node, t)
        if exact is not None:
            return exact
    return Cast(node, t, strict=not (kind(node.type).startswith("timestamp") and kind(t).startswith("timestamp")))


def numeric(name: str, left: Expression, right: Expression) -> Call:
    """Arithmetic as Spark's ANSI mode does it; integers are 64 bits wide, and their quotient is a double."""
    for side in (left, right):
        if kind(side.type) not in (*NUMBERS, "null"):
            raise InvalidOptionError(f"cannot calculate with {_named(side)}")
    kinds = {kind(left.type), kind(right.type)}
    if name == "/" and "decimal" in kinds and not kinds & {"float", "null"}:
        raise InvalidOptionError(
            f"cannot divide {_named(left)} by {_named(right)}: filters do not round quotients of decimals as Spark does; "
            "cast one of them to DOUBLE, or write a number such as 2.0D"
        )
    if name != "/" and left.type == right.type == pa.float32():
        t: pa.DataType = pa.float32()
    elif name == "/" or "float" in kinds or "null" in kinds:
        t = pa.float64()
    elif "decimal" in kinds:
        return _decimal_arithmetic(name, left, right)
    else:
        t = pa.int64()
    return Call(name, (convert(left, t), convert(right, t)), t)


def _decimal_arithmetic(name: str, left: Expression, right: Expression) -> Call:
    """Exact decimal arithmetic with as many digits as the result can have."""
    sizes = [_digits(side) for side in (left, right)]
    (p1, s1), (p2, s2) = sizes
    scale = s1 + s2 if name == "*" else max(s1, s2)
    precision = p1 + p2 + 1 if name == "*" else max(p1 - s1, p2 - s2) + scale + 1
    if name == "%" or precision > _WIDEST:
        raise InvalidOptionError(f"cannot calculate {_named(left)} {name} {_named(right)} as decimals; cast one of them to DOUBLE")
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    operands = convert(left, make(p1, s1)), convert(right, make(p2, s2))
    return Call(name, operands, make(precision, scale))


def _digits(node: Expression) -> tuple[int, int]:
    """Precision and scale of a decimal type that can hold every value of `node`."""
    if kind(node.type) == "decimal":
        return node.type.precision, node.type.scale
    if isinstance(node, Literal) and node.value is not None:
        return len(str(abs(node.value))), 0
    return (20 if node.type == pa.uint64() else 19), 0


def _named(node: Expression) -> str:
    if isinstance(node, Column):
        return f"column {'.'.join(node.path)!r} ({node.type})"
    if isinstance(node, Literal):
        return f"{node.value!r} ({node.type})"
    return f"an expression of type {node.type}"


def _typed_text(node: Expression, other: Expression) -> Expression:
    """A string literal compared with a date or timestamp becomes that date or timestamp, as in Spark."""
    wanted = kind(other.type)
    if isinstance(node, Literal) and isinstance(node.value, str) and wanted in ("date", "timestamp", "timestamp_ntz"):
        if wanted == "date":
            return date_literal(node.value)
        return timestamp_literal(node.value, zoned=wanted != "timestamp_ntz")
    return node


def date_literal(text: str) -> Literal:
    """DATE 'yyyy-mm-dd'. As in Spark, a time after it is ignored."""
    try:
        return Literal(datetime.date.fromisoformat(_starting_with_a_date(text)[:10]), pa.date32())
    except ValueError as e:
        raise InvalidOptionError(f"{text!r} is not a date; expected yyyy-mm-dd") from e


def _starting_with_a_date(text: str) -> str:
    """The text without surrounding spaces. Raises ValueError for other forms of ISO 8601, which Spark does not take."""
    if not re.match(r"\d{4}-\d\d-\d\d([ T]|$)", text.strip(), re.ASCII):
        raise ValueError(text)
    return text.strip()


def timestamp_literal(text: str, zoned: bool) -> Literal:
    """TIMESTAMP '...' in ISO 8601, UTC if it has no zone; if not `zoned`, a wall-clock time, which must not have a zone."""
    try:
        at = datetime.datetime.fromisoformat(_starting_with_a_date(text))
    except ValueError as e:
        raise InvalidOptionError(f"{text!r} is not a timestamp; expected yyyy-mm-dd hh:mm:ss[.ffffff][zone]") from e
    if zoned:
        return Literal(at if at.tzinfo else at.replace(tzinfo=datetime.UTC), ZONED)
    if at.tzinfo:
        raise InvalidOptionError(f"{text!r} has a time zone, but the column has none; remove the zone")
    return Literal(at, UNZONED)


def _exactly(literal: Literal, t: pa.DataType) -> Literal | None:
    """The literal as type `t` if its value and its comparisons stay the same, else None."""
    value, source, target = literal.value, kind(literal.type), kind(t)
    if value is None:
        return Literal(None, t)
    if literal.type == t:
        return literal
    if target == "int" and source in ("int", "decimal") and value == int(value):
        bits, signed = t.bit_width, types.is_signed_integer(t)
        low, count = -(1 << bits - 1) if signed else 0, 1 << bits
        return Literal(int(value), t) if low <= value < low + count else None
    if target == "decimal" and source in ("int", "decimal"):
        return _exact_decimal(decimal.Decimal(value), t)
    if target == "float" and t == pa.float64() and source in NUMBERS:
        return Literal(float(value), t)
    if target == source and target in ("string", "binary") and not types.is_fixed_size_binary(t):
        return Literal(value, t)
    if source == target == "time" or source == target == "duration":
        return _in_unit(literal, t)
    if source == "date" and target in ("timestamp", "timestamp_ntz"):
        midnight = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC if target == "timestamp" else None)
        return Literal(midnight, t)
    return None


def _in_unit(literal: Literal, t: pa.DataType) -> Literal | None:
    """The time or interval in the unit of `t`, if it is a multiple of it."""
    try:
        pa.scalar(literal.value, literal.type).cast(t)
    except pa.ArrowInvalid:
        return None
    return Literal(literal.value, t)


def _exact_decimal(value: decimal.Decimal, t: pa.DataType) -> Literal | None:
    with decimal.localcontext() as context:
        context.prec = 2 * _WIDEST
        scaled = value.scaleb(t.scale)
        if scaled != scaled.to_integral_value() or abs(scaled) >= decimal.Decimal(10) ** t.precision:
            return None
        return Literal(value.quantize(decimal.Decimal(1).scaleb(-t.scale)), t)


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that Spark compares `a` and `b` as; None if it cannot compare them."""
    x, y = kind(a), kind(b)
    if x == "nested" or y == "nested":
        return None
    if x == "null" or y == "null":
        return b if x == "null" else a
    if a == b:
        return a
    pair = {x, y}
    if pair <= set(NUMBERS):
        return _common_number(a, b, pair)
    if pair == {"string"}:
        return pa.large_string()
    if pair == {"binary"}:
        return pa.large_binary()
    if pair == {"date", "timestamp"} or pair == {"timestamp", "timestamp_ntz"}:
        return ZONED
    if pair == {"date", "timestamp_ntz"}:
        return UNZONED
    if pair == {"time"}:
        return pa.time64("ns")
    if pair == {"duration"}:
        return pa.duration("us")
    return None


def _digits_of(t: pa.DataType) -> tuple[int, int]:
    """The digits that values of an integer or decimal type may have, before and after the point."""
    if kind(t) == "decimal":
        return t.precision - t.scale, t.scale
    return (20 if t == pa.uint64() else 19), 0


def _common_number(a: pa.DataType, b: pa.DataType, pair: set[str]) -> pa.DataType:
    if "float" in pair:
        return pa.float64()
    if pair == {"int"} and pa.uint64() not in (a, b):
        return pa.int64()
    (whole_a, scale_a), (whole_b, scale_b) = _digits_of(a), _digits_of(b)
    scale = max(scale_a, scale_b)
    precision = max(whole_a, whole_b) + scale
    if precision > _WIDEST:
        return pa.float64()
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
