"""Predicates from SQL text: sqlglot parses Spark's dialect; this file converts supported expressions to typed nodes."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from sqlglot import ErrorLevel, exp

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.predicate import bind
from lance_spark.predicate.arrays import ARRAY_FUNCTIONS
from lance_spark.predicate.functions import CONSTANT_ARGUMENTS, FUNCTIONS, SAME_TYPE, SYNONYMS, Function
from lance_spark.predicate.geometry import FROM_TEXT, GEOMETRY_FUNCTIONS, POINT, condition, constant
from lance_spark.predicate.json_functions import JSON_FUNCTIONS
from lance_spark.predicate.regex import for_re2, of_like
from lance_spark.predicate.sql_text import INTERVAL, LIST, AmbiguousPrecedenceError, condition_tree
from lance_spark.predicate.text_match import TEXT_FUNCTIONS, text_condition
from lance_spark.predicate.times import interval_literal, sum_of, time_literal
from lance_spark.predicate.tree import And, Call, Cast, Column, Expression, Formula, IsNull, Like, Literal, Not, Or, Predicate
from lance_spark.schema.declared_types import declared
from lance_spark.schema.schema import Schema, quoted

_MAX_LENGTH = 1 << 20
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a character of UTF-16, which Python's texts may have, but no others."""
_WORDS = re.compile(r"[\w .,;:!?-]+")
"""What could be a text whose quotes are missing."""
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
    "TIME": pa.time64("us"),
    "TIMESTAMPTZ": bind.ZONED,
    "TIMESTAMPLTZ": bind.ZONED,
    "TIMESTAMP": bind.ZONED,
    "DATETIME": bind.ZONED,
    "TIMESTAMPNTZ": bind.UNZONED,
}
# Types whose values Arrow writes as Spark does, or nearly (see evaluate.text).
_WRITTEN = ("string", "int", "bool", "date", "timestamp_ntz", "null")


def parse(sql: str, schema: Schema, zone: str | None = "UTC") -> Predicate:
    """The condition `sql` (Spark's dialect) on the columns of `schema`, matched case-insensitively.

    Supports comparisons, AND/OR/NOT, IN, BETWEEN, LIKE, RLIKE, null tests, nested fields, typed literals, arithmetic, CAST between numbers
    and to strings, and the functions of FUNCTIONS, ARRAY_FUNCTIONS, JSON_FUNCTIONS and TEXT_FUNCTIONS. TIMESTAMP literals without a zone
    are UTC. `zone` is where current_date() is today; None if unknown. Raises InvalidOptionError for anything else, SchemaMismatchError for
    other columns.
    """
    return _translated(sql, schema, zone, "the filter {}", lambda node: bind.predicate(node, sql))


def parse_formula(sql: str, schema: Schema, zone: str | None = "UTC", column: str | None = None) -> Formula:
    """The expression `sql` (Spark's dialect) over the columns of `schema`; supports and raises the same as `parse`.

    `column` is the column whose value it is, for messages.
    """
    subject = "the value {}" if column is None else f"the value {{}} of {_braced(repr(column))}"
    try:
        return _translated(sql, schema, zone, subject, lambda node: Formula(node, sql))
    except (InvalidOptionError, SchemaMismatchError) as e:
        if column is None or not _WORDS.fullmatch(sql):
            raise
        raise type(e)(f"{e}; if it is text, quote it: '{sql}'") from e


def both(first: str, second: str) -> str:
    """A text for the rows that satisfy two conditions. Raises InvalidOptionError unless each is a condition by itself."""
    for text in (first, second):
        _tree_of(text, f"the filter {_short(text)}")
    return f"({first}\n) AND ({second}\n)"  # a comment ends with its line


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _translated(sql: str, schema: Schema, zone: str | None, subject: str, made: Callable[[Expression], Result]) -> Result:
    if not isinstance(sql, str):
        raise TypeError(f"a condition must be SQL text, such as 'id > 3', not {type(sql).__name__}: {_short(str(sql))}")
    about = subject.format(_short(sql))
    tree = _tree_of(sql, about)
    try:
        return made(_Translation(schema, about, zone).node(tree))
    except RecursionError as e:
        raise InvalidOptionError(f"{about} is nested too deeply") from e


def _tree_of(sql: str, about: str) -> Any:
    """The tree of sqlglot, see `condition_tree`. Raises InvalidOptionError for a text that is not one expression."""
    if len(sql) > _MAX_LENGTH:
        raise InvalidOptionError(f"{about} is {len(sql)} characters long; the maximum is {_MAX_LENGTH}")
    if half := _HALF.search(sql):
        raise InvalidOptionError(f"{about} has half of a character, {half[0]!r}, which no text in a table has")
    try:
        return condition_tree(sql)
    except SyntaxError as e:
        raise InvalidOptionError(f"{about} has a syntax error: {e}") from e
    except AmbiguousPrecedenceError as e:
        raise InvalidOptionError(f"{about} is ambiguous: {e}") from e
    except RecursionError as e:
        raise InvalidOptionError(f"{about} is nested too deeply") from e


def _written(parsed: Any) -> str:
    """The expression as SQL, for messages."""
    return str(parsed.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE))


def _short(sql: str) -> str:
    return repr(sql if len(sql) <= 200 else sql[:200] + "...")


class _Translation:
    """Translates one sqlglot tree into our nodes; `schema` has the columns, `about` is the subject of messages, `zone` as in `parse`."""

    def __init__(self, schema: Schema, about: str, zone: str | None) -> None:
        self.schema, self.about, self.zone = schema, about, zone

    def node(self, parsed: Any) -> Expression:
        translate = NODES.get(type(parsed))
        if translate is not None:
            if any(value for key, value in parsed.args.items() if key not in UNDERSTOOD):
                raise self.unsupported(parsed)
            node = translate(self, parsed)
            return Not(node) if parsed.args.get("negate") else node
        raise self.unsupported(parsed)

    def unsupported(self, parsed: Any) -> InvalidOptionError:
        return InvalidOptionError(f"{self.about} uses {_written(parsed)!r}, which filters do not support")

    def column(self, parsed: Any) -> Expression:
        try:
            name = ".".join(_quoted(p) for p in parsed.parts)
            if not isinstance(parsed.parent, exp.Is):
                self.check_binary(name)
            return bind.column(self.schema, name)
        except SchemaMismatchError:
            # As in Spark, these are functions only where no column has their name.
            if len(parsed.parts) > 1 or parsed.name.lower() not in ("current_date", "current_timestamp"):
                raise
            return self.now(parsed.name.lower())

    def check_binary(self, name: str) -> None:
        """Raise InvalidOptionError for a column whose strings Spark does not compare byte by byte."""
        t = declared(self.schema.resolve(name)[-1])
        if t is not None and (t.kind == "char" or t.collation not in ("", "UTF8_BINARY")):
            what = f"the column {name}, a {t.text.upper()}: only Spark compares its strings by its rules"
            raise InvalidOptionError(f"{self.about} uses {what}; use a condition of a query")

    def now(self, name: str) -> Expression:
        now = datetime.datetime.now(datetime.UTC)
        if name in ("now", "current_timestamp"):
            return Literal(now, bind.ZONED)
        try:
            return Literal(now.astimezone(zoneinfo.ZoneInfo(self.zone or "")).date(), pa.date32())
        except (ValueError, OSError) as e:
            raise InvalidOptionError(
                f"{name}() in {self.about} depends on the time zone of the session, which is unknown here; write the date as a literal"
            ) from e

    def field_of(self, parsed: Any) -> Expression:
        """a.b.c.d.e (deeper than sqlglot's own columns) and a['b']."""
        steps: list[str] = []
        at: Any = parsed
        while not isinstance(at, exp.Column):
            if isinstance(at, exp.Dot) and isinstance(at.expression, exp.Identifier):
                steps.insert(0, _quoted(at.expression))
            elif isinstance(at, exp.Bracket) and len(at.expressions) == 1 and at.expressions[0].is_string:
                steps.insert(0, quoted([at.expressions[0].name]))
            else:
                raise self.unsupported(parsed)
            at = at.this
        name = ".".join([*(_quoted(p) for p in at.parts), *steps])
        if not isinstance(parsed.parent, exp.Is):
            self.check_binary(name)
        return bind.column(self.schema, name)

    def junction(self, parsed: Any) -> Expression:
        operands = tuple(bind.convert(self.condition(o), pa.bool_()) for o in parsed.flatten())
        return And(operands) if isinstance(parsed, exp.And) else Or(operands)

    def condition(self, parsed: Any) -> Expression:
        node = self.node(parsed)
        if bind.kind(node.type) not in ("bool", "null"):
            raise InvalidOptionError(f"{_written(parsed)!r} in {self.about} is not a condition: its type is {node.type}")
        return node

    def negation(self, parsed: Any) -> Expression:
        return Not(bind.convert(self.condition(parsed.this), pa.bool_()))

    def compare(self, parsed: Any) -> Expression:
        return bind.compare(OPERATORS[type(parsed)], self.node(parsed.this), self.node(parsed.expression))

    def distinct(self, parsed: Any) -> Expression:
        return Not(bind.compare("<=>", self.node(parsed.this), self.node(parsed.expression)))

    def arithmetic(self, parsed: Any) -> Expression:
        left, right = self.node(parsed.this), self.node(parsed.expression)
        if "duration" in (bind.kind(left.type), bind.kind(right.type)):
            sign = {exp.Add: 1, exp.Sub: -1}.get(type(parsed))
            are_alike = left.type == right.type
            if sign is not None and are_alike and isinstance(left, Literal) and isinstance(right, Literal):
                return sum_of(left, right, sign)
            raise InvalidOptionError(
                f"{self.about} calculates with INTERVAL, which filters do not support; use date_add, date_sub or a literal"
            )
        return bind.numeric(ARITHMETIC[type(parsed)], left, right)

    def operator_call(self, parsed: Any) -> Expression:
        return self.call(CALLED[type(parsed)], [self.node(parsed.this), self.node(parsed.expression)], parsed)

    def between(self, parsed: Any) -> Expression:
        value = self.node(parsed.this)
        low, high = self.node(parsed.args["low"]), self.node(parsed.args["high"])
        return And((bind.compare(">=", value, low), bind.compare("<=", value, high)))

    def is_in(self, parsed: Any) -> Expression:
        if not parsed.expressions or parsed.args.get("query"):
            raise self.unsupported(parsed)
        if integers := parsed.expressions[0].args.get(LIST):
            return _in_integers(self.node(parsed.this), list(map(int, integers.split(","))))
        return bind.is_in(self.node(parsed.this), [self.node(v) for v in parsed.expressions])

    def is_(self, parsed: Any) -> Expression:
        value = self.node(parsed.this)
        if isinstance(parsed.expression, exp.Null):
            return IsNull(value)
        if isinstance(parsed.expression, exp.Boolean):
            return bind.compare("<=>", value, self.node(parsed.expression))
        raise self.unsupported(parsed)

    def like(self, parsed: Any, escape: str = "\\") -> Expression:
        value, pattern = self.node(parsed.this), parsed.expression
        if bind.kind(value.type) != "string" or not pattern.is_string:
            raise self.unsupported(parsed)
        if isinstance(parsed, exp.ILike):
            # By Spark's definition. To ignore case in the regular expression would also ignore that of the long s.
            return Like(self.call("lower", [value], parsed), of_like(pattern.name.lower(), escape.lower()))
        return Like(value, of_like(pattern.name, escape))

    def escaped_like(self, parsed: Any) -> Expression:
        if not isinstance(parsed.this, exp.Like | exp.ILike) or len(parsed.expression.name) != 1:
            raise self.unsupported(parsed)
        return self.like(parsed.this, parsed.expression.name)

    def literal(self, parsed: Any) -> Expression:
        if parsed.is_string:
            return Literal(parsed.name, pa.string())
        return _number(parsed.name)

    def negative(self, parsed: Any) -> Expression:
        value = self.node(parsed.this)
        if isinstance(value, Literal) and value.value is not None and bind.kind(value.type) == "duration":
            return Literal(-value.value, value.type)
        if isinstance(value, Literal) and value.value is not None and bind.kind(value.type) in bind.NUMBERS:
            return _number(f"-{parsed.this.name}") if isinstance(parsed.this, exp.Literal) else Literal(-value.value, value.type)
        return self.call("negative", [value], parsed)

    def cast(self, parsed: Any) -> Expression:
        value, word = self.node(parsed.this), parsed.to.this.value
        if word == "DECIMAL":
            sizes = [int(p.name) for p in parsed.to.expressions] or [10, 0]
            if not 0 < sizes[0] <= 38:
                raise self.unsupported(parsed)
            t: pa.DataType = pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0)
        elif word in _TYPES:
            t = _TYPES[word]
        elif word in ("TEXT", "VARCHAR") and not parsed.to.expressions and bind.kind(value.type) in _WRITTEN:
            t = pa.string()
        else:
            raise self.unsupported(parsed)
        source, target = bind.kind(value.type), bind.kind(t)
        if isinstance(value, Literal) and isinstance(value.value, str):
            return self.typed_text(value.value, t, parsed)
        if target == "time" and source != "null":
            raise self.unsupported(parsed)
        if source == "null":
            return bind.convert(value, t)
        days = {source, target} <= {"date", "timestamp"} or (source, target) == ("timestamp_ntz", "date")
        numbers = {source, target} <= set(bind.NUMBERS) and (source, target) != ("float", "decimal")
        if days or target == "string" or source == target or numbers:
            return Cast(value, t)
        raise self.unsupported(parsed)

    def typed_text(self, text: str, t: pa.DataType, parsed: Any) -> Literal:
        match bind.kind(t):
            case "date":
                return bind.date_literal(text)
            case "time":
                return time_literal(text)
            case "timestamp" | "timestamp_ntz" as zone:
                return bind.timestamp_literal(text, zoned=zone == "timestamp")
            case "int" | "decimal" | "float" if text.isascii() and "_" not in text:
                number = _number(text.strip())
                cast = bind.convert(number, t)
                return cast if isinstance(cast, Literal) else number
            case "string":
                return Literal(text, t)
            case _:
                raise self.unsupported(parsed)

    def regex(self, parsed: Any) -> Expression:
        return self.rlike(parsed, self.node(parsed.this), self.node(parsed.expression))

    def rlike(self, parsed: Any, value: Expression, pattern: Expression) -> Expression:
        if bind.kind(value.type) != "string" or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self.unsupported(parsed)
        return Like(value, for_re2(pattern.value))

    def date_function(self, parsed: Any, value: Expression) -> Expression:
        if isinstance(value, Literal) and isinstance(value.value, str):
            return bind.date_literal(value.value)
        if bind.kind(value.type) in ("date", "timestamp", "timestamp_ntz"):
            return bind.convert(value, pa.date32())
        raise self.unsupported(parsed)

    def function(self, parsed: Any) -> Expression:
        name = SYNONYMS.get(parsed.name.lower(), parsed.name.lower())
        values = [self.node(argument) for argument in parsed.expressions]
        if name in ("isnull", "isnotnull") and len(values) == 1:
            return IsNull(values[0]) if name == "isnull" else Not(IsNull(values[0]))
        if name in ("now", "current_timestamp", "current_date") and not values:
            return self.now(name)
        if name == INTERVAL and len(values) == 1 and parsed.expressions[0].is_string:
            return interval_literal(parsed.expressions[0].name)
        if name == "date" and len(values) == 1:
            return self.date_function(parsed, values[0])
        if name == "rlike" and len(values) == 2:
            return self.rlike(parsed, *values)
        if name == "array":
            return bind.array(values)
        if name in ARRAY_FUNCTIONS and len(values) == 2:
            return self.in_array(name, *values)
        if name in TEXT_FUNCTIONS:
            return text_condition(name, values)
        if name in (FROM_TEXT, POINT):
            return constant(name, values)
        if name in GEOMETRY_FUNCTIONS:
            return self.geometry(name, values)
        if name in JSON_FUNCTIONS and len(values) == JSON_FUNCTIONS[name].literals + 1:
            return bind.of_json(name, values)
        return self.call(name, values, parsed)

    def geometry_call(self, parsed: Any) -> Expression:
        """A function that sqlglot knows: st_distance or st_point."""
        values, name = [self.node(parsed.this), self.node(parsed.expression)], parsed.sql_name().lower()
        return constant(name, values) if name == POINT else self.geometry(name, values)

    def geometry(self, name: str, values: list[Expression]) -> Expression:
        swapped = len(values) == 2 and not isinstance(values[0], Column)
        column, text = values[::-1] if swapped else (*values, None, None)[:2]
        if not isinstance(column, Column) or len(values) != 2 or text is None:
            raise InvalidOptionError(f"{name} in {self.about} needs a column and a constant geometry")
        return condition(name, column, self.schema.resolve(column.quoted)[-1].extension, text, swapped)

    def in_array(self, name: str, lists: Expression, wanted: Expression) -> Expression:
        if name == "array_contains" and isinstance(lists, Literal) and pa.types.is_list(lists.type):
            return bind.is_in(wanted, [Literal(v, lists.type.value_type) for v in lists.value])
        if name in ("arrays_overlap", "array_has_any") and isinstance(lists, Literal):
            lists, wanted = wanted, lists
        return bind.in_array(name, lists, wanted)

    def call(self, name: str, values: list[Expression], parsed: Any) -> Expression:
        f = FUNCTIONS.get(name)
        kinds = [bind.kind(v.type) for v in values]
        known = f is not None and len(values) in f.arguments and kinds[0] in (*f.kinds, "null")
        if f is None or not known or not {*kinds[1:]} <= {*f.others, "null"}:
            types = ", ".join(str(v.type) for v in values)
            possible = _without(name) if f is None else f"expected {_signature(name, f)}"
            raise InvalidOptionError(f"{self.about} calls {name}({types}), which filters do not support; {possible}")
        if name in SAME_TYPE:
            first = SAME_TYPE[name]
            for i in range(first + 1, len(values)):
                values[first], values[i] = bind.unify(values[first], values[i], name)
            values[first:] = [bind.convert(v, values[first].type) for v in values[first:]]
        values = [bind.typed(v, (f.kinds if i == 0 else f.others)[0]) for i, v in enumerate(values)]
        if name in CONSTANT_ARGUMENTS and not all(isinstance(v, Literal) and v.value is not None for v in values[1:]):
            raise InvalidOptionError(f"{name} in {self.about} takes only literals after the first argument")
        t = values[SAME_TYPE.get(name, 0)].type if f.type is None else f.type
        return Call(name, tuple(values), t)


def _without(name: str) -> str:
    """What to do about a function that filters do not have."""
    near = did_you_mean(name, KNOWN).removeprefix("; ")
    return f"{f'{near} ' if near else ''}Spark's where has all functions; the page Reading of the documentation lists those of filters"


def _signature(name: str, function: Function) -> str:
    """The kinds of the arguments that the function needs, for messages."""
    others = [function.others] * (function.arguments.start - 1)
    arguments = [" or ".join(kinds) for kinds in (function.kinds, *others)]
    return f"{name}({', '.join(arguments)})"


def _quoted(part: Any) -> str:
    return quoted([part.name]) if "." in part.name or "`" in part.name else part.name


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


def _in_integers(operand: Expression, values: list[int]) -> Expression:
    """`operand IN (values)`, of which an operand with integers has the type, as each value would have alone."""
    t = pa.int64()
    if pa.types.is_integer(operand.type):
        bounds = np.iinfo(operand.type.to_pandas_dtype())
        t = operand.type if bounds.min <= min(values) and max(values) <= bounds.max else t
    return bind.is_in(operand, [Literal(v, t) for v in values])


_OTHERS = ("array", "current_date", "current_timestamp", "date", "isnotnull", "isnull", "rlike")
KNOWN = sorted({*FUNCTIONS, *ARRAY_FUNCTIONS, *JSON_FUNCTIONS, *TEXT_FUNCTIONS, *GEOMETRY_FUNCTIONS, FROM_TEXT, POINT, *_OTHERS})
"""The functions of filters, without synonyms."""

OPERATORS: dict[type[Any], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip

ARITHMETIC: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}

CALLED: dict[type[Any], str] = {
    exp.DPipe: "concat", exp.IntDiv: "div", exp.BitwiseAnd: "bit_and", exp.BitwiseOr: "bit_or", exp.BitwiseXor: "bit_xor",
}  # fmt: skip
"""The operators that are functions."""

UNDERSTOOD = {"this", "expression", "expressions", "low", "high", "to", "negate", "quoted", "table", "db", "catalog", "is_string", "safe"}
"""The arguments of a node that this file uses or can ignore; a node with others has arguments that we would ignore."""

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
    **dict.fromkeys(CALLED, _Translation.operator_call),
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
    exp.RawString: lambda t, e: Literal(e.name, pa.string()),
    exp.HexString: lambda t, e: Literal(bytes.fromhex(e.name if len(e.name) % 2 == 0 else f"0{e.name}"), pa.binary()),
    exp.Cast: _Translation.cast,
    exp.TryCast: _Translation.cast,
    exp.RegexpLike: _Translation.regex,
    exp.Anonymous: _Translation.function,
    exp.StDistance: _Translation.geometry_call,
    exp.StPoint: _Translation.geometry_call,
    exp.Array: lambda t, e: bind.array([t.node(v) for v in e.expressions]),
}
