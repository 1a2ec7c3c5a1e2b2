"""The parts of the slow tests have each test once, short files whole, and of long files tests in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.schedule import INSTALLING, LONG, part_of

FILES = {"short": 3, "at the limit": LONG, "long": LONG + 1, "longer": 1000, "of one": 1, "another": 2, "test_wheel.py": 14}


def in_files(numbers: dict[str, int]) -> list[pytest.Item]:
    """So many tests in each file, with the one thing that is asked of a test."""
    paths = [Path(file) for file, number in numbers.items() for _ in range(number)]
    return cast(list[pytest.Item], [SimpleNamespace(path=path) for path in paths])


def files(tests: Sequence[pytest.Item]) -> set[str]:
    return {test.path.name for test in tests}


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_each_test_is_in_one_part(parts: int) -> None:
    slow = in_files(FILES)
    found = [part_of(slow, part, parts) for part in range(1, parts + 1)]
    assert sorted(id(test) for tests in found for test in tests) == sorted(map(id, slow))
    for file, number in FILES.items():
        in_parts = [sum(test.path.name == file for test in tests) for tests in found]
        if number <= LONG and file not in INSTALLING:
            assert max(in_parts) == number
        else:
            assert max(in_parts) - min(in_parts) <= 1


def test_short_files_take_turns() -> None:
    slow = in_files({str(number): 2 for number in range(6)})
    assert [files(part_of(slow, part, 3)) for part in (1, 2, 3)] == [{"0", "3"}, {"1", "4"}, {"2", "5"}]
