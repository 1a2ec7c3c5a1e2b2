"""Queries look up their rows in the scalar indexes of the table, and explain() shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from tests.spark.plans import physical, rows_read, scan_statistics, scans, settings

Load = Callable[..., DataFrame]
ROWS = 4000


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of four fragments whose columns `id` and `k` have an index; the last one came later, and some rows are deleted."""
    uri = str(tmp_path_factory.mktemp("indexed") / "t.lance")
    rows = pa.table({"id": range(ROWS), "k": [f"k{i % 40}" if i % 7 else None for i in range(ROWS)], "v": [i / 4 for i in range(ROWS)]})
    Dataset.write(uri, rows[:3000], max_rows_per_file=1000)
    indexed = lance.dataset(uri)
    indexed.create_scalar_index("id", "BTREE")
    indexed.create_scalar_index("k", "BITMAP")
    Dataset.write(uri, rows[3000:], mode="append")
    Dataset.open(uri).delete("id % 100 = 3")
    return uri


@pytest.mark.parametrize(
    ("condition", "used"),
    [
        ("id = 17", "id_idx (BTREE): 1 of 2970 rows"),
        ("id = 3", "id_idx (BTREE): 1 of 2970 rows"),
        ("id IN (1, 2999, 3001, 9999)", "id_idx (BTREE): 2 of 2970 rows"),
        ("k = 'k5' AND id < 1000", "k_idx (BITMAP)"),
        ("k IS NULL AND v > 500", "k_idx (BITMAP)"),
    ],
)
def test_filters_use_indexes_as_explain_shows(load: Load, uri: str, condition: str, used: str) -> None:
    filtered = load(uri).where(condition)
    (scan,) = scans(filtered)
    assert "ScalarIndexes: " in scan
    assert used in scan
    plain = load(uri, use_scalar_index=False).where(condition)
    assert "ScalarIndexes" not in scans(plain)[0]
    expected = plain.collect()
    assert filtered.count() == len(expected)
    assert sorted(filtered.collect()) == sorted(expected)


def test_aggregates_limits_and_orders_use_them(load: Load, uri: str) -> None:
    few = load(uri).where("id BETWEEN 500 AND 620")
    plain = load(uri, use_scalar_index=False).where("id BETWEEN 500 AND 620")
    queries: tuple[Callable[[DataFrame], DataFrame], ...] = (
        lambda df: df.agg(F.count("*"), F.min("id"), F.max("k"), F.count("k")),
        lambda df: df.orderBy(F.desc("v")).limit(3),
        lambda df: df.groupBy("k").count().orderBy("k"),
    )
    for query in queries:
        assert "ScalarIndexes" in physical(query(few))
        assert query(few).collect() == query(plain).collect()
    assert few.limit(7).count() == 7


def test_tasks_read_only_the_rows_that_an_index_leaves(spark: SparkSession, load: Load, uri: str) -> None:
    with settings(spark, adaptive__enabled="false"):
        assert rows_read(load(uri).where("id IN (5, 2000) AND id < 3000")) == 2
    assert scan_statistics(load(uri).where("id = 5"))[0] == 1 + 990


def test_the_filter_of_a_join_is_looked_up_at_run_time(spark: SparkSession, load: Load, uri: str, tmp_path: Path) -> None:
    spark.createDataFrame([(5, 1), (2999, 1), (7, 2)], "key long, n int").write.parquet(f"{tmp_path}/few")
    few = spark.read.parquet(f"{tmp_path}/few").where("n = 1")
    joined = load(uri).join(F.broadcast(few), F.col("id") == F.col("key"))
    assert sorted(row.id for row in joined.collect()) == [5, 2999]
    assert "id_idx (BTREE): 2 of 2970 rows" in physical(joined)


def test_verbs_find_their_rows_by_index(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.lance")
    Dataset.open(uri).deep_clone(copy)
    table = LanceTable.forPath(spark, copy)
    table.delete("id = 10")
    table.update(condition="k = 'k1' AND id < 50", set={"v": "-1"})
    rows = spark.createDataFrame([(20, -2.0)], "id long, v double")
    table.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).execute()
    found = Dataset.open(copy).scan(["id", "v"], filter="v < 0").to_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "v": -1.0}, {"id": 20, "v": -2.0}, {"id": 41, "v": -1.0}]
    assert Dataset.open(copy).count_rows("id = 10") == 0


def test_commands_in_sql_find_their_rows_by_index(spark: SparkSession, load: Load, uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.lance")
    Dataset.open(uri).deep_clone(copy)
    load(copy).createOrReplaceTempView("indexed")
    spark.createDataFrame([(i, -2.0) for i in (20, 2999, 3998, 9000)], "id long, v double").createOrReplaceTempView("changes")
    update = spark.sql("EXPLAIN UPDATE indexed SET v = -1 WHERE k = 'k1' AND id < 50").collect()[0][0]
    assert "k_idx (BITMAP)" in update
    spark.sql("UPDATE indexed SET v = -1 WHERE k = 'k1' AND id < 50")
    spark.sql("DELETE FROM indexed WHERE id IN (10, 3500) OR (k IS NULL AND id BETWEEN 100 AND 200)")
    merge = "MERGE INTO indexed t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
    spark.sql(merge + "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)")
    for use in (True, False):
        table = load(copy, use_scalar_index=use)
        assert sorted(r.id for r in table.where("v < 0").collect()) == [1, 20, 41, 2999, 3998, 9000]
        assert table.where("id IN (10, 3500, 20, 9000, 105)").count() == 2
        assert table.where("k IS NULL AND id <= 200").count() == sum(1 for i in range(0, 100) if i % 7 == 0 and i % 100 != 3)
    spark.catalog.dropTempView("indexed")
    spark.catalog.dropTempView("changes")


def test_older_versions_branches_and_catalog_tables_are_looked_up_in_their_own_indexes(
    spark: SparkSession, load: Load, tmp_path: Path, adaptive: bool
) -> None:
    path = str(tmp_path / "t.lance")
    first = Dataset.write(path, pa.table({"id": range(300), "tags": [[f"t{i % 9}"] for i in range(300)]}))
    made = first.create_scalar_index("id", "BTREE").create_scalar_index("tags", "LABEL_LIST")
    made.create_branch("side", made.version)
    made.update({"id": "id + 1000"}, "id < 100")
    Dataset.open(path, branch="side").delete("id % 2 = 0")
    condition = "id IN (5, 6, 1005, 299) AND array_contains(tags, 't5') OR id = 7"
    spark.sql(f"CREATE TABLE indexed USING lance LOCATION '{path}'")
    with settings(spark, adaptive__enabled=str(adaptive).lower()):
        for frame, expected, used in (
            (load(path, version=first.version), [5, 7], False),
            (load(path, version=made.version), [5, 7], True),
            (load(path, branch="side"), [5, 7], True),
            (load(path), [1005], True),
            (spark.table("indexed"), [1005], True),
        ):
            found = frame.where(condition)
            assert sorted(r.id for r in found.collect()) == expected
            assert ("id_idx (BTREE)" in physical(found)) == used
        many = ", ".join(str(i) for i in range(250, 8000))
        assert spark.sql(f"SELECT count(*) FROM indexed WHERE id IN ({many})").collect()[0][0] == 150
        largest = spark.sql("SELECT id FROM indexed WHERE id = (SELECT max(id) FROM indexed WHERE array_contains(tags, 't3'))")
        assert [r.id for r in largest.collect()] == [1093]
        joined = "SELECT a.id FROM indexed a JOIN indexed b ON a.id = b.id + 1 WHERE b.id = 1007 AND arrays_overlap(b.tags, array('t7'))"
        assert [r.id for r in spark.sql(joined).collect()] == [1008]
    spark.sql("DROP TABLE indexed")


@pytest.fixture(params=[True, False], ids=["adaptive", "not adaptive"])
def adaptive(request: pytest.FixtureRequest) -> bool:
    """Whether Spark changes plans while they run."""
    return bool(request.param)
