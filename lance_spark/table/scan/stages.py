"""Jobs as stages of tasks, which run in this process, on executors, or by an engine that runs each stage itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lance_spark.errors import on_failure
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot, in_use

How = TypeVar("How")
Results = Sequence[Sequence[Any]]
"""The results of the tasks of each stage so far."""


@dataclass(frozen=True)
class Stage(Generic[How]):
    """Tasks that can run at once, and the function of a task.

    `tasks(snapshot, how, cores, results)` takes what the job is asked, and the results of the
    stages before. A stage always has the same tasks for the same arguments, but for their uuids.
    """

    tasks: Callable[[Snapshot, How, int, Results], Sequence[Any]]
    run: Callable[[Any], Any]


def run_stages(
    runner: Runner,
    snapshot: Snapshot,
    stages: Sequence[Stage[How]],
    options: How,
    discard: Callable[[Sequence[Sequence[Any]], Results], None],
) -> Results:
    """The results of all stages.

    If one fails, `discard` deletes what was written; it takes the tasks of each stage so far, the
    last of which failed, and the results of the stages before that.
    """
    begun: list[Sequence[Any]] = []
    results: list[list[Any]] = []
    with on_failure(lambda: discard(begun, results)), in_use(snapshot):
        for stage in stages:
            tasks = stage.tasks(snapshot, options, runner.cores, results)
            begun.append(tasks)
            results.append(runner.run(tasks, stage.run))
    return results
