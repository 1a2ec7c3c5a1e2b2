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
    """As many generated examples as the profile says (conftest.py), in a test that needs another number than 100.

    For the coverage it is the usual number: rare branches need so many.
    """
    return usual if settings.get_current_profile_name() == "coverage" else usual * settings().max_examples // 100


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
