"""Predicates from the planner's JSON: nested arrays of an operator and its operands, as PlanJson.java writes Spark's V2 predicates."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.predicate import bind, json_functions
from lance_spark.predicate.regex import of_like
from lance_spark.predicate.text_match import text_condition
from lance_spark.predicate.tree import And, Call, Column, Expression, IsNull, Like, Literal, Not, Or, Predicate, TextMatch
from lance_spark.schema.schema import Schema, quoted

_TEXT_RESULT = re.compile(r"(lance_match|lance_match_phrase)\((\[.*)\)", re.DOTALL)
_EPOCH = datetime.datetime(1970, 1, 1)
_UTC_EPOCH = _EPOCH.replace(tzinfo=datetime.UTC)


def from_json(tree: list[Any], schema: Schema) -> Predicate:
    """The condition `tree`: ["c", name, ...] a column, ["l", type, value] a literal, ["TEXT", name] the results of a text
    function (see `text_result`), anything else [operator, operand, ...].

    Raises UnsupportedFeatureError for an unknown operator or literal type.
    """
    return bind.predicate(_node(tree, schema), _text(tree))


def column_from_json(tree: list[Any], schema: Schema) -> Column:
    """The column ["c", name, ...]."""
    return bind.column(schema, quoted(tree[1:]))


def text_result(name: str, schema: Schema) -> Predicate | None:
    """The condition whose results the planner asks for in a column of this name, as TextCall.java writes it; None for other names.

    Raises InvalidOptionError for a call that is wrong.
    """
    called = _TEXT_RESULT.fullmatch(name)
    if called is None:
        return None
    path, *constants = json.loads(f"[{called[2]}]")
    arguments: list[Expression] = [bind.column(schema, quoted(path))]
    arguments += [Literal(text, pa.string()) for text in constants]
    return bind.predicate(text_condition(called[1], arguments), name)


def _node(tree: list[Any], schema: Schema) -> Expression:
    head, *rest = tree
    if head == "c":
        return column_from_json(tree, schema)
    if head == "l":
        return _literal(*rest)
    if head in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
        return bind.compare(head, *(_node(r, schema) for r in rest))
    if head == "TEXT":
        condition = text_result(rest[0], schema)
        assert condition is not None
        return condition.root
    if head == "JSON_TEXT":
        return _json_text(rest, schema)
    build = OPERATORS.get(head)
    if build is None:
        raise UnsupportedFeatureError(f"unknown predicate operator {head!r}")
    return build([_node(r, schema) for r in rest])


def _literal(name: str, value: Any) -> Literal:
    read = LITERALS.get(name)
    if read is None:
        raise UnsupportedFeatureError(f"unknown literal type {name!r}")
    t, convert = read
    if value is None:
        return Literal(None, t or pa.null())
    return convert(value) if t is None else Literal(convert(value), t)


def _decimal(text: str) -> Literal:
    number = decimal.Decimal(text)
    _, digits, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    return Literal(number, pa.decimal128(max(len(digits) + max(int(exponent), 0), scale, 1), scale))


def _json_text(operands: list[Any], schema: Schema) -> Expression:
    """Whether get_json_object of a column (the first operand) at a path (the second one) is one of the texts (the others).

    True where Spark may find more: in columns of strings, which need not be proper JSON, and for texts that are JSON themselves, such as
    numbers, which Spark writes in its own way.
    """
    column, *literals = (_node(o, schema) for o in operands)
    texts = [v.value for v in literals if isinstance(v, Literal)]
    is_json = schema.resolve(quoted(operands[0][1:]))[-1].logical_type == "json"
    if not is_json or any(json_functions.is_json(text) for text in texts[1:]):
        return Literal(True, pa.bool_())
    try:
        return bind.is_in(bind.of_json("get_json_object", [column, literals[0]]), literals[1:])
    except InvalidOptionError:  # a path with a wildcard
        return Literal(True, pa.bool_())


def _is_null(operand: Expression) -> IsNull:
    """Whether an operand is null; a text function is where its text is."""
    return IsNull(operand.operand if isinstance(operand, TextMatch) else operand)


def _like(text: Expression, pattern: Expression) -> Like:
    """LIKE with a constant pattern in which nothing is escaped."""
    if not isinstance(pattern, Literal):
        raise UnsupportedFeatureError("the pattern of LIKE is not a literal")
    return Like(text, of_like(pattern.value, ""))


LITERALS: dict[str, tuple[pa.DataType | None, Callable[[Any], Any]]] = {
    "boolean": (pa.bool_(), bool),
    "byte": (pa.int64(), int),
    "short": (pa.int64(), int),
    "int": (pa.int64(), int),
    "long": (pa.int64(), int),
    "float": (pa.float32(), float),
    "double": (pa.float64(), float),
    "string": (pa.string(), str),
    "decimal": (None, _decimal),
    "date": (pa.date32(), lambda days: datetime.date(1970, 1, 1) + datetime.timedelta(days=days)),
    "timestamp": (bind.ZONED, lambda micros: _UTC_EPOCH + datetime.timedelta(microseconds=micros)),
    "timestamp_ntz": (bind.UNZONED, lambda micros: _EPOCH + datetime.timedelta(microseconds=micros)),
    "binary": (pa.binary(), base64.b64decode),
    "void": (pa.null(), lambda _: None),
}

OPERATORS: dict[str, Callable[[list[Expression]], Expression]] = {
    "AND": lambda o: And(tuple(o)),
    "OR": lambda o: Or(tuple(o)),
    "NOT": lambda o: Not(o[0]),
    "IN": lambda o: bind.is_in(o[0], o[1:]),
    "IS_NULL": lambda o: _is_null(o[0]),
    "IS_NOT_NULL": lambda o: Not(_is_null(o[0])),
    "STARTS_WITH": lambda o: Call("startswith", tuple(o), pa.bool_()),
    "ENDS_WITH": lambda o: Call("endswith", tuple(o), pa.bool_()),
    "CONTAINS": lambda o: Call("contains", tuple(o), pa.bool_()),
    "LIKE": lambda o: _like(o[0], o[1]),
    "ARRAY": bind.array,
    "ARRAY_CONTAINS": lambda o: bind.in_array("array_contains", o[0], o[1]),
    "ARRAYS_OVERLAP": lambda o: bind.in_array("arrays_overlap", o[0], o[1]),
    "ALWAYS_TRUE": lambda o: Literal(True, pa.bool_()),
    "ALWAYS_FALSE": lambda o: Literal(False, pa.bool_()),
}


def _text(tree: list[Any]) -> str:
    head, *rest = tree
    if head == "c":
        return ".".join(rest)
    if head == "l":
        return repr(rest[1])
    if head == "TEXT":
        return str(rest[0])
    if len(rest) == 2 and head not in ("IN", "STARTS_WITH", "ENDS_WITH", "CONTAINS"):
        return f"({_text(rest[0])} {head} {_text(rest[1])})"
    return f"{head}({', '.join(_text(r) for r in rest)})"
