"""Conditions from pyarrow's expressions, with the same result for every row.

What a condition here means otherwise, such as a comparison with NaN, is written so that it means the same, or stays an
`ArrowCondition`, which pyarrow evaluates: indexes and statistics find rows by the other parts of the condition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.predicate import bind
from lance_spark.predicate.arrow_condition import (
    ArrowCall,
    ArrowExpression,
    ArrowField,
    ArrowLiteral,
    Node,
    by_arrow,
    fields_of,
)
from lance_spark.predicate.tree import (
    And,
    ArrowCondition,
    Call,
    Cast,
    Column,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)
from lance_spark.schema.schema import Schema, quoted

_COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT_TESTS = {"starts_with": "startswith", "ends_with": "endswith", "match_substring": "contains"}
_SAME_KIND = ("string", "binary", "date", "timestamp", "timestamp_ntz", "bool")
"""The kinds whose values pyarrow compares only with each other, as we do."""
_NULL_MATCHES, _NULL_SKIPPED = 0, 1
"""Values of `SetLookupOptions.null_matching_behavior`. With both, `is_in` of a null is true or false."""


class _Untranslated(Exception):
    """A part of an expression has no other node than `ArrowCondition`."""


def from_arrow(expression: pc.Expression, schema: Schema) -> Predicate:
    """The condition `expression` on the fields of `schema`.

    Raises SchemaMismatchError for a column that does not exist, and InvalidOptionError for what is no condition or compares
    values that pyarrow does not compare.
    """
    text = str(expression)
    try:
        taken = ArrowExpression(expression)
        root = taken.root
    except (pa.ArrowNotImplementedError, UnsupportedFeatureError) as e:
        raise InvalidOptionError(f"the filter {text} cannot be taken apart ({e}); name columns, and use SQL text") from e
    translation = _Translation(taken, schema, text)
    return Predicate(translation.condition(root), text)


class _Translation:
    def __init__(self, expression: ArrowExpression, schema: Schema, text: str) -> None:
        self._expression = expression
        self._schema = schema
        self._text = text

    def condition(self, node: Node) -> Expression:
        """A node that is a condition."""
        match node:
            case ArrowLiteral(value) if types.is_boolean(value.type) or types.is_null(value.type):
                return Literal(value.as_py(), pa.bool_())
            case ArrowField():
                column = self._column(node)
                if types.is_boolean(column.type):
                    return column
            case ArrowCall("and_kleene", arguments):
                return And(tuple(map(self.condition, arguments)))
            case ArrowCall("or_kleene", arguments):
                return Or(tuple(map(self.condition, arguments)))
            case ArrowCall("invert", (operand,)):
                return Not(self.condition(operand))
            case ArrowCall():
                try:
                    return self._call(node)
                except _Untranslated:
                    return self._by_arrow(node)
        raise InvalidOptionError(f"the filter {self._text} is not a condition")

    def _call(self, call: ArrowCall) -> Expression:
        options = {name: value.as_py() for name, value in call.options.items() if name != "value_set"}
        match call:
            case ArrowCall(name, (left, right)) if name in _COMPARISONS:
                return self._comparison(_COMPARISONS[name], left, right)
            case ArrowCall("is_in", (operand,)):
                return self._is_in(self._operand(operand), call.options, options)
            case ArrowCall("is_valid", (ArrowField() as field,)):
                return Not(IsNull(self._column(field)))
            case ArrowCall("is_null", (ArrowField() as field,)):
                column = self._column(field)
                if not options.get("nan_is_null") or not types.is_floating(column.type):
                    return IsNull(column)
            case ArrowCall(name, (operand,)) if name in _TEXT_TESTS and not options["ignore_case"]:
                pattern = Literal(_text(options["pattern"]), pa.string())
                return Call(_TEXT_TESTS[name], (self._text_operand(operand), pattern), pa.bool_())
            case ArrowCall("match_substring_regex", (operand,)) if not options["ignore_case"]:
                return Like(self._text_operand(operand), _text(options["pattern"]))
        raise _Untranslated

    def _comparison(self, op: str, left: Node, right: Node) -> Expression:
        if isinstance(left, ArrowLiteral):
            left, right, op = right, left, _MIRRORED[op]
        value = _constant(right)
        column = self._operand(left)
        literal = _comparable(column.type, value)
        compared = bind.compare(op, column, literal)
        if types.is_floating(column.type) and op in (">", ">=") and literal.value is not None:
            # NaN is greater than all numbers here, but not in pyarrow.
            return And((compared, Not(Call("isnan", (column,), pa.bool_()))))
        return compared

    def _is_in(self, operand: Expression, given: Mapping[str, pa.Scalar], options: Mapping[str, Any]) -> Expression:
        if options["null_matching_behavior"] not in (_NULL_MATCHES, _NULL_SKIPPED):
            raise _Untranslated
        try:
            values = given["value_set"].values.cast(operand.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError):
            raise _Untranslated from None
        known = values.drop_null().to_pylist()
        if types.is_floating(operand.type) and any(value == 0 or math.isnan(value) for value in known):
            raise _Untranslated  # 0.0 and -0.0 are two values for pyarrow
        found = In(operand, tuple(known), False) if known else Literal(False, pa.bool_())
        if values.null_count and options["null_matching_behavior"] == _NULL_MATCHES:
            return Or((IsNull(operand), found))
        return And((Not(IsNull(operand)), found))

    def _operand(self, node: Node) -> Expression:
        """A column whose values pyarrow sees as we do, or a cast of one that changes no value."""
        match node:
            case ArrowField():
                column = self._column(node)
                stored = self._schema.resolve(column.quoted)[-1]
                if not _seen_alike(stored.type, column.type) or stored.logical_type == "json":
                    raise _Untranslated
                return column
            case ArrowCall("cast", (inner,), options):
                operand, target = self._operand(inner), options["to_type"].type
                if not _is_wider(operand.type, target):
                    raise _Untranslated
                return Cast(operand, target)
        raise _Untranslated

    def _text_operand(self, node: Node) -> Expression:
        operand = self._operand(node)
        if bind.kind(operand.type) != "string":
            raise _Untranslated
        return operand

    def _column(self, field: ArrowField) -> Column:
        column = bind.column(self._schema, quoted(field.path))
        if column.path != field.path:
            # pyarrow does not ignore the case of names.
            raise SchemaMismatchError(
                f"the filter {self._text} needs the column {'.'.join(field.path)!r}, which does not exist; "
                f"there is {'.'.join(column.path)!r}"
            )
        return column

    def _by_arrow(self, call: ArrowCall) -> ArrowCondition:
        """The call as it is. Raises InvalidOptionError if pyarrow cannot evaluate it on columns of these types."""
        names = tuple(dict.fromkeys(field.path[0] for field in fields_of(call)))
        operands = tuple(bind.column(self._schema, quoted((name,))) for name in names)
        for field in fields_of(call):
            self._column(field)
        condition = ArrowCondition(operands, names, self._expression.part(call))
        none = [pa.nulls(0, _plain(self._schema.resolve(column.quoted)[-1].type)) for column in operands]
        try:
            found = by_arrow(condition, none, 0)
        except pa.ArrowException as e:  # such as for a function that does not exist
            raise InvalidOptionError(f"the filter {self._text} cannot be evaluated: {e}") from e
        if not types.is_boolean(found.type):
            raise InvalidOptionError(f"the filter {self._text} is not a condition: its type is {found.type}")
        return condition


def _constant(node: Node) -> pa.Scalar:
    """The value of a literal, or of a cast of one."""
    match node:
        case ArrowLiteral(value):
            return value
        case ArrowCall("cast", (ArrowLiteral(value),), options):
            try:
                return value.cast(options["to_type"].type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise _Untranslated from None
        case _:
            raise _Untranslated


def _comparable(t: pa.DataType, value: pa.Scalar) -> Literal:
    """The constant as a literal that compares with values of the type `t` as in pyarrow."""
    kind, other = bind.kind(t), bind.kind(value.type)
    if not value.is_valid:
        if other not in (kind, "null"):
            raise _Untranslated
        return Literal(None, t)
    if kind == other == "int":
        return Literal(value.as_py(), value.type)
    if kind in ("int", "float") and value.type == pa.float64() and not math.isnan(value.as_py()):
        return Literal(value.as_py(), value.type)
    if kind == "float" and (value.type == t or (t == pa.float64() and other == "int")):
        number = float(value.as_py())
        if not math.isnan(number):
            return Literal(number, t)
    if kind == other and kind in _SAME_KIND:
        try:
            return Literal(value.cast(t).as_py(), t)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            raise _Untranslated from None
    if kind == other == "decimal" and value.type == t:
        return Literal(value.as_py(), t)
    raise _Untranslated


def _plain(t: pa.DataType) -> pa.DataType:
    """The type of a column's values in `raw_values`."""
    if isinstance(t, pa.BaseExtensionType):
        t = t.storage_type
    return t.value_type if types.is_dictionary(t) else t


def _seen_alike(stored: pa.DataType, seen: pa.DataType) -> bool:
    """Whether pyarrow compares values as stored as we compare them as the type `seen`."""
    if stored == seen:
        return bind.kind(seen) not in ("nested", "null", "time", "duration")
    if types.is_timestamp(stored):
        return bool(stored.unit != "ns")
    return bool(types.is_dictionary(stored) and stored.value_type == seen)


def _is_wider(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of the type `source` is one of the type `target`."""
    if types.is_signed_integer(source) and types.is_signed_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if types.is_integer(source) and target == pa.float64():
        return bool(source.bit_width <= 32)
    return bool(source == pa.float32() and target == pa.float64())


def _text(pattern: str | bytes) -> str:
    return pattern.decode() if isinstance(pattern, bytes) else pattern
