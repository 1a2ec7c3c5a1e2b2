"""Compiled kernels on disk: processes that compile a function at the same time do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numba, numpy as np
from sums import total
print("ready", flush=True)
sys.stdin.readline()
print(*[total(np.arange(10, dtype=name)) for name in sys.argv[2].split()])
print(sum(total._compiled.stats.cache_misses.values()))
"""
KERNEL = """
from lance_spark.kernels.kernel import kernel

@kernel
def total(values):
    out = values.dtype.type(0)
    for value in values:
        out += value
    return out
"""


def start(folder: Path, types: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(folder), types]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "NUMBA_DISABLE_JIT": "0"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def finish(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """The sums that each process prints, and the number of signatures that it has compiled."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate()[0].split() for process in processes]


def test_each_signature_is_compiled_by_one_process_and_kept(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    one, other = finish([start(tmp_path, types) for types in ("u4 f8", "f8 u4")])
    assert one[:2] == ["45", "45.0"]
    assert other[:2] == ["45.0", "45"]
    assert int(one[2]) + int(other[2]) == 2
    assert finish([start(tmp_path, "u4 f8")]) == [["45", "45.0", "0"]]
