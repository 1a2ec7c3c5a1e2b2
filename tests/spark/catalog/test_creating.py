"""CREATE TABLE, CTAS and CREATE OR REPLACE: each is one version, and a statement that fails leaves nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import functions as F

from lance_spark import Dataset
from tests.spark.catalog.lakes import Lake
from tests.spark_session import SPARK_ERRORS


def test_a_table_has_the_columns_comments_defaults_and_properties_of_its_statement(own: Lake) -> None:
    own.sql(
        "CREATE TABLE lance.ns.t (id BIGINT NOT NULL COMMENT 'the key', s STRING, n INT DEFAULT 7) COMMENT 'a table' "
        "TBLPROPERTIES ('team'='ours', 'stable_row_ids'='true')"
    )
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'x', DEFAULT), (2, NULL, DEFAULT)")
    assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(1, "x", 7), (2, None, 7)]
    assert own.sql("DESCRIBE lance.ns.t") == [("id", "bigint", "the key"), ("s", "string", None), ("n", "int", None)]
    assert own.sql("SHOW TBLPROPERTIES lance.ns.t") == [("stable_row_ids", "true"), ("team", "ours")]
    details = {row[0]: row[1] for row in own.sql("DESCRIBE EXTENDED lance.ns.t")}
    assert (details["Comment"], details["Provider"], details["Location"]) == ("a table", "lance", own.location("ns.t"))
    [(text,)] = own.sql("SHOW CREATE TABLE lance.ns.t")
    assert "id BIGINT NOT NULL COMMENT 'the key'" in text
    assert "n INT DEFAULT 7" in text
    assert "LOCATION" not in text
    with pytest.raises(SPARK_ERRORS, match="NOT_NULL_ASSERT_VIOLATION"):
        own.sql("INSERT INTO lance.ns.t SELECT if(n > 0, NULL, 1L), s, n FROM lance.ns.t")
    table = lance.dataset(own.location("ns.t"))
    assert table.has_stable_row_ids
    assert not table.schema.field("id").nullable
    assert own.pylance("ns.t") == [{"id": 1, "s": "x", "n": 7}, {"id": 2, "s": None, "n": 7}]


def test_a_created_table_without_rows_is_one_version(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (v ARRAY<FLOAT>) TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    assert own.versions("ns.t") == [1]
    own.sql("INSERT INTO lance.ns.t VALUES (array(1.0F, 2.0F))")
    assert lance.dataset(own.location("ns.t")).schema.field("v").type == pa.list_(pa.float32(), 2)
    for key, error in {"a.lance.speed": "unknown column option", "a.arrow.fixed-size-binary.byte-width": "only binary values"}.items():
        with pytest.raises(SPARK_ERRORS, match=error):
            own.sql(f"CREATE TABLE lance.ns.p (a INT) TBLPROPERTIES ('{key}' = '9', 'our.lance.team' = 'x')")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        own.sql("CREATE TABLE lance.ns.t (a INT)")
    own.sql("CREATE TABLE IF NOT EXISTS lance.ns.t (a INT)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        own.sql("CREATE TABLE lance.nowhere.t (a INT)")
    with pytest.raises(UnsupportedOperationException, match="USING parquet is not possible"):
        own.sql("CREATE TABLE lance.ns.p (a INT) USING parquet")
    with pytest.raises(UnsupportedOperationException, match="no partitions"):
        own.sql("CREATE TABLE lance.ns.p (a INT) PARTITIONED BY (a)")
    assert own.sql("SHOW TABLES IN lance.ns") == [("ns", "t", False)]


def test_the_rows_of_a_query_are_in_the_first_version(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t TBLPROPERTIES ('a'='b') AS SELECT id, id * 2 AS v FROM range(5)")
    assert own.versions("ns.t") == [1]
    assert [row["v"] for row in own.pylance("ns.t", version=1)] == [0, 2, 4, 6, 8]
    assert own.sql("SHOW TBLPROPERTIES lance.ns.t") == [("a", "b")]
    own.spark.range(3).writeTo("lance.top").option("stable_row_ids", "true").tableProperty("c", "d").create()
    assert lance.dataset(own.location("top")).has_stable_row_ids
    assert own.location("top") == str(own.root / "top.lance")
    own.sql("CREATE TABLE lance.ns.none AS SELECT id FROM range(5) WHERE id > 9")
    assert (own.versions("ns.none"), own.pylance("ns.none")) == ([1], [])


def test_a_table_that_is_created_without_a_format_is_a_lance_table(own: Lake) -> None:
    rows = own.spark.range(4).selectExpr("id", "id % 2 AS g")
    rows.write.saveAsTable("lance.saved")
    rows.limit(1).write.mode("overwrite").saveAsTable("lance.saved")
    rows.write.mode("overwrite").saveAsTable("lance.ns.over")
    rows.writeTo("lance.written").create()
    own.spark.catalog.createTable("lance.made", schema=rows.schema)
    rows.write.mode("append").saveAsTable("lance.made")
    assert [len(own.pylance(name)) for name in ("saved", "ns.over", "written", "made")] == [1, 4, 4, 4]
    with pytest.raises(SPARK_ERRORS, match="USING orc is not possible"):
        rows.write.format("orc").saveAsTable("lance.ns.p")
    with pytest.raises(SPARK_ERRORS, match="USING parquet is not possible"):
        own.sql("CREATE TABLE lance.ns.p USING parquet AS SELECT 1 AS a")


def test_a_query_that_fails_leaves_no_table_and_no_file(own: Lake) -> None:
    for statement in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(SPARK_ERRORS, match="stop here"):
            own.sql(f"{statement} lance.ns.t AS SELECT id, if(id > 2, raise_error('stop here'), 1) AS v FROM range(0, 5, 1, 1)")
    with pytest.raises(SPARK_ERRORS, match="Lance has no type for Spark's interval month"):
        own.sql("CREATE TABLE lance.ns.t AS SELECT INTERVAL '1' MONTH AS v")
    with pytest.raises(SPARK_ERRORS, match="Lance has no type for Spark's interval year"):
        own.sql("CREATE TABLE lance.ns.t (v INTERVAL YEAR)")
    assert own.sql("SHOW TABLES IN lance.ns") == []
    assert own.files() == set()
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1 AS a")
    before = own.files()
    with pytest.raises(SPARK_ERRORS, match="stop here"):
        own.sql("CREATE OR REPLACE TABLE lance.ns.t AS SELECT raise_error('stop here') AS a FROM range(3)")
    assert (own.sql("SELECT * FROM lance.ns.t"), own.versions("ns.t"), own.files()) == ([(1,)], [1], before)


def test_a_table_is_replaced_in_one_version_by_a_query_on_itself_while_a_reader_goes_on(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t TBLPROPERTIES ('old'='1') AS SELECT id, 'x' AS s FROM range(4)")
    reader = own.spark.table("lance.ns.t")
    own.sql("CREATE OR REPLACE TABLE lance.ns.t TBLPROPERTIES ('new'='2') AS SELECT s, id * 1.5D AS f FROM lance.ns.t WHERE id > 1")
    assert own.versions("ns.t") == [1, 2]
    assert own.sql("SELECT * FROM lance.ns.t ORDER BY f") == [("x", 3.0), ("x", 4.5)]
    assert reader.count() == 4
    assert own.sql("SELECT count(*) FROM lance.ns.t VERSION AS OF 1") == [(4,)]
    assert own.sql("SHOW TBLPROPERTIES lance.ns.t") == [("new", "2"), ("old", "1")]
    own.sql("REPLACE TABLE lance.ns.t (a INT)")
    assert (own.versions("ns.t"), own.pylance("ns.t"), own.spark.table("lance.ns.t").columns) == ([1, 2, 3], [], ["a"])
    own.spark.range(2).writeTo("lance.ns.t").createOrReplace()
    assert own.pylance("ns.t") == [{"id": 0}, {"id": 1}]
    own.sql("CREATE OR REPLACE TABLE lance.ns.u (a INT)")
    assert own.versions("ns.u") == [1]
    elsewhere = f"LOCATION '{own.root}/elsewhere'"
    for definition in (f"(a INT) {elsewhere}", f"{elsewhere} AS SELECT 1 AS a"):
        with pytest.raises(SPARK_ERRORS, match="REPLACE TABLE keeps the table at"):
            own.sql(f"CREATE OR REPLACE TABLE lance.ns.u {definition}")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.sql("REPLACE TABLE lance.ns.nowhere AS SELECT 1 AS a")


def test_readers_see_either_the_old_or_the_new_rows_during_replacements(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT 0 AS round, id FROM range(3)")
    seen: list[list[tuple[int, int]]] = []
    done = threading.Event()

    def read() -> None:
        session = own.spark
        while not done.is_set():
            seen.append([tuple(row) for row in session.sql("SELECT round, count(*) FROM lance.ns.t GROUP BY round").collect()])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for i in (1, 2):
            own.sql(f"CREATE OR REPLACE TABLE lance.ns.t AS SELECT {i} AS round, id FROM range({i + 3})")
    finally:
        done.set()
        thread.join()
    assert seen
    assert all(rows in ([(0, 3)], [(1, 4)], [(2, 5)]) for rows in seen)


def test_location_registers_a_table_that_is_there_or_makes_one(own: Lake) -> None:
    Dataset.write(own.root / "old" / "rows", pa.table({"x": [1, 2]}))
    own.sql(f"CREATE TABLE lance.ns.old LOCATION '{own.root}/old/rows'")
    assert own.sql("SELECT * FROM lance.ns.old ORDER BY x") == [(1,), (2,)]
    own.sql(f"CREATE TABLE lance.ns.new (y INT) LOCATION '{own.root}/new rows'")
    own.sql("INSERT INTO lance.ns.new VALUES (3)")
    assert own.pylance("ns.new") == [{"y": 3}]
    own.sql(f"CREATE TABLE lance.ns.query LOCATION 'file:{own.root}/query' AS SELECT 4 AS z")
    assert (own.location("ns.query"), own.pylance("ns.query")) == (str(own.root / "query"), [{"z": 4}])
    with pytest.raises(SPARK_ERRORS, match="the statement declares struct<y:int>, but the table there has struct<x:bigint>"):
        own.sql(f"CREATE TABLE lance.ns.other (y INT) LOCATION '{own.root}/old/rows'")
    with pytest.raises(SPARK_ERRORS, match="is not below the root of the namespace"):
        own.sql(f"CREATE TABLE lance.ns.other (y INT) LOCATION '{own.root.parent}/outside'")
    assert not (own.root.parent / "outside").exists()
    assert own.sql("SHOW TABLES IN lance.ns LIKE 'o*'") == [("ns", "old", False)]


def test_files_of_a_table_with_a_location_stay_when_it_is_dropped_without_purge(own: Lake) -> None:
    made = Dataset.write(own.root / "old" / "rows", pa.table({"x": [1, 2]}))
    own.sql("CREATE TABLE lance.ns.own (x INT)")
    own.sql(f"CREATE TABLE lance.ns.old LOCATION '{made.uri}'")
    own.sql(f"CREATE TABLE lance.old LOCATION '{made.uri}'")
    own.sql("CREATE NAMESPACE lance.other")
    own.sql(f"CREATE TABLE lance.other.old LOCATION '{made.uri}'")
    kinds = {name: {row[0]: row[1] for row in own.sql(f"DESCRIBE EXTENDED lance.{name}")}["Type"] for name in ("ns.own", "ns.old", "old")}
    assert kinds == {"ns.own": "MANAGED", "ns.old": "EXTERNAL", "old": "EXTERNAL"}
    assert f"LOCATION '{made.uri}'" in own.sql("SHOW CREATE TABLE lance.ns.old")[0][0]
    before = own.files()
    own.sql("DROP TABLE lance.ns.old")
    own.sql("DROP TABLE lance.old")
    own.sql("DROP NAMESPACE lance.other CASCADE")
    assert own.files() == before
    own.sql(f"CREATE TABLE lance.ns.again LOCATION '{made.uri}'")
    own.sql("DROP TABLE lance.ns.again PURGE")
    own.sql("DROP TABLE lance.ns.own")
    assert own.files() == set()


def test_tables_are_named_by_their_path(own: Lake, tmp_path: Path) -> None:
    place = tmp_path / "somewhere" / "t"
    own.sql(f"CREATE TABLE lance.`{place}` AS SELECT id FROM range(3)")
    own.sql(f"INSERT INTO lance.`{place}` VALUES (9)")
    own.sql(f"DELETE FROM lance.`{place}` WHERE id = 0")
    assert own.sql(f"SELECT count(*) FROM lance.`{place}`") == [(3,)]
    assert own.sql(f"SELECT count(*) FROM lance.`{place}` VERSION AS OF 1") == [(3,)]
    assert lance.dataset(place).count_rows() == 3
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        own.sql("SELECT * FROM lance.`/no/such/table`")
    assert own.spark.table(f"lance.`{place}`").where(F.col("id") > 1).count() == 2
    (place / "mine").mkdir()
    with pytest.raises(UnsupportedOperationException, match="other contents than those of a table, such as 'mine'"):
        own.sql(f"DROP TABLE lance.`{place}`")
    (place / "mine").rmdir()
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UnsupportedOperationException, match=r"such as 'notes\.txt'"):
        own.sql(f"DROP TABLE lance.`{place}`")
    (place / "notes.txt").unlink()
    own.sql(f"DROP TABLE lance.`{place}`")
    assert not place.exists()
    own.sql(f"DROP TABLE IF EXISTS lance.`{place}`")
