"""Joins by nearness in Spark's own words are planned as nearest joins of lance tables, with the rows that Spark's own plan has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset, LanceTable
from tests.spark.plans import settings
from tests.spark.processes import START, run
from tests.spark_session import SPARK_ERRORS
from tests.table.search.vectors import DIMENSIONS, column, table, vectors

pytestmark = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="Spark has joins by nearness since version 4.2"
)
RULE = "lance_spark.NearestJoins"
BY = {
    "l2": "DISTANCE vector_l2_distance(q, vec)",
    "cosine": "SIMILARITY vector_cosine_similarity(vec, q)",
    "dot": "SIMILARITY vector_inner_product(q, vec)",
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of several fragments without an index, with null vectors, vectors of zeros, and deleted rows."""
    path = str(tmp_path_factory.mktemp("nearest") / "t")
    rows = table(vectors(), null=7)
    for name, values in {"price": np.arange(300) / 8, "tags": [["a", "b"][: i % 3] for i in range(300)]}.items():
        rows = rows.append_column(name, pa.array(values))
    Dataset.write(path, rows, max_rows_per_file=120).delete("id % 7 = 5")
    return path


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with columns of other types than vectors of floats."""
    path, values = tmp_path_factory.mktemp("nearest") / "others", vectors()
    columns = {
        "bytes": column(np.zeros((300, DIMENSIONS), np.uint8)),
        "varying": pa.array(values.tolist(), pa.list_(pa.float32())),
        "lists": pa.ListArray.from_arrays(pa.array(range(301), pa.int32()), column(values)),
    }
    Dataset.write(path, pa.table(columns))
    return path


@pytest.fixture
def t(spark: SparkSession, uri: str) -> Iterator[DataFrame]:
    """The table, which is the view t, too; the view q has questions, with null and short ones."""
    frame = spark.read.format("lance").load(uri)
    frame.createOrReplaceTempView("t")
    rows: list[tuple[int, list[float | None] | None]] = [(i, v) for i, v in enumerate((vectors()[20:30] + 0.25).tolist())]
    rows += [(10, None), (11, [None] * DIMENSIONS), (12, [0.0] * DIMENSIONS)]
    spark.createDataFrame(rows, "n INT, q ARRAY<FLOAT>").createOrReplaceTempView("q")
    with settings(spark, shuffle__partitions="2"):
        yield frame


def is_planned(frame: DataFrame) -> bool:
    """Whether a frame is joined by our steps, and by nothing else."""
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    ours = "MapInArrow join: " in plan or ("MapInArrow answer: " in plan and "MapInArrow compare: " in plan)
    assert ours != ("Join" in plan), plan
    return ours


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def same_as_sparks(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    """The rows of a query, which are those of Spark's own plan."""
    frame = spark.sql(query)
    assert is_planned(frame)
    found = rows(frame)
    with settings(spark, optimizer__excludedRules=RULE):
        theirs = spark.sql(query)
        assert not is_planned(theirs)
        assert found == rows(theirs)
    return found


@pytest.mark.parametrize("metric", BY)
def test_exact_joins_have_the_rows_of_sparks_own_plan(spark: SparkSession, t: DataFrame, metric: str) -> None:
    found = same_as_sparks(spark, f"SELECT n, id, kind FROM q LEFT JOIN t EXACT NEAREST 4 BY {BY[metric]}")
    assert [row for row in found if row[0] in (10, 11)] == [(10, None, None), (11, None, None)]
    assert len(found) == 4 * 10 + 2 + (1 if metric == "cosine" else 4)


def test_conditions_and_computed_columns_of_the_table(spark: SparkSession, t: DataFrame) -> None:
    """Conditions come before the search; on rows that it does not find, computed columns are null, too."""
    some = (
        "SELECT id, price * 2 + 1 AS p, 'x' AS x, vec AS v FROM t WHERE price > 20.5 AND kind IN ('k1', 'k3') AND array_contains(tags, 'b')"
    )
    query = (
        f"WITH some AS ({some}) SELECT n, id, p, x FROM q LEFT JOIN some EXACT NEAREST 2 BY DISTANCE vector_l2_distance(v, q) WHERE n > 7"
    )
    assert len(same_as_sparks(spark, query)) == 2 * 3 + 2
    none = spark.sql("SELECT n, x FROM q LEFT JOIN (SELECT 1 AS x, vec FROM t WHERE id < 0) APPROX NEAREST BY " + BY["l2"])
    assert is_planned(none)
    assert rows(none) == sorted([(n, None) for n in range(13)], key=str)
    after = spark.sql(f"SELECT count(*) FROM q JOIN t EXACT NEAREST 2 BY {BY['l2']} WHERE id IS NOT NULL AND n < 3")
    assert is_planned(after)
    assert rows(after) == [(6,)]


def test_names_clash_and_joins_nest_as_with_spark(spark: SparkSession, t: DataFrame) -> None:
    query = f"""
        SELECT a.id, b.id FROM (SELECT id, vec AS q FROM t WHERE id < 5) a JOIN t b EXACT NEAREST 2 BY {BY["l2"]}
        WHERE a.id IN (SELECT t.id FROM q JOIN t EXACT NEAREST 30 BY {BY["l2"]}) OR a.id > 1
    """
    assert is_planned(spark.sql(query.split("WHERE a.id")[0]))
    with settings(spark, optimizer__excludedRules=RULE):
        expected = rows(spark.sql(query))
    assert rows(spark.sql(query)) == expected
    twice = spark.sql(f"SELECT * FROM q JOIN t EXACT NEAREST 1 BY {BY['l2']}").select("n", "q", F.col("id").alias("near"))
    frame = twice.nearestByJoin(t, F.expr("vector_l2_distance(q, vec)"), 1, "exact", "distance")
    assert is_planned(frame)
    assert frame.columns == ["n", "q", "near", "id", "kind", "vec", "price", "tags"]
    assert frame.where("near = id").count() == 11


def test_a_join_by_the_index_is_the_nearest_join_of_the_table(spark: SparkSession, t: DataFrame, tmp_path: Path) -> None:
    """Only the columns that are asked for are read. Another metric than that of the index is compared with all vectors."""
    path = str(tmp_path / "t")
    Dataset.write(path, table(vectors(rows=1200))).create_index("vec", "IVF_FLAT", num_partitions=40)
    spark.read.format("lance").load(path).createOrReplaceTempView("indexed")
    frame = spark.sql(f"SELECT n, id FROM q JOIN indexed APPROX NEAREST 3 BY {BY['l2']}")
    plan = str(frame._jdf.queryExecution().executedPlan().toString())
    assert re.search(
        r"join: the 3 nearest by l2 in column 'vec', by index vec_idx \(IVF_FLAT\), \d+ to \d+ of 40 partitions\b.* of lance ", plan
    )
    assert "t0#" in plan
    assert "t1#" not in plan
    whole = LanceTable.forPath(spark, path).nearestJoin(spark.table("q"), ("q", "vec"), k=3, columns=["id"]).select("n", "id")
    assert rows(frame) == rows(whole)
    condition = "id < 900 AND kind <> 'k1'"
    some = spark.sql(f"SELECT n, id FROM q LEFT JOIN (SELECT * FROM indexed WHERE {condition}) APPROX NEAREST 3 BY {BY['l2']}")
    filtered = LanceTable.forPath(spark, path).nearestJoin(
        spark.table("q"), ("q", "vec"), k=3, columns=["id"], filter=condition, how="left"
    )
    assert rows(some) == rows(filtered.select("n", "id"))
    assert is_planned(some)
    for words in (f"EXACT NEAREST 3 BY {BY['l2']}", f"APPROX NEAREST 3 BY {BY['dot']}"):
        assert "no index is used" in str(spark.sql(f"SELECT n, id FROM q JOIN indexed {words}")._jdf.queryExecution().optimizedPlan())


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_similarity_is_searched_by_an_index_of_its_metric(spark: SparkSession, t: DataFrame, tmp_path: Path, metric: str) -> None:
    path = str(tmp_path / "t")
    Dataset.write(path, table(vectors(rows=600))).create_index("vec", "IVF_SQ", metric=metric, num_partitions=4)
    spark.read.format("lance").load(path).createOrReplaceTempView("similar")
    frame = spark.sql(f"SELECT n, id FROM q JOIN similar APPROX NEAREST 3 BY {BY[metric]}")
    assert f"the 3 nearest by {metric} in column 'vec', by index" in str(frame._jdf.queryExecution().optimizedPlan().toString())
    own = LanceTable.forPath(spark, path).nearestJoin(spark.table("q"), ("q", "vec"), k=3, metric=metric, columns=["id"])
    assert rows(frame) == rows(own.select("n", "id"))


def test_options_of_the_table_say_how_its_index_is_searched(spark: SparkSession, t: DataFrame, tmp_path: Path) -> None:
    """Those of a read apply to all joins with it, those in WITH to a table of a catalog in one query."""
    lance_spark.catalog(spark, "tuned", root=str(tmp_path))
    path, values = str(tmp_path / "goods.lance"), vectors(rows=1200)
    Dataset.write(path, table(values)).create_index("vec", "IVF_PQ", num_partitions=40, num_sub_vectors=2, num_bits=4)
    goods = LanceTable.forPath(spark, path)
    by = f"APPROX NEAREST 3 BY {BY['l2']}"

    def joined(right: str) -> DataFrame:
        frame = spark.sql(f"SELECT n, id FROM q JOIN {right} {by}")
        assert is_planned(frame)
        return frame

    def shown(frame: DataFrame) -> str:
        return str(frame._jdf.queryExecution().optimizedPlan().toString())

    few = joined("tuned.goods WITH (nprobes = 2)")
    assert " 2 of 40 partitions" in shown(few)
    assert re.search(r" \d+ to \d+ of 40 partitions", shown(joined("tuned.goods")))
    chosen: dict[str, Any] = {"nprobes": 30, "refine_factor": 20}
    spark.read.format("lance").options(**chosen).load(path).createOrReplaceTempView("tuned_goods")
    own = goods.nearestJoin(spark.table("q"), ("q", "vec"), k=3, columns=["id"], **chosen).select("n", "id")
    assert rows(joined("tuned_goods")) == rows(own) == rows(joined("tuned.goods WITH (nprobes = 30, 'refine_factor' = 20)"))
    assert rows(few) != rows(own)
    assert re.search(r" [5-9] to 9 of 40 partitions", shown(joined("tuned.goods WITH (minimum_nprobes = 5, maximum_nprobes = 9, ef = 9)")))
    exact = spark.sql(f"SELECT n, id FROM q JOIN tuned_goods EXACT NEAREST 3 BY {BY['l2']}")
    assert "no index is used" in shown(exact)
    for wrong, said in {"nprobes = 0": "nprobes", "minimum_nprobes = 9, maximum_nprobes = 5": "9 > 5", "probes = 3": "nprobes"}.items():
        with pytest.raises(SPARK_ERRORS, match=said):
            spark.sql(f"SELECT n, id FROM q JOIN tuned.goods WITH ({wrong}) {by}").collect()
    near = json.dumps({"column": "vec", "q": values[0].tolist()})
    with pytest.raises(SPARK_ERRORS, match="nprobes is for joins; of a search, it is a parameter in the JSON of nearest"):
        spark.read.format("lance").options(nearest=near, nprobes=3).load(path).collect()


def test_tasks_search_the_parts_of_a_table_that_is_not_small(spark: SparkSession, tmp_path: Path) -> None:
    """More than 128 MB of vectors, which are compared by two scans; the answers of both come together."""
    wide = np.zeros((530, 1 << 16), np.float32)
    wide[:, 0] = np.arange(530)
    Dataset.write(str(tmp_path / "t"), pa.table({"id": range(530), "vec": column(wide)}))
    spark.read.format("lance").load(str(tmp_path / "t")).createOrReplaceTempView("wide")
    questions = [(n, [at, *[0.0] * (wide.shape[1] - 1)]) for n, at in enumerate((3.25, 400.75, 528.75))]
    spark.createDataFrame([*questions, (3, None)], "n INT, q ARRAY<FLOAT>").createOrReplaceTempView("few")
    frame = spark.sql(f"SELECT n, id FROM few LEFT JOIN wide APPROX NEAREST 2 BY {BY['l2']}")
    assert "MapInArrow compare: " in str(frame._jdf.queryExecution().optimizedPlan().toString())
    assert rows(frame) == [(0, 3), (0, 4), (1, 400), (1, 401), (2, 528), (2, 529), (3, None)]


def test_tables_of_catalogs_versions_and_branches(spark: SparkSession, t: DataFrame, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "near", root=str(tmp_path))
    spark.sql("CREATE NAMESPACE near.default")
    spark.sql("CREATE TABLE near.default.goods AS SELECT id, vec FROM t WHERE id < 100")
    spark.sql("DELETE FROM near.default.goods WHERE id > 10")
    spark.sql(
        "CREATE OR REPLACE TABLE near_goods USING lance AS SELECT id, vec AS v, named_struct('vec', vec) AS deep FROM t WHERE id < 50"
    )
    path = str(tmp_path / "own")
    made = Dataset.write(path, table(vectors(), null=7))
    made.create_branch("few").delete("id > 20")
    made.tags.create("whole", 1)
    made.delete("id < 100")
    for name, options in {"of_branch": {"branch": "few"}, "of_tag": {"tag": "whole"}}.items():
        spark.read.format("lance").options(**options).load(path).createOrReplaceTempView(name)
    try:
        counts = {
            f"of_branch EXACT NEAREST 100000 BY {BY['dot']}": 20,
            f"of_tag EXACT NEAREST 100000 BY {BY['dot']}": 299,
            f"near.default.goods EXACT NEAREST 100000 BY {BY['dot']}": 9,
            f"near.default.goods VERSION AS OF 1 EXACT NEAREST 100000 BY {BY['dot']}": 85,
            "near_goods EXACT NEAREST 100000 BY SIMILARITY vector_inner_product(v, q)": 42,
        }
        for words, count in counts.items():
            frame = spark.sql(f"SELECT id FROM (SELECT * FROM q WHERE n = 3) JOIN {words}")
            assert is_planned(frame)
            assert frame.count() == count
    finally:
        spark.sql("DROP TABLE near_goods")


def test_vectors_of_doubles_and_in_structs(spark: SparkSession, t: DataFrame, tmp_path: Path) -> None:
    path, values = str(tmp_path / "t"), vectors("float64")
    Dataset.write(path, pa.table({"id": range(300), "deep": pa.StructArray.from_arrays([column(values)], ["vec"])}))
    spark.read.format("lance").load(path).createOrReplaceTempView("deep")
    same_as_sparks(spark, "SELECT n, id FROM q JOIN deep EXACT NEAREST 2 BY DISTANCE vector_l2_distance(CAST(deep.vec AS ARRAY<FLOAT>), q)")


L2 = "APPROX NEAREST BY DISTANCE vector_l2_distance"
DECLINED = {
    f"SELECT * FROM q JOIN t {L2}(q, vec) + n": "is none of DISTANCE vector_l2_distance",
    "SELECT * FROM q JOIN t APPROX NEAREST BY SIMILARITY vector_l2_distance(q, vec)": "is none of DISTANCE vector_l2_distance",
    "SELECT * FROM q JOIN t APPROX NEAREST BY DISTANCE vector_inner_product(q, vec)": "BY DISTANCE vector_inner_product",
    f"SELECT * FROM q JOIN t {L2}(vec, vec)": "must be of the left side",
    f"SELECT * FROM q JOIN t {L2}(array(CAST(rand() AS FLOAT)), vec)": "not deterministic",
    f"SELECT * FROM q JOIN (SELECT *, rand() AS r FROM t) t {L2}(q, vec)": "a column or condition of the table is not deterministic",
    f"SELECT * FROM q JOIN (SELECT * FROM t WHERE rand() < 0.5) t {L2}(q, vec)": "a column or condition of the table is not deterministic",
    f"SELECT * FROM q JOIN (SELECT * FROM t WHERE hash(id) > 0) t {L2}(q, vec)": "cannot evaluate",
    f"SELECT * FROM q JOIN (SELECT * FROM t LIMIT 5) t {L2}(q, vec)": "limited or aggregated",
    f"SELECT * FROM q JOIN (SELECT t.* FROM t JOIN t s ON t.id = s.id) t {L2}(q, vec)": "but it is the result of Join",
    f"SELECT * FROM q JOIN (SELECT DISTINCT id, vec FROM t) t {L2}(q, vec)": "but it is the result of Aggregate",
    f"SELECT * FROM q JOIN t {L2}(q, transform(vec, x -> x + 1F))": "the vectors of the table are no column of it",
    f"SELECT * FROM q JOIN others {L2}(q, lists[0])": "the vectors of the table are no column of it",
    f"SELECT * FROM q JOIN others {L2}(q, CAST(bytes AS ARRAY<FLOAT>))": "the vectors of the table are no column of it",
    f"SELECT * FROM q JOIN others {L2}(q, varying)": "has no vectors of floats of one size",
    f"SELECT * FROM q JOIN five {L2}(q, vec)": "choose rows by more than a condition",
    f"SELECT * FROM q JOIN found {L2}(q, vec)": "searched or scanned in a way of its own",
    f"SELECT * FROM q JOIN changes {L2}(q, vec)": "choose rows by more than a condition",
    f"SELECT * FROM (SELECT *, INTERVAL 1 MONTH AS i FROM q) JOIN t {L2}(q, vec)": "has the type",
    f"SELECT * FROM q JOIN q AS t {L2}(q.q, t.q)": "",
}
"""What is left to Spark, and why."""


@pytest.mark.usefixtures("t")
def test_what_is_no_nearest_join_is_left_to_spark(spark: SparkSession, uri: str, others: Path) -> None:
    views: dict[str, dict[str, Any]] = {
        "five": {"limit": 5},
        "found": {"nearest": '{"column": "vec", "q": [1, 2, 3, 4, 5, 6, 7, 8]}'},
        "changes": {"readChangeFeed": "true", "startingVersion": 1},
    }
    for name, options in views.items():
        spark.read.format("lance").options(**options).load(uri).createOrReplaceTempView(name)
    spark.read.format("lance").load(str(others)).createOrReplaceTempView("others")
    plans = {query: str(spark.sql(query)._jdf.queryExecution().optimizedPlan().toString()) for query in DECLINED}
    assert [query for query, plan in plans.items() if "MapInArrow" in plan] == []


SESSIONS = """
spark = builder.master("local[2]").getOrCreate()
spark.range(3).count()
lance_spark.enable(spark)
def view(session, name, uri, **options):
    session.read.format("lance").options(**options).load(uri).createOrReplaceTempView(name)
for session in (spark, spark.newSession()):
    session.sql("SELECT 1 AS n, array(1F, 2F, 3F, 4F, 5F, 6F, 7F, 8F) AS q").createOrReplaceTempView("q")
    view(session, "t", sys.argv[1])
    frame = session.sql("SELECT n, id FROM q JOIN t APPROX NEAREST 2 BY DISTANCE vector_l2_distance(q, vec)")
    print("PLANNED", "MapInArrow join" in frame._jdf.queryExecution().optimizedPlan().toString())
print(len(frame.collect()), "rows")
view(spark, "five", sys.argv[1], limit=5)
view(spark, "found", sys.argv[1], nearest='{"column": "vec", "q": [1, 2, 3, 4, 5, 6, 7, 8]}')
view(spark, "changes", sys.argv[1], readChangeFeed="true", startingVersion=1)
view(spark, "others", sys.argv[2])
for query in eval(sys.argv[3]):
    print("DECLINED", "MapInArrow" not in spark.sql(query)._jdf.queryExecution().optimizedPlan().toString(), query)
"""


@pytest.mark.slow
def test_sessions_that_are_built_and_what_is_left_to_spark_with_the_reason(uri: str, others: Path) -> None:
    out = run(START + SESSIONS, uri, str(others), repr(list(DECLINED)))
    assert out.count("PLANNED True") == 2
    assert "\n2 rows\n" in out
    assert [line for line in out.splitlines() if line.startswith("DECLINED False")] == []
    assert out.count("DECLINED True") == len(DECLINED)
    assert [reason for reason in DECLINED.values() if reason not in out] == []


def test_errors_are_those_of_the_join(spark: SparkSession, t: DataFrame) -> None:
    with pytest.raises(SPARK_ERRORS, match="2 dimensions, but the vectors of column 'vec' have 8"):
        spark.sql(f"SELECT * FROM (SELECT array(1F, 2F) AS q) JOIN t APPROX NEAREST BY {BY['l2']}").collect()
    with pytest.raises(SPARK_ERRORS, match="NUM_RESULTS_OUT_OF_RANGE"):
        spark.sql(f"SELECT * FROM q JOIN t APPROX NEAREST 100001 BY {BY['l2']}")
