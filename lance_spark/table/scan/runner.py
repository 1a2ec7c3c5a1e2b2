"""Runners of tasks: in this process, or on the executors of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs tasks; `cores` is the number of concurrent tasks."""

    @property
    def cores(self) -> int:
        """The number of concurrent tasks."""

    def run(self, tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]:
        """The result of `function` for each task, in order."""


class Here:
    """Runs tasks one after the other in this process."""

    cores = 1

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """The result of `function` for each task, in order."""
        return [function(task) for task in tasks]
