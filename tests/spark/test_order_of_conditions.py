"""A condition that fails on some rows is evaluated only on those that the conditions before it leave, as on Parquet in the same Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.sample import TURNS, by_turns
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import scans

ROWS = """VALUES (1, '5', 10L, 2, 2.0D, array(1, 2, 3)), (2, 'abc', 1L, 0, 0.0D, array(1)), (3, NULL, NULL, NULL, NULL, NULL),
    (4, '12', 9223372036854775807L, 1, 1.0D, array(1, 2))"""
GUARDS = (
    "v RLIKE '^[0-5]$'",
    "size(xs) > 2",
    "b = 2",
    "abs(b) = 2",
    "f > 1.5",
    "id <= (SELECT min(id) FROM of_order)",
    "id IN (SELECT min(id) FROM of_order)",
    "array_contains(xs, 3)",
    "v LIKE '_' AND f = 2",
    "(v RLIKE '^5' OR id = 1)",
)
"""Conditions that only the row 1 satisfies. Some are pushed into the scan, others not; Spark expresses some of these for a source."""
FAILING = (
    "CAST(v AS INT) > 0",
    "v = 5",
    "a / b > 1",
    "xs[2] = 3",
    "element_at(xs, 3) = 3",
    "a + 1 > 0",
    "1 % b = 1",
    "CAST(v AS INT) % 5 = 0",
)
"""Conditions that the row 1 satisfies and that fail on another."""
CELLS = list(itertools.product(GUARDS, FAILING))
COMMANDS = (
    "UPDATE {t} AS t SET a = a WHERE {where}",
    "MERGE INTO {t} AS t USING (SELECT 1 AS one) AS s ON {where} WHEN MATCHED THEN UPDATE SET a = t.a",
    "MERGE INTO {t} AS t USING (SELECT 1 AS one) AS s ON id >= one WHEN MATCHED AND {where} THEN UPDATE SET a = t.a",
    "DELETE FROM {t} AS t WHERE {where}",
)
OF_COMMANDS = (
    "v RLIKE '^[0-5]$' AND CAST(v AS INT) > 0",
    "size(xs) > 2 AND xs[2] = 3",
    "v RLIKE '^[0-5]$' AND abs(b) = 2 AND a / b > 1",
)


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The catalog `lance` with the table `t`, a copy of it in the session catalog, and one in Parquet: `of_order`."""
    folder = tmp_path_factory.mktemp("order")
    rows = spark.sql(f"SELECT * FROM ({ROWS}) AS s(id, v, a, b, f, xs)").coalesce(1)
    rows.write.parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("of_order")
    with lake(spark, folder / "lake") as made:
        rows.writeTo("lance.t").create()
        spark.read.format("lance").load(made.location("t")).createOrReplaceTempView("order_view")
        yield made
    for view in ("of_order", "order_view"):
        spark.catalog.dropTempView(view)


def found(spark: SparkSession, table: str, conditions: list[str]) -> dict[str, list[int]]:
    """The rows that satisfy each condition, in one query."""
    parts = [f"SELECT {i} AS cell, id FROM {table} WHERE {condition}" for i, condition in enumerate(conditions)]
    rows: dict[str, list[int]] = {condition: [] for condition in conditions}
    for cell, row in spark.sql(" UNION ALL ".join(parts)).collect():
        rows[conditions[cell]].append(row)
    return rows


def by_joins(condition: str) -> bool:
    """Whether Spark makes a join of a part of the condition, whatever the source is: the other parts are evaluated before it."""
    return "IN (SELECT" in condition


@pytest.mark.parametrize(("table", "turn"), by_turns(["lance.t", "lance.`{path}`", "order_view"]))
def test_each_guard_protects_each_condition(own: Lake, table: str, turn: int) -> None:
    conditions = [f"{guard} AND {failing}" for guard, failing in CELLS if not by_joins(guard)]
    conditions += [
        f"{first} AND {second} AND {failing}"
        for first, second, failing in zip(GUARDS, reversed(GUARDS), FAILING)
        if "IN (" not in first + second
    ]
    conditions = conditions[turn::TURNS]
    name = table.format(path=own.location("t"))
    assert found(own.spark, name, conditions) == {condition: [1] for condition in conditions}


def test_the_rows_are_those_of_parquet(own: Lake) -> None:
    conditions = [f"{guard} AND {failing}" for guard, failing in CELLS[:: len(FAILING) + 1] if not by_joins(guard)]
    assert found(own.spark, "lance.t", conditions) == found(own.spark, "of_order", conditions)


def test_a_condition_without_a_guard_fails_as_on_parquet(own: Lake) -> None:
    for failing in FAILING[:4]:
        for table in ("lance.t", "of_order"):
            with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|DIVIDE_BY_ZERO|INVALID_ARRAY_INDEX|REMAINDER_BY_ZERO"):
                own.spark.sql(f"SELECT id FROM {table} WHERE {failing}").collect()


def test_what_cannot_fail_is_pushed_down_all_the_same(own: Lake) -> None:
    query = "SELECT id FROM lance.t WHERE v RLIKE '^[0-5]$' AND id < 3 AND CAST(v AS INT) > 0 AND f > 1 AND v LIKE '5%'"
    [scan] = scans(own.spark.sql(query))
    for pushed in ("id < 3", "f > 1.0", "v LIKE '5%'"):
        assert pushed in scan
    semi = own.spark.sql("SELECT id FROM lance.t WHERE id IN (SELECT min(id) FROM of_order) AND length(v) = 1")
    assert "LeftSemi" in semi._jdf.queryExecution().optimizedPlan().toString()
    assert [row.id for row in semi.collect()] == [1]


@pytest.mark.parametrize("command", COMMANDS)
def test_conditions_of_commands(own: Lake, command: str) -> None:
    own.sql(f"CREATE TABLE lance.changed AS SELECT * FROM ({ROWS}) AS s(id, v, a, b, f, xs)")
    [where] = [OF_COMMANDS[COMMANDS.index(command) % len(OF_COMMANDS)]]
    own.sql(command.format(t="lance.changed", where=where))
    left = [2, 3, 4] if command.startswith("DELETE") else [1, 2, 3, 4]
    assert sorted(row[0] for row in own.sql("SELECT id FROM lance.changed")) == left
    own.sql("DROP TABLE lance.changed")


def test_filters_of_our_own_grammar(own: Lake, tmp_path: Path) -> None:
    path, guarded = own.location("t"), ("b = 2 AND a + 1 > 0", "(a < 100 AND a + 1 > 0) AND b = 2", "NOT (b <> 2 OR a + 1 < 0)")
    for condition in guarded:
        assert Dataset.open(path).to_table(filter=condition, columns=["id"]).to_pylist() == [{"id": 1}]
        assert [r.id for r in own.spark.read.format("lance").option("filter", condition).load(path).collect()] == [1]
    copied = str(tmp_path / "copied.lance")
    rows = Dataset.open(path).to_table()
    Dataset.write(copied, rows)
    new = own.spark.sql("SELECT 9 AS id, '9' AS v, 9L AS a, 2 AS b, 2.0D AS f, array(9) AS xs")
    new.write.format("lance").mode("overwrite").option("replaceWhere", guarded[0]).save(copied)
    assert Dataset.open(copied).to_table(columns=["id"])["id"].sort().to_pylist() == [2, 3, 4, 9]


def test_check_constraints(own: Lake, tmp_path: Path) -> None:
    own.sql("CREATE TABLE lance.checked (a BIGINT, b INT)")
    own.sql("ALTER TABLE lance.checked ADD CONSTRAINT c CHECK (b <> 2 OR a + 1 > 0)")
    own.sql("INSERT INTO lance.checked VALUES (9223372036854775807, 1), (5, 2), (NULL, 2)")
    with pytest.raises(Exception, match="constraint"):
        own.sql("INSERT INTO lance.checked VALUES (-5, 2)")
    assert len(own.sql("SELECT * FROM lance.checked")) == 3
    Dataset.write(own.location("checked"), pa.table({"a": pa.array([2**63 - 1]), "b": pa.array([0], pa.int32())}), "append")
    own.sql("DROP TABLE lance.checked")
