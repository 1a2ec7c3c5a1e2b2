"""Tables of the session catalog, whose options and location Spark itself does not pass to Python sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset
from lance_spark.spark.workers.version import SPARK_VERSION
from tests.spark.plans import Sql, scans
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(10).selectExpr("id", "CAST(id AS string) AS s")


def write(uri: str, count: int = 10) -> None:
    Dataset.write(uri, pa.table({"id": range(count), "s": [str(i) for i in range(count)]}), "append")


def test_managed_tables(sql: Sql, spark: SparkSession, rows: DataFrame) -> None:
    rows.write.format("lance").saveAsTable("t")
    assert sql("SELECT count(*), max(s) FROM t") == [(10, "9")]
    rows.write.format("lance").mode("append").saveAsTable("t")
    rows.writeTo("t").append()
    sql("INSERT INTO t VALUES (100, 'x')")
    assert sql("SELECT count(*), max(id) FROM t WHERE id >= 0") == [(31, 100)]
    rows.limit(3).write.format("lance").mode("overwrite").saveAsTable("t")
    assert sql("SELECT count(*) FROM t") == [(3,)]
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        rows.write.format("lance").saveAsTable("t")
    rows.write.format("lance").mode("ignore").saveAsTable("t")
    place = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"), "planner.db", "t")
    assert place.exists()
    sql("DROP TABLE t")
    assert not place.exists()


def test_tables_of_queries(sql: Sql, uri: str) -> None:
    sql("CREATE TABLE one USING lance AS SELECT 1L AS id, 'a' AS s")
    sql(f"CREATE TABLE two USING lance LOCATION '{uri}' AS SELECT id + 1 AS id, s FROM one")
    assert sql("SELECT * FROM two") == [(2, "a")]
    assert Dataset.open(uri).count_rows() == 1
    sql("CREATE OR REPLACE TABLE one USING lance AS SELECT 7 AS other")
    assert sql("SELECT * FROM one") == [(7,)]
    sql("INSERT OVERWRITE two SELECT id + 1, s FROM two")
    assert sql("SELECT * FROM two") == [(3, "a")]


def test_several_inserts_of_one_statement(sql: Sql) -> None:
    sql("CREATE TABLE few USING lance AS SELECT 0L AS id")
    sql("CREATE TABLE many USING lance AS SELECT 0L AS id")
    sql("FROM range(10) INSERT INTO few SELECT id WHERE id > 7 INSERT OVERWRITE many SELECT id WHERE id < 7")
    assert sql("SELECT (SELECT count(*) FROM few), (SELECT count(*) FROM many)") == [(3, 7)]


def test_create_table_as_select_does_not_append_to_an_existing_table(sql: Sql, rows: DataFrame, uri: str) -> None:
    write(uri)
    with pytest.raises(SPARK_ERRORS, match="TableAlreadyExistsError"):
        sql(f"CREATE TABLE t USING lance LOCATION '{uri}' AS SELECT 1L AS id, 'a' AS s")
    with pytest.raises(SPARK_ERRORS, match="TableAlreadyExistsError"):
        rows.write.format("lance").option("path", uri).saveAsTable("t")
    assert Dataset.open(uri).count_rows() == 10
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql("SELECT * FROM t")
    rows.limit(2).write.format("lance").mode("overwrite").option("path", uri).saveAsTable("t")
    assert sql("SELECT count(*) FROM t") == [(2,)]


def test_partitions_and_buckets_are_refused_not_forgotten(sql: Sql, rows: DataFrame) -> None:
    for clause in ("PARTITIONED BY (s)", "CLUSTERED BY (id) INTO 4 BUCKETS"):
        for what in ("t (id BIGINT, s STRING) USING lance {}", "t USING lance {} AS SELECT 1L AS id, 'a' AS s"):
            with pytest.raises(UnsupportedOperationException, match="lance tables have no partitions"):
                sql("CREATE TABLE " + what.format(clause))
    writes: list[Callable[[], None]] = [
        lambda: rows.write.format("lance").partitionBy("s").saveAsTable("t"),
        lambda: rows.write.format("lance").bucketBy(4, "id").saveAsTable("t"),
        lambda: rows.writeTo("t").using("lance").partitionedBy(rows.s).create(),
    ]
    for write in writes:
        with pytest.raises(UnsupportedOperationException, match="lance tables have no partitions"):
            write()
    assert sql("SHOW TABLES") == []
    sql("CREATE TABLE t (id BIGINT, s STRING) USING parquet PARTITIONED BY (s)")


@pytest.mark.parametrize("where", ["LOCATION '{}'", "OPTIONS (path '{}')"])
def test_external_tables(sql: Sql, spark: SparkSession, uri: str, where: str) -> None:
    write(uri)
    sql(f"CREATE TABLE t USING lance {where.format(uri)}")
    assert sql("SELECT count(*), max(s) FROM t WHERE id < 5") == [(5, "4")]
    assert "PushedFilters: [id IS NOT NULL, id < 5]" in scans(spark.table("t").where("id < 5"))[0]
    sql("INSERT INTO t VALUES (100, 'x')")
    sql("INSERT INTO t (s, id) VALUES ('y', 101)")
    assert sql("SELECT count(*), max(id) FROM t") == [(12, 101)]
    sql("DROP TABLE t")
    assert Dataset.open(uri).count_rows() == 12


@pytest.mark.skipif(SPARK_VERSION < (4, 3), reason="until then Spark takes the options of a table's first mention for all")
def test_options_of_the_table_and_of_the_query(sql: Sql, spark: SparkSession, uri: str) -> None:
    write(uri)
    write(uri, 5)
    sql(f"CREATE TABLE t USING lance OPTIONS (path '{uri}', columns 'id')")
    assert spark.table("t").columns == ["id"]
    counts = "(SELECT count(*) FROM t WITH (version='{}'))"
    assert sql(f"SELECT {counts.format(1)}, {counts.format(2)}, (SELECT count(*) FROM t)") == [(10, 15, 15)]
    union = " UNION ALL ".join(["SELECT id FROM t WITH (version='1')", "SELECT id FROM t WITH (version='2')", "SELECT id FROM t"])
    assert sql(f"SELECT count(*), sum(id) FROM ({union})") == [(40, 155)]


def test_a_frame_of_a_table_keeps_its_version(sql: Sql, spark: SparkSession, uri: str) -> None:
    write(uri)
    sql(f"CREATE TABLE t USING lance LOCATION '{uri}'")
    frame = spark.table("t")
    assert frame.count() == 10
    write(uri)
    assert (frame.count(), frame.where("id >= 0").count()) == (10, 10)
    assert spark.table("t").count() == 20
    sql("CACHE TABLE t")
    sql("INSERT INTO t VALUES (100, 'x')")
    assert sql("SELECT count(*) FROM t") == [(21,)]
    sql("UNCACHE TABLE t")


def test_a_declared_table_without_data_has_no_rows(sql: Sql, uri: str) -> None:
    sql(f"CREATE TABLE t (id BIGINT NOT NULL, s STRING, st STRUCT<a: INT>) USING lance LOCATION '{uri}'")
    assert sql("SELECT * FROM t") == []
    assert sql("SELECT count(*), count(s), max(id) FROM t") == [(0, 0, None)]
    assert sql("SELECT id FROM t WHERE s = 'x' AND st.a > 3 ORDER BY id LIMIT 3") == []
    sql("INSERT INTO t VALUES (1, 'a', struct(2)), (2, NULL, NULL)")
    assert sql("SELECT id, s, st.a FROM t ORDER BY id") == [(1, "a", 2), (2, None, None)]
    with pytest.raises(SPARK_ERRORS, match="NULL"):
        sql("INSERT INTO t VALUES (NULL, 'a', NULL)")


def test_columns_are_as_nullable_as_in_the_catalog(sql: Sql) -> None:
    sql("CREATE TABLE t (id BIGINT NOT NULL, c CHAR(3), st STRUCT<x: INT>, a ARRAY<INT>) USING lance")
    sql("INSERT INTO t VALUES (1, 'a', struct(1), array(1))")
    sql("INSERT INTO t VALUES (2, NULL, struct(NULL), array(NULL)), (3, NULL, NULL, NULL)")
    sql("INSERT OVERWRITE t VALUES (4, 'b', struct(1), array(1))")
    sql("INSERT INTO t VALUES (5, NULL, NULL, NULL)")
    assert sql("SELECT id, c FROM t ORDER BY id") == [(4, "b  "), (5, None)]
    with pytest.raises(SPARK_ERRORS, match="NULL"):
        sql("INSERT INTO t VALUES (NULL, 'a', NULL, NULL)")
    sql("CREATE TABLE made USING lance AS SELECT 1 AS id, 'x' AS s")
    sql("INSERT INTO made VALUES (NULL, NULL)")
    assert sql("SELECT count(*) FROM made WHERE id IS NULL AND s IS NULL") == [(1,)]


def test_char_columns_are_padded(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, c CHAR(5), v VARCHAR(3)) USING lance")
    sql("INSERT INTO t VALUES (1, 'x', 'yz'), (2, 'longx', 'z'), (3, NULL, NULL)")
    assert sql("SELECT id, c, length(c), v FROM t WHERE c = 'x'") == [(1, "x    ", 5, "yz")]
    assert sql("SELECT id FROM t WHERE c IN ('x', 'longx') ORDER BY id") == [(1,), (2,)]
    assert sql("SELECT max(c), count(c) FROM t") == [("x    ", 2)]
    with pytest.raises(SPARK_ERRORS, match="EXCEED_LIMIT_LENGTH"):
        sql("INSERT INTO t VALUES (1, 'toolong', 'x')")


def test_collations_and_fields_of_intervals_are_those_of_the_catalog(sql: Sql) -> None:
    sql("CREATE TABLE t (c STRING COLLATE UTF8_LCASE, st STRUCT<n: STRING COLLATE UTF8_LCASE, i: INT>, h INTERVAL HOUR) USING lance")
    assert sql("SELECT * FROM t") == []
    sql("INSERT INTO t VALUES ('a', named_struct('n', 'Q', 'i', 1), INTERVAL '1' HOUR), ('B', NULL, NULL), ('A', NULL, INTERVAL '2' HOUR)")
    assert sql("SELECT c FROM t WHERE c = 'A' ORDER BY h") == [("a",), ("A",)]
    assert sql("SELECT st.i FROM t WHERE st.n = 'q'") == [(1,)]
    assert sql("SELECT lower(max(c)), count(c) FROM t") == [("b", 3)]
    assert sql("SELECT lower(c), count(*) FROM t GROUP BY c ORDER BY c") == [("a", 2), ("b", 1)]
    assert sql("SELECT c FROM t ORDER BY c DESC LIMIT 1") == [("B",)]
    assert sql("SELECT CAST(h AS STRING) FROM t WHERE h > INTERVAL '1' HOUR") == [("INTERVAL '02' HOUR",)]
    sql("CREATE TABLE copy USING lance AS SELECT * FROM t")
    assert sql("SELECT l.c, r.c FROM t l JOIN copy r ON l.c = r.c WHERE r.st.n = 'q' ORDER BY l.h") == [("a", "a"), ("A", "a")]


def test_columns_are_those_of_the_table_whoever_changed_it(sql: Sql, uri: str) -> None:
    write(uri)
    sql(f"CREATE TABLE t USING lance LOCATION '{uri}'")
    Dataset.open(uri).drop_columns(["s"])
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("SELECT max(s) FROM t")
    with pytest.raises(AnalysisException, match="TOO_MANY_DATA_COLUMNS"):
        sql("INSERT INTO t VALUES (1, '2')")
    sql("INSERT INTO t VALUES (10)")
    Dataset.open(uri).add_columns({"twice": "id * 2"})
    assert sql("SELECT * FROM t WHERE id > 8 ORDER BY id") == [(9, 18), (10, 20)]


def test_columns_are_altered_in_the_table_and_in_sparks_catalog(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE t (id INT COMMENT 'the key', st STRUCT<a: INT>) USING lance")
    sql("INSERT INTO t VALUES (1, named_struct('a', 2))")
    sql("ALTER TABLE t ADD COLUMNS (st.b INT, w STRING DEFAULT 'x' COMMENT 'with a default')")
    sql("ALTER TABLE t ALTER COLUMN id TYPE BIGINT")
    sql("ALTER TABLE t RENAME COLUMN id TO key")
    sql("ALTER TABLE t DROP COLUMN st.a")
    sql("ALTER TABLE t ALTER COLUMN key SET NOT NULL")
    sql("INSERT INTO t VALUES (2, named_struct('b', 3), DEFAULT)")
    assert sql("SELECT * FROM t ORDER BY key") == [(1, None, "x"), (2, (3,), "x")]
    assert sql("DESCRIBE t")[:3] == [("key", "bigint", "the key"), ("st", "struct<b:int>", None), ("w", "string", "with a default")]
    assert "key BIGINT NOT NULL" in str(sql("SHOW CREATE TABLE t"))
    location = spark.sql("DESCRIBE DETAIL t").collect()[0].location
    assert Dataset.open(location).schema.field("key").nullable is False
    sql("ALTER TABLE t ALTER COLUMN st FIRST")
    assert [row[0] for row in sql("DESCRIBE t")[:3]] == Dataset.open(location).schema.names == ["st", "key", "w"]
    assert sql("SELECT * FROM t ORDER BY key") == [(None, 1, "x"), ((3,), 2, "x")]
    sql("UPDATE t SET w = 'y' WHERE key = 2")
    assert sql("SELECT w FROM t WHERE key > 1") == [("y",)]


def test_changes_of_the_catalog_alone_are_taken(sql: Sql) -> None:
    sql("CREATE TABLE t USING lance AS SELECT 1 AS id")
    sql("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v', 'l' = 'w')")
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('l')")
    sql("ALTER TABLE t ALTER COLUMN id COMMENT 'the id'")
    sql("ALTER TABLE t RENAME TO u")
    assert sql("SHOW TBLPROPERTIES u") == [("k", "v")]
    assert sql("SELECT id FROM u") == [(1,)]


def test_changed_columns_are_taken_over_by_a_declaration(sql: Sql, uri: str) -> None:
    write(uri)
    sql(f"CREATE TABLE t USING lance LOCATION '{uri}'")
    Dataset.open(uri).drop_columns(["s"])
    sql("CREATE OR REPLACE TABLE t USING lance")
    assert sql("SELECT * FROM t WHERE id > 8") == [(9,)]


def test_properties_say_how_a_new_table_is_written(sql: Sql, uri: str) -> None:
    properties = (
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'b.lance.encoding' = 'blob', 'enable_stable_row_ids' = 'true', "
        "'file_format_version' = '2.1', 'version' = '7', 'mine' = 'x')"
    )
    sql(f"CREATE TABLE declared (v ARRAY<FLOAT>, b BINARY) USING lance LOCATION '{uri}' {properties}")
    sql("INSERT INTO declared VALUES (array(1, 2), X'00')")
    sql(f"CREATE TABLE made USING lance LOCATION '{uri}2' {properties} AS SELECT * FROM declared")
    for place in (uri, f"{uri}2"):
        table = lance.dataset(place)
        assert table.schema.field("v").type == pa.list_(pa.float32(), 2)
        assert table.schema.field("b").metadata[b"lance-encoding:blob"] == b"true"
        assert (table.data_storage_version, table.has_stable_row_ids) == ("2.1", True)
    sql(f"CREATE TABLE wrong (id INT) USING lance LOCATION '{uri}3' TBLPROPERTIES ('enable_stable_row_ids' = 'perhaps')")
    with pytest.raises(AnalysisException, match="takes true or false, not 'perhaps'"):
        sql("INSERT INTO wrong VALUES (1)")


def test_an_option_comes_before_a_property(sql: Sql, uri: str) -> None:
    sql(
        f"CREATE TABLE t (id INT) USING lance LOCATION '{uri}' OPTIONS (data_storage_version '2.0') "
        "TBLPROPERTIES ('file_format_version' = '2.1')"
    )
    sql("INSERT INTO t VALUES (1)")
    assert lance.dataset(uri).data_storage_version == "2.0"


def test_options_that_would_be_ignored_are_errors(sql: Sql, spark: SparkSession, uri: str) -> None:
    sql(f"CREATE TABLE t (id BIGINT, s STRING) USING lance LOCATION '{uri}'")
    with pytest.raises(AnalysisException, match="TableNotFoundError"):
        spark.read.option("version", "77").table("t").collect()
    write(uri)
    with pytest.raises(AnalysisException, match="'with_row_id' takes true or false"):
        spark.read.option("with_row_id", "yes").table("t").collect()
    both = spark.read.option("with_row_id", "true").option("WITH_ROW_ADDRESS", "TRUE").table("t")
    assert both.columns == ["id", "s", "_rowid", "_rowaddr"]
    assert both.where("_rowid = 7").select("*").collect() == [(7, "7", 7, 7)]
    assert sql("SELECT s, _rowid FROM t WITH (with_row_id = 'true', filter = 'id = 7')") == [("7", 7)]
    assert spark.read.option("filter", "id = 7").table("t").count() == 1
    sql(f"CREATE TABLE ids USING lance OPTIONS (path '{uri}', with_row_id 'true')")
    assert sql("SELECT _rowid, s FROM ids WHERE id = 3") == [(3, "3")]


def test_a_table_is_described_with_provider_place_and_properties(sql: Sql, uri: str) -> None:
    declaration = f"LOCATION '{uri}' OPTIONS (max_rows_per_file 7) COMMENT 'mine' TBLPROPERTIES ('k' = 'v')"
    sql(f"CREATE TABLE t (id BIGINT, s STRING) USING lance {declaration}")
    sql("CREATE TABLE managed USING lance AS SELECT 1 AS id")
    found = {row[0]: row[1] for row in sql("DESCRIBE EXTENDED t")}
    assert (found["Provider"], found["Location"], found["Type"], found["Comment"]) == ("lance", f"file:{uri}", "EXTERNAL", "mine")
    assert ("Type", "MANAGED") in [row[:2] for row in sql("DESCRIBE EXTENDED managed")]
    [(statement,)] = sql("SHOW CREATE TABLE t")
    for part in ("USING lance", "'max_rows_per_file' = '7'", "COMMENT 'mine'", f"LOCATION 'file:{uri}'", "'k' = 'v'"):
        assert part in str(statement)
    sql("DROP TABLE t")
    sql(str(statement))
    assert sql("SHOW CREATE TABLE t") == [(statement,)]


def test_settings_of_the_store_are_not_described(sql: Sql, uri: str) -> None:
    sql(f"CREATE TABLE t (id BIGINT) USING lance LOCATION '{uri}' OPTIONS ('storage.region' 'hush')")
    for statement in ("SHOW CREATE TABLE t", "DESCRIBE EXTENDED t", "SHOW TBLPROPERTIES t"):
        assert "hush" not in str(sql(statement))


def test_databases_and_unusual_locations(sql: Sql, tmp_path: Path) -> None:
    sql(f"CREATE TABLE t USING lance LOCATION '{tmp_path}/a b%c' AS SELECT 1 AS i")
    assert Dataset.open(f"{tmp_path}/a b%c").count_rows() == 1
    assert sql("SELECT x.i FROM spark_catalog.planner.t AS x") == [(1,)]


def test_a_location_without_a_table_is_an_error_unless_declared(spark: SparkSession, uri: str) -> None:
    with pytest.raises(AnalysisException, match="no Lance table found at"):
        spark.read.format("lance").schema("id long").load(uri).collect()


def test_temporary_views(spark: SparkSession, uri: str) -> None:
    write(uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}')")
    assert spark.sql("SELECT count(*) FROM v WHERE id = 3").collect() == [(1,)]
    spark.sql("INSERT INTO v VALUES (100, 'x')")
    assert Dataset.open(uri).count_rows() == 11
    spark.sql("DROP VIEW v")
