"""How much of a long test runs always: some of its cases (the others are slow tests), and as many examples as the profile says."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings


def others_slow(cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, tuples if it names several arguments; those that are not in `always` are marked slow."""
    return [case if case in always else pytest.param(*_values(case), marks=pytest.mark.slow) for case in cases]


def examples(usual: int) -> int:
    """As many generated examples as the profile asks for (conftest.py), in a test whose usual number is other than 100."""
    return max(usual * settings().max_examples // 100, 1)


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
