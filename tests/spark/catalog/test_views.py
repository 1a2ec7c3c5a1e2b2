"""Views in a catalog of lance tables: made and changed by statements, read on every Spark, and harmless to other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lance.namespace
import pytest
from lance_namespace import CreateNamespaceRequest, DescribeTableRequest, ListTablesRequest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import LanceTable
from lance_spark.errors import NamespaceNotEmptyError, TableAlreadyExistsError, TableNotFoundError, UnsupportedFeatureError
from tests.spark.catalog.lakes import Lake, lake
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with the table `ns.t`, of the rows (1, 'a') and (2, 'b')."""
    with lake(spark, tmp_path_factory.mktemp("views") / "lake") as made:
        made.sql("CREATE TABLE lance.ns.t AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS rows (id, name)")
        yield made


@pytest.fixture
def fresh(own: Lake) -> Lake:
    """The lake without views."""
    for namespace, name, _ in [*own.sql("SHOW VIEWS IN lance.ns"), *own.sql("SHOW VIEWS IN lance")]:
        own.sql("DROP VIEW " + ".".join(filter(None, ("lance", namespace, name))))
    return own


def test_a_view_is_its_query_under_a_name(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT id, upper(name) AS big FROM lance.ns.t WHERE id > 1")
    assert fresh.sql("SELECT * FROM lance.ns.v") == [(2, "B")]
    assert fresh.sql("SELECT v.big, t.name FROM lance.ns.v JOIN lance.ns.t t USING (id)") == [("B", "b")]
    assert fresh.spark.table("lance.ns.v").filter("big = 'x'").count() == 0
    assert fresh.spark.catalog.tableExists("lance.ns.v")
    plan = fresh.spark.sql("EXPLAIN SELECT id FROM lance.ns.v").collect()[0][0]
    assert "PushedFilters: [id IS NOT NULL, id > 1], ReadSchema: struct<id:int>" in plan


def test_a_view_has_columns_comments_and_properties(fresh: Lake) -> None:
    fresh.sql(
        "CREATE OR REPLACE VIEW lance.ns.v (number COMMENT 'the id', word) COMMENT 'it''s one' "
        "TBLPROPERTIES ('a' = 'b', 'c' = 'd') AS SELECT id, name FROM lance.ns.t"
    )
    assert fresh.spark.table("lance.ns.v").columns == ["number", "word"]
    assert ("number", "int", "the id") in fresh.sql("DESCRIBE lance.ns.v")
    described = str(fresh.sql("DESCRIBE EXTENDED lance.ns.v"))
    assert "a=b" in described
    assert "it's one" in described
    text = fresh.sql("SHOW CREATE TABLE lance.ns.v")[0][0]
    fresh.sql("DROP VIEW lance.ns.v")
    fresh.sql(text)
    assert fresh.sql("SHOW CREATE TABLE lance.ns.v")[0][0] == text
    assert fresh.sql("SELECT word FROM lance.ns.v WHERE number = 1") == [("a",)]
    fresh.sql("ALTER VIEW lance.ns.v SET TBLPROPERTIES ('e' = 'f')")
    fresh.sql("ALTER VIEW lance.ns.v UNSET TBLPROPERTIES ('a')")
    assert "TBLPROPERTIES ('c' = 'd', 'e' = 'f')" in fresh.sql("SHOW CREATE TABLE lance.ns.v")[0][0]
    with pytest.raises(SPARK_ERRORS, match="the view has no property 'a'; write UNSET TBLPROPERTIES IF EXISTS"):
        fresh.sql("ALTER VIEW lance.ns.v UNSET TBLPROPERTIES ('a')")


def test_a_view_is_replaced_altered_renamed_listed_and_dropped(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW IF NOT EXISTS lance.ns.v AS SELECT 1 AS x")
    fresh.sql("CREATE VIEW IF NOT EXISTS lance.ns.v AS SELECT 2 AS x")
    assert fresh.sql("SELECT * FROM lance.ns.v") == [(1,)]
    fresh.sql("CREATE OR REPLACE VIEW lance.ns.v AS SELECT CAST('3' AS INT) AS y")
    assert fresh.sql("SELECT y FROM lance.ns.v") == [(3,)]
    fresh.sql("ALTER VIEW lance.ns.v AS SELECT '4'::int AS z")
    assert fresh.sql("SELECT z FROM lance.ns.v") == [(4,)]
    fresh.sql("ALTER VIEW lance.ns.v RENAME TO lance.ns.other")
    fresh.sql("ALTER VIEW lance.ns.other RENAME TO w")
    assert fresh.sql("SELECT z FROM lance.ns.w") == [(4,)]
    fresh.sql("CREATE VIEW lance.top AS SELECT 5 AS five")
    assert fresh.sql("SELECT top.five FROM lance.top") == [(5,)]
    assert fresh.sql("SHOW VIEWS IN lance.ns") == [("ns", "w", False)]
    assert fresh.sql("SHOW VIEWS IN lance LIKE 'T*|x'") == [("", "top", False)]
    assert ("ns", "w", False) not in fresh.sql("SHOW TABLES IN lance.ns")
    fresh.sql("DROP VIEW lance.ns.w")
    fresh.sql("DROP VIEW IF EXISTS lance.ns.w")
    assert fresh.sql("SHOW VIEWS IN lance.ns") == []


def test_names_in_a_view_are_those_of_where_it_was_made(fresh: Lake) -> None:
    fresh.sql("USE lance.ns")
    try:
        fresh.sql("CREATE VIEW inner_view AS SELECT * FROM t")
        fresh.sql("CREATE VIEW outer_view AS SELECT max(id) AS most FROM inner_view")
        assert fresh.sql("SHOW VIEWS") == [("ns", "inner_view", False), ("ns", "outer_view", False)]
    finally:
        fresh.sql("USE spark_catalog.default")
    assert fresh.sql("SELECT most FROM lance.ns.outer_view") == [(2,)]
    with pytest.raises(SPARK_ERRORS, match="would be in its own query"):
        fresh.sql("CREATE OR REPLACE VIEW lance.ns.inner_view AS SELECT * FROM lance.ns.outer_view")
    assert fresh.sql("SELECT count(*) FROM lance.ns.inner_view") == [(2,)]


def test_a_view_keeps_its_columns_when_those_of_its_table_change(fresh: Lake) -> None:
    fresh.sql("CREATE OR REPLACE TABLE lance.ns.changing AS SELECT 1 AS id, 'a' AS name")
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT * FROM lance.ns.changing")
    fresh.sql("ALTER TABLE lance.ns.changing ADD COLUMN more INT")
    fresh.sql("INSERT INTO lance.ns.changing VALUES (2, 'b', 3)")
    assert fresh.sql("SELECT * FROM lance.ns.v ORDER BY id") == [(1, "a"), (2, "b")]
    fresh.sql("ALTER TABLE lance.ns.changing DROP COLUMN name")
    with pytest.raises(SPARK_ERRORS, match=r"INCOMPATIBLE_VIEW_SCHEMA_CHANGE|name"):
        fresh.sql("SELECT * FROM lance.ns.v")
    fresh.sql("ALTER VIEW lance.ns.v AS SELECT * FROM lance.ns.changing")
    assert fresh.sql("SELECT * FROM lance.ns.v ORDER BY id") == [(1, None), (2, 3)]


REFUSED = {
    "CREATE VIEW lance.ns.t AS SELECT 1 AS x": "ALREADY_EXISTS",
    "CREATE OR REPLACE VIEW lance.ns.t AS SELECT 1 AS x": "ALREADY_EXISTS",
    "CREATE VIEW lance.ns.taken AS SELECT 1 AS x": "ALREADY_EXISTS",
    "CREATE TABLE lance.ns.taken (x INT)": "ALREADY_EXISTS",
    "CREATE TABLE lance.ns.taken AS SELECT 1 AS x": "ALREADY_EXISTS",
    "CREATE OR REPLACE TABLE lance.ns.taken AS SELECT 1 AS x": "is a view, and no table|no table|NOT_FOUND",
    "CREATE OR REPLACE VIEW IF NOT EXISTS lance.ns.v AS SELECT 1 AS x": "leave out IF NOT EXISTS",
    "CREATE VIEW lance.missing.v AS SELECT 1 AS x": "SCHEMA_NOT_FOUND",
    "CREATE VIEW lance.ns.v AS SELECT * FROM lance.ns.nothing": "TABLE_OR_VIEW_NOT_FOUND",
    "CREATE VIEW lance.ns.v AS SELECT * FROM of_session": "would outlive a temporary view",
    "CREATE VIEW lance.ns.v AS SELECT 1 AS x, 2 AS x": "COLUMN_ALREADY_EXISTS",
    "CREATE VIEW lance.ns.v WITH SCHEMA EVOLUTION AS SELECT 1 AS x": "leave it out",
    "CREATE VIEW lance.ns.v PARTITIONED ON (x) AS SELECT 1 AS x": "WITH SCHEMA or AS is expected",
    "DROP VIEW lance.ns.t": "is a table, and no view: write DROP TABLE",
    "DROP VIEW lance.ns.nothing": "TABLE_OR_VIEW_NOT_FOUND",
    "DROP TABLE lance.ns.taken": "is a view, and no table: write DROP VIEW|WRONG_COMMAND_FOR_OBJECT_TYPE|EXPECT_TABLE",
    "ALTER VIEW lance.ns.nothing AS SELECT 1 AS x": "TABLE_OR_VIEW_NOT_FOUND",
    "ALTER VIEW lance.ns.t AS SELECT 1 AS x": "TABLE_OR_VIEW_NOT_FOUND",
    "ALTER VIEW lance.ns.taken RENAME TO lance.ns.t": "ALREADY_EXISTS",
    "ALTER VIEW lance.ns.taken MOVE": "RENAME TO is expected",
    "ALTER TABLE lance.ns.taken ADD COLUMN y INT": "is a view, and no table|EXPECT_TABLE",
    "INSERT INTO lance.ns.taken VALUES (1)": "view|VIEW",
    "SELECT * FROM lance.ns.taken VERSION AS OF 1": "has no versions; name those of its tables",
    "DROP NAMESPACE lance.of_views": "NOT_EMPTY|not empty",
}


def test_what_a_view_cannot_be_says_so(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW lance.ns.taken AS SELECT 1 AS x")
    fresh.sql("CREATE NAMESPACE lance.of_views")
    fresh.sql("CREATE VIEW lance.of_views.v AS SELECT 1 AS x")
    fresh.sql("CREATE OR REPLACE TEMPORARY VIEW of_session AS SELECT 1 AS x")
    for statement, message in REFUSED.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            fresh.sql(statement)
    assert fresh.sql("SELECT * FROM lance.ns.taken") == [(1,)]
    assert fresh.sql("SELECT count(*) FROM lance.ns.t") == [(2,)]
    fresh.sql("DROP NAMESPACE lance.of_views CASCADE")
    fresh.sql("CREATE NAMESPACE lance.of_views")
    assert fresh.sql("SHOW VIEWS IN lance.of_views") == []
    fresh.sql("DROP NAMESPACE lance.of_views")
    fresh.sql("DROP VIEW of_session")


def test_a_view_is_that_of_the_transaction_that_reads_it(fresh: Lake) -> None:
    fresh.sql("CREATE OR REPLACE TABLE lance.ns.moving AS SELECT 1 AS id")
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT count(*) AS n FROM lance.ns.moving")
    fresh.sql("BEGIN TRANSACTION IN lance")
    try:
        fresh.sql("INSERT INTO lance.ns.moving VALUES (2)")
        assert fresh.sql("SELECT n FROM lance.ns.v") == [(2,)]
        with pytest.raises(SPARK_ERRORS, match="a transaction creates no views"):
            fresh.sql("CREATE VIEW lance.ns.w AS SELECT 1 AS x")
    finally:
        fresh.sql("ROLLBACK IN lance")
    assert fresh.sql("SELECT n FROM lance.ns.v") == [(1,)]


def test_other_clients_change_a_namespace_with_views(fresh: Lake) -> None:
    """pylance keeps what it does not know of `__manifest`, and does not see it."""
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT 1 AS x")
    theirs = lance.namespace.DirectoryNamespace(root=str(fresh.root))
    theirs.create_namespace(CreateNamespaceRequest(id=["by_pylance"]))
    assert "v" not in theirs.list_tables(ListTablesRequest(id=["ns"])).tables
    assert theirs.describe_table(DescribeTableRequest(id=["ns", "t"])).location.removeprefix("file://") == fresh.location("ns.t")
    assert fresh.sql("SELECT * FROM lance.ns.v") == [(1,)]
    assert fresh.namespace.describe_namespace() == {}
    fresh.namespace.drop_namespace(["by_pylance"])


def test_a_namespace_keeps_views_without_spark(tmp_path: Path) -> None:
    """The definition is text of the caller."""
    namespace = lance_spark.namespace(tmp_path)
    assert namespace.put_view(["v"], "one")
    assert not namespace.put_view(["v"], "two")
    assert namespace.put_view(["v"], "two", replace=True)
    assert (namespace.view(["v"]), namespace.view(["w"]), namespace.list_views()) == ("two", None, ["v"])
    with pytest.raises(TableAlreadyExistsError, match="there is a view 'v' already"):
        namespace.declare_table(["v"])
    namespace.create_namespace(["ns"])
    namespace.rename_view(["v"], ["ns", "w"])
    with pytest.raises(NamespaceNotEmptyError, match="1 views are in it"):
        namespace.drop_namespace(["ns"])
    namespace.drop_view(["ns", "w"])
    with pytest.raises(TableNotFoundError, match=r"there is no view 'ns\.w'"):
        namespace.drop_view(["ns", "w"])
    namespace.drop_namespace(["ns"])
    without = lance_spark.namespace(tmp_path, manifest_enabled="false")
    assert without.list_views() == []
    with pytest.raises(UnsupportedFeatureError, match="with a __manifest has views"):
        without.put_view(["v"], "one")


def test_no_write_to_a_view_reaches_a_table_of_another_catalog(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT id, name FROM lance.ns.t")
    fresh.sql("CREATE DATABASE spark_catalog.ns")
    try:
        rows = fresh.spark.sql("SELECT 1 AS id, 'a' AS name")
        for mode in ("error", "append", "overwrite"):
            with pytest.raises(SPARK_ERRORS, match=r"is a view, and no table|ALREADY_EXISTS"):
                rows.write.mode(mode).format("lance").saveAsTable("lance.ns.v")
        with pytest.raises(SPARK_ERRORS, match="is a view, and no table"):
            rows.write.insertInto("lance.ns.v")
        assert fresh.sql("SHOW TABLES IN spark_catalog.ns") == []
    finally:
        fresh.sql("DROP DATABASE spark_catalog.ns CASCADE")
    assert fresh.sql("SELECT count(*) FROM lance.ns.t") == [(2,)]


OF_TABLES = (
    "OPTIMIZE {v}",
    "VACUUM {v}",
    "RESTORE TABLE {v} TO VERSION AS OF 1",
    "CREATE TABLE lance.ns.c SHALLOW CLONE {v}",
    "DELETE FROM {v} WHERE id = 1",
    "DELETE FROM {v}",
    "UPDATE {v} SET name = 'x'",
    "MERGE INTO {v} AS v USING lance.ns.t AS t ON v.id = t.id WHEN MATCHED THEN DELETE",
    "INSERT INTO {v} VALUES (3, 'c')",
    "INSERT OVERWRITE {v} VALUES (3, 'c')",
    "INSERT INTO {v} REPLACE WHERE id = 1 SELECT 1, 'x'",
    "TRUNCATE TABLE {v}",
    "ALTER TABLE {v} ADD COLUMN more INT",
    "ALTER TABLE {v} RENAME COLUMN id TO other",
    "ALTER TABLE {v} DROP COLUMN id",
    "ALTER TABLE {v} CLUSTER BY (id)",
    "ALTER TABLE {v} ADD CONSTRAINT c CHECK (id > 0)",
    "ALTER TABLE {v} CREATE INDEX i USING btree (id)",
)


@pytest.mark.parametrize("statement", OF_TABLES)
def test_statements_about_tables_do_not_reach_through_a_view(fresh: Lake, statement: str) -> None:
    """Neither through that of the catalog, nor through a temporary one of it."""
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT * FROM lance.ns.t")
    fresh.sql("CREATE OR REPLACE TEMPORARY VIEW of_kept AS SELECT * FROM lance.ns.v")
    before = fresh.versions("ns.t")
    with pytest.raises(SPARK_ERRORS, match=r"is a view, and no table; write the name of its table, or ALTER VIEW"):
        fresh.sql(statement.format(v="lance.ns.v"))
    with pytest.raises(SPARK_ERRORS, match=r"is a view|EXPECT_TABLE_NOT_VIEW|TEMP_VIEW|VIEW_WRITE|into a view"):
        fresh.sql(statement.format(v="of_kept"))
    assert fresh.versions("ns.t") == before
    fresh.sql("DROP VIEW of_kept")


def test_no_door_of_python_reaches_through_a_view(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT * FROM lance.ns.t")
    rows = fresh.spark.sql("SELECT 1 AS id, 'x' AS name")
    doors: dict[str, Callable[[], object]] = {
        "forName": lambda: LanceTable.forName(fresh.spark, "lance.ns.v"),
        "append": lambda: rows.writeTo("lance.ns.v").append(),
        "overwrite": lambda: rows.writeTo("lance.ns.v").overwrite(F.col("id") == 1),
        "mergeInto": lambda: rows.mergeInto("lance.ns.v", F.expr("true")).whenMatched().delete().merge(),
    }
    before = fresh.versions("ns.t")
    for call in doors.values():
        with pytest.raises((*SPARK_ERRORS, UnsupportedFeatureError), match="is a view, and no table"):
            call()
    assert fresh.versions("ns.t") == before


@pytest.mark.parametrize("option", ["readChangeFeed", "version", "filter", "columns"])
def test_a_view_takes_no_options(fresh: Lake, option: str) -> None:
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT * FROM lance.ns.t")
    values = {"readChangeFeed": "true", "version": "1", "filter": "id = 1", "columns": "id"}
    with pytest.raises(SPARK_ERRORS, match="is a view, which takes no options; write them with the name of its table"):
        fresh.spark.read.option(option, values[option]).table("lance.ns.v").collect()
    with pytest.raises(SPARK_ERRORS, match="is a view, which takes no options"):
        fresh.sql(f"SELECT * FROM lance.ns.v WITH ('{option}' = '{values[option]}')")


def test_the_catalog_of_spark_knows_views_by_name(fresh: Lake) -> None:
    fresh.sql("CREATE VIEW lance.ns.v AS SELECT id FROM lance.ns.t")
    catalog = fresh.spark.catalog
    assert catalog.tableExists("lance.ns.v")
    assert [column.name for column in catalog.listColumns("lance.ns.v")] == ["id"]
    assert "v" not in [table.name for table in catalog.listTables("lance.ns")]
    if SPARK_VERSION >= (4, 2):
        with pytest.raises(SPARK_ERRORS, match=r'write spark.sql\("SHOW VIEWS IN lance.ns"\)'):
            catalog.listViews("lance.ns")


VIEWS = {
    "of all rows": "SELECT * FROM lance.ns.seen",
    "of a condition": "SELECT * FROM lance.ns.seen WHERE id > 1",
    "of a version": "SELECT * FROM lance.ns.seen VERSION AS OF 2",
}
CHANGES = ("table_changes('{v}', 1)", "lance_changes('{v}', 1)", "branch_diff('{v}', 'main', 'b')")


@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS)
def test_the_changes_of_a_table_are_not_those_of_a_view(fresh: Lake, query: str) -> None:
    """A view shows no row that was deleted from its table, or that its query leaves out."""
    fresh.sql("CREATE OR REPLACE TABLE lance.ns.seen AS SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS rows (id, name)")
    fresh.sql("DELETE FROM lance.ns.seen WHERE id = 2")
    fresh.sql(f"CREATE VIEW lance.ns.v AS {query}")
    fresh.sql("CREATE OR REPLACE TEMPORARY VIEW of_kept AS SELECT * FROM lance.ns.v")
    fresh.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_part AS SELECT * FROM ({query}) WHERE id > 0")
    for view in ("lance.ns.v", "of_kept", "of_part"):
        for changes in CHANGES:
            with pytest.raises(SPARK_ERRORS, match="may hide rows; write the name of its table"):
                fresh.sql(f"SELECT * FROM {changes.format(v=view)}")
    for view in ("of_kept", "of_part"):
        fresh.sql(f"DROP VIEW {view}")
