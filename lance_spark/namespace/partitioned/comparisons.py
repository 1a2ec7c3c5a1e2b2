"""Comparisons of one column with constants in a condition: equal to one of them, with a prefix, not null, or between two."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lance_spark.predicate.bind import kind
from lance_spark.predicate.regex import like_parts
from lance_spark.predicate.tree import MIRRORED, And, Call, Column, Compare, Expression, In, IsNull, Like, Literal, Not

_MICROSECOND, _DAY = datetime.timedelta(microseconds=1), datetime.timedelta(days=1)


@dataclass(frozen=True)
class Equal:
    """The column is one of `values`; with `null`, it can also be null."""

    column: str
    values: tuple[Any, ...]
    null: bool = False


@dataclass(frozen=True)
class Prefix:
    """The column is a string that begins with `prefix`."""

    column: str
    prefix: str


@dataclass(frozen=True)
class NotNull:
    """The column is not null."""

    column: str


Test: TypeAlias = Equal | Prefix | NotNull


@dataclass(frozen=True)
class Bounds:
    """The column is between `low` and `high`, both inclusive; None: no bound."""

    column: str
    low: Any = None
    high: Any = None


def test_of(node: Expression) -> Test | None:
    """The comparison that must hold for a column if the condition is true; None if unknown."""
    match node:
        case IsNull(Column((name,), _)):
            return Equal(name, (), null=True)
        case Not(IsNull(Column((name,), _))):
            return NotNull(name)
        case In(Column((name,), _), values):
            return Equal(name, values)
        case Call("startswith", (Column((name,), _), Literal(str() as prefix, _)), _):
            return Prefix(name, prefix)
        case Like(Column((name,), _), pattern):
            parts = like_parts(pattern)
            return Prefix(name, parts[0]) if parts else NotNull(name)
    compared = _compared(node)
    if compared is None:
        return None
    value = compared.value
    if compared.op == "<=>" and value is None:
        return Equal(compared.name, (), null=True)
    if compared.op in ("=", "<=>"):
        return Equal(compared.name, () if value is None else (value,))
    return NotNull(compared.name)


def bounds_of(conditions: Sequence[Expression]) -> list[Bounds]:
    """The bounds of each column that the conditions (all of which hold) compare with constants."""
    found: dict[str, Bounds] = {}
    flat = [c for condition in conditions for c in (condition.operands if isinstance(condition, And) else (condition,))]
    for compared in map(_compared, flat):
        if compared is None or compared.op not in ("<", "<=", ">", ">=") or compared.value is None:
            continue
        name, value = compared.name, compared.value
        so_far = found.get(name, Bounds(name))
        if compared.op in ("<", "<="):
            high = _before(value, compared.family) if compared.op == "<" else value
            found[name] = replace(so_far, high=high if so_far.high is None else min(so_far.high, high))
        else:
            found[name] = replace(so_far, low=value if so_far.low is None else max(so_far.low, value))
    return list(found.values())


@dataclass(frozen=True)
class _Compared:
    """A comparison of a column with a constant: `family` is the kind of the column's type."""

    name: str
    op: str
    value: Any
    family: str


def _compared(node: Expression) -> _Compared | None:
    """The comparison of a column with a constant that an expression is; None if it is none."""
    match node:
        case Compare(op, Column((name,), t), Literal(value, _)) if op in MIRRORED:
            return _Compared(name, op, value, kind(t))
        case Compare(op, Literal(value, _), Column((name,), t)) if op in MIRRORED:
            return _Compared(name, MIRRORED[op], value, kind(t))
    return None


def _before(value: Any, family: str) -> Any:
    """The largest value of the type below `value`, or `value` itself if unknown."""
    try:
        if family == "int":
            return value - 1
        if family == "date":
            return value - _DAY
        return value - _MICROSECOND if family.startswith("timestamp") else value
    except OverflowError:
        return value
