"""`warm`: afterwards, reading and writing tables of common types compiles nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

USE = """
import datetime, sys
import pyarrow as pa
from lance_spark import Dataset

rows = range(3000)
table = pa.table({
    "id": rows,
    "day": [datetime.date(2024, 1, 1 + i % 28) if i % 5 else None for i in rows],
    "name": [f"name {i}" for i in rows],
    "kind": [f"kind {i % 3}" if i % 7 else None for i in rows],
    "tags": [[f"tag {j}" for j in range(i % 4)] for i in rows],
})
Dataset.write(sys.argv[1], table)
assert Dataset.open(sys.argv[1]).scan().to_table() == table
"""


@pytest.mark.slow
def test_after_warm_nothing_is_compiled(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}

    def compiled() -> set[Path]:
        return set(cache.rglob("*.nbc"))

    done = subprocess.run([sys.executable, "-m", "lance_spark", "warm"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ready after ")
    before = compiled()
    assert before
    subprocess.run([sys.executable, "-c", USE, str(tmp_path / "t.lance")], env=environment, check=True)
    assert compiled() == before
