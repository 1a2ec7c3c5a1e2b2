"""The nodes of a predicate: frozen values, typed when they are built (see bind.py), so that evaluation need not look at types again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    """A constant: a Python value that `pa.scalar(value, type)` takes, None for null."""

    value: Any
    type: pa.DataType


@dataclass(frozen=True)
class Cast:
    """`operand` as another type. `strict` refuses values that do not fit, otherwise they are truncated as Spark sees them."""

    operand: Expression
    type: pa.DataType
    strict: bool = True


@dataclass(frozen=True)
class Call:
    """A function of `functions.FUNCTIONS` (or an arithmetic operator) applied to its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Compare:
    """`left op right`, op one of = <> < <= > >= <=>. Both sides have the same type."""

    op: str
    left: Expression
    right: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class In:
    """Whether `operand` equals one of `values` (all of the operand's type); `has_null` says that null was among them."""

    operand: Expression
    values: tuple[Any, ...]
    has_null: bool
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Like:
    """Whether the string matches `pattern`, a regular expression for the whole of it."""

    operand: Expression
    pattern: str
    ignore_case: bool = False
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class IsNull:
    """Whether `operand` is null; never null itself."""

    operand: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Not:
    """Kleene's negation."""

    operand: Expression
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class And:
    """Kleene's conjunction of one or more conditions."""

    operands: tuple[Expression, ...]
    type: pa.DataType = pa.bool_()


@dataclass(frozen=True)
class Or:
    """Kleene's disjunction of one or more conditions."""

    operands: tuple[Expression, ...]
    type: pa.DataType = pa.bool_()


Expression = Column | Literal | Cast | Call | Compare | In | Like | IsNull | Not | And | Or


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly below `node`."""
    match node:
        case And(operands) | Or(operands):
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
    """`node` and all below it."""
    todo = [node]
    while todo:
        at = todo.pop()
        yield at
        todo.extend(reversed(children(at)))


@dataclass(frozen=True)
class Formula:
    """A value for each row of one schema. `text` is how a person wrote it, or would."""

    root: Expression
    text: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, as paths that `Schema.select` takes, each once."""
        return tuple(dict.fromkeys(n.quoted for n in walk(self.root) if isinstance(n, Column)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Predicate(Formula):
    """A condition on the rows of one schema: a formula that is true, false or null."""


def conjunction(predicates: Sequence[Predicate]) -> Predicate:
    """The condition that all of `predicates`, of which there is at least one, hold."""
    if len(predicates) == 1:
        return predicates[0]
    return Predicate(And(tuple(p.root for p in predicates)), " AND ".join(f"({p.text})" for p in predicates))
