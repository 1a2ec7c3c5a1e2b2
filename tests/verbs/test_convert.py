"""LanceTable.convert: files and tables of other formats become lance tables, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError
from tests.sample import by_turns
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def old(spark: SparkSession, tmp_path: Path) -> str:
    """Files of Parquet, partitioned by p, in folders with a space in their name."""
    path = str(tmp_path / "old files")
    rows = spark.range(0, 60, 1, 3).selectExpr("id", "'a b/' || id % 3 AS p", "array(id) AS items")
    rows.write.partitionBy("p").parquet(path)
    return path


def ids(uri: str) -> list[int]:
    lance.dataset(uri).validate()
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist())


def test_files_become_a_table_that_is_clustered_by_their_partitions(spark: SparkSession, old: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "new.lance")
    table = LanceTable.convert(spark, f"parquet.`{old}`", uri, {"stable_row_ids": True})
    assert ids(uri) == list(range(60))
    expected = spark.read.parquet(old)
    assert table.toDF().schema.simpleString() == expected.schema.simpleString()
    assert sorted(table.toDF().selectExpr("id", "p").collect()) == sorted(expected.selectExpr("id", "p").collect())
    assert '"p"' in Dataset.open(uri).snapshot.manifest.config["lance_spark.clustering"]
    assert "lance_spark.converting" not in Dataset.open(uri).snapshot.manifest.config
    with pytest.raises(TableAlreadyExistsError):
        LanceTable.convert(spark, f"parquet.`{old}`", uri)


@pytest.mark.parametrize("turn", by_turns([()], turns=3))
def test_an_interrupted_conversion_goes_on(turn: int, spark: SparkSession, old: str, tmp_path: Path) -> None:
    """Spark takes the schema of one file, and which one depends on the file system: each file is damaged once."""
    for number, damaged in enumerate(sorted(Path(old).rglob("*.parquet"))[turn::3]):
        uri = str(tmp_path / f"new {number}.lance")
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-200])
        with pytest.raises((*SPARK_ERRORS, InvalidOptionError), match=damaged.name):
            LanceTable.convert(spark, f"parquet.`{old}`", uri)
        damaged.write_bytes(whole)
        LanceTable.convert(spark, f"parquet.`{old}`", uri)
        assert ids(uri) == list(range(60)), "no file twice, none left out"


def test_a_table_with_a_name_brings_its_comments_and_properties(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "new.lance")
    spark.sql(
        "CREATE TABLE old_table (id BIGINT COMMENT 'the key', day DATE) USING parquet PARTITIONED BY (day) TBLPROPERTIES ('team' = 'x')"
    )
    try:
        spark.sql("INSERT INTO old_table VALUES (1, DATE '2026-01-01'), (2, NULL)")
        table = LanceTable.convert(spark, "old_table", uri)
    finally:
        spark.sql("DROP TABLE old_table")
    assert ids(uri) == [1, 2]
    config = Dataset.open(uri).snapshot.manifest.config
    assert config["team"] == "x"
    assert '"day"' in config["lance_spark.clustering"]
    assert table.toDF().schema["id"].metadata["comment"] == "the key"


@pytest.mark.parametrize("source", ["no_such_table", "parquet.`/no/such/folder`", "nonsense.`/tmp`", "a b c"])
def test_what_is_no_source_is_refused(source: str, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="expected the name of a table, or a format and a path that Spark can read"):
        LanceTable.convert(spark, source, str(tmp_path / "new.lance"))
    assert not (tmp_path / "new.lance").exists()
