"""Conditions on rows, with Spark's meaning: three-valued logic, NaN equal to NaN and above all numbers, `/` a double division."""

from lance_spark.predicate.evaluate import evaluate
from lance_spark.predicate.from_json import from_json
from lance_spark.predicate.tree import Predicate, conjunction
from lance_spark.schema.schema import Schema

__all__ = ["Predicate", "conjunction", "evaluate", "from_json", "parse"]


def parse(text: str, schema: Schema) -> Predicate:
    """The condition in a text of Spark's SQL, see `sql.parse`."""
    from lance_spark.predicate import from_sql as sql

    return sql.parse(text, schema)
