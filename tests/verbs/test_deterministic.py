"""A condition that may be different each time is refused before anything is written; values may differ, since each is calculated once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from lance_spark.lance_table import MergeBuilder

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "x": [float(i) for i in range(10)], "s": ["a"] * 10})


def _by_udf() -> Column:
    return F.udf(lambda i: i > 5, "boolean").asNondeterministic()(F.col("id"))


RANDOM: dict[str, str | Callable[[], Column]] = {
    "rand": "rand() < 0.5",
    "uuid": lambda: F.expr("uuid()") > F.col("s"),
    "udf": _by_udf,
    "in a subquery": "id IN (SELECT id FROM range(5) WHERE rand() < 0.5)",
}


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    Dataset.write(uri, ROWS)
    return LanceTable.forPath(spark, uri)


@pytest.mark.parametrize("name", RANDOM)
def test_delete_and_update_need_conditions_that_stay(table: LanceTable, uri: str, name: str) -> None:
    condition = RANDOM[name]
    given = condition() if callable(condition) else condition
    with pytest.raises(InvalidOptionError, match="is not deterministic"):
        table.delete(given)
    with pytest.raises(InvalidOptionError, match="is not deterministic"):
        table.update(given, {"x": "0"})
    assert Dataset.open(uri).version == 1
    assert len(list(Path(uri, "data").iterdir())) == 1


def test_merge_needs_conditions_that_stay(table: LanceTable, uri: str, spark: SparkSession) -> None:
    source = spark.range(3).alias("s")

    def merge(condition: str = "t.id = s.id") -> MergeBuilder:
        return table.alias("t").merge(source, condition)

    builders = [
        merge("t.id = s.id AND rand() < 0.5").whenMatchedDelete(),
        merge().whenMatchedDelete("uuid() > t.s"),
        merge().whenMatchedUpdate("rand() > t.x", {"x": "0"}),
        merge().whenNotMatchedInsert("rand() > 0.5", {"id": "s.id"}),
        merge().whenNotMatchedBySourceDelete("rand() > 0.5"),
    ]
    for builder in builders:
        with pytest.raises(InvalidOptionError, match=r"(rand|uuid)\(.* is not deterministic"):
            builder.execute()
    assert Dataset.open(uri).version == 1


def test_values_may_be_random(table: LanceTable, uri: str, spark: SparkSession) -> None:
    table.update(set={"x": F.rand(seed=1)})
    builder = table.alias("t").merge(spark.range(8, 12).alias("s"), "t.id = s.id")
    builder.whenMatchedUpdate(set={"s": "uuid()"}).whenNotMatchedInsert(values={"id": "s.id", "s": "uuid()", "x": "rand()"}).execute()
    rows = Dataset.open(uri).scan().to_table()
    assert rows.num_rows == 12
    assert len(set(rows["x"].to_pylist())) == 12
    assert len(set(rows["s"].to_pylist())) == 5


@pytest.mark.parametrize("condition", ["nope = 1", "id = 'a' AND nope.x", "x"], ids=["unknown", "nested", "not a condition"])
def test_other_wrong_conditions_are_errors_of_spark(table: LanceTable, uri: str, condition: str) -> None:
    with pytest.raises(AnalysisException):
        table.delete(condition)
    with pytest.raises(AnalysisException):
        table.update(condition, {"x": "0"})
    assert Dataset.open(uri).version == 1


def test_an_ambiguous_column_is_an_error(table: LanceTable, uri: str, spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, 2.0)], "id long, x double").alias("s")
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate("x > 1", {"x": "s.x"}).execute()
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"x": "x + 1"}).execute()
    assert Dataset.open(uri).version == 1
