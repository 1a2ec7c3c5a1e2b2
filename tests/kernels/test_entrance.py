"""One form of a kernel serves all callers in Python, whether or not its arrays can be written to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lance_spark.kernels.kernel import kernel


@kernel
def _doubled(value: int) -> int:
    return value * 2


@kernel
def _sum(values: np.ndarray, factors: np.ndarray) -> int:
    total = 0
    for i in range(len(values)):
        total += _doubled(values[i]) * factors[i]
    return total


@kernel
def _sum_of_parts(parts: tuple[np.ndarray, ...]) -> int:
    total = 0
    for part in parts:
        for value in part:
            total += _doubled(value)
    return total


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled kernels: an empty one."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "lance-spark"


def fresh(function: Callable[..., Any]) -> Any:
    """The kernel as a process has it that has not called it yet."""
    loaded: Any = function
    return kernel(loaded.source.function)


def numbers(*, writable: bool) -> np.ndarray:
    made = np.arange(4)
    made.flags.writeable = writable
    return made


def files(folder: Path, function: str) -> list[Path]:
    return list(folder.glob(f"*.{function}-*.kernel"))


BOTH = list(itertools.product([True, False], repeat=2))


@pytest.mark.parametrize("first", BOTH)
def test_read_only_arrays_have_the_same_code_as_others(kept: Path, first: tuple[bool, bool]) -> None:
    total = fresh(_sum)
    for one, other in [first, *BOTH]:
        assert total(numbers(writable=one), numbers(writable=other)) == 28
    assert len(files(kept, "_sum")) == 1
    assert sum(total._compiled.stats.cache_misses.values()) == 1


@pytest.mark.parametrize("first", BOTH)
def test_so_have_arrays_in_tuples(kept: Path, first: tuple[bool, bool]) -> None:
    total = fresh(_sum_of_parts)
    for one, other in [first, *BOTH]:
        assert total((numbers(writable=one), numbers(writable=other))) == 24
    assert len(files(kept, "_sum_of_parts")) == 1


def test_other_types_have_code_of_their_own(kept: Path) -> None:
    total = fresh(_sum)
    for dtype in ("int64", "uint8", "int64"):
        assert total(np.arange(4, dtype=dtype), numbers(writable=False)) == 28
    assert total(np.arange(8)[::2], numbers(writable=True)) == 56
    assert len(files(kept, "_sum")) == 3


def test_a_kernel_that_was_loaded_is_compiled_into_others(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's form has only machine code; what other kernels call is another form."""
    assert fresh(_doubled)(4) == 8
    (of_python,) = files(kept, "_doubled")
    doubled = fresh(_doubled)
    monkeypatch.setitem(globals(), "_doubled", doubled)
    assert doubled(5) == 10
    assert fresh(_sum)(numbers(writable=True), numbers(writable=True)) == 28
    of_kernels = [file for file in files(kept, "_doubled") if file != of_python]
    assert len(of_kernels) == 1
    of_kernels[0].unlink()
    of_python.unlink()
    assert fresh(_sum)(numbers(writable=True), numbers(writable=False)) == 28
    assert not files(kept, "_doubled")
