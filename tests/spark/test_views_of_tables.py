"""Temporary views as targets and sources: metadata columns of the frame, tables that have changed, and writes that add columns by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import Sql, set_to
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

Evolve = Callable[[DataFrame, str], object]
MERGE = {"mergeSchema": "true"}
WRITES: dict[str, Evolve] = {
    "writeTo": lambda rows, name: rows.writeTo(name).options(**MERGE).append(),
    "saveAsTable": lambda rows, name: rows.write.format("lance").mode("append").options(**MERGE).saveAsTable(name),
    "insertInto": lambda rows, name: rows.write.options(**MERGE).insertInto(name),
    "INSERT": lambda rows, name: rows.sparkSession.sql(f"INSERT INTO {name} WITH (mergeSchema = 'true') SELECT * FROM {{rows}}", rows=rows),
    "INSERT BY NAME": lambda rows, name: rows.sparkSession.sql(
        f"INSERT INTO {name} WITH (mergeSchema = 'true') BY NAME SELECT x, s, id FROM {{rows}}", rows=rows
    ),
    "SCHEMA EVOLUTION": lambda rows, name: rows.sparkSession.sql(
        f"INSERT WITH SCHEMA EVOLUTION INTO {name} SELECT * FROM {{rows}}", rows=rows
    ),
    "setting": lambda rows, name: rows.writeTo(name).append(),
    "setting of insertInto": lambda rows, name: rows.write.insertInto(name),
}


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made


@pytest.mark.parametrize("name", ["lance.t", "planner.t", "path"])
def test_metadata_columns_of_a_frame_are_found_through_its_view(own: Lake, sql: Sql, name: str) -> None:
    spark, made = own.spark, "lance.t" if name == "path" else name
    sql(f"CREATE TABLE {made} USING lance AS SELECT id, CAST('a' AS STRING) AS s FROM range(3)")
    frame = spark.read.format("lance").load(own.location("t")) if name == "path" else spark.table(name)
    frame.createOrReplaceTempView("whole_view")
    frame.where("id > 0").select("id").createOrReplaceTempView("part_view")
    for view, ids in (("whole_view", [0, 1, 2]), ("part_view", [1, 2])):
        found = spark.sql(f"SELECT id, _rowid FROM {view} WHERE _rowaddr >= 0").collect()
        assert sorted(row.id for row in found) == ids
        assert (
            sorted(tuple(row) for row in found)
            == sorted(tuple(row) for row in frame.where("id > 0 OR id IN (0)").select("id", "_rowid").collect())[-len(ids) :]
        )
        joined = f"SELECT count(*) FROM {view} AS a JOIN {view} AS b ON a._rowid = b._rowid"
        assert sql(joined) == [(len(ids),)]
        assert spark.sql(f"SELECT * FROM {view}").columns == frame.columns[: 2 if view == "whole_view" else 1]
    sql("CREATE OR REPLACE TEMPORARY VIEW own_view AS SELECT id FROM whole_view")
    with pytest.raises(SPARK_ERRORS, match="UNRESOLVED_COLUMN"):
        sql("SELECT _rowid FROM own_view")


CHANGES: dict[str, tuple[Callable[[Dataset], object], object]] = {
    "nothing": (lambda table: None, {"id": 5, "s": "v"}),
    "rows": (lambda table: table.insert(pa.table({"id": pa.array([2], pa.int32()), "s": ["b"]})), {"id": 5, "s": "v"}),
    "a new column": (lambda table: table.add_columns({"x": "id + 1"}), {"id": 5, "s": "v", "x": None}),
    "a renamed column": (lambda table: table.alter_columns({"path": "s", "name": "t"}), "does not fit"),
    "a dropped column": (lambda table: table.drop_columns(["s"]), "does not fit"),
    "a wider column": (lambda table: table.alter_columns({"path": "id", "data_type": pa.int64()}), {"id": 5, "s": "v"}),
    "another order": (
        lambda table: Dataset.write(table.uri, pa.table({"s": ["b"], "id": pa.array([2], pa.int32())}), "overwrite"),
        {"s": "v", "id": 5},
    ),
    "other types": (lambda table: Dataset.write(table.uri, pa.table({"s": [1.5], "id": [True]}), "overwrite"), "does not fit"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_view_is_inserted_into_after_its_table_changed(spark: SparkSession, uri: str, change: str) -> None:
    Dataset.write(uri, pa.table({"id": pa.array([1], pa.int32()), "s": ["a"]}))
    spark.read.format("lance").load(uri).createOrReplaceTempView("changed_view")
    make, expected = CHANGES[change]
    make(Dataset.open(uri))
    before = Dataset.open(uri).to_table().num_rows
    if isinstance(expected, str):
        with pytest.raises(SPARK_ERRORS, match=expected):
            spark.sql("INSERT INTO changed_view VALUES (5, 'v')")
        assert Dataset.open(uri).to_table().num_rows == before
    else:
        spark.sql("INSERT INTO changed_view VALUES (5, 'v')")
        assert Dataset.open(uri).to_table().to_pylist()[before:] == [expected]


@pytest.mark.parametrize("name", ["planner.chars", "lance.chars", "lance.plain"])
def test_rows_are_inserted_into_a_view_of_a_name(own: Lake, sql: Sql, name: str) -> None:
    kind, width = ("CHAR(3)", 3) if "chars" in name else ("STRING", 1)
    sql(f"CREATE TABLE {name} (id INT, c {kind}) USING lance")
    sql(f"INSERT INTO {name} VALUES (1, 'a')")
    own.spark.table(name).createOrReplaceTempView("name_view")
    sql("INSERT INTO name_view VALUES (2, 'b')")
    assert sql(f"SELECT id, length(c) FROM {name} ORDER BY id") == [(1, width), (2, width)]
    sql("INSERT OVERWRITE name_view VALUES (3, 'c')")
    assert sql(f"SELECT id, length(c) FROM {name}") == [(3, width)]


@pytest.mark.matrix
@pytest.mark.skipif(SPARK_VERSION < (4, 3), reason="WITH SCHEMA EVOLUTION of INSERT is new in Spark 4.3")
@pytest.mark.parametrize("name", ["lance.evolving", "planner.evolving"])
@pytest.mark.parametrize("write", WRITES)
def test_merge_schema_adds_columns_to_a_table_of_a_catalog(own: Lake, sql: Sql, write: str, name: str) -> None:
    spark = own.spark
    sql(f"CREATE TABLE {name} (id INT, s STRING) USING lance")
    sql(f"INSERT INTO {name} VALUES (1, 'a')")
    rows = spark.createDataFrame([(7, "b", 3)], "id INT, s STRING, x INT")
    with set_to(spark, {"spark.lance.mergeSchema": "true"} if write.startswith("setting") else {}):
        if write == "insertInto" and name.startswith("planner"):
            with pytest.raises(SPARK_ERRORS, match="TOO_MANY_DATA_COLUMNS"):
                WRITES[write](rows, name)
            return
        WRITES[write](rows, name)
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1, "a", None), (7, "b", 3)]
    assert [row[0] for row in sql(f"DESCRIBE {name}")] == ["id", "s", "x"]
    with pytest.raises(SPARK_ERRORS, match=r"EXTRA_COLUMNS|TOO_MANY_DATA_COLUMNS"):
        rows.withColumn("y", rows.x).writeTo(name).append()


VIEWS = {
    "of a name": "SELECT * FROM {table}",
    "of all columns": "SELECT id, c FROM {table}",
    "of a view": "SELECT * FROM inner_view",
}
INSERTS: dict[str, tuple[Callable[[SparkSession, str], object], list[tuple[int, str]]]] = {
    "INSERT": (lambda spark, view: spark.sql(f"INSERT INTO {view} VALUES (2, 'b')"), [(1, "a"), (2, "b")]),
    "columns": (lambda spark, view: spark.sql(f"INSERT INTO {view} (c, id) VALUES ('b', 2)"), [(1, "a"), (2, "b")]),
    "BY NAME": (lambda spark, view: spark.sql(f"INSERT INTO {view} BY NAME SELECT 'b' AS c, 2 AS id"), [(1, "a"), (2, "b")]),
    "OVERWRITE": (lambda spark, view: spark.sql(f"INSERT OVERWRITE {view} VALUES (2, 'b')"), [(2, "b")]),
    "insertInto": (
        lambda spark, view: spark.createDataFrame([(2, "b")], "id INT, c STRING").write.insertInto(view),
        [(1, "a"), (2, "b")],
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("text", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("name", ["planner.t", "lance.t", "path"])
@pytest.mark.parametrize("kind", ["TEMPORARY", pytest.param("GLOBAL TEMPORARY", marks=pytest.mark.slow)])
def test_rows_are_inserted_into_a_view_that_is_a_text_of_sql(own: Lake, sql: Sql, kind: str, name: str, text: str) -> None:
    made = "lance.t" if name == "path" else name
    sql(f"CREATE TABLE {made} (id INT, c STRING) USING lance")
    table = f"lance.`{own.location('t')}`" if name == "path" else name
    view = "text_view" if kind == "TEMPORARY" else "global_temp.text_view"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW inner_view AS SELECT * FROM {table}")
    sql(f"CREATE OR REPLACE {kind} VIEW text_view AS {text.format(table=table)}")
    for insert, expected in INSERTS.values():
        sql(f"INSERT OVERWRITE {made} VALUES (1, 'a')")
        insert(own.spark, view)
        assert sorted(sql(f"SELECT * FROM {made}")) == sorted(sql(f"SELECT * FROM {view}")) == expected
    sql(f"DROP VIEW {view}")


@pytest.mark.parametrize("query", ["SELECT * FROM lance.t WHERE id > 0", "SELECT id FROM lance.t", "SELECT id AS c, c AS id FROM lance.t"])
def test_a_view_of_other_rows_or_columns_is_not_inserted_into(own: Lake, sql: Sql, query: str) -> None:
    sql("CREATE TABLE lance.t (id INT, c STRING)")
    sql(f"CREATE OR REPLACE TEMPORARY VIEW part_view AS {query}")
    with pytest.raises(SPARK_ERRORS, match="expects a table but `part_view` is a view"):
        sql("INSERT INTO part_view SELECT * FROM part_view")
    assert sql("SELECT * FROM lance.t") == []
