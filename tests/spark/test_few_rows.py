"""Tasks that write few rows send them to the driver: the process that commits writes them, and no worker is started."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.spark.test_metrics import written
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def sent_to_workers(spark: SparkSession) -> str:
    """What Spark shows of the last write: the bytes that all its tasks have sent to Python workers."""
    return written(spark).get("data sent to Python workers", "0.0 B").rpartition("\n")[2].partition(" (")[0]


def test_few_rows_of_all_types_are_written_as_they_are(spark: SparkSession, uri: str) -> None:
    t = datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
    row = (1, "a", 2.5, Decimal("1.25"), date(2024, 2, 29), t, b"\x00\xff", [1, None], {"k": 1}, (7, None))
    types = "i int, s string, d double, n decimal(9, 2), day date, t timestamp, b binary, l array<int>, m map<string, int>"
    rows = [row, (None,) * len(row)]
    spark.createDataFrame(rows, f"{types}, st struct<x int, y string>").coalesce(1).write.format("lance").mode("append").save(uri)
    assert sent_to_workers(spark) == "0.0 B"
    found = lance.dataset(uri).to_table().to_pylist()
    assert [found[0][name] for name in ("i", "s", "d", "n", "day", "t", "b", "l", "st")] == [*row[:8], {"x": 7, "y": None}]
    assert set(found[1].values()) == {None}
    assert spark.read.format("lance").load(uri).select("m").where("m IS NOT NULL").collect() == [({"k": 1},)]


def test_tasks_with_few_rows_and_with_many_keep_the_order_of_their_rows(spark: SparkSession, uri: str) -> None:
    spark.range(0, 303, 1, 3).where("id < 10 OR id BETWEEN 101 AND 201 OR id > 300").write.format("lance").mode("append").save(uri)
    ids = lance.dataset(uri).to_table()["id"].to_pylist()
    assert ids == [*range(10), *range(101, 202), 301, 302]
    assert (written(spark)["files written"], written(spark)["rows written"]) == ("3", "113")
    assert len(Dataset.open(uri).snapshot.manifest.fragments) == 3
    assert sent_to_workers(spark) != "0.0 B"


def test_tasks_without_rows_start_no_worker(spark: SparkSession, uri: str) -> None:
    spark.range(0, 4, 1, 2).where("id > 9").write.format("lance").mode("append").save(uri)
    assert (Dataset.open(uri).count_rows(), sent_to_workers(spark)) == (0, "0.0 B")


def test_what_refuses_few_rows_deletes_the_files_of_all_tasks(spark: SparkSession, uri: str) -> None:
    Dataset.write(uri, Dataset.write(uri, spark.range(3).toArrow()).scan().to_table(), mode="overwrite")
    files = sorted(Path(uri).glob("data/*"))
    # The first task has a file of its own, and the second one a row that is refused.
    rows = spark.range(0, 202, 1, 2).where("id < 101 OR id = 201")
    with pytest.raises(SPARK_ERRORS, match="id < 150"):
        rows.write.format("lance").mode("overwrite").option("replaceWhere", "id < 150").save(uri)
    assert sorted(Path(uri).glob("data/*")) == files
    assert Dataset.open(uri).version == 2


def test_few_delta_rows_start_no_worker_and_are_counted_by_what_they_do(spark: SparkSession, uri: str) -> None:
    Dataset.write(uri, spark.range(100).selectExpr("id", "id AS v").toArrow(), max_rows_per_file=50)
    spark.read.format("lance").load(uri).createOrReplaceTempView("few")
    source = "SELECT id * 33 AS id FROM range(5)"
    spark.sql(
        f"MERGE INTO few t USING ({source}) s ON t.id = s.id WHEN MATCHED AND s.id = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = -s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 7)"
    )
    assert sent_to_workers(spark) == "0.0 B"
    found = written(spark)
    assert [found[name] for name in ("files written", "rows written", "rows deleted", "rows updated", "rows inserted")] == list("24131")
    table = lance.dataset(uri)
    table.validate()
    changed = {row["id"]: row["v"] for row in table.to_table().to_pylist() if row["id"] != row["v"]}
    assert (changed, table.count_rows(), table.count_rows("id = 0")) == ({33: -33, 66: -66, 99: -99, 132: 7}, 100, 0)
    for statement, expected in (("UPDATE few SET v = 0 WHERE id IN (1, 6)", "120"), ("DELETE FROM few WHERE id IN (2, 61)", "002")):
        spark.sql(statement)
        found = written(spark)
        assert sent_to_workers(spark) == "0.0 B"
        assert [found.get(name, "0") for name in ("files written", "rows updated", "rows deleted")] == list(expected)
    assert (lance.dataset(uri).count_rows("v = 0"), lance.dataset(uri).count_rows()) == (2, 98)
