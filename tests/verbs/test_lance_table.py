"""LanceTable finds tables, shows them, and changes what needs no rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import lance
import pyarrow as pa
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

import lance_spark
from lance_spark import LanceTable
from lance_spark.errors import (
    InvalidOptionError,
    RefConflictError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lance_spark.lance_table import TableBuilder


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    lance.write_dataset(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, schema=schema), uri)
    return LanceTable.forPath(spark, uri)


def names(uri: str, **where: Any) -> list[str]:
    dataset = lance.dataset(uri, **where)
    dataset.validate()
    return [str(name) for name in dataset.schema.names]


def test_a_path_without_a_table(spark: SparkSession, uri: str) -> None:
    assert not LanceTable.isLanceTable(spark, uri)
    with pytest.raises(TableNotFoundError):
        LanceTable.forPath(spark, uri)


def test_tables_of_the_catalog_by_name(spark: SparkSession, table: LanceTable, uri: str) -> None:
    spark.sql(f"CREATE TABLE lance_by_name USING lance LOCATION '{uri}'")
    spark.sql("CREATE TABLE not_lance (id BIGINT) USING parquet")
    try:
        LanceTable.forName(spark, "default.lance_by_name").delete("id = 2")
        assert sorted(row.id for row in table.toDF().collect()) == [1, 3]
        with pytest.raises(TableNotFoundError, match="provider in the catalog is parquet"):
            LanceTable.forName(spark, "not_lance")
        with pytest.raises(TableNotFoundError, match="has no lance table nothing"):
            LanceTable.forName(spark, "nothing")
    finally:
        spark.sql("DROP TABLE lance_by_name")
        spark.sql("DROP TABLE not_lance")


def test_columns_are_dropped_and_renamed(table: LanceTable, uri: str) -> None:
    assert table.renameColumn("name", "label", commit_message="better") == 2
    assert names(uri) == ["id", "label"]
    assert table.history(1)[0].message == "better"
    table.dropColumns(["label"])
    assert names(uri) == ["id"]


def test_a_primary_key_is_declared_once_and_only_of_columns_without_nulls(table: LanceTable, uri: str) -> None:
    with pytest.raises(SchemaMismatchError, match="name"):
        table.setPrimaryKey(["name"])
    table.setPrimaryKey(["id"])
    assert lance.dataset(uri).schema.field("id").metadata[b"lance-schema:unenforced-primary-key"] == b"true"


def test_versions_are_restored_tagged_branched_and_vacuumed(table: LanceTable, uri: str) -> None:
    table.tags.create("before", 1)
    table.delete("id = 1")
    assert table.toDF().count() == 2
    assert table.restoreToVersion("before") == 3
    assert table.toDF().count() == 3
    branch = table.createBranch("try")
    branch.update("id = 1", {"name": "'branch'"})
    assert {row.name for row in branch.toDF().collect()} == {"branch", "b", "c"}
    assert {row.name for row in table.toDF().collect()} == {"a", "b", "c"}
    with pytest.raises(RefConflictError, match="before"):
        table.vacuum(timedelta(0))
    table.tags.delete("before")
    assert table.vacuum(timedelta(0)).old_versions == 2


def test_clones(table: LanceTable, uri: str) -> None:
    shallow, deep = table.shallowClone(f"{uri}.shallow"), table.deepClone(f"{uri}.deep")
    shallow.delete("id = 1")
    deep.delete("id = 2")
    assert [t.toDF().count() for t in (table, shallow, deep)] == [3, 2, 2]


def test_the_results_of_detail_and_verify(table: LanceTable, uri: str) -> None:
    assert (table.detail().rows, [c.name for c in table.detail().columns]) == (3, ["id", "name"])
    assert table.verify().ok


def test_tables_are_created_and_replaced_in_one_commit_each(spark: SparkSession, uri: str) -> None:
    def builder(made: TableBuilder) -> TableBuilder:
        vector = made.location(uri).addColumn("id", "BIGINT", nullable=False).addColumn("v", "ARRAY<FLOAT>")
        return vector.option("v.arrow.fixed-size-list.size", 4).option("stable_row_ids", True).property("team", "search")

    with pytest.raises(TableNotFoundError):
        builder(LanceTable.replace(spark)).execute()
    table = builder(LanceTable.create(spark)).execute()
    assert lance.dataset(uri).schema == pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.list_(pa.float32(), 4))])
    assert (lance.dataset(uri).has_stable_row_ids, lance.dataset(uri).config()["team"], lance.dataset(uri).version) == (True, "search", 1)
    with pytest.raises(TableAlreadyExistsError):
        builder(LanceTable.create(spark)).execute()
    assert builder(LanceTable.createIfNotExists(spark)).execute().history()[0].version == 1
    LanceTable.createOrReplace(spark).location(uri).addColumns(spark.range(1).schema).execute()
    assert (lance.dataset(uri).version, lance.dataset(uri).schema.names) == (2, ["id"])
    assert table.restoreToVersion(1) == 3
    with pytest.raises(ValueError, match="duplicated"):
        LanceTable.create(spark).addColumn("a", "INT").addColumn("A", "INT")


def test_a_created_table_has_a_name_in_the_catalog(spark: SparkSession, uri: str) -> None:
    try:
        LanceTable.create(spark).tableName("made_by_builder").location(uri).addColumn("id", "BIGINT").execute()
        spark.range(3).writeTo("made_by_builder").append()
        assert LanceTable.forName(spark, "made_by_builder").toDF().count() == 3
    finally:
        spark.sql("DROP TABLE IF EXISTS made_by_builder")


def test_alter_column(uri: str, spark: SparkSession) -> None:
    lance.write_dataset(pa.table({"id": pa.array(range(90), pa.int32()), "v": [[1.0, 2.0]] * 90}), uri, max_rows_per_file=30)
    table = LanceTable.forPath(spark, uri)
    done = table.alterColumn("id", nullable=False, type="bigint", commit_message="wider")
    assert (done.version, done.num_files_added) == (2, 3)
    table.alterColumn("id", nullable=True)
    table.alterColumn("v", type=pa.list_(pa.float32()))
    assert lance.dataset(uri).schema == pa.schema({"id": pa.int64(), "v": pa.list_(pa.float32())})
    lance.dataset(uri).validate()
    assert lance.dataset(uri).to_table()["id"].to_pylist() == list(range(90))
    assert table.history()[2].message == "wider"
    table.update("id = 7", {"id": "NULL"})
    with pytest.raises(SchemaMismatchError, match="row 0 of fragment 3 is null"):
        table.alterColumn("id", nullable=False)
    with pytest.raises(SchemaMismatchError, match="cannot become string"):
        table.alterColumn("id", type=StringType())
    with pytest.raises(ValueError, match="needs nullable or type"):
        table.alterColumn("id")


def test_wrong_arguments_are_named_and_change_nothing(spark: SparkSession, uri: str) -> None:
    lance_spark.write(spark.range(3), uri)
    table: Any = LanceTable.forPath(spark, uri)
    source = spark.range(2)
    uses: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: table.merge(source, None).whenMatchedDelete().execute(), TypeError, "condition must be SQL text, such as 't.id = s.id'"),
        (lambda: table.merge("s", "id = 1").whenMatchedDelete().execute(), TypeError, "source must be a DataFrame, not 's'"),
        (lambda: table.delete(5), TypeError, "a condition or value must be SQL text"),
        (lambda: table.delete("id = 1 AND"), InvalidOptionError, "'id = 1 AND' has a syntax error: after its last word"),
        (lambda: table.update("id = 1 OR", {"id": "2"}), InvalidOptionError, "'id = 1 OR' has a syntax error"),
        (lambda: table.update("id = 1", {"id": "id + 2 more"}), InvalidOptionError, r"'id \+ 2 more' has a syntax error"),
        (lambda: table.addColumns({"w": "id + 2 more"}), InvalidOptionError, r"'id \+ 2 more' has a syntax error"),
        (lambda: table.delete("id = 1) OR (id = 2"), ParseException, "PARSE_SYNTAX_ERROR"),
        (lambda: table.update("id = 1", {"id": 1}), TypeError, r"must be SQL text, such as '1' .* such as F.lit\(1\), not 1"),
        (lambda: table.update("id = 1", "id = 2"), TypeError, "set must be a mapping"),
        (lambda: table.addColumns(lambda batch: batch, schema="y bigint"), TypeError, "schema must be a schema of pyarrow, not 'y bigint'"),
        (lambda: table.addColumns(5, schema=pa.schema([("y", pa.int64())])), TypeError, "values must be SQL text by name"),
        (lambda: LanceTable.forPath(spark, uri, {"version": 1}), InvalidOptionError, "the option 'version' does not locate a table"),
        (lambda: LanceTable.forPath(spark, uri, {"brnch": "b"}), InvalidOptionError, "did you mean 'branch'"),
        (lambda: LanceTable.forPath(spark, uri, {"Branch": "b"}), VersionNotFoundError, "has no branch 'b'"),
        (lambda: lance_spark.write(cast(Any, [1]), uri, mode="append"), TypeError, "df must be a DataFrame"),
        (lambda: lance_spark.enable(cast(Any, None)), TypeError, "spark must be a SparkSession, not None"),
        (lambda: lance_spark.catalog(spark, "a.b"), ValueError, "the name of a catalog must be a word, such as lance, not 'a.b'"),
    ]
    for use, error, message in uses:
        with pytest.raises(error, match=message):
            use()
    assert [entry.version for entry in table.history()] == [1]


def test_a_comment_may_end_a_condition(spark: SparkSession, uri: str) -> None:
    lance_spark.write(spark.range(3), uri)
    assert LanceTable.forPath(spark, uri).delete("id = 1 AND soundex('a') IS NOT NULL -- the second").num_deleted_rows == 1
