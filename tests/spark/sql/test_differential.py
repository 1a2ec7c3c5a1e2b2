"""Random DELETE, UPDATE and MERGE statements: the table has the same rows as a model in Python, and pylance finds it valid.

A model row is changed by Python functions that are written beside the SQL, with SQL's logic of three values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset
from tests.spark_session import SPARK_ERRORS

Row = dict[str, object]
Truth = bool | None
FULL, SAMPLED = 250, 8
"""Statements for each of the two kinds of row ids."""
COLUMNS = ("id", "k", "x", "s")


@dataclass(frozen=True)
class Condition:
    """A condition in SQL, with columns of `t`, and its value for a row."""

    sql: str
    of: Callable[[Row], Truth]


def both(a: Truth, b: Truth) -> Truth:
    """AND."""
    return False if a is False or b is False else None if a is None or b is None else True


def negated(a: Truth) -> Truth:
    """NOT."""
    return None if a is None else not a


def compared(value: object, limit: float) -> Truth:
    """value < limit; NaN is the largest number."""
    return None if value is None else not math.isnan(float(str(value))) and float(str(value)) < limit


def condition(rng: random.Random, subqueries: bool, depth: int = 0) -> Condition:
    """A random condition, with subqueries if they are allowed."""
    n = rng.randrange(12)
    kind = rng.randrange(8 if depth < 2 else 6)
    if kind == 0:
        return Condition(f"t.k = {n % 4}", lambda r: None if r["k"] is None else r["k"] == n % 4)
    if kind == 1:
        return Condition(f"t.x < {n / 2}D", lambda r: compared(r["x"], n / 2))
    if kind == 2:
        return Condition("t.s IS NULL", lambda r: r["s"] is None)
    if kind == 3:
        ids = f"SELECT id + {n} FROM range(3)" if subqueries else f"{n}, {n + 1}, {n + 2}"
        return Condition(f"t.id IN ({ids})", lambda r: r["id"] in range(n, n + 3))
    if kind == 4:
        return Condition("isnan(t.x)", lambda r: isinstance(r["x"], float) and math.isnan(r["x"]))
    if kind == 5:
        return Condition(f"t.s LIKE '%{n % 10}'", lambda r: None if r["s"] is None else str(r["s"]).endswith(str(n % 10)))
    a, b = condition(rng, subqueries, depth + 1), condition(rng, subqueries, depth + 1)
    if kind == 6:
        return Condition(f"({a.sql} AND {b.sql})", lambda r: both(a.of(r), b.of(r)))
    return Condition(f"NOT ({a.sql} AND {b.sql})", lambda r: negated(both(a.of(r), b.of(r))))


@dataclass(frozen=True)
class Assignment:
    """New values for columns, in SQL and for a row."""

    sql: str
    of: Callable[[Row], Row]


def assignment(rng: random.Random) -> Assignment:
    """Random new values."""
    n = rng.randrange(100)
    return rng.choice(
        [
            Assignment(f"k = t.k + {n}", lambda r: {**r, "k": None if r["k"] is None else int(str(r["k"])) + n}),
            Assignment("s = NULL, x = double('NaN')", lambda r: {**r, "s": None, "x": math.nan}),
            Assignment(f"s = concat(t.s, '{n}')", lambda r: {**r, "s": None if r["s"] is None else f"{r['s']}{n}"}),
            Assignment(f"x = {n}, k = NULL", lambda r: {**r, "x": float(n), "k": None}),
        ]
    )


def statement(rng: random.Random, rows: list[Row]) -> tuple[str, list[Row] | None]:
    """A random statement, and the rows after it; None if it is an error."""
    kind = rng.randrange(4)
    where, new = condition(rng, subqueries=kind < 2), assignment(rng)
    if kind == 0:
        return f"DELETE FROM random_rows t WHERE {where.sql}", [r for r in rows if where.of(r) is not True]
    if kind == 1:
        return f"UPDATE random_rows t SET {new.sql} WHERE {where.sql}", [new.of(r) if where.of(r) is True else r for r in rows]
    return merge(rng, rows, where, new)


def merge(rng: random.Random, rows: list[Row], where: Condition, new: Assignment) -> tuple[str, list[Row] | None]:
    """A random MERGE with a source of some ids, of which some are not in the table and some may repeat."""
    source = [rng.randrange(30) for _ in range(rng.randrange(1, 8))]
    if rng.random() < 0.7:
        source = sorted(set(source))
    deletes, updates, inserts = rng.random() < 0.5, rng.random() < 0.7, rng.random() < 0.7
    by_source = rng.choice(["", "DELETE", "UPDATE"])
    sql = f"MERGE INTO random_rows t USING (SELECT explode(array({', '.join(map(str, source))})) AS id) s ON t.id = s.id"
    clauses = [f" WHEN MATCHED AND {where.sql} THEN DELETE"] * deletes + [f" WHEN MATCHED THEN UPDATE SET {new.sql}"] * updates
    clauses += [" WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'new')"] * inserts
    change = "DELETE" if by_source == "DELETE" else f"UPDATE SET {new.sql}"
    clauses += [f" WHEN NOT MATCHED BY SOURCE AND {where.sql} THEN {change}"] * bool(by_source)
    if not clauses:
        return merge(rng, rows, where, new)
    matched = [r for r in rows if r["id"] in source]
    if (deletes or updates) and any(source.count(int(str(r["id"]))) > 1 for r in matched):
        return sql + "".join(clauses), None
    after: list[Row] = []
    for r in rows:
        holds = where.of(r) is True
        if r["id"] in source:
            after += [] if deletes and holds else [new.of(r) if updates else r]
        elif by_source and holds:
            after += [] if by_source == "DELETE" else [new.of(r)]
        else:
            after.append(r)
    there = {r["id"] for r in rows}
    after += [{"id": i, "k": None, "x": None, "s": "new"} for i in source if inserts and i not in there]
    return sql + "".join(clauses), after


def ordered(rows: list[Row]) -> list[str]:
    """The rows as texts, in an order of their own."""
    return sorted(str([row[name] for name in COLUMNS]) for row in rows)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses as ids", "stable ids"])
def test_random_statements_do_what_a_model_does(spark: SparkSession, uri: str, stable: bool) -> None:
    rng = random.Random(stable)
    spark.sql(f"CREATE TABLE random_rows (id BIGINT, k BIGINT, x DOUBLE, s STRING) USING lance LOCATION '{uri}'")
    rows: list[Row] = []
    try:
        for number in range(FULL if settings.get_current_profile_name() == "full" else SAMPLED):
            if len(rows) < 5:
                rows = refilled(rng, uri, stable)
            sql, expected = statement(rng, rows)
            if expected is None:
                with pytest.raises(SPARK_ERRORS, match="MERGE_CARDINALITY_VIOLATION"):
                    spark.sql(sql)
            else:
                spark.sql(sql)
                rows = expected
            found = [row.asDict() for row in spark.table("random_rows").collect()]
            assert ordered(found) == ordered(rows), f"statement {number}: {sql}"
            theirs = lance.dataset(uri)
            theirs.validate()
            assert ordered(theirs.to_table().to_pylist()) == ordered(rows), f"statement {number}: {sql}"
    finally:
        spark.sql("DROP TABLE random_rows")
    assert lance_spark.last_change(spark) is not None


def refilled(rng: random.Random, uri: str, stable: bool) -> list[Row]:
    """New rows for the table, in two fragments."""
    rows: list[Row] = [
        {
            "id": i,
            "k": rng.choice([None, 0, 1, 2, 3]),
            "x": rng.choice([None, math.nan, 0.0, 1.5, 4.0]),
            "s": rng.choice([None, f"s{i}", ""]),
        }
        for i in range(20)
    ]
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    Dataset.write(uri, pa.Table.from_pylist(rows[:12], schema=schema), mode="overwrite", enable_stable_row_ids=stable)
    Dataset.write(uri, pa.Table.from_pylist(rows[12:], schema=schema), mode="append")
    return rows
