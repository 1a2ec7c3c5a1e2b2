"""A cluster: spark-submit with --py-files and two executor processes in which the package is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import lance
import pyspark
import pytest

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent


def package_zip(folder: Path) -> Path:
    """The zip of the package, made as in docs/how-to/platforms.md."""
    target = folder / "lance_spark.zip"
    with zipfile.ZipFile(target, "w") as z:
        for name in ("lance_spark", "pyspark_lance"):
            for file in sorted((ROOT / name).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    z.write(file, file.relative_to(ROOT))
    return target


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_submit_with_py_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "table.lance")
    job = tmp_path / "cluster_job.py"
    job.write_text(Path(__file__).with_name("cluster_job.py").read_text())
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.locality.wait": "0s",
        "spark.log.level": "OFF",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        *options,
        "--py-files",
        str(package_zip(tmp_path)),
        str(job),
        uri,
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    assert result["rows"] == 1010
    assert result["sum"] == sum(range(1010))
    assert result["old"] == 11
    assert result["failed"]
    assert result["executors"] == 2
    assert all("lance_spark.zip/" in file for file in [*result["imported"], result["here"]])
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.version == 2
    assert dataset.to_table(columns=["id"]).sort_by("id")["id"].to_pylist() == list(range(1010))
