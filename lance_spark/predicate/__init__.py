"""Conditions on rows with Spark's semantics: three-valued logic, NaN equal to NaN and above all numbers, `/` as a division of doubles.

In: SQL text, an expression of pyarrow, or Spark's conditions as JSON. Out: a `Predicate`, bound to a schema, and its value for
batches. It imports `schema/`, `arrow/` and what is below; sqlglot only where SQL is parsed. Begin with `tree.py`, the expressions,
then `from_sql.py` (in) and `evaluate.py` (out).
"""

from typing import TypeAlias

import pyarrow.compute as pc

from lance_spark.predicate.evaluate import calculate, evaluate
from lance_spark.predicate.from_json import from_json
from lance_spark.predicate.tree import Formula, Predicate, conjunction
from lance_spark.schema.schema import Schema

Filter: TypeAlias = str | Predicate | pc.Expression
"""A condition that a user gives: Spark SQL, one that was parsed, or an expression of pyarrow."""

__all__ = [
    "Filter",
    "Formula",
    "Predicate",
    "both",
    "calculate",
    "conjunction",
    "evaluate",
    "from_json",
    "parse",
    "parse_filter",
    "parse_formula",
]


def parse_filter(filter: Filter, schema: Schema, zone: str | None = "UTC") -> Predicate:
    """The condition that a reader of rows gives: see `parse` for a text, and `from_arrow.from_arrow` for an expression of pyarrow."""
    if isinstance(filter, Predicate):
        return filter
    if not isinstance(filter, pc.Expression):
        return parse(filter, schema, zone)
    from lance_spark.predicate import from_arrow

    return from_arrow.from_arrow(filter, schema)


def parse(text: str, schema: Schema, zone: str | None = "UTC") -> Predicate:
    """The condition in a Spark SQL text, see `from_sql.parse`."""
    from lance_spark.predicate import from_sql

    return from_sql.parse(text, schema, zone)


def both(first: str, second: str) -> str:
    """The text of two conditions at once, see `from_sql.both`."""
    from lance_spark.predicate import from_sql

    return from_sql.both(first, second)


def parse_formula(text: str, schema: Schema, zone: str | None = "UTC", column: str | None = None) -> Formula:
    """The value of a Spark SQL expression, see `from_sql.parse_formula`."""
    from lance_spark.predicate import from_sql

    return from_sql.parse_formula(text, schema, zone, column)
