"""A condition that fails on some rows is evaluated only on those that the conditions beside it leave open."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import evaluate, parse
from lance_spark.schema.schema import from_arrow

MOST = 2**63 - 1
ROWS = pa.record_batch(
    {
        "a": pa.array([1, MOST, 3, MOST, None]),
        "b": pa.array([2, 0, None, 0, 2], pa.int32()),
        "flag": [True, False, True, False, True],
    }
)
"""The second and the fourth row make a + 1 and a * 2 fail."""
GUARDS = ("b = 2", "flag", "a < 100", "NOT (b <> 2)")
FAILING = ("a + 1 > 0", "a * 2 >= 0", "-(a + 1) < 0", "a + 1 IN (2, 4)")


def found(condition: str, rows: pa.RecordBatch = ROWS) -> list[bool | None]:
    """The condition for each row."""
    values: list[bool | None] = evaluate(parse(condition, from_arrow(rows.schema), None), rows).to_pylist()
    return values


def connected(connect: str, guard: list[bool | None], failing: list[bool | None]) -> list[bool | None]:
    """AND or OR in three-valued logic."""
    decided = connect == "OR"
    return [decided if decided in pair else None if None in pair else not decided for pair in zip(guard, failing, strict=True)]


@pytest.mark.parametrize(("guard", "failing"), list(itertools.product(GUARDS, FAILING)))
def test_a_guard_before_or_around_a_condition_that_fails(guard: str, failing: str) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        found(failing)
    narrow = ROWS.set_column(0, "a", pa.array([1, 0, 3, 0, None]))
    values = found(failing, narrow)
    assert found(f"{guard} AND {failing}") == connected("AND", found(guard), values)
    assert found(f"NOT ({guard}) OR {failing}") == connected("OR", found(f"NOT ({guard})"), values)
    assert found(f"flag AND ({guard} AND {failing})") == connected("AND", found("flag"), connected("AND", found(guard), values))


def test_a_constant_guard() -> None:
    assert found("1 = 2 AND a + 1 > 0") == [False] * 5
    assert found("1 = 1 OR a + 1 > 0") == [True] * 5
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        found("1 = 1 AND a + 1 > 0")


def test_a_condition_before_its_guard_fails() -> None:
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        found("a + 1 > 0 AND b = 2")
