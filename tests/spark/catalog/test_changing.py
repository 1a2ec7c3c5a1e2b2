"""ALTER TABLE, DROP, TRUNCATE, RENAME, and writes to tables of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lance_spark import LanceTable, lance_udf
from lance_spark.spark.workers.version import SPARK_VERSION
from tests.spark.catalog.lakes import Lake, lake
from tests.spark_session import SPARK_ERRORS


def test_columns_are_added_with_defaults_comments_and_in_structs(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, named_struct('a', id) AS st FROM range(2)")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS (s STRING COMMENT 'text', st.b INT)")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMN (n INT DEFAULT 5 COMMENT 'five', d DATE DEFAULT DATE'2026-01-02', w STRING DEFAULT 'w x')")
    own.sql("INSERT INTO lance.ns.t VALUES (7, NULL, NULL, NULL, DEFAULT, DEFAULT), (8, NULL, NULL, DEFAULT, DEFAULT, DEFAULT)")
    rows = own.sql("SELECT id, st.a, st.b, s, n, CAST(d AS STRING), w FROM lance.ns.t ORDER BY id")
    day = ("2026-01-02", "w x")
    assert rows == [
        (0, 0, None, None, 5, *day),
        (1, 1, None, None, 5, *day),
        (7, None, None, None, None, *day),
        (8, None, None, None, 5, *day),
    ]
    assert {row[0]: row[2] for row in own.sql("DESCRIBE lance.ns.t")} == {
        "id": None,
        "st": None,
        "s": "text",
        "n": "five",
        "d": None,
        "w": None,
    }
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN n SET DEFAULT 6")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN w DROP DEFAULT")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN s COMMENT 'more text'")
    own.sql("INSERT INTO lance.ns.t VALUES (9, NULL, NULL, DEFAULT, DEFAULT, DEFAULT)")
    assert own.sql("SELECT n, w FROM lance.ns.t WHERE id = 9") == [(6, None)]
    assert ("s", "string", "more text") in own.sql("DESCRIBE lance.ns.t")
    assert len(own.pylance("ns.t")) == 5
    with pytest.raises(SPARK_ERRORS, match="must be nullable"):
        own.sql("ALTER TABLE lance.ns.t ADD COLUMN r INT NOT NULL")


def test_columns_are_dropped_renamed_and_retyped(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT NOT NULL, `a b` STRING, st STRUCT<x: INT, y: INT>, f FLOAT)")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'x', named_struct('x', 1, 'y', 2), 1.5)")
    own.sql("ALTER TABLE lance.ns.t DROP COLUMNS (`a b`, st.y)")
    own.sql("ALTER TABLE lance.ns.t RENAME COLUMN st.x TO z")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id TYPE BIGINT")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN f TYPE DOUBLE")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id DROP NOT NULL")
    own.sql("ALTER TABLE lance.ns.t DROP COLUMN IF EXISTS nothing")
    own.sql("INSERT INTO lance.ns.t VALUES (NULL, named_struct('z', 3), 2.5)")
    assert own.spark.table("lance.ns.t").schema.simpleString() == "struct<id:bigint,st:struct<z:int>,f:double>"
    assert own.pylance("ns.t") == [{"id": 1, "st": {"z": 1}, "f": 1.5}, {"id": None, "st": {"z": 3}, "f": 2.5}]
    with pytest.raises(AnalysisException, match="nothing"):
        own.sql("ALTER TABLE lance.ns.t DROP COLUMN nothing")


def test_fields_in_structs_and_lists_are_added_dropped_renamed_and_retyped(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT, st STRUCT<x: INT, d: STRUCT<y: INT>>, l ARRAY<STRUCT<x: INT, y: INT>>, n ARRAY<INT>)")
    struct, items = "named_struct('x', 1, 'd', named_struct('y', 2))", "array(named_struct('x', 3, 'y', 4), NULL)"
    own.sql(f"INSERT INTO lance.ns.t VALUES (1, {struct}, {items}, array(5)), (2, NULL, NULL, NULL)")
    own.sql("DELETE FROM lance.ns.t WHERE id = 2")
    own.sql(f"INSERT INTO lance.ns.t VALUES (3, NULL, array(), NULL), (4, {struct}, {items}, array(6, NULL))")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS (st.d.`a.b` STRING, l.element.z INT)")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN st.d.y TYPE BIGINT")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN l.element.x TYPE BIGINT")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN n.element TYPE BIGINT")
    own.sql("ALTER TABLE lance.ns.t RENAME COLUMN l.element.x TO xx")
    own.sql("ALTER TABLE lance.ns.t DROP COLUMN l.element.y")
    with pytest.raises(SPARK_ERRORS, match="DEFAULT"):
        own.sql("ALTER TABLE lance.ns.t ADD COLUMN st.q INT DEFAULT 5")
    expected = "struct<id:int,st:struct<x:int,d:struct<y:bigint,a.b:string>>,l:array<struct<xx:bigint,z:int>>,n:array<bigint>>"
    assert own.spark.table("lance.ns.t").schema.simpleString() == expected
    new = {"x": 1, "d": {"y": 2, "a.b": None}}
    changed = [{"xx": 3, "z": None}, None]
    assert own.pylance("ns.t") == [
        {"id": 1, "st": new, "l": changed, "n": [5]},
        {"id": 3, "st": None, "l": [], "n": None},
        {"id": 4, "st": new, "l": changed, "n": [6, None]},
    ]
    rows = own.sql("SELECT id, st.d.y, st.d.`a.b`, get(l, 0).xx, get(n, 0) FROM lance.ns.t ORDER BY id")
    assert rows == [(1, 2, None, 3, 5), (3, None, None, None, None), (4, 2, None, 3, 6)]


@pytest.mark.spec("schema.md", "Schema Evolution")
def test_columns_and_fields_are_moved(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT, `a b` STRING, st STRUCT<x: INT, d: STRUCT<y: INT, z: INT>>, l ARRAY<STRUCT<x: INT, y: INT>>)")
    row = "2, 'x', named_struct('x', 1, 'd', named_struct('y', 2, 'z', 3)), array(named_struct('x', 4, 'y', 5))"
    own.sql(f"INSERT INTO lance.ns.t VALUES ({row})")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN l FIRST")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id AFTER `a b`")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN st.d FIRST")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN st.d.y AFTER z")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN l.element.y FIRST")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS (first INT FIRST, st.d.m INT AFTER z, later STRING DEFAULT 'z' AFTER l)")
    shown = "struct<first:int,l:array<struct<y:int,x:int>>,later:string,a b:string,id:int,st:struct<d:struct<z:int,m:int,y:int>,x:int>>"
    assert own.spark.table("lance.ns.t").schema.simpleString() == shown
    expected = {"first": None, "l": [{"y": 5, "x": 4}], "later": "z", "a b": "x", "id": 2, "st": {"d": {"z": 3, "m": None, "y": 2}, "x": 1}}
    assert own.pylance("ns.t") == [expected]
    assert str(own.pylance("ns.t")[0]) == str(expected)
    with pytest.raises(SPARK_ERRORS, match="nothing"):
        own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id AFTER nothing")
    own.sql("UPDATE lance.ns.t SET st.d.z = 30 WHERE id = 2")
    assert own.sql("SELECT st.d.z, st.d.y, l[0].x FROM lance.ns.t") == [(30, 2, 4)]


def test_replaced_columns_of_the_same_name_keep_their_values(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, int(id * 2) AS n, 'x' AS s FROM range(3)")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id SET NOT NULL")
    own.sql("ALTER TABLE lance.ns.t REPLACE COLUMNS (id BIGINT, n BIGINT COMMENT 'wider', d DATE)")
    assert own.spark.table("lance.ns.t").schema.simpleString() == "struct<id:bigint,n:bigint,d:date>"
    assert own.pylance("ns.t") == [{"id": i, "n": 2 * i, "d": None} for i in range(3)]
    with pytest.raises(SPARK_ERRORS, match="NOT_NULL_ASSERT_VIOLATION"):
        own.sql("INSERT INTO lance.ns.t VALUES (NULL, 1, NULL)")
    for columns, message in {"ID BIGINT": "RENAME COLUMN", "n STRING": "cannot"}.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"ALTER TABLE lance.ns.t REPLACE COLUMNS ({columns})")
    own.sql("ALTER TABLE lance.ns.t REPLACE COLUMNS (new INT, d DATE, id BIGINT, n BIGINT)")
    assert own.pylance("ns.t") == [{"new": None, "d": None, "id": i, "n": 2 * i} for i in range(3)]
    assert [f.name for f in lance.dataset(own.location("ns.t")).schema] == ["new", "d", "id", "n"]
    with pytest.raises(SPARK_ERRORS, match="column 'd' has nulls"):
        own.sql("ALTER TABLE lance.ns.t ALTER COLUMN n SET NOT NULL, d SET NOT NULL")


def test_properties_and_comments_are_set_and_unset(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (a INT)")
    own.sql("ALTER TABLE lance.ns.t SET TBLPROPERTIES ('x'='1', 'y'='2')")
    own.sql("ALTER TABLE lance.ns.t UNSET TBLPROPERTIES ('x')")
    for key, value in {"enable_stable_row_ids": "true", "File_Format_Version": "2.1", "v.arrow.fixed-size-list.size": "2"}.items():
        with pytest.raises(UnsupportedOperationException, match=f"'{key}' says how a new table is written"):
            own.sql(f"ALTER TABLE lance.ns.t SET TBLPROPERTIES ('{key}'='{value}')")
    own.sql("COMMENT ON TABLE lance.ns.t IS 'new words'")
    assert own.sql("SHOW TBLPROPERTIES lance.ns.t") == [("y", "2")]
    assert ("Comment", "new words", "") in own.sql("DESCRIBE EXTENDED lance.ns.t")
    assert own.versions("ns.t") == [1, 2, 3, 4]


def test_tables_are_renamed_truncated_and_dropped(own: Lake) -> None:
    own.sql("CREATE NAMESPACE lance.ns.deep")
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    place = own.location("ns.t")
    own.sql("ALTER TABLE lance.ns.t RENAME TO ns.deep.u")
    assert (own.location("ns.deep.u"), own.sql("SHOW TABLES IN lance.ns")) == (place, [])
    own.sql("ALTER TABLE lance.ns.deep.u RENAME TO lance.top")
    assert own.location("top") == str(own.root / "top.lance")
    assert own.sql("SHOW TABLES IN lance") == [("", "top", False)]
    own.sql("ALTER TABLE lance.top RENAME TO lance.ns.t")
    assert own.sql("SELECT count(*) FROM lance.ns.t") == [(3,)]
    own.sql("TRUNCATE TABLE lance.ns.t")
    assert (own.versions("ns.t"), own.pylance("ns.t")) == ([1, 2], [])
    own.sql("CREATE TABLE lance.ns.u (a INT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        own.sql("ALTER TABLE lance.ns.t RENAME TO ns.u")
    own.sql("DROP TABLE lance.ns.t")
    own.sql("DROP TABLE lance.ns.u PURGE")
    own.sql("DROP TABLE IF EXISTS lance.ns.u")
    assert (own.sql("SHOW TABLES IN lance.ns"), own.files()) == ([], set())
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.sql("DROP TABLE lance.ns.u")


def test_namespaces_are_listed_described_and_dropped_with_all_that_is_in_them(own: Lake) -> None:
    own.sql("CREATE NAMESPACE lance.a COMMENT 'first' WITH DBPROPERTIES ('k'='v')")
    own.sql("CREATE NAMESPACE lance.a.`b c`")
    own.sql("CREATE TABLE lance.a.`b c`.t AS SELECT 1 AS x")
    assert own.sql("SHOW NAMESPACES IN lance") == [("a",), ("ns",)]
    assert own.sql("SHOW NAMESPACES IN lance.a") == [("a.`b c`",)]
    assert ("Comment", "first") in own.sql("DESCRIBE NAMESPACE EXTENDED lance.a")
    own.sql("USE lance.a.`b c`")
    assert own.sql("SELECT * FROM t") == [(1,)]
    own.sql("USE spark_catalog.default")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        own.sql("DROP NAMESPACE lance.a")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        own.sql("CREATE NAMESPACE lance.a")
    own.sql("CREATE NAMESPACE IF NOT EXISTS lance.a")
    own.sql("DROP NAMESPACE lance.a CASCADE")
    assert (own.sql("SHOW NAMESPACES IN lance"), own.files()) == ([("ns",)], set())
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        own.sql("SHOW TABLES IN lance.a")


def test_rows_are_inserted_overwritten_and_replaced_by_a_condition(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, 'x' AS s FROM range(4)")
    own.sql("INSERT INTO lance.ns.t BY NAME SELECT 'y' AS s, 4L AS id")
    own.spark.createDataFrame([(5, "z")], "id bigint, s string").writeTo("lance.ns.t").append()
    with pytest.raises(AnalysisException, match="CANNOT_SAFELY_CAST"):
        own.sql("INSERT INTO lance.ns.t VALUES ('no number', 'x')")
    own.spark.createDataFrame([(9, "nine")], "id bigint, s string").writeTo("lance.ns.t").overwrite(
        (F.col("id") > 2) & F.col("s").isNotNull()
    )
    assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(0, "x"), (1, "x"), (2, "x"), (9, "nine")]
    assert own.versions("ns.t") == [1, 2, 3, 4]
    own.sql("INSERT OVERWRITE lance.ns.t SELECT id + 1, s FROM lance.ns.t WHERE id > 1")
    assert own.pylance("ns.t") == [{"id": 3, "s": "x"}, {"id": 10, "s": "nine"}]
    assert own.versions("ns.t") == [1, 2, 3, 4, 5]


@pytest.mark.skipif(SPARK_VERSION < (4, 3), reason="earlier versions of Spark do not add columns in MERGE")
def test_a_merge_with_schema_evolution_adds_the_columns_of_the_source(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, 'x' AS s FROM range(2)")
    source = "(SELECT 1L AS id, 'm' AS s, 5 AS n UNION ALL SELECT 9L, 'n', 6)"
    own.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO lance.ns.t t USING {source} v ON t.id = v.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = sorted(own.pylance("ns.t"), key=lambda row: int(row["id"]))
    assert rows == [{"id": 0, "s": "x", "n": None}, {"id": 1, "s": "m", "n": 5}, {"id": 9, "s": "n", "n": 6}]


def test_versions_tags_times_and_branches_are_named_in_queries(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1 AS a")
    own.sql("CALL lance.system.create_tag('ns.t', 'first')")
    own.sql("INSERT INTO lance.ns.t VALUES (2)")
    [(at,)] = own.sql("SELECT CAST(current_timestamp() AS STRING)")
    own.sql("CALL lance.system.create_branch('ns.t', 'side')")
    own.sql("INSERT INTO lance.ns.t VALUES (3)")
    own.sql("INSERT INTO lance.ns.t.branch_side VALUES (30)")
    own.sql("DELETE FROM lance.ns.t.branch_side WHERE a = 1")
    counts = {
        "": 3,
        "VERSION AS OF 1": 1,
        "VERSION AS OF 2": 2,
        "VERSION AS OF 'first'": 1,
        f"TIMESTAMP AS OF '{at}'": 2,
    }
    for clause, count in counts.items():
        assert own.sql(f"SELECT count(*) FROM lance.ns.t {clause}") == [(count,)], clause
    assert own.sql("SELECT a FROM lance.ns.t.branch_side ORDER BY a") == [(2,), (30,)]
    details = dict(row[:2] for row in own.sql("DESCRIBE EXTENDED lance.ns.t"))["Table Properties"]
    assert all(text in details for text in ("rows=3", "version=3", "version 3=", "Append", "version 1="))
    assert own.spark.read.option("versionAsOf", 1).table("lance.ns.t").count() == 1
    with pytest.raises(SPARK_ERRORS, match="VersionNotFoundError"):
        own.sql("SELECT * FROM lance.ns.t VERSION AS OF 99")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.sql("SELECT * FROM lance.ns.nowhere.branch_side")
    own.sql("CREATE TABLE lance.ns.branch_x AS SELECT 5 AS real")
    assert own.sql("SELECT * FROM lance.ns.branch_x") == [(5,)]


def test_options_of_a_reader_select_a_version_with_its_columns_and_a_cached_one_is_not_the_table(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1 AS id, 'a' AS s, 'g' AS gone")
    own.sql("CALL lance.system.create_tag('ns.t', 'first')")
    own.sql("CALL lance.system.create_branch('ns.t', 'side')")
    own.sql("ALTER TABLE lance.ns.t DROP COLUMN gone")
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN id TYPE BIGINT")
    own.sql("INSERT INTO lance.ns.t VALUES (2, 'b')")
    for options in ({"version": "1"}, {"tag": "first"}, {"branch": "side"}, {"versionAsOf": "1"}):
        frame = own.spark.read.options(**options).table("lance.ns.t")
        assert frame.schema.simpleString() == "struct<id:int,s:string,gone:string>", options
        assert frame.where("gone = 'g'").select("id", "_rowaddr").collect() == [(1, 0)], options
    changes = own.spark.read.option("readChangeFeed", "true").option("startingVersion", 1).table("lance.ns.t")
    for cached, count in ((changes, 2), (own.spark.read.option("version", 1).table("lance.ns.t"), 1)):
        assert cached.cache().count() == count
        assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(1, "a"), (2, "b")]
        assert own.spark.table("lance.ns.t").columns == ["id", "s"]
        cached.unpersist()


def test_a_catalog_over_a_rest_namespace_does_the_same(spark: SparkSession, tmp_path: Path) -> None:
    from tests.namespace.test_clients import rest

    with rest(tmp_path / "lake") as uri, lake(spark, tmp_path / "lake", namespace=uri) as own:
        own.sql("CREATE TABLE lance.ns.t COMMENT 'remote' AS SELECT id FROM range(3)")
        own.sql("CREATE OR REPLACE TABLE lance.ns.t AS SELECT id, 'x' AS s FROM lance.ns.t")
        own.sql("UPDATE lance.ns.t SET s = 'y' WHERE id = 1")
        assert own.versions("ns.t") == [1, 2, 3]
        assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(0, "x"), (1, "y"), (2, "x")]
        own.sql("CREATE TABLE lance.ns.e (a INT DEFAULT 3)")
        assert own.sql("SHOW TABLES IN lance.ns") == [("ns", "e", False), ("ns", "t", False)]
        with pytest.raises(SPARK_ERRORS, match="stop here"):
            own.sql("CREATE TABLE lance.ns.no AS SELECT raise_error('stop here') AS a")
        own.sql("DROP TABLE lance.ns.t")
        own.sql("DROP NAMESPACE lance.ns CASCADE")
        assert (own.sql("SHOW NAMESPACES IN lance"), own.files()) == ([], set())


def test_tables_that_pylance_made_are_read_and_changed(own: Lake) -> None:
    lance.write_dataset(pa.table({"id": [1, 2, 3], "v": [[1.0], [2.0], None]}), own.root / "theirs.lance")
    own.sql("DELETE FROM lance.theirs WHERE id = 2")
    own.sql("INSERT INTO lance.theirs VALUES (4, array(4.0D))")
    assert own.sql("SHOW TABLES IN lance") == [("", "theirs", False)]
    assert own.pylance("theirs") == [{"id": 1, "v": [1.0]}, {"id": 3, "v": None}, {"id": 4, "v": [4.0]}]


@lance_udf("string")
def named(id: int) -> str:
    return f"row {id}"


def test_verbs_and_procedures_change_what_spark_has_cached_of_a_table(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, 'a' AS s FROM range(4)")
    own.sql("CACHE TABLE lance.ns.t")
    # Spark 4.0 does not find what it has cached of a table of a catalog, and reads the table.
    assert own.spark.catalog.isCached("lance.ns.t") or SPARK_VERSION < (4, 3)
    table = LanceTable.forName(own.spark, "lance.ns.t")
    source = own.spark.createDataFrame([(3, "m"), (9, "n")], "id bigint, s string")
    changes: list[tuple[Callable[[], object], list[tuple[int, str]]]] = [
        (lambda: table.delete("id = 0"), [(1, "a"), (2, "a"), (3, "a")]),
        (lambda: table.update("id = 1", {"s": "'b'"}), [(1, "b"), (2, "a"), (3, "a")]),
        (
            lambda: table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(),
            [(1, "b"), (2, "a"), (3, "m"), (9, "n")],
        ),
        (lambda: table.updateColumns(source.selectExpr("id", "upper(s) AS s"), on="id"), [(1, "b"), (2, "a"), (3, "M"), (9, "N")]),
        (lambda: table.restoreToVersion(2), [(1, "a"), (2, "a"), (3, "a")]),
        (lambda: own.sql("CALL lance.system.restore('ns.t', 3)"), [(1, "b"), (2, "a"), (3, "a")]),
        (lambda: own.sql("RESTORE lance.ns.t TO VERSION AS OF 1"), [(0, "a"), (1, "a"), (2, "a"), (3, "a")]),
        (lambda: table.backfill("s", named, where="id = 2"), [(0, "a"), (1, "a"), (2, "row 2"), (3, "a")]),
    ]
    for change, rows in changes:
        change()
        assert own.sql("SELECT id, s FROM lance.ns.t ORDER BY id") == rows
    own.spark.catalog.clearCache()
