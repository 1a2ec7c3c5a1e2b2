"""Operations on hostile files return a result or raise a LanceError, and leave the table intact.

Mutations of valid tables, and all findings of fuzzing (tests/hostile), are read and changed in a separate process with a memory limit, so
that crashes and hangs are failures, too.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sample import others_slow

ROOT = Path(__file__).parent.parent


def run(*options: str, **environment: str) -> dict[str, int]:
    """The number of cases by outcome."""
    command = [sys.executable, "-m", "fuzz.run", *options]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    outcomes: dict[str, int] = ast.literal_eval(done.stdout[done.stdout.rindex("{") :])
    return outcomes


@pytest.mark.parametrize(("first", "count"), others_slow([(0, 70), (70, 270)], [(0, 70)]))
def test_hostile_tables_are_read_or_refused(first: int, count: int) -> None:
    outcomes = run(f"--first={first}", f"--count={count}")
    assert outcomes["read"] + outcomes["refused"] + outcomes.get("done", 0) >= count
    assert min(outcomes["read"], outcomes["refused"]) > count // 8


@pytest.mark.parametrize(("first", "count"), others_slow([(0, 60), (60, 200)], [(0, 60)]))
def test_operations_on_hostile_tables_are_done_or_refused_and_leave_the_table_whole(first: int, count: int) -> None:
    outcomes = run("--operations", f"--first={first}", f"--count={count}")
    assert outcomes["done"] + outcomes["refused"] >= count
    assert min(outcomes["done"], outcomes["refused"]) > count // 6


@pytest.mark.slow
def test_kernels_stay_within_bounds_on_what_was_found(pytestconfig: pytest.Config) -> None:
    folder = pytestconfig.cache.mkdir("numba-checked")
    run("--count=0", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(folder))


def test_bounds_checked_kernels_are_cached_separately(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import numpy as np\nfrom lance_spark.kernels.kernel import kernel\n"
        "@kernel\ndef get(data, at):\n    return data[np.uint64(at)]\nprint(get(np.zeros(1, np.uint8), 1) >= 0)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")} | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, module], env=environment, check=True)
    checked = subprocess.run([sys.executable, module], env=environment | {"NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True)
    assert "IndexError" in checked.stderr
