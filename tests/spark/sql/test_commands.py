"""DELETE, UPDATE, MERGE INTO and TRUNCATE, as users write them: the rows, and the figures of the change."""

from __future__ import annotations

import lance
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset, LanceTable
from tests.spark.sql.tables import Table, changed, start
from tests.spark_session import SPARK_ERRORS


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("id = 3", {3}),
        ("k = 0 OR s = 's4'", {0, 3, 4, 6, 9}),
        ("id IN (SELECT id FROM range(4, 7))", {4, 5, 6}),
        ("id = (SELECT max(id) FROM t)", {9}),
        ("NOT EXISTS (SELECT 1 FROM range(8) r WHERE r.id = t.id)", {8, 9}),
        ("length(concat(s, 'x')) = 3 AND id > 7", {8, 9}),
        ("_fragid = 1 AND _row_created_at_version < 5", {6, 7, 8, 9}),
        ("id > 100", set()),
    ],
)
def test_delete_removes_the_rows_that_satisfy_the_condition(table: Table, where: str, gone: set[int]) -> None:
    before = table.version()
    change = table.run(f"DELETE FROM t WHERE {where}")
    assert table.rows() == changed(lambda row: None if row[0] in gone else row)
    assert (change.num_deleted_rows, change.num_updated_rows, change.num_inserted_rows) == (len(gone), 0, 0)
    assert change.version == table.version() == (before + 1 if gone else before)


@pytest.mark.parametrize("statement", ["DELETE FROM t", "DELETE FROM t WHERE true", "TRUNCATE TABLE t"])
def test_all_rows_are_deleted_without_reading_them(table: Table, statement: str) -> None:
    change = table.run(statement)
    assert table.rows() == []
    assert change.num_deleted_rows == 10
    assert table.run(statement).num_deleted_rows == 0


def test_update_assigns_new_values_and_keeps_the_others(either_table: Table) -> None:
    table = either_table
    ids = table.ids()
    change = table.run("UPDATE t SET k = k + 10, s = concat(s, '!') WHERE id IN (SELECT id FROM range(4, 8))")
    assert table.rows() == changed(lambda r: (r[0], (r[1] or 0) + 10, f"{r[2]}!") if 4 <= r[0] < 8 else r)
    assert (change.num_deleted_rows, change.num_updated_rows, change.num_inserted_rows) == (0, 4, 0)
    if lance.dataset(table.uri).has_stable_row_ids:
        assert table.ids() == ids
        versions = table.spark.sql("SELECT id, _row_last_updated_at_version FROM t").collect()
        assert {row[0] for row in versions if row[1] == change.version} == {4, 5, 6, 7}


def test_update_takes_subqueries_functions_and_null(table: Table) -> None:
    table.spark.udf.register("shout", lambda s: s.upper(), "string")
    table.run("UPDATE t SET s = shout(s), k = (SELECT max(id) FROM t) WHERE id = 2")
    table.run("UPDATE t SET k = NULL WHERE id = 3")
    assert table.rows() == changed(lambda r: {2: (2, 9, "S2"), 3: (3, None, "s3")}.get(r[0], r))


def test_merge_updates_deletes_and_inserts_in_one_version(either_table: Table) -> None:
    table = either_table
    change = table.run(
        """MERGE INTO t USING (SELECT id, concat('m', id) AS s FROM range(4, 13)) AS x ON t.id = x.id
        WHEN MATCHED AND x.id = 5 THEN DELETE
        WHEN MATCHED THEN UPDATE SET s = x.s
        WHEN NOT MATCHED AND x.id < 12 THEN INSERT (id, k, s) VALUES (x.id, 100, x.s)
        WHEN NOT MATCHED BY SOURCE AND t.k = 1 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET k = -1"""
    )
    expected = [(0, -1, "s0"), (2, -1, "s2"), (3, -1, "s3")]
    expected += [(i, i % 3, f"m{i}") for i in (4, 6, 7, 8, 9)] + [(10, 100, "m10"), (11, 100, "m11")]
    assert table.rows() == expected
    assert (change.num_deleted_rows, change.num_updated_rows, change.num_inserted_rows) == (2, 8, 2)
    assert change.version == 3


def test_merge_of_all_columns(table: Table) -> None:
    table.run(
        """MERGE INTO t USING (SELECT id, 7L AS k, 'star' AS s FROM range(8, 12)) x ON t.id = x.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert table.rows() == [*changed(lambda r: r if r[0] < 8 else None), *((i, 7, "star") for i in range(8, 12))]


def test_merge_that_only_inserts(either_table: Table) -> None:
    table = either_table
    change = table.run(
        """MERGE INTO t USING (SELECT id FROM range(8, 12)) x ON t.id = x.id
        WHEN NOT MATCHED AND x.id > 10 THEN INSERT (id, k, s) VALUES (x.id, 0, 'late')
        WHEN NOT MATCHED THEN INSERT (id, s) VALUES (x.id, 'new')"""
    )
    assert table.rows() == [*start().values(), (10, None, "new"), (11, 0, "late")]
    assert (change.num_deleted_rows, change.num_updated_rows, change.num_inserted_rows) == (0, 0, 2)


def test_a_row_that_matches_twice_is_deleted_once_but_not_updated(table: Table) -> None:
    source = "(SELECT explode(array(3L, 3L, 4L)) AS id) x ON t.id = x.id"
    with pytest.raises(SPARK_ERRORS, match="MERGE_CARDINALITY_VIOLATION"):
        table.run(f"MERGE INTO t USING {source} WHEN MATCHED THEN UPDATE SET k = 0")
    assert table.version() == 2
    change = table.run(f"MERGE INTO t USING {source} WHEN MATCHED THEN DELETE")
    assert change.num_deleted_rows == 2
    assert table.rows() == changed(lambda r: None if r[0] in (3, 4) else r)


def test_merge_by_a_dataframe(table: Table) -> None:
    source = table.spark.createDataFrame([(3, "df"), (50, "df")], "id bigint, s string").alias("x")
    merge = source.mergeInto("t", F.expr("t.id = x.id")).whenMatched().update({"s": F.col("x.s")})
    merge.whenNotMatched().insert({"id": F.col("x.id"), "s": F.col("x.s"), "k": F.lit(0)}).merge()
    assert table.rows() == [*changed(lambda r: (3, 0, "df") if r[0] == 3 else r), (50, 0, "df")]


@pytest.mark.parametrize("made", ["of a DataFrame", "by SQL"])
def test_a_view_of_a_path_is_changed_and_shows_it(spark: SparkSession, table: Table, made: str) -> None:
    if made == "by SQL":
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{table.uri}')")
    else:
        spark.read.format("lance").load(table.uri).createOrReplaceTempView("v")
    table.run("UPDATE v SET k = 5 WHERE id = 3")
    table.run("UPDATE v AS a SET k = a.k + 1 WHERE a.id = 3")
    table.run("DELETE FROM v WHERE id = 4")
    change = table.run("MERGE INTO v USING (SELECT 5L AS id) x ON v.id = x.id WHEN MATCHED THEN DELETE")
    expected = changed(lambda r: {3: (3, 6, "s3"), 4: None, 5: None}.get(r[0], r))
    assert sorted(tuple(row) for row in spark.table("v").collect()) == table.rows() == expected
    assert change.version == 6
    table.run("DELETE FROM v")
    assert spark.table("v").count() == 0


def test_a_table_that_was_never_written(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE never (id BIGINT, s STRING) USING lance")
    try:
        for statement in ("DELETE FROM never", "DELETE FROM never WHERE id = 1", "UPDATE never SET s = 'a'", "TRUNCATE TABLE never"):
            spark.sql(statement)
        spark.sql(
            """MERGE INTO never USING (SELECT 5L AS id, 'a' AS s) x ON never.id = x.id
            WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"""
        )
        assert [tuple(row) for row in spark.table("never").collect()] == [(5, "a")]
        change = lance_spark.last_change(spark)
        assert change is not None
        assert (change.version, change.num_inserted_rows) == (1, 1)
    finally:
        spark.sql("DROP TABLE never")


def test_nested_fields_are_assigned(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE nested (id BIGINT, st STRUCT<a: INT, b: STRING>, v ARRAY<INT>) USING lance")
    try:
        spark.sql("INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', 'x'), array(1)), (2, NULL, NULL)")
        spark.sql("UPDATE nested SET st.a = st.a * 10, v = array(7, 8) WHERE st.b = 'x'")
        rows = {row.id: (row.st and tuple(row.st), row.v) for row in spark.table("nested").collect()}
        assert rows == {1: ((10, "x"), [7, 8]), 2: (None, None)}
    finally:
        spark.sql("DROP TABLE nested")


def test_values_must_fit_the_columns(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE strict (id BIGINT NOT NULL, k INT) USING lance")
    try:
        spark.sql("INSERT INTO strict VALUES (1, 1)")
        with pytest.raises(SPARK_ERRORS, match="CAST"):
            spark.sql("UPDATE strict SET k = 'abc'")
        with pytest.raises(SPARK_ERRORS, match=r"(?i)not.?null"):
            spark.sql("UPDATE strict SET id = NULL")
        with pytest.raises(SPARK_ERRORS, match=r"(?i)overflow"):
            spark.sql("UPDATE strict SET k = id + 3000000000")
        assert [tuple(row) for row in spark.table("strict").collect()] == [(1, 1)]
    finally:
        spark.sql("DROP TABLE strict")


def test_the_history_tells_what_was_done(table: Table) -> None:
    change = table.run("DELETE FROM t WHERE id < 4")
    (latest,) = lance.dataset(table.uri).get_transactions(1)
    assert latest.transaction_properties["command"] == "DELETE"
    assert latest.transaction_properties["num_deleted_rows"] == "4"
    # The same value as of LanceTable's verbs.
    assert type(LanceTable.forPath(table.spark, table.uri).delete("id = 5")) is type(change)


def test_cached_queries_are_refreshed(table: Table) -> None:
    table.spark.sql("CACHE TABLE t")
    assert table.spark.table("t").count() == 10
    table.run("DELETE FROM t WHERE id = 4")
    assert table.spark.table("t").count() == 9


def test_columns_that_an_update_keeps_are_not_read_by_spark(table: Table) -> None:
    Dataset.open(table.uri).add_columns({"wide": "concat(s, s)"})
    table.spark.sql("CREATE OR REPLACE TABLE t USING lance LOCATION '" + table.uri + "'")
    plan = table.plan("UPDATE t SET k = 0 WHERE id = 3")
    assert "ReadSchema: struct<_rowaddr:bigint>" in plan
    table.run("UPDATE t SET k = 0 WHERE id = 4")
    table.run("MERGE INTO t USING (SELECT 5L AS id, 'm' AS s) x ON t.id = x.id WHEN MATCHED THEN UPDATE SET s = x.s")
    found = {row.id: row.wide for row in table.spark.table("t").collect()}
    assert found == {i: f"s{i}s{i}" for i in range(10)}
