"""Statements that Spark does not know, as users of Delta Lake and of the JVM connector type them, on every kind of table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import SchemaMismatchError
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import Sql, settings
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made


def test_the_history_of_a_table_is_described_by_its_name_its_path_and_its_view(own: Lake, sql: Sql) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("INSERT INTO lance.ns.t VALUES (3)")
    path = own.location("ns.t")
    own.sql(f"CREATE TEMPORARY VIEW statement_view USING lance OPTIONS (path '{path}')")
    sql("CREATE TABLE session_table (id INT) USING lance")
    sql("INSERT INTO session_table VALUES (1)")
    for name in ("lance.ns.t", f"lance.`{path}`", "statement_view"):
        rows = own.spark.sql(f"DESCRIBE HISTORY {name}")
        assert rows.columns == ["version", "timestamp", "operation", "message", "properties"]
        assert [(row.version, row.operation) for row in rows.collect()] == [(2, "Append"), (1, "Overwrite")]
    assert [row[2] for row in sql("desc  history /* of */ planner.session_table limit 1 ; -- newest")] == ["Overwrite"]
    derived = own.spark.newSession()
    assert derived.sql(f"DESCRIBE HISTORY lance.`{path}`").count() == 2
    with pytest.raises(SPARK_ERRORS, match="the end is expected, but there is 'AND' at position 37"):
        own.sql("DESCRIBE HISTORY lance.ns.t LIMIT 1 AND more")
    with pytest.raises(SPARK_ERRORS, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.sql("DESCRIBE HISTORY lance.ns.missing")


def test_statements_of_delta_lake(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ REPARTITION(3) */ id, id % 2 AS p FROM range(60)")
    own.sql("DELETE FROM lance.ns.t WHERE id % 3 = 0")
    [before] = own.spark.sql("DESCRIBE DETAIL lance.ns.t").collect()
    assert (before.format, before.location, before.version, before.numRows) == ("lance", own.location("ns.t"), 2, 40)
    done = own.spark.sql("OPTIMIZE lance.ns.t WHERE p < 5 OR (id IN (1, 2) AND p = 7)")
    assert done.columns == ["fragments_removed", "fragments_added", "files_removed", "files_added"]
    assert done.collect()[0][:2] == (3, 1)
    assert own.spark.sql("DESCRIBE DETAIL lance.ns.t").collect()[0].numFiles == 1 < before.numFiles
    assert own.sql("OPTIMIZE lance.ns.t ZORDER BY (id, p)") == [(1, 1, 40)]
    latest = own.versions("ns.t")[-1]
    assert own.sql("RESTORE TABLE lance.ns.t TO VERSION AS OF 1") == [(latest + 1,)]
    assert own.sql("SELECT count(*) FROM lance.ns.t") == [(60,)]
    [(at,)] = own.sql(f"SELECT CAST(timestamp AS STRING) FROM lance.ns.t.history WHERE version = {latest}")
    assert own.sql(f"RESTORE lance.ns.t TO TIMESTAMP AS OF '{at}'") == [(latest + 2,)]
    assert own.sql("SELECT count(*) FROM lance.ns.t") == [(40,)]
    own.sql("ALTER TABLE lance.ns.t CREATE TAG kept AS OF VERSION 2")
    assert own.sql("VACUUM lance.ns.t") == [(0, 0)]
    [(_, old, files)] = own.sql("VACUUM lance.ns.t RETAIN 0 HOURS DRY RUN")
    assert old == latest
    assert files
    assert own.sql("VACUUM lance.ns.t RETAIN 0.0 HOURS")[0][1] == latest
    assert own.versions("ns.t") == [2, latest + 2]
    for wrong, message in {
        "OPTIMIZE lance.ns.t WITH (target_rows = 3)": "no option 'target_rows'",
        "OPTIMIZE lance.ns.t WITH (target_rows_per_fragment = 'x')": "takes a value of the type bigint",
        "VACUUM lance.ns.t RETAIN x HOURS": "a number is expected",
        "RESTORE lance.ns.t TO TIMESTAMP AS OF 'never'": "never|CAST_INVALID_INPUT",
        "ALTER TABLE lance.ns.t REPLACE INDEX b": "TAG or BRANCH is expected",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)


def test_a_path_of_delta_lakes_statements_is_in_quotes(own: Lake, uri: str) -> None:
    own.spark.range(3).write.format("lance").mode("append").save(uri)
    assert own.spark.sql(f"DESCRIBE DETAIL '{uri}'").collect()[0].numRows == 3
    assert len(own.sql(f'DESCRIBE HISTORY "{uri}" LIMIT 5')) == 1
    assert own.sql(f"OPTIMIZE '{uri}' WHERE id > 1")[0][1] <= 1
    assert own.sql(f"VACUUM '{uri}' RETAIN 100 HOURS") == [(0, 0)]
    with pytest.raises(SPARK_ERRORS, match="nothing_there"):
        own.sql(f"OPTIMIZE '{uri}/nothing_there'")


def test_statements_of_the_jvm_connector(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT NOT NULL, s STRING NOT NULL)")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'a')")
    for key, message in {"id, id": "names a column twice", "nothing": "no column 'nothing'"}.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"ALTER TABLE lance.ns.t SET UNENFORCED PRIMARY KEY ({key})")
    assert own.sql("ALTER TABLE lance.ns.t SET UNENFORCED PRIMARY KEY (id, s)") == [("OK", "id, s")]
    made = own.spark.sql("ALTER TABLE lance.ns.t CREATE INDEX i USING zonemap (id) WITH (rows_per_zone = 2048)")
    assert (made.columns, made.collect()) == (["fragments_indexed", "index_name"], [(1, "i")])
    own.sql("INSERT INTO lance.ns.t VALUES (2, 'b')")
    listed = own.spark.sql("SHOW INDEXES FROM lance.ns.t").collect()
    assert [(i.name, i.fields, i.index_type, i.num_indexed_fragments, i.num_unindexed_rows) for i in listed] == [
        ("i", ["id"], "zonemap", 1, 1)
    ]
    refreshed = own.spark.sql("ALTER TABLE lance.ns.t REFRESH INDEX i WITH (num_segments = 4)")
    assert (refreshed.columns, refreshed.collect()) == (["fragments_indexed", "segments_added", "index_name"], [(1, 1, "i")])
    optimized = own.spark.sql("ALTER TABLE lance.ns.t OPTIMIZE INDEX i WITH (num_indices_to_merge = 2, retrain = FALSE)")
    assert optimized.columns == ["index_name", "fragments_indexed", "segments_before", "segments_after"]
    assert optimized.collect()[0][:3] == ("i", 0, 2)
    assert own.sql("ALTER TABLE lance.ns.t DROP INDEX i") == [("i", "dropped")]
    assert own.sql("SHOW INDEX IN lance.ns.t") == []
    assert own.sql("ALTER TABLE lance.ns.t CREATE BRANCH IF NOT EXISTS b AS OF VERSION 2") == [("b",)]
    own.sql("INSERT INTO lance.ns.t.branch_b VALUES (9, 'z')")
    own.sql("ALTER TABLE lance.ns.t CREATE TAG x AS OF BRANCH b")
    own.sql("ALTER TABLE lance.ns.t CREATE BRANCH IF NOT EXISTS c AS OF TAG x")
    assert own.sql("SELECT id FROM lance.ns.t.branch_c ORDER BY id") == [(1,), (9,)]
    assert [row[:2] for row in own.sql("SHOW TAGS FROM lance.ns.t")] == [("x", "b")]
    assert [row[:2] for row in own.sql("SHOW BRANCHES IN lance.ns.t")] == [("b", None), ("c", "b")]
    tags, branches = own.spark.sql("SHOW TAG IN lance.ns.t"), own.spark.sql("SHOW BRANCH FROM lance.ns.t")
    assert tags.dtypes[3:] == [("created_at", "bigint"), ("updated_at", "bigint"), ("manifest_size", "int")]
    assert branches.dtypes[2:] == [("parent_version", "bigint"), ("created_at", "bigint"), ("manifest_size", "int")]
    assert 0 < branches.collect()[0].created_at <= tags.collect()[0].created_at < time.time() + 1
    assert min(tags.collect()[0].manifest_size, branches.collect()[0].manifest_size) > 0
    assert own.sql("ALTER TABLE lance.ns.t REPLACE TAG x AS OF VERSION 3") == [("x",)]
    for statement in ("DROP TAG x", "DROP TAG IF EXISTS x", "DROP BRANCH c"):
        assert own.sql(f"ALTER TABLE lance.ns.t {statement}") == [(statement[-1],)]
    assert own.sql("OPTIMIZE lance.ns.t WITH (target_rows_per_fragment = 20000, num_threads = 4)") == [(2, 1, 2, 1)]
    assert own.sql("VACUUM lance.ns.t WITH (before_version = 3)")[0][1] == 1
    assert own.versions("ns.t")[0] == 2, "a branch is based on it"


def test_a_clustered_table_is_optimized_by_clustering_what_is_new(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t CLUSTER BY (x) AS SELECT /*+ REPARTITION(3) */ id, id * 7919 % 1009 AS x FROM range(3000)")
    done = own.spark.sql("OPTIMIZE lance.ns.t")
    assert done.collect() == [(3, 1, 3, 1)]

    def in_order() -> bool:
        values = [x for (x,) in own.sql("SELECT x FROM lance.ns.t")]
        return values == sorted(values)

    assert in_order()
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 5 AS x FROM range(3000, 3100)")
    assert own.sql("OPTIMIZE lance.ns.t WHERE id < 3000") == [(0, 0, 0, 0)]
    assert own.sql("OPTIMIZE lance.ns.t") == [(2, 1, 2, 1)], "small fragments are sorted again"
    assert own.sql("OPTIMIZE lance.ns.t") == [(0, 0, 0, 0)]
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 7 AS x FROM range(3100, 3200)")
    assert own.sql("CALL lance.system.compact(table => 'ns.t', target_rows_per_fragment => 100000)")[0][1:3] == (2, 1)
    assert in_order()
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 9 AS x FROM range(3200, 3300)")
    assert LanceTable.forName(own.spark, "lance.ns.t").optimize().executeCompaction().fragments_removed == 2
    assert in_order()
    assert own.sql("CALL lance.system.rewrite_data_files(table => 'ns.t', sort_order => 'zorder(id)')") == [(1, 1, None, 0, None)]
    assert own.sql("SELECT id FROM lance.ns.t") == [(i,) for i in range(3300)]
    with pytest.raises(SPARK_ERRORS, match="without one; write 'a, b'"):
        own.sql("CALL lance.system.rewrite_data_files(table => 'ns.t', sort_order => 'id DESC')")


def test_tasks_sort_the_rows_that_they_write(own: Lake, tmp_path: Path) -> None:
    rows = "SELECT /*+ REPARTITION(2) */ id, id * 7919 % 1009 AS x FROM range(2000)"
    own.sql(f"CREATE TABLE lance.ns.t TBLPROPERTIES ('write_order' = 'x, id') AS {rows}")
    own.sql(f"INSERT INTO lance.ns.t {rows}")
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ * FROM VALUES (5, 9), (4, 9), (3, 2)")
    place = str(tmp_path / "t.lance")
    own.spark.sql(rows).write.format("lance").mode("append").option("write_order", "x,id").save(place)
    own.spark.sql(rows).repartitionByRange(2, "x").write.format("lance").mode("append").option("write_order", '["x"]').save(place)
    for uri, count in ((own.location("ns.t"), 5), (place, 4)):
        fragments = [f.to_table() for f in lance.dataset(uri).get_fragments()]
        assert len(fragments) == count
        assert all(f["x"].to_pylist() == sorted(f["x"].to_pylist()) for f in fragments)
    low, high = fragments[2:]
    assert max(low["x"].to_pylist()) <= min(high["x"].to_pylist()), "a range of the values for each task"
    with pytest.raises(SPARK_ERRORS, match="write_order: no column 'nothing'"):
        own.spark.range(1).write.format("lance").mode("append").option("write_order", "nothing").save(str(tmp_path / "u.lance"))


def test_a_property_says_how_a_column_is_written_that_comes_later(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT, name STRING) TBLPROPERTIES ('file_format_version' = '2.2')")
    own.sql("ALTER TABLE lance.ns.t SET TBLPROPERTIES ('content.lance.encoding' = 'blob', 'x.lance.compression' = 'zstd')")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'alpha'), (2, 'bravo')")
    own.sql("CREATE TEMPORARY VIEW contents AS SELECT _rowaddr, _fragid, CAST(name AS BINARY) AS content FROM lance.ns.t")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS content FROM contents")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS (x STRING)")
    assert own.sql("SELECT content, x FROM lance.ns.t ORDER BY id") == [(b"alpha", None), (b"bravo", None)]
    table = lance.dataset(own.location("ns.t"))
    assert table.take_blobs("content", indices=[1])[0].readall() == b"bravo"
    assert table.schema.field("x").metadata[b"lance-encoding:compression"] == b"zstd"
    with pytest.raises(SPARK_ERRORS, match="give it in CREATE TABLE"):
        own.sql("ALTER TABLE lance.ns.t SET TBLPROPERTIES ('name.lance.compression' = 'zstd')")


def test_columns_take_their_values_from_a_view_with_row_addresses(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ REPARTITION(3) */ id, 0 AS x FROM range(10)")
    own.sql("CREATE TEMPORARY VIEW column_view AS SELECT _rowaddr, _fragid, id * 2 AS y, 'a' || id AS z FROM lance.ns.t WHERE id > 6")
    addresses = own.sql("SELECT id, _rowaddr FROM lance.ns.t ORDER BY id")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS y, z FROM column_view")
    assert own.sql("SELECT * FROM lance.ns.t WHERE id > 5 ORDER BY id") == [
        (6, 0, None, None), (7, 0, 14, "a7"), (8, 0, 16, "a8"), (9, 0, 18, "a9")
    ]  # fmt: skip
    own.sql("ALTER TABLE lance.ns.t UPDATE COLUMNS z, x FROM (SELECT _rowaddr, id AS x, 'new' AS z FROM lance.ns.t WHERE id IN (0, 9))")
    assert own.sql("SELECT id, x, z FROM lance.ns.t WHERE x = id AND z = 'new' ORDER BY id") == [(0, 0, "new"), (9, 9, "new")]
    assert own.sql("SELECT id, _rowaddr FROM lance.ns.t ORDER BY id") == addresses, "rows stay in place"
    assert [v.operation for v in own.spark.sql("SELECT * FROM lance.ns.t.history ORDER BY version").collect()] == [
        "Overwrite", "Merge", "Update"
    ]  # fmt: skip
    assert {row["id"]: row["x"] for row in own.pylance("ns.t")}[9] == 9
    path = own.location("ns.t")
    own.sql(f"CREATE TEMPORARY VIEW path_view USING lance OPTIONS (path '{path}')")
    own.sql(f"ALTER TABLE path_view ADD COLUMNS w FROM (SELECT _rowaddr, id AS w FROM lance.`{path}`)")
    assert own.sql(f"SELECT count(*) FROM lance.`{path}` WHERE w = id") == [(10,)]
    for wrong, message in {
        "ADD COLUMNS x FROM column_view": "UNRESOLVED_COLUMN|already has",
        "ADD COLUMNS z FROM column_view": "already has the columns 'z'",
        "UPDATE COLUMNS q FROM (SELECT _rowaddr, 1 AS q FROM lance.ns.t)": "no column 'q'",
        "UPDATE COLUMNS x FROM (SELECT _rowaddr, 'text' AS x FROM lance.ns.t)": "x",
        "ADD COLUMNS z, Z FROM column_view": "names a column twice",
        "ADD COLUMNS k FROM (SELECT explode(array(_rowaddr, _rowaddr)) AS _rowaddr, 1 AS k FROM lance.ns.t)": "more than one new value",
        "ADD COLUMNS k FROM (SELECT 99L << 32 AS _rowaddr, 1 AS k)": "no fragment 99",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"ALTER TABLE lance.ns.t {wrong}")
    assert own.spark.table("lance.ns.t").columns == ["id", "x", "y", "z", "w"]


@pytest.mark.skipif(SPARK_VERSION < (4, 2), reason="Spark passes constraints and LIKE to catalogs from version 4.2")
def test_a_new_table_has_constraints_or_those_of_another_table(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id BIGINT PRIMARY KEY, x INT CHECK (x > 0), s STRING, CONSTRAINT short CHECK (length(s) < 5))")
    own.sql("CREATE TABLE lance.ns.u LIKE lance.ns.t")
    for name in ("t", "u"):
        own.sql(f"INSERT INTO lance.ns.{name} VALUES (1, 1, 'abc')")
        for row, message in {"(2, -1, 'a')": r"CHECK \(x > 0\)", "(2, 1, 'abcdef')": "'short'", "(NULL, 1, 'a')": "NOT_NULL|null"}.items():
            with pytest.raises(SPARK_ERRORS, match=message):
                own.sql(f"INSERT INTO lance.ns.{name} VALUES {row}")
        assert len(own.pylance(f"ns.{name}")) == 1
    field = lance.dataset(own.location("ns.t")).schema.field("id")
    assert (field.nullable, field.metadata[b"lance-schema:unenforced-primary-key"]) == (False, b"true")
    own.sql("CREATE OR REPLACE TABLE lance.ns.w (a INT NOT NULL, b INT NOT NULL, CONSTRAINT pk PRIMARY KEY (b, a))")
    key = [f.metadata[b"lance-schema:unenforced-primary-key:position"] for f in lance.dataset(own.location("ns.w")).schema]
    assert key == [b"2", b"1"]
    for wrong in ("a INT, UNIQUE (a)", "a BIGINT REFERENCES lance.ns.t (id)"):
        with pytest.raises(SPARK_ERRORS, match="leave out"):
            own.sql(f"CREATE TABLE lance.ns.wrong ({wrong})")
    with pytest.raises(SPARK_ERRORS, match="does not fit the table"):
        own.sql("CREATE TABLE lance.ns.wrong (a STRING, CHECK (soundex(a) = 'x'))")
    assert ("ns", "wrong", False) not in own.sql("SHOW TABLES IN lance.ns")


def test_indexes_are_created_by_the_statement_of_sparks_grammar(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, id * 2 AS x FROM range(10)")
    own.sql("CREATE INDEX by_id ON lance.ns.t (id)")
    own.sql("CREATE INDEX `By X` ON TABLE lance.ns.t USING zonemap (x) OPTIONS ('rows_per_zone' = '128')")
    assert [row[0::2][:2] for row in own.sql("SHOW INDEXES FROM lance.ns.t")] == [("By X", "zonemap"), ("by_id", "btree")]
    for wrong, message in {
        "CREATE INDEX by_id ON lance.ns.t (x)": "already has an index 'by_id'",
        "CREATE INDEX two ON lance.ns.t (id, x)": "an index has one column",
        "CREATE INDEX two ON lance.ns.t (x) OPTIONS (zones = 1)": "no option 'zones'",
        "DROP INDEX two ON lance.ns.t": "no index 'two'",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)
    own.sql("DROP INDEX `By X` ON lance.ns.t")
    assert len(own.sql("SHOW INDEXES FROM lance.ns.t")) == 1


def test_statements_of_iceberg(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ REPARTITION(3) */ id, id % 2 AS p FROM range(60)")
    own.sql("ALTER TABLE lance.ns.t WRITE ORDERED BY p ASC, id")
    assert own.spark.sql("DESCRIBE DETAIL lance.ns.t").collect()[0].clusteringColumns == ["p", "id"]
    own.sql("ALTER TABLE lance.ns.t WRITE UNORDERED")
    own.sql("ALTER TABLE lance.ns.t CREATE OR REPLACE BRANCH b AS OF VERSION 1")
    own.sql("INSERT INTO lance.ns.t.branch_b VALUES (60, 0)")
    own.sql("ALTER TABLE lance.ns.t CREATE OR REPLACE TAG x AS OF VERSION 1")
    assert own.sql("SELECT count(*) FROM lance.ns.t__branch__b") == [(61,)]
    assert own.sql("ALTER TABLE lance.ns.t REPLACE BRANCH b AS OF VERSION 2") == [("b",)]
    for name in ("lance.ns.t__branch__b", "lance.ns.t VERSION AS OF 'b'"):
        assert own.sql(f"SELECT count(*) FROM {name}") == [(60,)]
    with pytest.raises(SPARK_ERRORS, match="no tag 'missing'"):
        own.sql("SELECT * FROM lance.ns.t VERSION AS OF 'missing'")
    done = own.spark.sql("CALL lance.system.rewrite_data_files(table => 'ns.t', options => map('target-file-size-bytes', '1000000'))")
    counted = ["rewritten_data_files_count", "added_data_files_count", "failed_data_files_count"]
    assert done.select(counted).collect() == [(3, 1, 0)]
    latest = own.versions("ns.t")[-1]
    own.sql("ALTER TABLE lance.ns.t CREATE OR REPLACE TAG x")
    assert own.sql("CALL lance.system.rollback_to_snapshot('ns.t', 1)") == [(latest, latest + 1)]
    assert own.sql("CALL lance.system.set_current_snapshot(table => 'ns.t', ref => 'x')") == [(latest + 1, latest + 2)]
    assert own.sql("CALL lance.system.rollback_to_timestamp('ns.t', current_timestamp())") == [(latest + 2, latest + 3)]
    assert own.sql("CALL lance.system.remove_orphan_files(table => 'ns.t', dry_run => true)") == []
    assert own.sql("CALL lance.system.expire_snapshots('ns.t')") == [(0, 0, 0, 0, 0, 0)]
    assert own.sql("CALL lance.system.rewrite_manifests('ns.t')") == [(0, 0)]
    ancestors = own.spark.sql("CALL lance.system.ancestors_of(snapshot_id => 2, table => 'ns.t')").collect()
    assert [row.snapshot_id for row in ancestors] == [2, 1]
    expired = own.spark.sql("CALL lance.system.expire_snapshots('ns.t', current_timestamp(), 2)").collect()[0]
    assert expired.deleted_manifest_files_count > 0
    assert own.versions("ns.t")[-2:] == [latest + 2, latest + 3]
    for wrong, message in {
        "CALL lance.system.add_files(table => 'ns.t', source_table => 'ns.x')": "INSERT INTO t SELECT",
        "CALL lance.system.register_table(table => 'ns.new', metadata_file => '/x')": "name the table by its path",
        "CALL lance.system.create_changelog_view(table => 'ns.t', net_changes => true)": "leave out net_changes",
        "CALL lance.system.rewrite_data_files(table => 'ns.t', strategy => 'sort')": "ZORDER BY",
        "CALL lance.system.remove_orphan_files('ns.t', current_timestamp())": "leave out older_than",
        "ALTER TABLE lance.ns.t CREATE TAG y RETAIN 7 DAYS": "leave out RETAIN",
        "ALTER TABLE lance.ns.t WRITE ORDERED BY id DESC": "leave out DESC",
        "ALTER TABLE lance.ns.t WRITE DISTRIBUTED BY PARTITION": "CLUSTER BY",
        "ALTER TABLE lance.ns.t ADD PARTITION FIELD bucket(16, id) AS shard": "CLUSTER BY",
        "ALTER TABLE lance.ns.t REPLACE PARTITION FIELD p WITH days(p)": "CLUSTER BY",
        "ALTER TABLE lance.ns.t SET IDENTIFIER FIELDS id": r"SET UNENFORCED PRIMARY KEY",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)


def test_names_of_branches_tags_and_versions(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("ALTER TABLE lance.ns.t CREATE TAG x")
    own.sql("INSERT INTO lance.ns.t VALUES (3)")
    location = own.location("ns.t")
    for name in ("lance.ns.t__tag__x", "lance.ns.`t@v1`", f"lance.`{location}@v1`"):
        assert own.sql(f"SELECT count(*) FROM {name}") == [(3,)]
        for statement in (f"INSERT INTO {name} VALUES (4)", f"OPTIMIZE {name}", f"ALTER TABLE {name} ADD COLUMN a INT"):
            with pytest.raises(SPARK_ERRORS, match=r"applies only to reads|is one version of a table"):
                own.sql(statement)


def test_statements_that_are_sparks_by_another_name(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, 'old' AS s FROM range(5)")
    own.sql("REPLACE lance.ns.t WHERE id >= 3 AS SELECT id, CAST('new' AS STRING) AS s FROM range(3, 7)")
    assert own.sql("SELECT s, count(*) FROM lance.ns.t GROUP BY s ORDER BY s") == [("new", 4), ("old", 3)]
    assert own.versions("ns.t") == [1, 2]
    assert "nothing is needed" in own.sql("ANALYZE TABLE lance.ns.t COMPUTE STATISTICS FOR ALL COLUMNS")[0][0]
    with settings(own.spark, my__table="lance.ns.t"):
        assert own.sql("DESCRIBE HISTORY ${spark.sql.my.table} LIMIT 1")[0][0] == 2
    with settings(own.spark, sources__partitionOverwriteMode="dynamic"), pytest.raises(SPARK_ERRORS, match="use replaceWhere"):
        own.sql("INSERT OVERWRITE lance.ns.t SELECT 1L, 'x'")
    assert own.versions("ns.t") == [1, 2]


def test_a_table_is_cloned_into_a_catalog_and_to_a_path(own: Lake, uri: str, sql: Sql) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("INSERT INTO lance.ns.t VALUES (3)")
    assert own.sql("CREATE TABLE lance.ns.`a b` SHALLOW CLONE lance.ns.t") == [(own.location("ns.a b"), 2)]
    own.sql("INSERT INTO lance.ns.`a b` VALUES (4)")
    assert (len(own.pylance("ns.a b")), len(own.pylance("ns.t"))) == (5, 4)
    own.sql(f"CREATE TABLE lance.`{uri}` DEEP CLONE lance.ns.t VERSION AS OF 1")
    own.sql(f"CREATE TABLE IF NOT EXISTS lance.ns.back SHALLOW CLONE lance.`{uri}` TIMESTAMP AS OF current_timestamp()")
    assert own.sql(f"CREATE TABLE IF NOT EXISTS lance.ns.back DEEP CLONE lance.`{uri}`") == []
    for name in (f"lance.`{uri}`", "lance.ns.back"):
        assert own.sql(f"SELECT count(*) FROM {name}") == [(3,)]
    sql("CREATE TABLE planner.u USING lance AS SELECT 1 AS a")
    own.sql("USE lance.ns")
    own.sql("CREATE TABLE of_session DEEP CLONE spark_catalog.planner.u")
    own.sql("USE spark_catalog.default")
    assert own.sql("SELECT * FROM lance.ns.of_session") == [(1,)]
    for wrong, message in {
        "CREATE TABLE lance.ns.back SHALLOW CLONE lance.ns.t": "TABLE_OR_VIEW_ALREADY_EXISTS|already",
        "CREATE TABLE lance.ns.wrong SHALLOW CLONE lance.ns.t VERSION AS OF 9": "version 9",
        "CREATE OR REPLACE TABLE lance.ns.back SHALLOW CLONE lance.ns.t": "a clone is a new table",
        "CREATE TABLE spark_catalog.planner.wrong SHALLOW CLONE lance.ns.t": "in the catalog of its table or at a path",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)
    assert own.sql("SHOW TABLES IN lance.ns LIKE 'wrong'") == []


def test_a_dropped_clone_releases_the_version_of_its_source(own: Lake, uri: str) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("CREATE TABLE lance.ns.c SHALLOW CLONE lance.ns.t")
    own.sql(f"CREATE TABLE lance.`{uri}` SHALLOW CLONE lance.ns.t")
    own.sql(f"CALL lance.system.shallow_clone('ns.t', '{uri}-2')")
    source = Dataset.open(own.location("ns.t"))
    assert len(source.tags.list()) == 3
    own.sql("DROP TABLE lance.ns.c")
    own.sql(f"DROP TABLE lance.`{uri}`")
    assert len(source.tags.list()) == 1
    own.sql(f"DROP TABLE lance.`{uri}-2`")
    assert source.tags.list() == {}


def test_constraints_hold_for_writes_of_spark(own: Lake, sql: Sql, uri: str) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, double(id) AS price FROM range(0, 3, 1, 1)")
    own.spark.range(3).selectExpr("id", "double(id) AS price").write.format("lance").mode("append").save(uri)
    sql("CREATE TABLE planner.t USING lance AS SELECT id, double(id) AS price FROM range(0, 3, 1, 1)")
    for name in ("lance.ns.t", f"lance.`{uri}`", "planner.t"):
        own.sql(f"ALTER TABLE {name} ADD CONSTRAINT paid CHECK (price >= 0 AND (price < 9 OR id IN (1, 2)))")
    for write in (
        "INSERT INTO {t} VALUES (3, -1)",
        "INSERT OVERWRITE {t} VALUES (3, 10)",
        "UPDATE {t} SET price = -price",
        "MERGE INTO {t} t USING (SELECT 7L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, -2)",
    ):
        for name in ("lance.ns.t", "planner.t"):
            with pytest.raises(SPARK_ERRORS, match="fails the constraint 'paid'"):
                own.sql(write.format(t=name))
    with pytest.raises(SchemaMismatchError, match="fails the constraint 'paid'"):
        LanceTable.forPath(own.spark, uri).update(set={"price": "rand() - 2"})
    for wrong, message in {
        "ADD CONSTRAINT c CHECK (id > 1)": "row 0 of fragment . fails the constraint 'c'",
        "ADD CONSTRAINT c UNIQUE (id)": "CHECK and PRIMARY KEY",
        "DROP CONSTRAINT c": "it has: paid",
        "SET TBLPROPERTIES ('lance_spark.constraint.c' = 'id < 9')": "ADD CONSTRAINT c",
        "RENAME COLUMN price TO cost": "DROP CONSTRAINT paid first",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"ALTER TABLE lance.ns.t {wrong}")
    stream = own.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().selectExpr("value AS id", "-1D AS price")
    query = stream.writeStream.format("lance").option("checkpointLocation", f"{uri}.checkpoint").start(uri)
    with pytest.raises(SPARK_ERRORS, match="fails the constraint 'paid'"):
        query.processAllAvailable()
    with pytest.raises(SPARK_ERRORS, match="fails the constraint 'paid'"):
        own.sql("CREATE OR REPLACE TABLE lance.ns.t AS SELECT -1D AS price, 1L AS id")
    own.sql("ALTER TABLE lance.ns.t DROP CONSTRAINT IF EXISTS c")
    own.sql("ALTER TABLE lance.ns.t DROP CONSTRAINT paid")
    own.sql("INSERT INTO lance.ns.t VALUES (3, -1)")


def test_a_part_of_a_table_and_tables_of_others_are_not_changed(own: Lake, uri: str, sql: Sql) -> None:
    own.spark.range(3).write.format("lance").mode("append").save(uri)
    own.sql(f"CREATE TEMPORARY VIEW part_of_it USING lance OPTIONS (path '{uri}', filter 'id > 1')")
    with pytest.raises(SPARK_ERRORS, match="name the whole table"):
        own.sql("OPTIMIZE part_of_it")
    assert len(own.sql("DESCRIBE HISTORY part_of_it")) == Dataset.open(uri).version == 1
    sql("CREATE TABLE others (history INT) USING parquet")
    with pytest.raises(ParseException) as error:
        sql("  OPTIMIZE others")
    assert "at or near 'OPTIMIZE'" in str(error.value)
    assert "(line 1, pos 2)" in str(error.value)


def test_statements_of_delta(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ COALESCE(1) */ id, array(float(id), float(1)) AS v FROM range(300)")
    own.sql("ALTER TABLE lance.ns.t ADD CONSTRAINT ok CHECK (id < 1000)")
    own.sql("DELETE FROM lance.ns.t WHERE id = 7")
    assert own.sql("SELECT sum(deleted_rows) FROM lance.ns.t.fragments") == [(1,)]
    own.sql("REORG TABLE lance.ns.t APPLY (PURGE)")
    assert own.sql("SELECT sum(rows), sum(deleted_rows) FROM lance.ns.t.fragments") == [(299, 0)]
    latest = own.versions("ns.t")[-1]
    own.sql("FSCK REPAIR TABLE lance.ns.t DRY RUN")
    own.sql("ANALYZE TABLE lance.ns.t COMPUTE DELTA STATISTICS")
    own.sql("VACUUM lance.ns.t FULL")
    own.sql("VACUUM lance.ns.t LITE DRY RUN")
    assert own.versions("ns.t")[-1] == latest, "these change no rows"
    own.sql("CREATE TABLE lance.ns.copy CLONE lance.ns.t VERSION AS OF 1")
    assert own.sql("SELECT count(*) FROM lance.ns.copy") == [(300,)]
    assert lance.dataset(own.location("ns.copy")).count_rows() == 300
    for wrong, message in {
        "ALTER TABLE lance.ns.t CLUSTER BY AUTO": r"CLUSTER BY \(a, b\)",
        "ALTER TABLE lance.ns.t DROP FEATURE x": "no features of a protocol",
        "GENERATE symlink_format_manifest FOR TABLE lance.ns.t": "write its rows as Parquet",
        "REORG TABLE lance.ns.t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))": "leave it out",
        "UPGRADE TABLE lance.ns.t": "needs no upgrade",
        "VACUUM lance.ns.t USING INVENTORY (SELECT 1)": "leave out USING INVENTORY",
        "CREATE TABLE lance.ns.c SHALLOW CLONE lance.ns.t TBLPROPERTIES ('lance.a'='b')": "unknown property 'lance.a'",
        "CREATE TABLE lance.ns.c SHALLOW CLONE lance.ns.t LOCATION '/p'": "is not below the root of the namespace",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)
    # Words that begin these statements are names elsewhere.
    assert own.sql("SELECT 1 AS reorg, 2 AS fsck, 3 AS upgrade, 4 AS generate") == [(1, 2, 3, 4)]


def test_a_statement_makes_an_index_of_vectors(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id BIGINT, v ARRAY<FLOAT>) TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    own.sql("INSERT INTO lance.ns.t SELECT id, array(float(id), float(1)) FROM range(300)")
    own.sql("ALTER TABLE lance.ns.t CREATE INDEX near USING ivf_flat (v) WITH (num_partitions = 1, distance_type = 'l2')")
    [index] = own.spark.sql("SHOW INDEXES FROM lance.ns.t").collect()
    assert (index.name, index.index_type) == ("near", "ivf_flat")
    with pytest.raises(SPARK_ERRORS, match="unknown kind of index"):
        own.sql("ALTER TABLE lance.ns.t CREATE INDEX other USING ivf_flatt (v)")
