"""A sample of the cases of long tests runs always, the others are slow tests: they take turns in CI."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def others_slow(cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, tuples if it names several arguments; those that are not in `always` are marked slow."""
    return [case if case in always else pytest.param(*_values(case), marks=pytest.mark.slow) for case in cases]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
