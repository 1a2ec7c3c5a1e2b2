"""The nodes of a predicate: frozen values, typed when they are built (see bind.py), so that evaluation does not check types again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from lance_spark.schema.schema import quoted


@dataclass(frozen=True)
class Column:
    """A column by the exact names from the top level down; `type` is the Arrow type that it is evaluated as."""

    path: tuple[str, ...]
    type: pa.DataType

    @property
    def quoted(self) -> str:
        """The path as `Schema.select` takes it."""
        return quoted(self.path)


@dataclass(frozen=True)
class Literal:
    """A literal: a Python value that `pa.scalar(value, type)` accepts, None for null."""

    value: Any
    type: pa.DataType


@dataclass(frozen=True)
class Cast:
    """`operand` cast to another type. If `strict`, values that do not fit are an error; otherwise they are truncated as in Spark."""

    operand: Expression
    type: pa.DataType
    strict: bool = True


@dataclass(frozen=True)
class Call:
    """A function of `functions.FUNCTIONS` (or an arithmetic operator) applied to its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    type: pa.DataType


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}
"""The operators of `Compare` that bound a value, and those that mean the same with the operands exchanged."""


@dataclass(frozen=True)
class Compare:
    """`left op right`, op one of = <> < <= > >= <=>. Both sides have the same type."""

    op: str
    left: Expression
    right: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class In:
    """Whether `operand` equals one of `values` (all of the operand's type); `has_null` says that the list also has a null."""

    operand: Expression
    values: tuple[Any, ...]
    has_null: bool
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Like:
    """Whether RE2 finds the regular expression `pattern`, which is anchored at both ends for LIKE."""

    operand: Expression
    pattern: str
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class IsNull:
    """Whether `operand` is null; the result is never null."""

    operand: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Not:
    """Three-valued NOT."""

    operand: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class And:
    """Three-valued AND of one or more conditions."""

    operands: tuple[Expression, ...]
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Or:
    """Three-valued OR of one or more conditions."""

    operands: tuple[Expression, ...]
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class TextMatch:
    """Whether the words of `operand`, a column of texts, satisfy a full-text query; null where it is null.

    One of the words of `text` is enough, unless `needs_all`. `fuzziness` is the edit distance up to which words count, None one that
    depends on their length; they start with the first `prefix_length` characters. With a `slop`, the words are a phrase: between two of
    them there may be so many others. `test` evaluates the condition on Arrow arrays. It depends on how the column's texts are split into
    words, which the version of a table tells (see `table.scan.indexed`); None while that is unknown.
    """

    operand: Expression
    text: str
    needs_all: bool = False
    fuzziness: int | None = 0
    prefix_length: int = 0
    slop: int | None = None
    test: Callable[[TextMatch, pa.Array], pa.Array] | None = None
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class ArrowCondition:
    """A condition of pyarrow that has no other node, which pyarrow evaluates.

    `data` is the pickled form of the expression, in which the columns have these `names`. The operands are read as stored.
    """

    operands: tuple[Column, ...]
    names: tuple[str, ...]
    data: bytes = field(repr=False)
    type: pa.DataType = pa.bool_()


Expression = Column | Literal | Cast | Call | Compare | In | Like | IsNull | TextMatch | ArrowCondition | Not | And | Or


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly below `node`."""
    match node:
        case And(operands) | Or(operands) | ArrowCondition(operands):
            return operands
        case Call(_, arguments):
            return arguments
        case Compare(_, left, right):
            return (left, right)
        case Column() | Literal():
            return ()
        case _:
            return (node.operand,)


def walk(node: Expression) -> Iterator[Expression]:
    """`node` and all expressions below it."""
    todo = [node]
    while todo:
        at = todo.pop()
        yield at
        todo.extend(reversed(children(at)))


@dataclass(frozen=True)
class Formula:
    """An expression with a value for each row of one schema. `text` is its SQL, for messages."""

    root: Expression
    text: str

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, as paths for `Schema.select`, without duplicates."""
        return tuple(dict.fromkeys(n.quoted for n in walk(self.root) if isinstance(n, Column)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Predicate(Formula):
    """A condition on the rows of one schema: a formula that is true, false or null."""


def conjunction(predicates: Sequence[Predicate]) -> Predicate:
    """The conjunction of `predicates`, at least one."""
    if len(predicates) == 1:
        return predicates[0]
    return Predicate(And(tuple(p.root for p in predicates)), " AND ".join(f"({p.text})" for p in predicates))
