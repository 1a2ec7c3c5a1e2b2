"""Partition expressions of the specification as SQL: the text of each transform, and other expressions that can be evaluated.

An expression is of DataFusion, and we evaluate it by Spark's rules: only functions that are the same in both are evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.arrow.types import is_text
from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.namespace.partitioned.transforms import MURMUR3, TIME_PARTS, XXHASH64, Transform
from lance_spark.predicate import Formula, calculate, parse_formula
from lance_spark.predicate.tree import Call, Column, Expression, Literal, walk
from lance_spark.schema.schema import from_arrow

SOURCE = "col"
"""The name of the source column in expressions of the document; in those of the published page it is col0."""
_SOURCE = re.compile(r"\bcol0?\b")
_SAME_IN_BOTH = ("lower", "upper", "left", "reverse", "replace", "abs", "+", "-", "*", "%")
_PATTERNS = (
    ("truncate", "left(col,", ")"),
    ("truncate", "col-(col%", ")"),
    ("bucket", "abs(murmur3(col))%", ""),
    ("bucket", "abs(hash(col))%", ""),
)


@dataclass(frozen=True)
class CustomExpression:
    """An expression that is none of the transforms. It has their methods, and partitions are not pruned by it."""

    text: str
    kind: str = "expression"
    parameter: int | None = None

    def __str__(self) -> str:
        return _SOURCE.sub(SOURCE, self.text)

    def result_type(self, source: pa.DataType) -> pa.DataType:
        """The type of the values of a source column. Raises InvalidOptionError if the expression cannot be evaluated."""
        return self.apply(pa.array([], source)).type

    def apply(self, values: pa.Array) -> pa.Array:
        """The value of the expression for each value; null for null."""
        return calculate(self._formula(values.type), pa.record_batch({SOURCE: values}))

    def _formula(self, source: pa.DataType) -> Formula:
        about = f"the partition expression {self.text!r}"
        try:
            formula = parse_formula(str(self), from_arrow(pa.schema([(SOURCE, source)])))
        except (InvalidOptionError, SchemaMismatchError) as e:
            raise InvalidOptionError(f"{about} cannot be evaluated for a column of type {source}: {e}") from e
        nodes = list(walk(formula.root))
        if other := [node for node in nodes if not _is_same_in_both(node)]:
            what = other[0].name if isinstance(other[0], Call) else type(other[0]).__name__
            known = ", ".join(_SAME_IN_BOTH)
            raise InvalidOptionError(f"{about} uses {what!r}; only these are the same in DataFusion and Spark: {known}")
        if not any(isinstance(node, Column) for node in nodes):
            raise InvalidOptionError(f"{about} does not use the source column, {SOURCE}")
        return formula


def _is_same_in_both(node: Expression) -> bool:
    return isinstance(node, Column | Literal) or (isinstance(node, Call) and node.name in _SAME_IN_BOTH)


def transform_of(expression: str) -> Transform | CustomExpression:
    """The transform that is equivalent to a SQL expression of a spec, or else the expression."""
    text = _SOURCE.sub(SOURCE, "".join(expression.split()).lower())
    if text == SOURCE:
        return Transform("identity")
    for kind in TIME_PARTS:
        if text == f"date_part('{kind}',col)":
            return Transform(kind)
    for kind, start, end in _PATTERNS:
        number = text.removeprefix(start).removesuffix(end)
        is_call = text.startswith(start) and text.endswith(end)
        is_number = number.isascii() and number.isdigit()
        if is_call and is_number and 0 < int(number[:11]) < 2**31:
            return Transform(kind, int(number), XXHASH64 if "(hash(" in start else MURMUR3)
    return CustomExpression(expression)


def expression_of(transform: Transform | CustomExpression, source: pa.DataType) -> str:
    """The expression of the document for a transform of a source column."""
    if isinstance(transform, CustomExpression):
        return str(transform)
    match transform.kind:
        case "identity":
            return SOURCE
        case "truncate" if is_text(source):
            return f"left({SOURCE}, {transform.parameter})"
        case "truncate":
            return f"{SOURCE} - ({SOURCE} % {transform.parameter})"
        case "bucket":
            return f"abs(hash({SOURCE})) % {transform.parameter}"
        case kind:
            return f"date_part('{kind}', {SOURCE})"
