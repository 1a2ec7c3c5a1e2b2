"""Compiled kernels on disk: what is found again, by whom, and what is never loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config
from numba.core.cpu import CPUContext

from lance_spark.errors import InvalidOptionError, KernelNotCompiledError
from lance_spark.kernels import store
from lance_spark.kernels.target import USUAL, is_usual

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
import numpy as np
from lance_spark.kernels.kernel import kernel, summing
FACTOR = np.int64(2)
TABLE = np.arange(3)

@kernel
def scaled(value):
    return value * FACTOR

@kernel
def inner(value):
    return scaled(value) + TABLE[2] + 1

@kernel
def total(values):
    out = values.dtype.type(0)
    for value in values:
        out += inner(value)
    return out
"""
ANOTHER_USER = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    # The user may read everything, since the tests' Python may be where only its owner can.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]
as_another_user = pytest.mark.skipif(
    not shutil.which("setpriv") or bool(subprocess.run([*ANOTHER_USER, "true"], capture_output=True, check=False).returncode),
    reason="only root can be another user",
)


def start(folder: Path, names: str, first: str = "", user: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """A process that sums values of these types once it is told to; `first` is what it does before."""
    command = [*user, sys.executable, "-c", first + SCRIPT, str(folder), names]
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "NUMBA_DISABLE_JIT": "0", **environment}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=settings)


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


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this process's compiled kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "lance-spark"


def outcome(source: str = KERNEL, dtype: str = "i8") -> tuple[int, int]:
    """The sum that a new kernel of this source computes, and how many signatures of it were compiled."""
    module = types.ModuleType("sums")
    exec(source, vars(module))
    total: Any = module.total
    return int(total(np.arange(10, dtype=dtype))), sum(total._compiled.stats.cache_misses.values())


def files(folder: Path) -> list[Path]:
    """The compiled kernels that are called."""
    return sorted(folder.glob("sums.total-*.kernel"))


def test_each_signature_is_compiled_by_one_process_and_kept(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    one, other = finish([start(tmp_path, types) for types in ("u4 f8", "f8 u4")])
    assert one[:2] == ["120", "120.0"]
    assert other[:2] == ["120.0", "120"]
    assert int(one[2]) + int(other[2]) == 2
    assert finish([start(tmp_path, "u4 f8")]) == [["120", "120.0", "0"]]


def test_a_process_that_finds_all_code_does_not_load_what_compiles(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    tell = "import atexit, sys; atexit.register(lambda: print('numba.np.arrayobj' in sys.modules))\n"
    assert finish([start(tmp_path, "u4", tell)]) == [["120", "1", "True"]]
    assert finish([start(tmp_path, "u4", tell)]) == [["120", "0", "False"]]


def test_what_loaded_code_calls_beyond_the_runtime_is_loaded(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were a function that only the code for compilation brings."""
    assert outcome() == (120, 1)
    loaded = []
    monkeypatch.setattr(CPUContext, "refresh", lambda context: loaded.append(context))
    assert outcome() == (120, 0)
    assert not loaded
    monkeypatch.setattr("llvmlite.binding.address_of_symbol", lambda name: None)
    assert outcome() == (120, 0)
    assert loaded


@pytest.mark.parametrize("damage", ["empty", "nonsense", "cut short", "changed", "of other types"])
def test_a_damaged_file_is_never_executed_and_is_replaced(kept: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    assert outcome() == (120, 1)
    (file,) = files(kept)
    content = file.read_bytes()
    assert outcome(dtype="u4") == (120, 1)
    (other,) = set(files(kept)) - {file}
    damaged = {
        "empty": b"",
        "nonsense": b"\x80\x05nonsense",
        "cut short": content[:-1],
        "changed": content[:-1] + bytes([content[-1] ^ 1]),
        "of other types": other.read_bytes(),
    }
    file.write_bytes(damaged[damage])
    assert outcome() == (120, 1)
    assert f"{file} is damaged" in caplog.text
    assert outcome() == (120, 0)


@pytest.mark.parametrize(
    ("before", "after", "total"),
    [
        ("value * FACTOR", "value * FACTOR * 2", 210),  # what a called kernel calls
        ("np.int64(2)", "np.int64(3)", 165),  # a number that it names
        ("np.int64(2)", "np.int32(2)", 120),  # its type
        ("np.arange(3)", "np.arange(3) * 2", 140),  # an array
        (" + 1\n", " + 2\n", 130),  # a literal
        ("type(0)", "type(1)", 121),  # the kernel itself
        ("@kernel\ndef total", "@summing\ndef total", 120),  # what its sums permit
    ],
)
def test_a_kernel_is_compiled_anew_if_what_determines_its_code_changes(kept: Path, before: str, after: str, total: int) -> None:
    assert outcome() == (120, 1)
    assert outcome(KERNEL.replace(before, after)) == (total, 1)
    assert outcome(KERNEL.replace("@kernel", "# a comment\n@kernel")) == (120, 0)


@pytest.mark.parametrize(("setting", "value"), [("BOUNDSCHECK", 1), ("OPT", 1), ("numba", "0.1"), ("python", "cpython-1")])
def test_code_of_other_settings_and_versions_is_never_mixed(kept: Path, setting: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome() == (120, 1)
    with monkeypatch.context() as changed:
        if setting == "numba":
            changed.setattr("numba.__version__", value)
        elif setting == "python":
            changed.setattr(sys.implementation, "cache_tag", value)
        else:
            changed.setattr(config, setting, value)
        store._surroundings.cache_clear()
        assert outcome() == (120, 1)
    store._surroundings.cache_clear()
    assert len(files(kept)) == 2
    assert outcome() == (120, 0)


def test_without_jit_nothing_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", True)
    module = types.ModuleType("sums")
    exec(KERNEL.replace("TABLE[2]", "2"), vars(module))
    assert module.total(np.arange(10)) == 120
    assert not kept.exists()


@pytest.mark.skipif(not is_usual(), reason="the processor does not run the code")
def test_code_for_the_usual_processor_is_used_by_others(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    assert finish([start(tmp_path, "u4", NUMBA_CPU_NAME=USUAL, NUMBA_CPU_FEATURES="")]) == [["120", "1"]]
    assert finish([start(tmp_path, "u4")]) == [["120", "0"]]


@pytest.mark.skipif(not is_usual(), reason="the processor does not run the code")
def test_a_processor_that_lacks_what_the_code_needs_does_not_load_it(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome() == (120, 1)
    (file,) = files(kept)
    monkeypatch.setattr("lance_spark.kernels.store._targets", lambda codegen: [("x86_64", "x86-64-v9", "")])
    assert outcome()[1] == 1
    assert file.exists()


def test_without_permission_to_compile_the_error_has_the_name_of_the_kernel(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_SPARK_COMPILE", "never")
    with pytest.raises(KernelNotCompiledError, match=r"kernel sums.total is not compiled for \(array\(int64, 1d, C\)\)"):
        outcome()
    monkeypatch.setenv("LANCE_SPARK_COMPILE", "always")
    with pytest.raises(InvalidOptionError, match="it must be never"):
        outcome()
    monkeypatch.delenv("LANCE_SPARK_COMPILE")
    assert outcome() == (120, 1)
    monkeypatch.setenv("LANCE_SPARK_COMPILE", "never")
    assert outcome() == (120, 0)


def test_code_of_earlier_versions_is_removed_after_a_while(kept: Path) -> None:
    outcome(KERNEL.replace("type(0)", "type(1)"))
    outcome(KERNEL.replace("type(0)", "type(2)"))
    old, recent = files(kept)
    os.utime(old, (0, 0))
    outcome()
    assert not old.exists()
    assert recent.exists()


def test_a_full_disk_costs_only_the_kept_code(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    assert finish([start(tmp_path, "u4", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")]) == [["120", "1"]]
    assert finish([start(tmp_path, "u4")]) == [["120", "1"]]


@as_another_user
def test_what_root_has_compiled_serves_a_user_who_can_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    named = {"NUMBA_CACHE_DIR": "", "LANCE_SPARK_KERNELS": str(tmp_path / "named"), "LANCE_SPARK_COMPILE": ""}
    assert finish([start(tmp_path, "u4", NUMBA_CACHE_DIR=str(tmp_path / "named"))]) == [["120", "1"]]
    (tmp_path / "named" / "lance-spark").rename(tmp_path / "kept")
    named["LANCE_SPARK_KERNELS"] = str(tmp_path / "kept")
    read_only = {**named, "HOME": "/nonexistent", "XDG_CACHE_HOME": "", "TMPDIR": "/nonexistent", "LANCE_SPARK_COMPILE": "never"}
    assert finish([start(tmp_path, "u4", user=tuple(ANOTHER_USER), **read_only)]) == [["120", "0"]]
