"""A search among the rows with values that a query returns finds what is nearest of just these."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError

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


@pytest.mark.matrix
@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_nearest_of_just_these_rows_are_found(spark: SparkSession, table: Dataset, condition: str) -> None:
    vectors = np.stack(table.to_table(["vec"])["vec"].to_pylist())
    may = np.array([i for i in range(ROWS) if CONDITIONS[condition](i)], np.int64)
    apart = ((vectors[may] - np.array(Q, np.float32)) ** 2).sum(axis=1) if len(may) else np.empty(0)
    nearest = [None if i == 4 else int(i) for i in may[np.argsort(apart)[:K]]]
    search = LanceTable.forPath(spark, table.uri).search("vec").nearest(Q, k=K).where(condition, prefilter=True)
    assert [row.id for row in search.select("id").collect()] == nearest


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
