"""Conditions with queries in them, such as `id IN (SELECT id FROM mine)`: Spark runs each query once, before the search.

What is searched is then among the rows with the values that it returned.
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lance_spark.errors import InvalidOptionError

MOST_VALUES = 1 << 20
"""A query may return so many values: they are kept in the driver."""

_SKIPPED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
_NAME = r"(?:`(?:[^`]|``)*`|[A-Za-z_]\w*)"
_QUERY = re.compile(
    rf"(?P<skipped>{_SKIPPED})|(?P<operand>{_NAME}(?:\s*\.\s*{_NAME})*)\s+(?P<negated>NOT\s+)?IN\s*\(\s*(?=(?:SELECT|WITH|TABLE|VALUES)\b)",
    re.IGNORECASE,
)
_PARENTHESIS = re.compile(rf"{_SKIPPED}|`(?:[^`]|``)*`|[()]")


def with_values(spark: SparkSession, condition: str) -> str:
    """The condition with the values that its queries return in their place. Nulls and queries without rows mean what they mean in SQL.

    Raises InvalidOptionError for a query with several columns, too many rows, or values that a condition cannot have.
    """
    parts: list[str] = []
    at = 0
    while (found := _QUERY.search(condition, at)) is not None:
        if found["skipped"] is not None:
            parts.append(condition[at : found.end()])
            at = found.end()
            continue
        end = _closing(condition, found.end())
        query = condition[found.end() : end]
        among = _among(found["operand"], bool(found["negated"]), spark.sql(query), query)
        parts += [condition[at : found.start()], among]
        at = end + 1
    return "".join([*parts, condition[at:]])


def _closing(text: str, start: int) -> int:
    """The place of the parenthesis that closes the one before `start`."""
    depth = 1
    for found in _PARENTHESIS.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    raise InvalidOptionError(f"a parenthesis in {text!r} is not closed")


def _among(operand: str, negated: bool, rows: DataFrame, query: str) -> str:
    """Whether the operand is among the values of a query, without it."""
    if len(rows.columns) != 1:
        raise InvalidOptionError(f"a query behind IN returns one column, but {query!r} has {len(rows.columns)}")
    values = [row[0] for row in rows.distinct().limit(MOST_VALUES + 1).collect()]
    if len(values) > MOST_VALUES:
        raise InvalidOptionError(f"the query {query!r} returns more than {MOST_VALUES} values: use a nearest join, or a smaller set")
    if not values:
        return "TRUE" if negated else "FALSE"
    return f"{operand} {'NOT ' if negated else ''}IN ({', '.join(map(_literal, values))})"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | decimal.Decimal():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case datetime.date() if not isinstance(value, datetime.datetime):
            return f"DATE '{value.isoformat()}'"
    raise InvalidOptionError(f"a query behind IN returns integers, decimals, texts, dates or booleans, not {value!r}")
