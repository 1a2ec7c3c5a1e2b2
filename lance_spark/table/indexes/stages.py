"""The stages of changes of indexes, whose tasks write segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.indexes.segment import attempted, discard_attempts
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage, run_stages
from lance_spark.table.versions.snapshot import Snapshot

How = TypeVar("How")


@dataclass(frozen=True)
class Refused:
    """The error of a task: the rows of the index `name` have a value that it cannot have."""

    name: str
    error: InvalidOptionError | UnsupportedFeatureError


def writing(
    tasks: Callable[[Snapshot, How, int, Results], Sequence[Any]],
    run: Callable[[Any], IndexMetadata | Refused | None],
) -> Stage[How]:
    """A stage whose tasks write a segment each."""
    return Stage(tasks, partial(attempted, run))


def run_writing(runner: Runner, snapshot: Snapshot, stages: Sequence[Stage[How]], options: How) -> Results:
    """The results of all stages of `writing`. If one fails, the segments of all are deleted."""

    def discard(begun: Sequence[Sequence[Any]], results: Results) -> None:
        discard_attempts(snapshot.store, [task for tasks in begun for task in tasks])

    return run_stages(runner, snapshot, stages, options, discard)


def segments_in(results: Results) -> dict[bytes, IndexMetadata]:
    """The segments that tasks have written, by uuid."""
    return {r.uuid: r for stage in results for r in stage if isinstance(r, IndexMetadata)}
