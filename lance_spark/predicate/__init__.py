"""Conditions on rows, with Spark's meaning: three-valued logic, NaN equal to NaN and above all numbers, `/` a double division."""

from lance_spark.predicate.evaluate import evaluate
from lance_spark.predicate.json_form import from_json
from lance_spark.predicate.sql import parse
from lance_spark.predicate.tree import Predicate, conjunction

__all__ = ["Predicate", "conjunction", "evaluate", "from_json", "parse"]
