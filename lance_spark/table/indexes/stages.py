"""Changes of indexes as stages of tasks, which run in this process or on executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError, on_failure
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.indexes.segment import attempted, discard_attempts
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot, in_use

How = TypeVar("How")


@dataclass(frozen=True)
class Refused:
    """The error of a task: the rows of the index `name` have a value that it cannot have."""

    name: str
    error: InvalidOptionError | UnsupportedFeatureError


Results = Sequence[Sequence[IndexMetadata | Refused | None]]
"""The results of the tasks of each stage so far."""


@dataclass(frozen=True)
class Stage(Generic[How]):
    """Tasks that can run at once, and their function. `tasks(snapshot, how, cores, results)` takes the results of the stages before.

    A stage always has the same tasks for the same arguments, but for their uuids.
    """

    tasks: Callable[[Snapshot, How, int, Results], Sequence[Any]]
    run: Callable[[Any], IndexMetadata | Refused | None]


def run_stages(runner: Runner, snapshot: Snapshot, stages: Sequence[Stage[How]], how: How) -> Results:
    """The results of all stages. If one fails, the files of all are deleted."""
    results: list[list[IndexMetadata | Refused | None]] = []
    given: list[Any] = []
    with on_failure(lambda: discard_attempts(snapshot.store, given)), in_use(snapshot):
        for stage in stages:
            tasks = stage.tasks(snapshot, how, runner.cores, results)
            given += tasks
            results.append(runner.run(tasks, partial(attempted, stage.run)))
    return results


def segments_in(results: Results) -> dict[bytes, IndexMetadata]:
    """The segments that tasks have written, by uuid."""
    return {r.uuid: r for done in results for r in done if isinstance(r, IndexMetadata)}
