"""A search among the rows with values that a query returns finds what is nearest of just these."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from tests.spark.plans import settings
from tests.spark_session import SPARK_ERRORS

ROWS, K = 1500, 6
Q = [0.25] * 8


@pytest.fixture(scope="module", params=["IVF_FLAT", "IVF_PQ", None])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    """A table with a few rows in two views: `mine` has ids and names, `nothing` has no rows."""
    values = np.random.default_rng(5).normal(size=(ROWS, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 8)
    ids = pa.array([None if i == 4 else i for i in range(ROWS)])
    names = [f"it's {i % 50}" for i in range(ROWS)]
    made = Dataset.write(tmp_path_factory.mktemp("among") / "t", pa.table({"id": ids, "name": names, "vec": column}))
    if request.param is not None:
        made = made.create_index("vec", request.param, num_partitions=6)
    spark.range(0, ROWS, 37).selectExpr("id", 'concat("it\'s ", id % 50) AS name').createOrReplaceTempView("mine")
    spark.sql("SELECT * FROM mine WHERE id < 0").createOrReplaceTempView("nothing")
    spark.sql("SELECT CAST(NULL AS BIGINT) AS id UNION ALL SELECT 7L").createOrReplaceTempView("with_null")
    yield made
    for view in ("mine", "nothing", "with_null"):
        spark.catalog.dropTempView(view)


CONDITIONS: dict[str, Callable[[int], bool]] = {
    "id IN (SELECT id FROM mine)": lambda i: i != 4 and i % 37 == 0,
    "id in(select id from mine where id % 2 = 0) AND id > 100": lambda i: i % 74 == 0 and i > 100,
    "`id` IN (WITH a AS (SELECT id FROM mine) SELECT id FROM a)": lambda i: i != 4 and i % 37 == 0,
    "name IN (SELECT name FROM mine WHERE id < 100)": lambda i: i % 50 in {0, 24, 37},
    "id IN (SELECT id FROM mine) OR id = 5": lambda i: i % 37 == 0 or i == 5,
    "NOT (id IN (SELECT id FROM mine)) AND id < 90": lambda i: i != 4 and i % 37 != 0 and i < 90,
    "id NOT IN (SELECT id FROM mine) AND id < 90": lambda i: i != 4 and i % 37 != 0 and i < 90,
    "id IN (SELECT id FROM nothing)": lambda i: False,
    "id NOT IN (SELECT id FROM nothing) AND name = 'it\\'s 4'": lambda i: i % 50 == 4,
    "id IN (SELECT id FROM with_null)": lambda i: i == 7,
    "id NOT IN (SELECT id FROM with_null)": lambda i: False,
    "name <> 'IN (SELECT 1)' AND id IN (SELECT max(id) FROM mine)": lambda i: i == 1480,
}


def nearest_of_these(table: Dataset, condition: str) -> list[int | None]:
    """The ids of the nearest rows among those that satisfy a condition, by brute force."""
    vectors = np.stack(table.to_table(["vec"])["vec"].to_pylist())
    may = np.array([i for i in range(ROWS) if CONDITIONS[condition](i)], np.int64)
    apart = ((vectors[may] - np.array(Q, np.float32)) ** 2).sum(axis=1) if len(may) else np.empty(0)
    return [None if i == 4 else int(i) for i in may[np.argsort(apart)[:K]]]


def searched(place: str, **more: str) -> str:
    """A query that searches for the nearest rows."""
    named = "".join(f", {name} => {value}" for name, value in more.items())
    return f"SELECT id FROM lance_vector_search('{place}', 'vec', array({', '.join(map(str, Q))}), {K}{named})"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.matrix
@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_nearest_of_just_these_rows_are_found(spark: SparkSession, table: Dataset, condition: str) -> None:
    search = LanceTable.forPath(spark, table.uri).search("vec").nearest(Q, k=K).where(condition, prefilter=True)
    assert [row.id for row in search.select("id").collect()] == nearest_of_these(table, condition)


@pytest.mark.matrix
@pytest.mark.parametrize("condition", CONDITIONS)
def test_functions_of_sql_find_them_too(spark: SparkSession, table: Dataset, condition: str) -> None:
    found = spark.sql(searched(table.uri, filter=quoted(condition), prefilter="true")).collect()
    assert [row.id for row in found] == nearest_of_these(table, condition)


@pytest.mark.matrix
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_view_with_a_condition_shows_a_search_no_other_rows(spark: SparkSession, table: Dataset, condition: str) -> None:
    spark.read.format("lance").load(table.uri).createOrReplaceTempView("everything")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE {condition}")
    found = spark.sql(searched("allowed")).collect()
    assert [row.id for row in found] == nearest_of_these(table, condition)


def test_a_view_may_ask_for_the_user_and_the_search_for_less(spark: SparkSession, table: Dataset) -> None:
    user = spark.sql("SELECT current_user()").collect()[0][0]
    spark.read.format("lance").load(table.uri).createOrReplaceTempView("everything")
    condition = "current_user() = '{}' AND id % 2 = 0 AND current_date() > DATE '2020-01-01'"
    for name in (user, "another"):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE {condition.format(name)}")
        among = "'id IN (SELECT id FROM mine) AND id > 40'"
        found = [row.id for row in spark.sql(searched("allowed", filter=among, prefilter="true")).collect()]
        assert len(found) == (K if name == user else 0)
        assert all(i % 74 == 0 and i > 40 for i in found)


@pytest.mark.parametrize("option", ["filter", "Filter"])
def test_a_condition_of_a_view_is_beside_that_of_its_options(spark: SparkSession, table: Dataset, option: str) -> None:
    spark.read.format("lance").option(option, "id % 2 = 0 -- even").load(table.uri).createOrReplaceTempView("everything")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE id % 3 = 0")
    found = [row.id for row in spark.sql(searched("allowed")).collect()]
    assert len(found) == K
    assert all(i % 6 == 0 for i in found)


@pytest.mark.parametrize("more", [{"filter": "'id > 3'"}, {"prefilter": "false"}])
def test_the_condition_of_a_view_never_comes_after_the_search(spark: SparkSession, table: Dataset, more: dict[str, str]) -> None:
    spark.read.format("lance").load(table.uri).createOrReplaceTempView("everything")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE id > 7")
    with pytest.raises(SPARK_ERRORS, match="comes before the search"):
        spark.sql(searched("allowed", **more)).collect()


OUT_OF_VIEW = {
    "'id > 3) OR (true'": "syntax error",
    "'true) OR true -- '": "syntax error",
    "'true -- '": None,
    "'true) OR (true /* '": "syntax error",
    "'id > 0 /* '": "not closed|syntax error",
    "'true OR id > 3'": None,
    "'id IN (SELECT 1) OR true'": None,
}


@pytest.mark.parametrize("option", [None, "filter", "Filter"])
def test_no_filter_of_a_user_reaches_out_of_a_view(spark: SparkSession, table: Dataset, option: str | None) -> None:
    reader = spark.read.format("lance")
    (reader if option is None else reader.option(option, "id % 3 = 0 -- these")).load(table.uri).createOrReplaceTempView("everything")
    more = {"prefilter": "true"}
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything {'WHERE id % 3 = 0' if option is None else ''}")
    for text, told in OUT_OF_VIEW.items():
        if told is None:
            found = [row.id for row in spark.sql(searched("allowed", filter=text, **more)).collect()]
            assert len(found) == K
            assert all(i % 3 == 0 for i in found)
            continue
        with pytest.raises(SPARK_ERRORS, match=told):
            spark.sql(searched("allowed", filter=text, **more)).collect()


OF_ZONES = {
    "at > TIMESTAMP '2024-01-01 12:00:00'": None,
    "at > '2024-01-01 12:00:00'": None,
    "at > DATE '2024-01-01'": None,
    "local > TIMESTAMP_NTZ '2024-01-01 12:00:00'": None,
    "at IN (SELECT TIMESTAMP '2024-01-01 12:00:00')": "returns times of a zone",
    "hour(at) > 11": "is of the time zone America/New_York",
    "CAST(at AS DATE) < DATE '2024-01-01'": "is of the time zone America/New_York",
    "CAST(at AS STRING) < '2024-01-01 12:00:00'": "is of the time zone America/New_York",
    "at > local": "is of the time zone America/New_York",
}
"""Conditions of views on times, and why a search cannot have them in a session whose zone is not UTC."""


def test_times_in_the_condition_of_a_view_are_those_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    hours = [datetime.datetime(2024, 1, 1, hour) for hour in range(24)]
    zoned = [hour.replace(tzinfo=datetime.UTC) for hour in hours]
    vectors = pa.array([[0.0, 1.0]] * len(hours), pa.list_(pa.float32(), 2))
    made = Dataset.write(tmp_path / "t", pa.table({"at": zoned, "local": hours, "vec": vectors}))
    spark.read.format("lance").load(made.uri).createOrReplaceTempView("everything")
    search = "SELECT at FROM lance_vector_search('allowed', 'vec', array(0, 1), 50)"
    with settings(spark, session__timeZone="America/New_York"):
        for condition, told in OF_ZONES.items():
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE {condition}")
            if told is not None:
                with pytest.raises(SPARK_ERRORS, match=told):
                    spark.sql(search).collect()
                continue
            assert sorted(spark.sql(search).collect()) == sorted(spark.sql("SELECT at FROM allowed").collect())
    with settings(spark, session__timeZone="Etc/UTC"):
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE hour(at) > 11")
        assert len(spark.sql(search).collect()) == 12


@pytest.mark.parametrize("argument", ["version", "tag", "timestamp", "branch"])
def test_a_view_with_a_condition_shows_no_rows_of_other_versions(spark: SparkSession, table: Dataset, argument: str) -> None:
    spark.read.format("lance").load(table.uri).createOrReplaceTempView("everything")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE id > 7")
    value = "1" if argument == "version" else "'x'"
    with pytest.raises(SPARK_ERRORS, match=f"has the rows of one version: leave out {argument}"):
        spark.sql(searched("allowed", **{argument: value})).collect()


@pytest.mark.parametrize("option", ["columns", "Columns"])
def test_a_view_of_chosen_columns_shows_no_others(spark: SparkSession, table: Dataset, option: str) -> None:
    spark.read.format("lance").option(option, "id,vec").load(table.uri).createOrReplaceTempView("allowed")
    with pytest.raises(SPARK_ERRORS, match="a view of chosen columns"):
        spark.sql(searched("allowed", columns="'id,name'").replace("SELECT id", "SELECT name")).collect()
    assert spark.sql(searched("allowed").replace("SELECT id", "SELECT *")).columns[:2] == ["id", "vec"]


HIDDEN = {
    "lance_vector_search('allowed', 'vec', {q}, 3, filter => 'secret = 1', prefilter => true)": "secret",
    "lance_vector_search('allowed', 'vec', {q}, 3, filter => 'secret = 1')": "secret",
    "lance_vector_search('allowed', 'other', {q}, 3)": "other",
    "vector_search('allowed', {q}, 3)": None,
    "lance_fts('allowed', 'hidden', 'sea', 3)": "hidden",
    "search('allowed', 'sea', 3)": None,
    """search('allowed', '{{"match": {{"query": "sea", "column": "hidden"}}}}', 3)""": "hidden",
    "search('allowed', 'sea', 3, filter => 'secret = 1')": "secret",
    "hybrid_search('allowed', {q}, 'sea', 3, vector_column => 'other')": "other",
    "hybrid_search('allowed', {q}, 'sea', 3, search_columns => array('hidden'))": "hidden",
    "hybrid_search('allowed', {q}, 'sea', 3)": None,
    "table_changes('allowed', 1, filter => 'secret = 1')": "leave out filter, and write WHERE",
    "table_changes('allowed', 1, columns => 'secret')": "leave out columns",
}
"""Calls that name a column which a view hides, and what is said; None: the view has the only one that can be meant."""


def test_a_view_of_chosen_columns_tells_nothing_of_others(spark: SparkSession, tmp_path: Path) -> None:
    vectors = pa.array([[float(i), 0.0] for i in range(4)], pa.list_(pa.float32(), 2))
    words, hidden = ["sea", "sky", "red", "blue"], ["sea", "sea", "sea", "sea"]
    rows = pa.table({"id": [0, 1, 2, 3], "vec": vectors, "other": vectors, "text": words, "hidden": hidden, "secret": [1, 0, 1, 0]})
    made = Dataset.write(tmp_path / "t", rows)
    for column in ("text", "hidden"):
        made = made.create_scalar_index(column, "INVERTED")
    spark.read.format("lance").option("columns", "id,vec,text").load(made.uri).createOrReplaceTempView("allowed")
    for call, told in HIDDEN.items():
        query = f"SELECT * FROM {call.format(q='array(0, 0)')}"
        if told is not None:
            with pytest.raises(SPARK_ERRORS, match=told):
                spark.sql(query).collect()
            continue
        found = spark.sql(query)
        assert found.columns[:3] == ["id", "vec", "text"]
        assert found.collect()[0].id == 0
    only = spark.sql("SELECT id FROM search('allowed', 'sea', 3)").collect()
    assert [row.id for row in only] == [0], "the hidden column has the word in each row"
    shown = spark.sql("SELECT * FROM table_changes('allowed', 1)")
    assert shown.columns[:3] == ["id", "vec", "text"]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("id > rand()", "is not deterministic"),
        ("EXISTS (SELECT 1 FROM mine WHERE mine.id = everything.id)", "EXISTS|exists"),
    ],
)
def test_conditions_of_views_that_cannot_come_before_are_errors(spark: SparkSession, table: Dataset, condition: str, told: str) -> None:
    spark.read.format("lance").load(table.uri).createOrReplaceTempView("everything")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW allowed AS SELECT * FROM everything WHERE {condition}")
    with pytest.raises(SPARK_ERRORS, match=told):
        spark.sql(searched("allowed")).collect()


def test_a_join_by_nearness_is_among_them_too(spark: SparkSession, table: Dataset) -> None:
    questions = spark.createDataFrame([("a", Q)], "question STRING, q ARRAY<FLOAT>")
    of = LanceTable.forPath(spark, table.uri)
    joined = of.nearestJoin(questions, ("q", "vec"), k=K, filter="id IN (SELECT id FROM mine)", columns=["id"])
    alone = of.search("vec").nearest(Q, k=K).where("id IN (SELECT id FROM mine)", prefilter=True).select("id")
    assert sorted(row.id for row in joined.collect()) == sorted(row.id for row in alone.collect())


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("id IN (SELECT id, name FROM mine)", "has 2"),
        ("id IN (SELECT id FROM mine", "is not closed"),
        ("id IN (SELECT CAST(id AS DOUBLE) FROM mine)", "returns integers, decimals, texts, dates or booleans"),
    ],
)
def test_other_queries_are_errors(spark: SparkSession, table: Dataset, condition: str, told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        LanceTable.forPath(spark, table.uri).search("vec").nearest(Q).where(condition)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("id IN (SELECT id, name FROM mine)", "returns one column, but one has 2"),
        ("id IN (SELECT id FROM mine", "is no condition"),
        ("id IN (SELECT mine.id FROM mine WHERE mine.id = everything.id)", "everything"),
    ],
)
def test_other_queries_are_errors_in_sql(spark: SparkSession, table: Dataset, condition: str, told: str) -> None:
    with pytest.raises(SPARK_ERRORS, match=told):
        spark.sql(searched(table.uri, filter=quoted(condition))).collect()
