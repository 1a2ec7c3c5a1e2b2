"""Tables of storage version 0.1 in Spark: an error names the migration, tasks run it, and statements work afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import LanceTable
from lance_spark.cli.main import main

pytestmark = pytest.mark.spec("format-document.md", "File Version")


def by_call(spark: SparkSession, uri: str) -> tuple[int, str, int]:
    [row] = spark.sql("CALL old.system.migrate('old.t')").collect()
    return row.version, row.storage_version, row.fragments


def by_method(spark: SparkSession, uri: str) -> tuple[int, str, int]:
    table = LanceTable.forPath(spark, uri)
    noted = {"commit_message": "to the newest", "txnAppId": "job", "txnVersion": 3}
    done = table.migrate(**noted)
    assert table.migrate(**noted).version == done.version, "done once"
    assert table.history(1)[0].message == "to the newest"
    return done.version, done.storage_version, done.fragments


def by_command(spark: SparkSession, uri: str) -> tuple[int, str, int]:
    assert main(["migrate", uri, "--json"]) == 0
    return lance.dataset(uri).version, lance.dataset(uri).data_storage_version, len(lance.dataset(uri).get_fragments())


@pytest.mark.parametrize("migrate", [by_call, by_method, by_command])
def test_a_migration_makes_statements_possible(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], migrate: Callable[[SparkSession, str], tuple[int, str, int]]
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), uri, data_storage_version="legacy", max_rows_per_file=2)
    lance_spark.catalog(spark, "old", root=str(tmp_path), single_level_ns=True)
    with pytest.raises(PySparkException, match="lance-spark migrate"):
        spark.sql("INSERT INTO old.t VALUES (4, 'd')")
    assert migrate(spark, uri) == (2, "2.2", 2)
    spark.sql("INSERT INTO old.t VALUES (4, 'd')")
    spark.sql("UPDATE old.t SET v = upper(v) WHERE id = 2")
    spark.sql("MERGE INTO old.t t USING (SELECT 3L id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    expected = {1: "a", 2: "B", 4: "d"}
    assert {row.id: row.v for row in spark.sql("SELECT * FROM old.t").collect()} == expected
    lance.dataset(uri).validate()
    assert {row["id"]: row["v"] for row in lance.dataset(uri).to_table().to_pylist()} == expected
    printed = capsys.readouterr().out
    assert migrate is not by_command or json.loads(printed)[0]["storage_version"] == "2.2"
