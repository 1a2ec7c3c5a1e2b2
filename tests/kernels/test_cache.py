"""Compiled kernels on disk: processes that compile a function at the same time do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def start(folder: Path, types: str, first: str = "") -> subprocess.Popen[str]:
    """A process that sums values of these types once it is told to; `first` is what it does before."""
    command = [sys.executable, "-c", first + SCRIPT, str(folder), types]
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


@pytest.mark.parametrize("damage", [b"", b"\x80\x05nonsense", None], ids=["empty", "nonsense", "cut short"])
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_file_is_compiled_anew_and_replaced(tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    assert finish([start(tmp_path, "u4")]) == [["45", "1"]]
    (file,) = (tmp_path / "cache").rglob(f"*{suffix}")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if damage is None else damage)
    assert finish([start(tmp_path, "u4")]) == [["45", "1"]]
    assert finish([start(tmp_path, "u4")]) == [["45", "0"]]


def test_a_full_disk_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    assert finish([start(tmp_path, "u4", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")]) == [["45", "1"]]
    assert finish([start(tmp_path, "u4")]) == [["45", "1"]]
