"""`enable` and the first query after an installation, when nothing is compiled, against those of a second session.

Everything is installed in a new virtual environment with a home of its own. Run by `make bench-cold`, which needs network access.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEEP_NOTHING = ("PYTHONPATH", "NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables with which the new installation would not be used, or what is compiled not be kept in it."""
WRITE = """
import numpy as np, pyarrow as pa, sys
from lance_spark import Dataset
n = np.random.default_rng(0).integers(0, 10**6, 100_000)
labels = [f"label {i % 200}" for i in n]
Dataset.write(sys.argv[1], pa.table({"key": range(len(n)), "label": labels, "n": n, "text": [f"text with {i}" for i in n]}))
"""
SESSION = """
import sys, time
from pyspark.sql import SparkSession
import lance_spark
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(1).collect()
start = time.perf_counter()
lance_spark.enable(spark)
enabled = time.perf_counter() - start
start = time.perf_counter()
spark.read.format("lance").load(sys.argv[1]).where("n > 10").selectExpr("max(text)", "sum(length(label))").collect()
print("seconds", enabled, time.perf_counter() - start)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", WRITE, str(folder / "t.lance")], check=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = str(folder / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[spark]"], check=True)
        paths = {"HOME": str(folder), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        environment = {k: v for k, v in os.environ.items() if k not in KEEP_NOTHING} | paths

        def session() -> tuple[float, float]:
            done = subprocess.run(
                [python, "-c", SESSION, folder / "t.lance"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            enabled, seconds = map(float, done.stdout.split()[-2:])
            return enabled, seconds

        (enable_first, first), (enable_second, second) = session(), session()
        for kept in (folder / "venv").rglob("*.kernel"):
            kept.unlink()
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        subprocess.run([python, "-m", "lance_spark", "warm"], cwd=folder, env=environment, check=True)
        _, warm = session()
        ratio = enable_first / enable_second
        print(f"enable in the first session {enable_first:.2f} s, in the second {enable_second:.2f} s ({ratio:.2f}x)")
        print(f"first query of the first session {first:.2f} s, of the second {second:.2f} s ({first / second:.2f}x)")
        print(f"first query of the first session after `python -m lance_spark warm` {warm:.2f} s ({warm / second:.2f}x)")


if __name__ == "__main__":
    main()
