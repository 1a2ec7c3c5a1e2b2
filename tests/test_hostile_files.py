"""Whatever is in a table's files, reading gives rows or a LanceError.

Mutations of good tables, and all that fuzzing ever found (tests/hostile), are read in a process of its own with a limit on memory, so that
crashes and hangs are failures, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def read_hostile(count: int, **environment: str) -> str:
    command = [sys.executable, "-m", "fuzz.run", f"--count={count}", "--seconds=30"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    return done.stdout


def test_hostile_tables_are_read_or_refused() -> None:
    report = read_hostile(400)
    assert "'read'" in report
    assert "'refused'" in report


def test_kernels_stay_within_bounds_on_what_was_found(pytestconfig: pytest.Config) -> None:
    folder = pytestconfig.cache.mkdir("numba-checked")  # type: ignore[union-attr]
    read_hostile(0, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(folder))


def test_code_that_is_checked_for_bounds_is_not_taken_for_the_other_in_the_cache(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import numpy as np\nfrom lance_spark.kernels.kernel import kernel\n"
        "@kernel\ndef get(data, at):\n    return data[np.uint64(at)]\nprint(get(np.zeros(1, np.uint8), 1) >= 0)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")} | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, module], env=environment, check=True)
    checked = subprocess.run([sys.executable, module], env=environment | {"NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True)
    assert "IndexError" in checked.stderr
