"""Damaged files raise errors in queries, unless the option disables verification."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession


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
