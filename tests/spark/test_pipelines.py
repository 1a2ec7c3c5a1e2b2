"""Declarative pipelines of Spark 4.1 and newer over Spark Connect: views, streaming tables and sinks in a catalog of lance tables."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pyspark
import pytest

import lance_spark
from lance_spark import Dataset
from tests.spark.processes import ROOT, run
from tests.spark.test_planner_sessions import NEEDS_CONNECT, connect_port
from tests.spark_session import QUICK_JAVA, SPARK_VERSION, worker_environment

__all__ = ["connect_port"]
pytestmark = [
    pytest.mark.slow,
    NEEDS_CONNECT,
    pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark 4.0 has no pipelines"),
    pytest.mark.usefixtures("connect_port"),
]

DATASETS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()


@dp.table(cluster_by=["id"])
def seen():
    return spark.readStream.table("lake.shop.raw")


@dp.table
def by_path():
    return spark.readStream.format("lance").load("{root}/from_path.lance").select("id")


@dp.materialized_view(cluster_by=["kind"], comment="a row for each kind")
def totals():
    return spark.read.table("lake.shop.seen").groupBy("kind").agg(F.count("*").alias("n"), F.sum("id").alias("ids"))


@dp.materialized_view
def large():
    return spark.read.table("lake.shop.totals").where("n > 1")


dp.create_sink("out", "lance", {{"path": "{root}/out.lance"}})


@dp.append_flow(target="out")
def to_out():
    return spark.readStream.table("lake.shop.seen").select("id")
"""
SPEC = """
name: shop
storage: file://{root}/progress
catalog: lake
database: shop
libraries:
  - glob:
      include: datasets.py
"""


def rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "kind": ["even" if i % 2 == 0 else "odd" for i in ids]})


def pipeline(root: Path, jar: str, *arguments: str) -> str:
    """What a run of the pipeline prints; it must succeed."""
    command = [
        f"{Path(pyspark.__file__).parent}/bin/spark-pipelines",
        *("run", "--spec", str(root / "spark-pipeline.yml"), "--driver-class-path", jar, *arguments),
        *("--driver-java-options", QUICK_JAVA),
        *("--conf", "spark.sql.extensions=lancespark.LancePlanner$Extensions"),
        *("--conf", "spark.sql.catalog.lake=lancespark.LanceCatalog"),
        *("--conf", f"spark.sql.catalog.lake.root={root}/lake"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.host=127.0.0.1"),
    ]
    environment = {**os.environ, **worker_environment(), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert not ran.returncode, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_a_pipeline_is_run_and_refreshed(tmp_path: Path) -> None:
    jar = f"{tmp_path}/planner.jar"
    run("import runpy; runpy.run_module('lance_spark', run_name='__main__')", "jar", jar)
    lake = lance_spark.namespace(str(tmp_path / "lake"))
    lake.create_namespace(["shop"])
    lake.write(["shop", "raw"], rows(0, 3))
    Dataset.write(f"{tmp_path}/from_path.lance", rows(10, 2))
    (tmp_path / "datasets.py").write_text(DATASETS.format(root=tmp_path))
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(root=tmp_path))

    def found(name: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in lake.open(["shop", name]).to_table().to_pylist())

    pipeline(tmp_path, jar)
    assert found("seen") == [(0, "even"), (1, "odd"), (2, "even")]
    assert found("totals") == [("even", 2, 2), ("odd", 1, 1)]
    assert found("large") == [("even", 2, 2)]
    assert found("by_path") == [(10,), (11,)]
    assert sorted(Dataset.open(f"{tmp_path}/out.lance").to_table()["id"].to_pylist()) == [0, 1, 2]
    clusters = [
        json.loads(lance.dataset(lake.open(["shop", name]).uri).config()["lance_spark.clustering"])["columns"]
        for name in ("seen", "totals")
    ]
    assert clusters == [["id"], ["kind"]]

    lake.write(["shop", "raw"], rows(3, 2), mode="append")
    before = lake.open(["shop", "totals"]).version
    pipeline(tmp_path, jar)
    assert [row[0] for row in found("seen")] == [0, 1, 2, 3, 4], "a streaming table gets the new rows"
    assert found("totals") == [("even", 3, 6), ("odd", 2, 4)]
    assert found("large") == [("even", 3, 6), ("odd", 2, 4)]
    assert sorted(Dataset.open(f"{tmp_path}/out.lance").to_table()["id"].to_pylist()) == [0, 1, 2, 3, 4]
    history = lake.open(["shop", "totals"]).history()
    made = [version.operation for version in history if version.version > before]
    assert sorted(made) == ["Append", "Delete"], "Spark empties a view, and then appends to it"

    pipeline(tmp_path, jar, "--full-refresh-all")
    assert [row[0] for row in found("seen")] == [0, 1, 2, 3, 4]
    assert found("totals") == [("even", 3, 6), ("odd", 2, 4)]
