"""Runners of tasks: in this process, or on the executors of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


class Sized(Protocol):
    """A task that knows how large it is."""

    @property
    def work(self) -> int:
        """About how many bytes it reads and writes."""


_SMALL_WORK = 64 << 20
"""Bytes. To read so many takes less time than to start a Spark job."""


@dataclass(frozen=True)
class HereIfSmall:
    """Runs tasks in this process if all of them together are small, and else by `others`, which take long to start them."""

    others: Runner

    @property
    def cores(self) -> int:
        """The number of concurrent tasks."""
        return self.others.cores

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """The result of `function` for each task, which is `Sized`, in order."""
        return (Here() if sum(task.work for task in tasks) <= _SMALL_WORK else self.others).run(tasks, function)
