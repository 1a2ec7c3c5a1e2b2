"""Predicates from SQL text: sqlglot parses Spark's dialect; this file converts supported expressions to typed nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import bind
from lance_spark.predicate.functions import CONSTANT_ARGUMENTS, FUNCTIONS
from lance_spark.predicate.tree import And, Call, Cast, Expression, Formula, IsNull, Like, Literal, Not, Or, Predicate
from lance_spark.schema.schema import Schema, quoted

_MAX_LENGTH = 1 << 20
Result = TypeVar("Result")
_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": bind.ZONED,
    "TIMESTAMPLTZ": bind.ZONED,
    "TIMESTAMP": bind.ZONED,
    "TIMESTAMPNTZ": bind.UNZONED,
}


def parse(sql: str, schema: Schema) -> Predicate:
    """The condition `sql` (Spark's dialect) on the columns of `schema`, matched case-insensitively.

    Supports comparisons, AND/OR/NOT, IN, BETWEEN, LIKE, null tests, nested fields, typed literals, arithmetic, CAST between numbers
    and the functions of functions.FUNCTIONS. TIMESTAMP literals without a zone are UTC. Raises InvalidOptionError for anything else and for
    types that do not compare, and SchemaMismatchError for a column that does not exist.
    """
    return _translated(sql, schema, lambda node: bind.predicate(node, sql))


def parse_formula(sql: str, schema: Schema) -> Formula:
    """The expression `sql` (Spark's dialect) over the columns of `schema`; supports and raises the same as `parse`."""
    return _translated(sql, schema, lambda node: Formula(node, sql))


def _translated(sql: str, schema: Schema, made: Callable[[Expression], Result]) -> Result:
    if len(sql) > _MAX_LENGTH:
        raise InvalidOptionError(f"the filter is {len(sql)} characters long; the maximum is {_MAX_LENGTH}")
    try:
        tree = sqlglot.parse_one(_doubled_quotes(sql), read="spark")
        return made(_Translation(schema, sql).node(tree))
    except SqlglotError as e:
        reason = re.sub("\x1b\\[\\d*m", "", str(e))  # sqlglot underlines with terminal escapes
        raise InvalidOptionError(f"the filter {_short(sql)} is not a SQL condition: {reason}") from e
    except RecursionError as e:
        raise InvalidOptionError(f"the filter {_short(sql)} is nested too deeply") from e


def _short(sql: str) -> str:
    return repr(sql if len(sql) <= 200 else sql[:200] + "...")


def _doubled_quotes(sql: str) -> str:
    """Spark 4 reads two quotes inside a string as one; sqlglot reads two strings, so the quotes are escaped."""
    tokens = sqlglot.tokenize(sql, read="spark")
    cuts = [b.start for a, b in itertools.pairwise(tokens) if a.token_type == b.token_type == TokenType.STRING and b.start == a.end + 1]
    for at in reversed(cuts):
        sql = sql[: at - 1] + "\\" + sql[at:]
    return sql


class _Translation:
    """Translates one sqlglot tree into our nodes; `schema` has the columns, `sql` is the text for messages."""

    def __init__(self, schema: Schema, sql: str) -> None:
        self.schema, self.sql = schema, sql

    def node(self, e: Any) -> Expression:
        translate = NODES.get(type(e))
        if translate is not None:
            if any(value for key, value in e.args.items() if key not in UNDERSTOOD):
                raise self.unsupported(e)
            node = translate(self, e)
            return Not(node) if e.args.get("negate") else node
        if isinstance(e, exp.Func):
            return self.function(e.sql_name().lower(), list(e.iter_expressions()))
        raise self.unsupported(e)

    def refuse(self, e: Any) -> Expression:
        raise self.unsupported(e)

    def unsupported(self, e: Any) -> InvalidOptionError:
        return InvalidOptionError(f"the filter {_short(self.sql)} uses {e.sql(dialect='spark')!r}, which filters do not support")

    def column(self, e: Any) -> Expression:
        return bind.column(self.schema, ".".join(_quoted(p) for p in e.parts))

    def field_of(self, e: Any) -> Expression:
        """a.b.c.d.e (deeper than sqlglot's own columns) and a['b']."""
        steps: list[str] = []
        at: Any = e
        while not isinstance(at, exp.Column):
            if isinstance(at, exp.Dot) and isinstance(at.expression, exp.Identifier):
                steps.insert(0, _quoted(at.expression))
            elif isinstance(at, exp.Bracket) and len(at.expressions) == 1 and at.expressions[0].is_string:
                steps.insert(0, quoted([at.expressions[0].name]))
            else:
                raise self.unsupported(e)
            at = at.this
        return bind.column(self.schema, ".".join([*(_quoted(p) for p in at.parts), *steps]))

    def junction(self, e: Any) -> Expression:
        operands = tuple(bind.convert(self.condition(o), pa.bool_()) for o in e.flatten())
        return And(operands) if isinstance(e, exp.And) else Or(operands)

    def condition(self, e: Any) -> Expression:
        node = self.node(e)
        if bind.kind(node.type) not in ("bool", "null"):
            raise InvalidOptionError(f"{e.sql(dialect='spark')!r} in the filter {_short(self.sql)} is no condition: it gives {node.type}")
        return node

    def negation(self, e: Any) -> Expression:
        return Not(bind.convert(self.condition(e.this), pa.bool_()))

    def compare(self, e: Any) -> Expression:
        return bind.compare(OPERATORS[type(e)], self.node(e.this), self.node(e.expression))

    def distinct(self, e: Any) -> Expression:
        return Not(bind.compare("<=>", self.node(e.this), self.node(e.expression)))

    def arithmetic(self, e: Any) -> Expression:
        return bind.numeric(ARITHMETIC[type(e)], self.node(e.this), self.node(e.expression))

    def between(self, e: Any) -> Expression:
        value = self.node(e.this)
        return And((bind.compare(">=", value, self.node(e.args["low"])), bind.compare("<=", value, self.node(e.args["high"]))))

    def is_in(self, e: Any) -> Expression:
        if not e.expressions or e.args.get("query"):
            raise self.unsupported(e)
        return bind.is_in(self.node(e.this), [self.node(v) for v in e.expressions])

    def is_(self, e: Any) -> Expression:
        value = self.node(e.this)
        if isinstance(e.expression, exp.Null):
            return IsNull(value)
        if isinstance(e.expression, exp.Boolean):
            return bind.compare("<=>", value, self.node(e.expression))
        raise self.unsupported(e)

    def like(self, e: Any, escape: str = "\\") -> Expression:
        value, pattern = self.node(e.this), e.expression
        if bind.kind(value.type) != "string" or not pattern.is_string:
            raise self.unsupported(e)
        return Like(value, _like_regex(pattern.name, escape), isinstance(e, exp.ILike))

    def escaped_like(self, e: Any) -> Expression:
        if not isinstance(e.this, exp.Like | exp.ILike) or len(e.expression.name) != 1:
            raise self.unsupported(e)
        return self.like(e.this, e.expression.name)

    def literal(self, e: Any) -> Expression:
        if e.is_string:
            return Literal(e.name, pa.string())
        return _number(e.name)

    def negative(self, e: Any) -> Expression:
        value = self.node(e.this)
        if isinstance(value, Literal) and value.value is not None and bind.kind(value.type) in bind.NUMBERS:
            return _number(f"-{e.this.name}") if isinstance(e.this, exp.Literal) else Literal(-value.value, value.type)
        return self.call("negative", [value], e)

    def cast(self, e: Any) -> Expression:
        value, word = self.node(e.this), e.to.this.value
        if word == "DECIMAL":
            sizes = [int(p.name) for p in e.to.expressions] or [10, 0]
            if not 0 < sizes[0] <= 38:
                raise self.unsupported(e)
            t: pa.DataType = pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0)
        elif word in _TYPES:
            t = _TYPES[word]
        elif word in ("TEXT", "VARCHAR") and bind.kind(value.type) in ("string", "int"):
            t = pa.string()
        else:
            raise self.unsupported(e)
        source, target = bind.kind(value.type), bind.kind(t)
        if isinstance(value, Literal) and isinstance(value.value, str):
            return self.typed_text(value.value, t, e)
        numbers = source in bind.NUMBERS and target in (*bind.NUMBERS, "string")
        if numbers or source == target or {source, target} <= {"date", "timestamp"}:
            return Cast(value, t)
        raise self.unsupported(e)

    def typed_text(self, text: str, t: pa.DataType, e: Any) -> Literal:
        match bind.kind(t):
            case "date":
                return bind.date_literal(text)
            case "timestamp" | "timestamp_ntz" as zone:
                return bind.timestamp_literal(text, zoned=zone == "timestamp")
            case "int" | "decimal" | "float":
                number = _number(text)
                cast = bind.convert(number, t)
                return cast if isinstance(cast, Literal) else number
            case "string":
                return Literal(text, t)
            case _:
                raise self.unsupported(e)

    def date_function(self, e: Any) -> Expression:
        value = self.node(e.this)
        if isinstance(value, Literal) and isinstance(value.value, str):
            return bind.date_literal(value.value)
        if bind.kind(value.type) in ("date", "timestamp", "timestamp_ntz"):
            return bind.convert(value, pa.date32())
        raise self.unsupported(e)

    def anonymous(self, e: Any) -> Expression:
        return self.function(e.name.lower(), e.expressions)

    def function(self, name: str, arguments: list[Any]) -> Expression:
        values = [self.node(a) for a in arguments]
        if name in ("isnull", "isnotnull") and len(values) == 1:
            return IsNull(values[0]) if name == "isnull" else Not(IsNull(values[0]))
        return self.call(SYNONYMS.get(name, name), values, None)

    def call(self, name: str, values: list[Expression], e: Any) -> Expression:
        f = FUNCTIONS.get(name)
        if f is None or len(values) not in f.arguments or bind.kind(values[0].type) not in (*f.kinds, "null"):
            types = ", ".join(str(v.type) for v in values)
            raise InvalidOptionError(f"the filter {_short(self.sql)} calls {name}({types}), which filters do not support")
        if name == "coalesce":
            for i in range(1, len(values)):
                values[0], values[i] = bind.unify(values[0], values[i], "coalesce")
            values = [bind.convert(v, values[0].type) for v in values]
        if name in CONSTANT_ARGUMENTS and not all(isinstance(v, Literal) and v.value is not None for v in values[1:]):
            raise InvalidOptionError(f"{name} in the filter {_short(self.sql)} takes only literals after the first argument")
        t = values[0].type if f.type is None else f.type
        return Call(name, tuple(values), t)


def _quoted(part: Any) -> str:
    return quoted([part.name]) if part.args.get("quoted") or "." in part.name else part.name


def _number(text: str) -> Literal:
    """Spark's types of number literals: integer, decimal (with a point) or double (with an exponent)."""
    if re.fullmatch(r"[+-]?\d+", text):
        value = int(text)
        if -(1 << 63) <= value < 1 << 63:
            return Literal(value, pa.int64())
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text):
        number = Decimal(text)
        digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
        precision = max(digits, -exponent, 1)
        if precision > 38:
            raise InvalidOptionError(f"the number {text} has more than 38 digits, which is the maximum")
        return Literal(number, pa.decimal128(precision, -exponent))
    try:
        return Literal(float(text), pa.float64())
    except ValueError as e:
        raise InvalidOptionError(f"{text!r} is not a number") from e


def _like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern, for the whole string, where a dot matches line breaks too."""
    out, at = [], 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise InvalidOptionError(f"the pattern {pattern!r} has an escape character that is not followed by %, _ or itself")
            out.append(re.escape(pattern[at]))
        else:
            out.append({"%": ".*", "_": "."}.get(c) or re.escape(c))
        at += 1
    return f"(?s)^(?:{''.join(out)})\\z"


SYNONYMS = {
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "lcase": "lower",
    "ucase": "upper",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "is_nan": "isnan",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "dayofmonth": "day",
    "day_of_month": "day",
}

OPERATORS: dict[type[Any], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip

ARITHMETIC: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}

UNDERSTOOD = {"this", "expression", "expressions", "low", "high", "to", "negate", "quoted", "table", "db", "catalog", "is_string", "safe"}
"""The parts of a node that this file looks at, or that change nothing here; a node with others says more than we would hear."""

NODES: dict[type[Any], Callable[[_Translation, Any], Expression]] = {
    exp.Paren: lambda t, e: t.node(e.this),
    exp.Column: _Translation.column,
    exp.Dot: _Translation.field_of,
    exp.Bracket: _Translation.field_of,
    exp.And: _Translation.junction,
    exp.Or: _Translation.junction,
    exp.Not: _Translation.negation,
    **dict.fromkeys(OPERATORS, _Translation.compare),
    **dict.fromkeys(ARITHMETIC, _Translation.arithmetic),
    exp.NullSafeNEQ: _Translation.distinct,
    exp.Between: _Translation.between,
    exp.In: _Translation.is_in,
    exp.Is: _Translation.is_,
    exp.Like: _Translation.like,
    exp.ILike: _Translation.like,
    exp.Escape: _Translation.escaped_like,
    exp.Literal: _Translation.literal,
    exp.Neg: _Translation.negative,
    exp.Boolean: lambda t, e: Literal(bool(e.this), pa.bool_()),
    exp.Null: lambda t, e: Literal(None, pa.null()),
    exp.HexString: lambda t, e: Literal(bytes.fromhex(e.name if len(e.name) % 2 == 0 else f"0{e.name}"), pa.binary()),
    exp.Cast: _Translation.cast,
    exp.TryCast: _Translation.cast,
    exp.TsOrDsToDate: _Translation.date_function,
    exp.Anonymous: _Translation.anonymous,
    exp.If: _Translation.refuse,
    exp.Case: _Translation.refuse,
    exp.Coalesce: lambda t, e: t.function("coalesce", [e.this, *e.expressions]),
}
