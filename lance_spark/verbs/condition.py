"""Conditions and values of verbs: which of them our own tasks can evaluate, and which need Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, check_type
from lance_spark.metadata.row_columns import ROW_COLUMNS, with_row_columns
from lance_spark.predicate import Formula, Predicate, parse, parse_formula
from lance_spark.predicate.tree import Call, Cast, Column, Expression, Literal, walk
from lance_spark.schema.schema import Schema
from lance_spark.spark.stopped import check_started
from lance_spark.table.versions.snapshot import Snapshot

Condition = str | SparkColumn
"""A condition or a value: SQL text or a Column of Spark."""

_OF_UNICODE = ("lower", "upper")
"""Functions whose results depend on the version of Unicode, which is Java's in Spark."""


def as_column(condition: Condition) -> SparkColumn:
    """The condition or value as a Column.

    Raises TypeError for anything else than SQL text and Columns, and InvalidOptionError for text that ends in an alias.
    """
    check_type("a condition or value", condition, (str, SparkColumn), "SQL text, such as '1' or 'id + 1', or a Column, such as F.lit(1)")
    if not isinstance(condition, str):
        return condition
    check_started()
    session = None if is_remote() else SparkSession.getActiveSession()
    if session is None:
        return F.expr(f"({condition}\n)")  # Spark accepts no alias in parentheses; a comment ends with the line
    java: Any = session._jsparkSession
    if java.sessionState().sqlParser().parseExpression(condition).getClass().getSimpleName() == "Alias":
        raise InvalidOptionError(
            f"{condition!r} has a syntax error: after its last word, which Spark takes for an alias, an operand is missing; "
            f"or leave it out; if it is text, quote it: {repr(condition)!r}"
        )
    return F.expr(condition)


_NAME = re.compile(r"(?:`(?:[^`]|``)*`|[^`.,\s]+)(?:\.(?:`(?:[^`]|``)*`|[^`.,\s]+))*")
"""A name in a message of Spark, such as `t`.`id`."""
_ROW_COLUMNS = frozenset(f.name for f in ROW_COLUMNS)


@contextmanager
def naming_columns() -> Iterator[None]:
    """Raise SchemaMismatchError instead of Spark's error about an unknown column, which suggests columns that only the verbs use."""
    try:
        yield
    except AnalysisException as e:
        found = e.getMessageParameters() or {}
        if not (e.getCondition() or "").startswith("UNRESOLVED_COLUMN.") or "objectName" not in found:
            raise
        known = [_plain(name) for name in _NAME.findall(found.get("proposal", ""))]
        name = _plain(found["objectName"])
        raise SchemaMismatchError(f"no column {name!r}{did_you_mean(name, [k for k in known if not _is_internal(k)])}") from None


def _plain(name: str) -> str:
    return name.replace("`", "")


def _is_internal(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return last in _ROW_COLUMNS or last.startswith("__lance_")


def check_deterministic(rows: DataFrame, conditions: Iterable[Condition | None]) -> None:
    """Raise InvalidOptionError if one of these conditions on `rows` may be different each time, such as `rand() < 0.1`.

    Raises SchemaMismatchError for unknown columns.
    """
    given = [F.count(as_column(condition)) for condition in conditions if condition is not None]
    if not given:
        return
    try:
        with naming_columns():
            # Spark itself refuses these as arguments of aggregate functions. Only the analysis runs.
            rows.agg(*given).schema  # noqa: B018
    except AnalysisException as e:
        if e.getCondition() != "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION":
            raise
        expression = (e.getMessageParameters() or {}).get("sqlExpr", "").strip('"').removeprefix("count(").removesuffix(")")
        raise InvalidOptionError(
            f"the condition {expression} is not deterministic, so it could select other rows each time that it is evaluated; "
            "store its values in a column first"
        ) from e


def own_predicate(spark: SparkSession, condition: Condition | None, snapshot: Snapshot, alias: str | None) -> Predicate | None:
    """The condition as our own filter, if that has the same meaning in this session; else None, and Spark evaluates it."""
    if not isinstance(condition, str) or not has_own_meaning(spark, snapshot, alias):
        return None
    try:
        predicate = parse(condition, with_row_columns(snapshot.manifest.schema), spark.conf.get("spark.sql.session.timeZone", None))
    except LanceError:
        # Spark supports more functions than filters do, and its errors are more precise.
        return None
    return predicate if is_independent(spark, predicate) and not may_divide_by_zero(predicate) else None


def own_formulas(
    spark: SparkSession, values: Mapping[str, Condition], snapshot: Snapshot, alias: str | None, *, new: bool = False
) -> dict[str, Formula] | None:
    """The values as our own formulas, if all of them can be; else None. They are for existing columns, or for `new` ones."""
    schema, formulas = snapshot.manifest.schema, {}
    exact = {f.name.lower(): f.name for f in schema.fields}
    for name, value in values.items():
        if not isinstance(value, str) or not has_own_meaning(spark, snapshot, alias):
            return None
        try:
            formula = parse_formula(value, with_row_columns(schema), spark.conf.get("spark.sql.session.timeZone", None))
        except LanceError:
            return None
        if not is_independent(spark, formula) or may_divide(formula) or not (new or is_plain(schema, name)):
            return None
        own = exact.get(name.lower(), name)
        if own in formulas:
            return None  # Spark's way says that it is assigned twice
        formulas[own] = formula
    return formulas


def has_own_meaning(spark: SparkSession, snapshot: Snapshot, alias: str | None) -> bool:
    """Whether names of columns mean the same to our filters as in this session."""
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        return False
    return alias is None or alias.lower() not in {f.name.lower() for f in snapshot.manifest.schema.fields}


def is_plain(schema: Schema, name: str) -> bool:
    """Whether `name` is a top-level column of a type that formulas return."""
    field = next((f for f in schema.fields if f.name.lower() == name.lower()), None)
    return field is not None and not field.children and not field.is_blob and field.logical_type != "json"


def may_divide(formula: Formula) -> bool:
    """Whether the formula divides; division by zero is null in our filters, but an error in Spark."""
    return any(True for _ in _divisors(formula))


def may_divide_by_zero(formula: Formula) -> bool:
    """Whether the formula divides by anything but a number that is not zero."""
    return any(not isinstance(divisor, Literal) or not divisor.value for divisor in _divisors(formula))


def _divisors(formula: Formula) -> Iterator[Expression]:
    return (n.arguments[1] for n in walk(formula.root) if isinstance(n, Call) and n.name in ("/", "%", "div"))


def is_independent(spark: SparkSession, formula: Formula) -> bool:
    """Whether the formula means the same in Spark and in every session: ANSI mode for arithmetic and casts, the time zone for instants."""
    nodes = list(walk(formula.root))
    if any(isinstance(n, Call) and n.name in _OF_UNICODE for n in nodes):
        return False
    calculates = any(isinstance(n, Call | Cast) for n in nodes)
    if calculates and spark.conf.get("spark.sql.ansi.enabled", "true") != "true":
        return False
    instants = [n for n in nodes if pa.types.is_timestamp(n.type)]
    # A time zone does not matter where columns are only compared.
    compared = not calculates and all(isinstance(n, Column) for n in instants)
    return compared or not instants or spark.conf.get("spark.sql.session.timeZone", "") in ("UTC", "Etc/UTC")
