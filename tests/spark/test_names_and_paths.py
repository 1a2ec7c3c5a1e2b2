"""Promises about names that differ only in case and about relative paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from tests.spark.plans import settings

Load = Callable[..., DataFrame]


def test_names_that_differ_only_in_case(spark: SparkSession, load: Load, uri: str) -> None:
    with settings(spark, caseSensitive="true"):
        for _ in range(2):
            spark.range(3).selectExpr("id", "id + 10 AS ID", "named_struct('a', id, 'A', id + 20) AS st").write.format("lance").mode(
                "append"
            ).save(uri)
        assert load(uri).where("ID = 11 AND id = 1").select("ID", "st.A").collect() == [(11, 21)] * 2
    assert lance.dataset(uri).to_table(columns=["ID"]).column("ID").to_pylist() == [10, 11, 12] * 2
    with settings(spark, caseSensitive="false"):
        assert load(uri).select("st").count() == 6
        with pytest.raises(AnalysisException, match="AMBIGUOUS_REFERENCE"):
            load(uri).select("id")


def test_statements_change_one_of_two_columns_that_differ_only_in_case(spark: SparkSession, uri: str) -> None:
    Dataset.write(uri, pa.table({"id": [0, 1, 2], "DEFAULT": [10, 11, 12], "default": [20, 21, 22]}))
    with settings(spark, caseSensitive="true"):
        spark.read.format("lance").load(uri).createOrReplaceTempView("alike")
        spark.sql("UPDATE alike SET `default` = 100 WHERE id = 0")
        spark.sql("MERGE INTO alike AS t USING (SELECT 1 AS i) AS s ON t.id = s.i WHEN MATCHED THEN UPDATE SET `DEFAULT` = 101")
        assert sorted(map(tuple, spark.table("alike").collect())) == [(0, 10, 100), (1, 101, 21), (2, 12, 22)]
    merge = Dataset.open(uri).merge_insert(on="id").when_matched_update_all()
    merge.execute(pa.table({"id": [2], "default": [102]}))
    assert Dataset.open(uri).scan(filter="id = 2").to_table().to_pylist() == [{"id": 2, "DEFAULT": 12, "default": 102}]
    lance.dataset(uri).validate()


@pytest.mark.parametrize(
    ("name", "statement"), [("_ROWADDR", "DELETE FROM hidden WHERE id = 0"), ("__row_operation", "UPDATE hidden SET id = 0")]
)
def test_statements_refuse_names_that_spark_takes_for_its_own(spark: SparkSession, uri: str, name: str, statement: str) -> None:
    Dataset.write(uri, pa.table({"id": [0], name: [1]}))
    spark.read.format("lance").load(uri).createOrReplaceTempView("hidden")
    with pytest.raises(UnsupportedOperationException, match=f"cannot change a table with the column '{name}'"):
        spark.sql(statement)
    assert Dataset.open(uri).scan().to_table().to_pylist() == [{"id": 0, name: 1}]


def test_a_name_that_fits_two_columns_is_refused(uri: str) -> None:
    Dataset.write(uri, pa.table({"id": [1], "ID": [2]}))
    with pytest.raises(lance_spark.errors.SchemaMismatchError, match="'Id' is ambiguous"):
        Dataset.write(uri, pa.table({"Id": [3]}), mode="append")
    Dataset.write(uri, pa.table({"id": [3]}), mode="append")
    assert Dataset.open(uri).scan().to_table().to_pylist() == [{"id": 1, "ID": 2}, {"id": 3, "ID": None}]


def test_names_that_java_takes_for_one(load: Load, uri: str) -> None:
    Dataset.write(uri, pa.table({"x": [0], "\u0130": [1], "\u0131": [2]}))
    assert load(uri).collect() == [(0, 1, 2)]
    assert load(uri).select("\u0131").collect() == [(2,)]


def test_relative_paths_start_where_python_is(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lance_spark.write(spark.range(3), "t")
    lance_spark.write(spark.range(3), "t", mode="append")
    LanceTable.forPath(spark, "t").update("id = 2", {"id": "id + 1"})
    assert LanceTable.forPath(spark, "t").toDF().count() == 6
    assert Dataset.open(tmp_path / "t").count_rows("id = 3") == 2
