"""How much of a long test runs always: some of its cases (the others are slow tests), and as many examples as the profile says."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
"""Whether this is `make test-full`, which also runs the cells of a matrix that the slow tests leave out."""


def others_slow(cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, tuples if it names several arguments; those that are not in `always` are marked slow."""
    return [case if case in always else pytest.param(*_values(case), marks=pytest.mark.slow) for case in cases]


TURNS = 6
"""Of the calls at which something may happen, a test takes one of so many."""


def by_turns(cases: Iterable[Any], turns: int = TURNS) -> list[Any]:
    """Each case with each number below `turns`: of the calls at which something happens, it takes one of so many, from that number on.

    One number of each case runs always, by turns, so that the cases together take all calls; the others are slow.
    """
    return [
        pytest.param(*_values(case), turn, marks=[] if turn == number % turns else pytest.mark.slow)
        for number, case in enumerate(cases)
        for turn in range(turns)
    ]


def representatives(cells: Sequence[pytest.Function]) -> set[pytest.Function]:
    """Few of a test's cells, in which each value of each parameter comes at least once."""
    values = {cell: {(axis, id(value)) for axis, value in cell.callspec.params.items()} for cell in cells}
    missing = set().union(*values.values())
    chosen: set[pytest.Function] = set()
    while missing:
        best = max(cells, key=lambda cell: len(missing & values[cell]))
        missing -= values[best]
        chosen.add(best)
    return chosen


def examples(usual: int) -> int:
    """As many generated examples as the profile says (conftest.py), in a test that needs another number than 100.

    For the coverage it is the usual number: rare branches need so many.
    """
    return usual if settings.get_current_profile_name() == "coverage" else usual * settings().max_examples // 100


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
