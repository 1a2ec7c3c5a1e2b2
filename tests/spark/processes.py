"""Scripts that run in a separate Python process with a separate Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.spark_session import QUICK_JAVA, worker_environment

ROOT = Path(__file__).parents[2]

NEWEST = "4.3"
"""The newest Spark that is supported, for which the classes of the wheel are compiled."""

START = f"""
import sys, lance_spark
from pyspark.sql import SparkSession
def show(spark):
    frame = spark.read.format("lance").load(sys.argv[1]).where("id = 3").select("s")
    frame.explain()
    print([row.s for row in frame.collect()])
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.driver.extraJavaOptions", "{QUICK_JAVA}")
"""
"""A builder of sessions, and `show`, which prints a plan and the rows of a query on the table that is the first argument."""


def run(script: str, *arguments: str, path: Path = ROOT) -> str:
    """Run the script, which must succeed, and return its output. `path` is the location of the package."""
    environment = {**os.environ, **worker_environment(), "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=path, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


def processes(part: str) -> set[int]:
    """The processes of this process's Spark with these words in their command lines, as their numbers."""
    return set(_with_parents(part))


def forked(part: str) -> set[int]:
    """Those of these processes that another of them has forked: all but the daemons, whatever their numbers are."""
    parents = _with_parents(part)
    return {pid for pid, parent in parents.items() if parent in parents}


def _with_parents(part: str) -> dict[int, int]:
    lines = subprocess.run(["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    parents = {int(pid): (int(parent), command) for pid, parent, command in (line.split(None, 2) for line in lines)}

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid][0]
        return pid == os.getpid()

    return {pid: parent for pid, (parent, command) in parents.items() if part in command and is_ours(pid)}


def run_without(daemon: str, tmp_path: Path, stored: str) -> str:
    """What a session prints that shows a table, where the Python of its workers cannot start this daemon, which Spark has tried."""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
case "$*" in *{daemon}*) echo No module named lance_spark >&2; touch {tmp_path}/tried; exit 1;; esac
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    script = f"""
spark = builder.config("spark.pyspark.python", "{python}").master("local[1]").getOrCreate()
lance_spark.enable(spark)
show(spark)
"""
    chosen = f"import os\nos.environ.pop('PYSPARK_DRIVER_PYTHON', None)\nos.environ['PYSPARK_PYTHON'] = '{python}'\n"
    out = run(chosen + START + script, stored)
    assert (tmp_path / "tried").exists()
    return out
