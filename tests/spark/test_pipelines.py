"""Pipelines of Spark 4.1 and newer over Spark Connect, as the guide types them: views, streaming tables and sinks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pyspark
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.namespace.protocol import Namespace
from tests.spark.processes import ROOT
from tests.spark.test_planner_sessions import NEEDS_CONNECT, connect_port
from tests.spark_session import QUICK_JAVA, SPARK_VERSION, worker_environment

__all__ = ["connect_port"]
pytestmark = [
    pytest.mark.slow,
    NEEDS_CONNECT,
    pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark 4.0 has no pipelines"),
    pytest.mark.usefixtures("connect_port"),
]

GUIDE = ROOT / "docs" / "how-to" / "pipelines.md"
FOR_TESTS = f"""
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.driver.host 127.0.0.1
spark.sql.pipelines.maxFlowRetryAttempts 20
spark.driver.extraJavaOptions {QUICK_JAVA}
"""
MORE = """
@dp.table
def by_path():
    return spark.readStream.format("lance").load("/data/from_path.lance").select("id")
"""


def sh(folder: Path, script: str) -> None:
    """Run a script of a user, with this environment's programs; it must succeed."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), f"{Path(pyspark.__file__).parent}/bin", os.environ["PATH"]])
    environment = {**os.environ, **worker_environment(), "PATH": programs}
    ran = subprocess.run(["sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert not ran.returncode, ran.stdout + ran.stderr


def written_as_typed(folder: Path) -> str:
    """Write the files of the guide into `folder`, which is its /data. Returns its commands."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", GUIDE.read_text().replace("/data/", f"{folder}/"), re.DOTALL | re.MULTILINE)
    settings, spec, datasets, commands = blocks
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(settings + FOR_TESTS)
    (folder / "spark-pipeline.yml").write_text(spec)
    (folder / "datasets.py").write_text(datasets + MORE.replace("/data/", f"{folder}/"))
    return str(commands)


def rows(lake: Namespace, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lake.open(["shop", name]).to_table().to_pylist())


@pytest.mark.timeout(900)
def test_the_pipeline_of_the_guide_is_run_and_refreshed(tmp_path: Path) -> None:
    commands = written_as_typed(tmp_path)
    Dataset.write(f"{tmp_path}/from_path.lance", pa.table({"id": [10, 11]}))
    sh(tmp_path, commands)
    lake = lance_spark.namespace(str(tmp_path / "lake"))
    assert rows(lake, "seen") == [(0, "even"), (1, "odd"), (2, "even")]
    assert rows(lake, "totals") == [("even", 2, 2), ("odd", 1, 1)]
    assert rows(lake, "large") == [("even", 2, 2)]
    assert rows(lake, "by_path") == [(10,), (11,)]
    assert sorted(Dataset.open(f"{tmp_path}/out.lance").to_table()["id"].to_pylist()) == [0, 1, 2]
    clusters = [
        json.loads(lance.dataset(lake.open(["shop", name]).uri).config()["lance_spark.clustering"])["columns"]
        for name in ("seen", "totals")
    ]
    assert clusters == [["id"], ["kind"]]

    lake.write(["shop", "raw"], pa.table({"id": [3, 4], "kind": ["odd", "even"]}), mode="append")
    before = {name: lake.open(["shop", name]).version for name in ("totals", "by_path")}
    setting, run_it = commands.splitlines()[-2:]
    sh(tmp_path, f"{setting}\n{run_it} --refresh seen,totals,large --full-refresh by_path")
    assert [row[0] for row in rows(lake, "seen")] == [0, 1, 2, 3, 4], "a streaming table gets the new rows, each once"
    assert rows(lake, "totals") == rows(lake, "large") == [("even", 3, 6), ("odd", 2, 4)]
    made = [version.operation for version in lake.open(["shop", "totals"]).history() if version.version > before["totals"]]
    assert sorted(made) == ["Append", "Delete"], "Spark empties a view, and then appends to it"
    assert rows(lake, "by_path") == [(10,), (11,)]
    assert lake.open(["shop", "by_path"]).version == before["by_path"] + 2, "it was emptied, and filled again"
