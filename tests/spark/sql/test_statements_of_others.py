"""Statements of Delta Lake's and Iceberg's documentation: each works, or is refused in one line that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.sample import others_slow
from tests.spark_session import SPARK_ERRORS

CATALOGS = ("sql", "session", "path")
WHOLE_LINE = re.compile(r"SQLSTATE|\[[A-Z_]{8,}|Error: ")
"""Spark's own words, and names of classes, which a refusal does not need."""


@dataclass(frozen=True)
class Tables:
    """The table `t` of a catalog, and names beside it; `called` is the name for CALL."""

    spark: SparkSession
    catalog: str
    root: Path

    def name(self, table: str) -> str:
        folder = {"sql": "others.db.", "session": "spark_catalog.others_db."}
        return f"others.`{self.root}/paths/{table}.lance`" if self.catalog == "path" else f"{folder[self.catalog]}{table}"

    def called(self, table: str) -> str:
        return {"sql": f"db.{table}", "session": f"spark_catalog.others_db.{table}"}.get(self.catalog, f"{self.root}/paths/{table}.lance")

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        text = re.sub(r"\{(\w+)\}", lambda found: self.name(found[1]), statement)
        text = re.sub(r"<(\w+)>", lambda found: self.called(found[1]), text)
        return [tuple(row) for row in self.spark.sql(text).collect()]


@pytest.fixture(scope="module")
def all_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Tables]]:
    root = tmp_path_factory.mktemp("others")
    lance_spark.catalog(spark, "others", root=str(root / "lake"))
    spark.sql("CREATE NAMESPACE others.db")
    spark.sql("CREATE DATABASE others_db")
    found = {catalog: Tables(spark, catalog, root) for catalog in CATALOGS}
    for tables in found.values():
        using = " USING lance" if tables.catalog == "session" else ""
        tables.sql(f"CREATE TABLE {{t}}{using} AS SELECT id, CAST(id AS STRING) AS name, CAST(id % 2 AS INT) AS part FROM range(4)")
        tables.sql("INSERT INTO {t} VALUES (4, 'four', 0)")
    yield found
    spark.sql("DROP DATABASE others_db CASCADE")


@pytest.fixture(params=CATALOGS)
def tables(request: pytest.FixtureRequest, all_tables: Mapping[str, Tables]) -> Tables:
    return all_tables[request.param]


REFUSED = {
    "ALTER TABLE {t} CLUSTER BY AUTO": "write ALTER TABLE t CLUSTER BY",
    "ALTER TABLE {t} DROP FEATURE x": "no features of a protocol",
    "CONVERT TO DELTA others_db.tab NO STATISTICS": "write CREATE TABLE t USING lance AS SELECT",
    "CONVERT TO LANCE parquet.`/tmp/x`": "write CREATE TABLE t USING lance AS SELECT",
    "UNDROP TABLE {gone}": "write CREATE TABLE .* LOCATION",
    "GENERATE symlink_format_manifest FOR TABLE {t}": "write its rows as Parquet",
    "REORG TABLE {t} APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))": "leave it out",
    "UPGRADE TABLE {t}": "OPTIMIZE writes new files",
    "MSCK REPAIR TABLE {t}": "leave it out",
    "VACUUM {t} USING INVENTORY inv": "leave out USING INVENTORY",
    "VACUUM {t} USING INVENTORY (select * from inv)": "leave out USING INVENTORY",
    "SHOW PARTITIONS {t}": "lance tables have no partitions",
    "SHOW PARTITIONS {t} PARTITION (part = 1)": "lance tables have no partitions",
    "CREATE OR REPLACE TABLE others.db.other SHALLOW CLONE parquet.`/tmp/x`": "write CREATE TABLE t USING lance AS SELECT",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')": "leave it out",
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')": "write to t.branch_x",
    "SELECT others.system.bucket(16, id) FROM {t}": "write functions of Spark",
    "SELECT others.system.iceberg_version()": "write functions of Spark",
    "INSERT OVERWRITE {t} PARTITION (part = 1) SELECT 1, 'a'": "write INSERT INTO .* REPLACE WHERE part = 1 SELECT",
    "INSERT INTO {t} BY NAME REPLACE USING (id) SELECT 1 AS id": "leave out BY NAME",
    "ALTER TABLE {t} ALTER COLUMN part TYPE BIGINT COMMENT 'unit'": "write two statements",
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(16, id) AS shard": "write ALTER TABLE t CLUSTER BY",
    "ALTER TABLE {t} DROP PARTITION FIELD part": "write ALTER TABLE t CLUSTER BY",
    "ALTER TABLE {t} REPLACE PARTITION FIELD ts_day WITH day(ts)": "write ALTER TABLE t CLUSTER BY",
    "ALTER TABLE {t} CREATE BRANCH b2 RETAIN 7 DAYS": "leave out RETAIN",
    "ALTER TABLE {t} CREATE TAG `t2` AS OF VERSION 1 RETAIN 365 DAYS": "leave out RETAIN",
    "ALTER TABLE {t} SET IDENTIFIER FIELDS id": "SET UNENFORCED PRIMARY KEY",
    "ALTER TABLE {t} DROP IDENTIFIER FIELDS id": "a primary key is declared once",
    "ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION": "write ALTER TABLE t CLUSTER BY",
    "ALTER TABLE {t} WRITE ORDERED BY part ASC, id DESC": "leave out DESC",
    "ALTER TABLE {t} SET LOCATION '/tmp/y'": "CREATE TABLE .. USING lance LOCATION",
    "CREATE OR REPLACE TABLE others.db.other SHALLOW CLONE {t} CLONE": "the end|LOCATION",
    "CALL others.system.add_files(table => '<t>', source_table => 'db.x')": "write INSERT INTO t SELECT",
    "SELECT id, name__blob_pos FROM {t} WHERE id > 1": r"name\.position and name\.size",
    "SELECT max(t.name__blob_size) FROM {t} t": r"name\.position and name\.size",
    "ALTER TABLE {t} ALTER COLUMN id TYPE INT": r"alterColumn\('id', type='int'\)",
    "CALL others.system.cherrypick_snapshot('<t>', 1)": "name the branch: CALL cherry_pick",
    "CALL others.system.compute_table_stats(table => '<t>', snapshot_id => 'snap1', columns => array('a'))": "nothing is needed",
    "CALL others.system.compute_partition_stats('<t>')": "nothing is needed",
    "CALL others.system.compute_table_stats('<t>')": "nothing is needed",
    "CALL others.system.create_changelog_view(table => '<t>', net_changes => true)": "leave out net_changes",
    "CALL others.system.create_changelog_view(table => '<t>', options => map('start-snapshot-id', '999'))": "no version is after the start",
    "CALL others.system.create_changelog_view(table => '<t>', options => map('start', '1'))": "its options are: start-snapshot-id",
    "CALL others.system.publish_changes('<t>', 'wap1')": "write CALL fast_forward",
    "CALL others.system.migrate('<t>', map('foo', 'bar'))": "is for lance tables of an old storage version",
    "CALL others.system.register_table(table => '<t>', metadata_file => '/tmp/x')": "register_table",
    "CALL others.system.rewrite_position_delete_files('<t>')": "write OPTIMIZE t",
    "CALL others.system.rewrite_table_path(table => '<t>', source_prefix => 'a', target_prefix => 'b')": "may be copied",
    "CALL others.system.snapshot('<t>', 'db.snap')": "write CREATE TABLE copy SHALLOW CLONE",
    "CALL others.system.remove_orphan_files(table => '<t>', location => 'x')": "leave out location",
    "CALL others.system.remove_orphan_files(table => '<t>', file_list_view => 'x')": "leave out file_list_view",
    "CALL others.system.remove_orphan_files(table => '<t>', equal_schemes => map('a', 'b'))": "leave out equal_schemes",
}
"""In each catalog."""
OF_NAMES = {
    "SELECT * FROM {t}.changes": r"write table_changes\('db.t', 1\)",
    "SELECT * FROM others.db.`t@20990101000000000`": "write t TIMESTAMP AS OF '2099-01-01 00:00:00'",
}
"""In the SQL catalog, where names have more parts."""
WORKS: Mapping[str, list[tuple[object, ...]] | None] = {
    "ANALYZE TABLE {t} COMPUTE DELTA STATISTICS": None,
    "FSCK REPAIR TABLE {t}": None,
    "VACUUM {t} FULL": [(0, 0)],
    "VACUUM {t} LITE": [(0, 0)],
    "CALL others.system.rewrite_manifests('<t>')": [(0, 0)],
    "CALL others.system.rewrite_manifests(table => '<t>', spec_id => 1)": [(0, 0)],
    "CALL others.system.remove_orphan_files(table => '<t>', prefix_listing => true, stream_results => true)": [],
    "SELECT _metadata.row_id >= 0, _metadata.row_commit_version > 0 FROM {t} WHERE id = 4": [(True, True)],
    "CALL others.system.ancestors_of('<t>')": None,
    "SELECT count(*) FROM table_changes_by_path('{path}', 1)": None,
    "REORG TABLE {t} WHERE id > 1 APPLY (PURGE)": None,
    "CALL others.system.rewrite_data_files('<t>')": None,
    "ALTER TABLE {t} CREATE TAG now": [("now",)],
    "INSERT INTO {t} REPLACE USING (part) SELECT 9, 'nine', 1": [],
    "SELECT * FROM {t} WHERE part = 1": [(9, "nine", 1)],
    "INSERT INTO {t} AS x REPLACE ON (x.id = new.other) (SELECT 9 AS other, 'eleven' AS name, 1) AS new": [],
    "SELECT name FROM {t} WHERE id = 9": [("eleven",)],
    "INSERT INTO TABLE {t} REPLACE ON (id > 3 AND part = 0) VALUES (10, 'ten', 5), (11, 'eleven', NULL)": [],
    "INSERT INTO {t} REPLACE USING (part) VALUES (12, 'twelve', NULL)": [],
    "SELECT id FROM {t} ORDER BY id": [(0,), (2,), (9,), (10,), (11,), (12,)],
    "DELETE FROM {t} WHERE id IN (11, 12)": [(2,)],
    "DELETE FROM {t} WHERE id = 99": [(0,)],
    "UPDATE {t} SET name = 'u' WHERE id < 9": [(2,)],
    "MERGE INTO {t} t USING (SELECT explode(array(2L, 50L, 9L)) AS id) s ON t.id = s.id WHEN MATCHED AND t.id = 9 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, 'n', 1)": [(3, 1, 1, 1)],
    "MERGE INTO {t} t USING (SELECT 60L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, 'n', 1)": [
        (1, 0, 0, 1)
    ],
    "ALTER TABLE {t} ALTER COLUMN part TYPE BIGINT": [],
    "SELECT sum(part) FROM {t}": [(7,)],
    "DELETE FROM {t}": [(5,)],
}
"""In this order, each in each catalog: the rows that it returns, or None where they are not compared."""


@pytest.mark.matrix
@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_without_a_meaning_says_in_one_line_what_to_write(statement: str, tables: Tables) -> None:
    with pytest.raises(SPARK_ERRORS) as refusal:
        tables.sql(statement)
    said = str(refusal.value).split("\n\tat ")[0].strip()
    assert re.search(REFUSED[statement], said)
    assert "PARSE_SYNTAX_ERROR" not in said


@pytest.mark.parametrize("statement", OF_NAMES)
def test_a_name_that_means_something_elsewhere_says_what_to_write(statement: str, all_tables: Mapping[str, Tables]) -> None:
    with pytest.raises(SPARK_ERRORS, match=OF_NAMES[statement]):
        all_tables["sql"].sql(statement)


def test_tables_about_a_table_of_the_session_catalog_have_its_name(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["session"]
    own.sql("CREATE TABLE {about} USING lance AS SELECT 1 AS id")
    own.sql("CREATE TABLE {empty} (id INT) USING lance")
    assert own.sql("SELECT count(*) FROM {about}.files") == [(1,)]
    assert own.sql("SELECT name, type FROM {about}.refs") == [("main", "BRANCH")]
    for statement, message in {
        "SELECT * FROM spark_catalog.others_db.`about@20240102030405000`": "write about TIMESTAMP AS OF '2024-01-02 03:04:05'",
        "SELECT * FROM spark_catalog.others_db.`about@v1`": "write about VERSION AS OF 1",
        "CALL others.system.register_table(table => 'spark_catalog.others_db.new', metadata_file => '/x')": "write CREATE TABLE t LOCATION",
        "SELECT * FROM {about}.changes": r"has no 'changes'; write table_changes\('t', 1\)",
        "SELECT * FROM {about}.branch_x": "write t VERSION AS OF 'x' for the branch",
        "SELECT * FROM {about}.file": "has no 'file'; did you mean 'files'",
        "SELECT * FROM {empty}.files": "no version before its first rows",
        "CALL others.system.compact('spark_catalog.others_db.empty')": "no version before its first rows",
        "SELECT * FROM {missing}.files": "REQUIRES_SINGLE_PART_NAMESPACE|NOT_FOUND",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(statement)


def test_a_catalog_of_lance_tables_has_no_functions(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    with pytest.raises(SPARK_ERRORS, match="UNRESOLVED_ROUTINE"):
        own.sql("SELECT others.db.missing(1)")
    assert own.sql("SHOW USER FUNCTIONS IN others.db") == []


@pytest.mark.parametrize("tables", others_slow(CATALOGS, ["sql"]), indirect=True)
def test_a_changelog_view_shows_what_versions_have_changed(tables: Tables) -> None:
    using = " USING lance" if tables.catalog == "session" else ""
    tables.sql(f"CREATE TABLE {{log}}{using} TBLPROPERTIES ('stable_row_ids' = 'true') AS SELECT 1 AS id, 'a' AS name")
    tables.sql("INSERT INTO {log} VALUES (2, 'b')")
    tables.sql("UPDATE {log} SET name = 'c' WHERE id = 2")
    changes = "SELECT id, name, _change_type, _change_ordinal, _commit_snapshot_id FROM log_changes ORDER BY _change_ordinal, 3"
    options = "options => map('start-snapshot-id', '1', 'end-snapshot-id', '3')"
    assert tables.sql(f"CALL others.system.create_changelog_view(table => '<log>', {options})") == [("log_changes",)]
    assert tables.sql(changes) == [(2, "b", "INSERT", 0, 2), (2, "b", "DELETE", 1, 3), (2, "c", "INSERT", 1, 3)]
    named = f"changelog_view => 'log_changes', identifier_columns => array('id'), {options}"
    assert tables.sql(f"CALL others.system.create_changelog_view(table => '<log>', {named})") == [("log_changes",)]
    assert tables.sql(changes) == [(2, "b", "INSERT", 0, 2), (2, "c", "UPDATE_AFTER", 1, 3), (2, "b", "UPDATE_BEFORE", 1, 3)]
    since = "options => map('end-timestamp', '9999999999999')"
    tables.sql(f"CALL others.system.create_changelog_view(table => '<log>', {since})")
    assert tables.sql("SELECT count(*) FROM log_changes WHERE _change_ordinal = 0") == [(1,)]
    tables.spark.catalog.dropTempView("log_changes")


def test_a_snapshot_is_picked_from_the_branch_that_has_it(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    own.sql("CREATE TABLE {picked} TBLPROPERTIES ('stable_row_ids' = 'true') AS SELECT 1 AS id")
    own.sql("ALTER TABLE {picked} CREATE BRANCH dev")
    own.sql("INSERT INTO {picked}.branch_dev VALUES (2)")
    own.sql("INSERT INTO {picked}.branch_dev VALUES (3)")
    assert own.sql("CALL others.system.cherrypick_snapshot(snapshot_id => 3, table => '<picked>')") == [(3, 2)]
    assert own.sql("SELECT id FROM {picked} ORDER BY id") == [(1,), (3,)]
    own.sql("ALTER TABLE {picked} CREATE BRANCH other AS OF VERSION 1")
    own.sql("INSERT INTO {picked}.branch_other VALUES (4)")
    with pytest.raises(SPARK_ERRORS, match="the branches dev, other have a version 2"):
        own.sql("CALL others.system.cherrypick_snapshot('<picked>', 2)")


def test_views_of_the_session_catalog_are_those_of_spark(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["session"]
    own.sql("CREATE VIEW {v} AS SELECT id FROM {t}")
    assert own.sql("SELECT count(*) FROM {v}") == own.sql("SELECT count(*) FROM {t}")
    own.sql("DROP VIEW {v}")


@pytest.mark.parametrize("tables", others_slow(CATALOGS, ["session"]), indirect=True)
def test_files_of_parquet_are_added_each_once(tables: Tables, tmp_path: Path) -> None:
    using = " USING lance" if tables.catalog == "session" else ""
    tables.sql(f"CREATE TABLE {{added}}{using} AS SELECT 0L AS id, 'z' AS part")
    rows = tables.spark.sql("SELECT id, if(id < 2, 'a', 'b') AS part FROM range(5)").repartition(1)
    rows.write.partitionBy("part").parquet(str(tmp_path / "files"))
    add = f"CALL others.system.add_files(table => '<added>', source_table => '`parquet`.`{tmp_path}/files`'"
    assert tables.sql(f"{add}, partition_filter => map('part', 'a'))") == [(2, 2)]
    assert tables.sql(f"{add})") == [(3, 3)]
    assert tables.sql(f"{add})") == [(0, 0)]
    assert tables.sql("SELECT id, part FROM {added} ORDER BY id, part") == [(0, "a"), (0, "z"), (1, "a"), (2, "b"), (3, "b"), (4, "b")]
    assert tables.sql(f"{add}, check_duplicate_files => false)") == [(5, 5)]


def test_a_dropped_table_comes_back_if_its_files_are_there(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    location = own.root / "lake" / "elsewhere"
    own.sql(f"CREATE TABLE {{kept}} USING lance LOCATION '{location}' AS SELECT 7 AS id")
    own.sql("DROP TABLE {kept}")
    own.sql("UNDROP TABLE {kept}")
    assert own.sql("SELECT id FROM {kept}") == [(7,)]
    with pytest.raises(SPARK_ERRORS, match="ALREADY_EXISTS"):
        own.sql("UNDROP TABLE {kept}")
    own.sql("CREATE TABLE {gone_too} AS SELECT 1 AS id")
    own.sql("DROP TABLE {gone_too}")
    with pytest.raises(SPARK_ERRORS, match=r"are gone; DROP TABLE deletes the files .* write CREATE TABLE"):
        own.sql("UNDROP TABLE {gone_too}")


def test_a_clone_of_what_is_no_lance_table_says_what_to_write(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    own.sql("CREATE TABLE spark_catalog.others_db.of_parquet USING parquet AS SELECT 1 AS id")
    for name in ("parquet.`/a/b`", "spark_catalog.others_db.of_parquet"):
        with pytest.raises(SPARK_ERRORS, match=rf"write CREATE TABLE t USING lance AS SELECT \* FROM {name}"):
            own.sql(f"CREATE TABLE others.db.c CLONE {name}")
    for procedure in ("migrate", "compact"):
        with pytest.raises(SPARK_ERRORS, match="of_parquet is no lance table; write CREATE TABLE t USING lance AS SELECT"):
            own.sql(f"CALL others.system.{procedure}('spark_catalog.others_db.of_parquet')")
    own.sql("USE others")
    try:
        with pytest.raises(SPARK_ERRORS, match="invalid name 'a/b' of a namespace or table"):
            own.sql("CREATE TABLE others.db.c CLONE db.`a/b`")
    finally:
        own.sql("USE spark_catalog.default")


@pytest.mark.parametrize("tables", others_slow(CATALOGS, ["session"]), indirect=True)
def test_statements_with_a_meaning_work(tables: Tables) -> None:
    path = str(tables.sql("DESCRIBE DETAIL {t}")[0][1])
    for statement, expected in WORKS.items():
        found = tables.sql(statement.replace("{path}", path))
        assert expected is None or found == expected, statement


def test_rows_of_row_level_statements_have_the_names_of_delta_lakes(tables: Tables) -> None:
    using = " USING lance" if tables.catalog == "session" else ""
    tables.sql(f"CREATE TABLE {{names}}{using} AS SELECT 1 AS id")
    name = tables.name("names")
    assert tables.spark.sql(f"UPDATE {name} SET id = 2").columns == ["num_affected_rows"]
    merged = tables.spark.sql(f"MERGE INTO {name} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert merged.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [tuple(row) for row in merged.collect()] == [(1, 0, 1, 0)]


def test_a_query_with_other_columns_than_the_table_replaces_nothing(tables: Tables) -> None:
    before = tables.sql("SELECT count(*) FROM {t}")
    for wrong, message in {
        "INSERT INTO {t} REPLACE USING (id) SELECT 1, 'a'": "UDTF_ALIAS_NUMBER_MISMATCH|[Nn]umber of aliases",
        "INSERT INTO {t} REPLACE USING (missing) SELECT 1, 'a', 1": "no such column; its columns are id, name, part",
        "INSERT INTO {t} REPLACE USING (id) SELECT 'x', 'a', array(1)": "INCOMPATIBLE|MISMATCH|CAST|convert",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            tables.sql(wrong)
    assert tables.sql("SELECT count(*) FROM {t}") == before


def test_snapshots_expire_by_their_ids(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    own.sql("CREATE TABLE {old} AS SELECT 1 AS id")
    for i in range(3):
        own.sql(f"INSERT INTO {{old}} VALUES ({i})")
    own.sql("ALTER TABLE {old} CREATE TAG kept AS OF VERSION 2")
    for ids, message in {"99": "no version 99", "4": "version 4 is the latest", "2": "kept"}.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"CALL others.system.expire_snapshots(table => '<old>', snapshot_ids => ARRAY({ids}))")
    [(_, _, _, manifests, _, _)] = own.sql("CALL others.system.expire_snapshots(table => '<old>', snapshot_ids => ARRAY(3))")
    assert manifests == 1
    assert own.sql("SELECT snapshot_id FROM {old}.snapshots ORDER BY 1") == [(1,), (2,), (4,)]
    assert own.sql("SELECT count(*) FROM {old}.tag_kept") == [(2,)]
    assert own.sql("SELECT count(*) FROM {old}") == [(4,)]


def test_clones_have_properties_and_a_location(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    own.sql("CREATE TABLE {source} AS SELECT 1 AS id")
    own.sql("CREATE OR REPLACE TABLE {first} SHALLOW CLONE {source} TBLPROPERTIES ('a.B' = 'b', 'n' = 1)")
    shown = own.sql("SHOW TBLPROPERTIES {first}")
    assert {("a.B", "b"), ("n", "1")} <= set(shown)
    location = own.root / "lake" / "elsewhere.lance"
    own.sql(f"CREATE TABLE {{second}} DEEP CLONE {{source}} LOCATION '{location}'")
    assert own.sql("SELECT * FROM {second}") == [(1,)]
    assert location.is_dir()
    with pytest.raises(SPARK_ERRORS, match="write DROP TABLE first, or INSERT OVERWRITE"):
        own.sql("CREATE OR REPLACE TABLE {first} DEEP CLONE {source}")
    with pytest.raises(SPARK_ERRORS, match=r"lance\.what"):
        own.sql("CREATE TABLE {third} CLONE {source} TBLPROPERTIES ('lance.what' = '1')")
    assert own.sql("SHOW TABLES IN others.db LIKE 'third'") == []


def test_generated_columns_are_declared_in_the_sql_catalog(all_tables: Mapping[str, Tables]) -> None:
    own = all_tables["sql"]
    declared = "id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), d DATE, y INT GENERATED ALWAYS AS (YEAR(d)), v INT"
    own.sql(f"CREATE TABLE {{g}} ({declared})")
    own.sql("INSERT INTO {g} (d, v) VALUES (DATE'2020-03-01', 1), (DATE'2021-03-01', 2)")
    own.sql("MERGE INTO {g} t USING (SELECT 3 AS v) s ON t.v = s.v WHEN NOT MATCHED THEN INSERT (v, d) VALUES (s.v, DATE'2022-03-01')")
    own.sql("UPDATE {g} SET d = DATE'2030-03-01' WHERE v = 1")
    rows = own.sql("SELECT v, y, id FROM {g} ORDER BY v")
    assert [row[:2] for row in rows] == [(1, 2030), (2, 2021), (3, 2022)]
    numbers = [row[2] for row in rows]
    assert len(set(numbers)) == 3
    assert all(number in range(10, 1000, 5) for number in numbers)
    for wrong, message in {
        "INSERT INTO {g} (id, v) VALUES (1, 1)": "leave the column out",
        "INSERT INTO {g} (d, y) VALUES (DATE'2020-01-01', 1999)": "expected 2020",
        "UPDATE {g} SET id = 5": "no update may assign it",
        "UPDATE {g} SET y = 5": "expected 20",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(wrong)
    with pytest.raises(SPARK_ERRORS, match="session catalog keeps no GENERATED columns; write CREATE TABLE"):
        all_tables["session"].sql("CREATE TABLE {g} (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING lance")
    own.sql("ALTER TABLE {g} ALTER COLUMN id SYNC IDENTITY")
