"""Every written row passes the same rules, whatever door it comes through: the matrix of `tests.doors` and `tests.rules`."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import LanceError
from tests.doors import CATALOG, DOORS, Door, Place
from tests.rules import ACCEPTED, REFUSED, Rule, applies, make, rows_at, rows_of, written_row
from tests.sample import FULL
from tests.spark_session import SPARK_ERRORS

pytestmark = pytest.mark.xdist_group("doors")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("doors")
    lance_spark.catalog(spark, CATALOG, root=str(root))
    yield root
    for table in spark.catalog.listTables("default"):
        if table.name.startswith("t_") and not table.isTemporary:
            spark.sql(f"DROP TABLE spark_catalog.default.{table.name}")


NUMBERS = itertools.count()


def place(spark: SparkSession, lake: Path) -> Place:
    return Place(spark, str(lake / f"t_{next(NUMBERS)}.lance"))


ROWS: dict[str, dict[str, Any] | Exception] = {}
"""What each door made of the row that has the columns of all accepted cases."""


def written(door: Door, spark: SparkSession, lake: Path) -> dict[str, Any]:
    """The row that a door has written. One write serves the cells of all cases that are accepted."""
    if door.name not in ROWS:
        where, cases = place(spark, lake), [case for case in ACCEPTED if applies(door, case)]
        make(where, cases, door)
        try:
            door.write(where, rows_of(cases, door.kind))
            ROWS[door.name] = written_row(where.uri, door)
        except Exception as e:  # noqa: BLE001 (raised by each cell)
            ROWS[door.name] = e
    row = ROWS[door.name]
    if isinstance(row, Exception):
        raise row
    return row


FIRST = {name: door for door in reversed(DOORS) if door.spark for name in door.public}
"""The first door that stands for each public method and for each writer."""


def cells(cases: Callable[[int, Door], Iterable[Rule]], plain: Collection[str]) -> list[Any]:
    """Each door with its cases. Only `plain` cases at the first doors are quick enough for each run."""
    found = []
    for number, door in enumerate(DOORS):
        if not door.spark:
            continue
        for case in cases(number, door):
            is_plain = case.name in plain and door in FIRST.values()
            marks = () if is_plain else pytest.mark.slow
            found.append(pytest.param(door, case, id=f"{door}-{case.rule}: {case}", marks=marks))
    return found


def accepted(number: int, door: Door) -> list[Rule]:
    """All cases that a door accepts, which are one write."""
    return [case for case in ACCEPTED if applies(door, case)]


OFTEN = "a row that fails it by another column"
"""The refused case that runs at the first doors in each run."""


def refused(number: int, door: Door) -> list[Rule]:
    """One refused case of each rule, by turns of the doors, so that each case comes at many of them; in the full profile all cases.

    A rule is the same code for its cases, and each case runs at each way to write without Spark, in tests/table/write/test_rules.py.
    """
    cases = [case for case in REFUSED if applies(door, case)]
    if FULL:
        return cases
    of_rule: defaultdict[str, list[Rule]] = defaultdict(list)
    for case in cases:
        of_rule[case.rule].append(case)
    by_turn = [same[number % len(same)] for same in of_rule.values()]
    return [case for case in cases if case in by_turn or case.name == OFTEN]


@pytest.mark.parametrize(("door", "case"), cells(accepted, [case.name for case in ACCEPTED]))
def test_a_row_gets_what_the_rule_says(door: Door, case: Rule, spark: SparkSession, lake: Path) -> None:
    assert written(door, spark, lake)[case.column.name] == case.expected


@pytest.mark.parametrize(("door", "case"), cells(refused, [OFTEN]))
def test_a_row_that_breaks_a_rule_is_refused(door: Door, case: Rule, spark: SparkSession, lake: Path) -> None:
    where = place(spark, lake)
    make(where, [case], door)
    before = rows_at(where.uri, door)
    with pytest.raises((*SPARK_ERRORS, LanceError), match=case.error) as refusal:
        door.write(where, rows_of([case], door.kind))
    assert "PARSE_SYNTAX_ERROR" not in str(refusal.value)
    after = rows_at(where.uri, door)
    # A backfill has added its state.
    assert [{name: row[name] for name in old} for row, old in zip(after, before, strict=True)] == before
