"""Without a version of its own, the code of a function is its version: other code, captured values and constants are another version."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_spark.table.backfill.code_version import version_of
from lance_spark.table.backfill.function import LanceFunction

FACTOR = 2


def helper(x: int) -> int:
    return x + FACTOR


def plain(x: int) -> int:
    return x * 2


def other(x: int) -> int:
    return x * 3


def helped(x: int) -> int:
    return helper(x)


def times(factor: int) -> Callable[[int], int]:
    return lambda x: x * factor


def defaulted(x: int, by: int = 2) -> int:
    return x * by


class Model:
    """A class whose method computes."""

    size = 3

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight

    def __call__(self, x: int) -> int:
        return x * self.weight


DIFFERENT: list[Any] = [
    plain,
    other,
    helped,
    times(2),
    times(3),
    defaulted,
    Model,
    Model(1),
    Model(2),
    functools.partial(plain, 3),
    functools.partial(other, 3),
]


def version(function: Any) -> str:
    return version_of(LanceFunction(function))


def test_other_code_or_captured_values_are_another_version() -> None:
    versions = [version(function) for function in DIFFERENT]
    assert len(set(versions)) == len(DIFFERENT)
    assert versions == [version(function) for function in DIFFERENT]


def test_arguments_of_a_class_belong_to_the_version() -> None:
    model = LanceFunction(Model)
    assert len({version_of(model), version_of(model(weight=2)), version_of(model(3)), version_of(model(2))}) == 4


def test_what_a_function_names_belongs_to_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = version(helped)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert version(helped) != before


def test_a_given_version_counts() -> None:
    assert version_of(LanceFunction(plain, version="7")) == version_of(LanceFunction(other, version="7")) == "7"


def test_the_version_is_the_same_in_another_process(tmp_path: Path) -> None:
    script = """
    from tests.table.backfill import test_code_version as t
    print([t.version(f) for f in t.DIFFERENT])
    """
    root = str(Path(__file__).parents[3])
    found = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            env={"PYTHONPATH": root, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found == {f"{[version(f) for f in DIFFERENT]}\n"}
