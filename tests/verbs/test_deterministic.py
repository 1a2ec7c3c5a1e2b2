"""A condition that may be different each time is refused before anything is written; values may differ, since each is calculated once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError, SchemaMismatchError
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


def test_a_condition_that_is_none_is_an_error_of_spark(table: LanceTable, uri: str) -> None:
    with pytest.raises(AnalysisException):
        table.delete("x")
    with pytest.raises(AnalysisException):
        table.update("x", {"x": "0"})
    assert Dataset.open(uri).version == 1


WRONG: dict[str, Callable[[LanceTable, DataFrame], object]] = {
    "delete": lambda t, s: t.delete("idd = 3"),
    "delete by a Column": lambda t, s: t.delete(F.col("idd") == 3),
    "delete of a field": lambda t, s: t.delete("id = 'a' AND idd.x"),
    "update": lambda t, s: t.update("idd = 3", {"x": "0"}),
    "the value of an update": lambda t, s: t.update("id = 3", {"x": "idd + 1"}),
    "addColumns": lambda t, s: t.addColumns({"y": "idd * 2"}),
    "compaction": lambda t, s: t.optimize().where("idd > 3").executeCompaction(),
    "merge": lambda t, s: t.merge(s, "t.idd = s.id").whenMatchedUpdateAll().execute(),
    "the condition of a clause": lambda t, s: t.merge(s, "t.id = s.id").whenMatchedDelete("t.idd > 3").execute(),
    "the value of a clause": lambda t, s: t.merge(s, "t.id = s.id").whenMatchedUpdate(set={"x": "t.idd"}).execute(),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_an_unknown_column_is_named_with_the_nearest_one(
    table: LanceTable, uri: str, spark: SparkSession, call: Callable[[LanceTable, DataFrame], object]
) -> None:
    with pytest.raises(SchemaMismatchError, match=r"^no column '(t\.)?idd(\.x)?'(; did you mean '(t\.)?id'\?)?$"):
        call(table.alias("t"), spark.range(3).alias("s"))
    assert Dataset.open(uri).version == 1


def test_an_unknown_column_that_is_like_none_has_no_hint_of_columns_that_only_verbs_use(table: LanceTable) -> None:
    with pytest.raises(SchemaMismatchError, match=r"^no column '_rowadr'$"):
        table.delete("_rowadr = 1")


def test_an_ambiguous_column_is_an_error(table: LanceTable, uri: str, spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, 2.0)], "id long, x double").alias("s")
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate("x > 1", {"x": "s.x"}).execute()
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"x": "x + 1"}).execute()
    assert Dataset.open(uri).version == 1
