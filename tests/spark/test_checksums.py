"""Damaged files raise errors in queries, unless the option disables verification."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.spark_session import SPARK_ERRORS


def test_damage_fails_only_queries_that_read_it(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(100_000).selectExpr("id", "id * 7919 % 1000003 AS v").coalesce(1).write.format("lance").mode("append").save(uri)
    (path,) = Path(uri, "data").iterdir()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    damaged = spark.read.format("lance").load(uri)
    with pytest.raises(Exception, match=rf"(?s){path.name}.*verify_checksums=False"):
        damaged.selectExpr("sum(id)", "sum(v)").collect()
    assert damaged.count() == 100_000
    assert spark.read.format("lance").option("verify_checksums", "false").load(uri).selectExpr("count(v)").head() == (100_000,)


QUERIES = (
    "SELECT id, v, s FROM flipped ORDER BY id",
    "SELECT count(*), sum(id), min(v), max(s) FROM flipped",
    "SELECT s, count(v), sum(v) FROM flipped GROUP BY s ORDER BY s",
    "SELECT id FROM flipped WHERE s = 'text 3' AND v > 0.5 ORDER BY id",
)


def test_flipped_bits_are_errors_or_change_nothing_in_scans_and_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = {"id": range(500), "v": [i % 7 / 4 for i in range(500)], "s": [f"text {i % 9}" for i in range(500)]}
    Dataset.write(uri, pa.table(rows))
    (file,) = Path(uri, "data").iterdir()
    whole, rng, errors = file.read_bytes(), random.Random(8), []
    spark.read.format("lance").load(uri).createOrReplaceTempView("flipped")
    expected = {query: spark.sql(query).collect() for query in QUERIES}
    for query in QUERIES * 2:
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        spark.read.format("lance").load(uri).createOrReplaceTempView("flipped")
        try:
            found = spark.sql(query).collect()
        except SPARK_ERRORS as e:
            errors.append(str(e))
        else:
            assert found == expected[query]
    assert errors
    assert all("CorruptFileError" in error for error in errors)
