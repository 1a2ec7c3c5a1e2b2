"""What Spark writes, and the only writer that it gets.

A write is a value (`Write`): it knows what its tasks do with rows, and what its commit does with
what they return. Each kind is a file beside this one, and `kinds` says which of them is meant.
`LanceWriter` runs them: tasks write files, and the driver commits all of them, or none.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lance_spark.errors import LanceError, TableNotFoundError, on_failure, on_refusal
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.spark.protocol import FewRows, Headed, Writer, Written
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.storage.store import Store
from lance_spark.table.commit.asked_again import landed
from lance_spark.table.versions.snapshot import latest_version
from lance_spark.table.write.defaults import MACHINE
from lance_spark.table.write.rules import Rules
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard_job

Part = TypeVar("Part")
"""What a task hands to the commit."""
Batches = Iterator[pa.RecordBatch]
Messages = Sequence[WriterCommitMessage | None]
"""Those of all tasks; None: the task has failed, or it was stopped."""

_ZONE = "spark.sql.session.timeZone"
STOPPED_AFTER_S = 5.0
"""Time until Spark has killed the workers of a failed job.

It checks every 2 s, and waits `spark.python.task.killTimeout` (2 s).
"""


@dataclass
class TaskMessage(Headed, WriterCommitMessage, Generic[Part]):
    """The commit message of a task: what the commit gets, and the figures that the JVM shows."""

    report: Written
    part: Part

    def header(self) -> Written:
        """What the task has written."""
        return self.report


@dataclass(frozen=True)
class Job:
    """A write by tasks to what is at `store`, after the version `since`.

    The ids of its transactions are those of `request`. `discard` deletes the files of all tasks,
    also of those that have returned nothing, but those that a version refers to.
    """

    store: Store
    since: int
    request: str
    discard: Callable[[], object]

    @classmethod
    def of(cls, target: WriteTarget, request: str) -> Job:
        """A write to a table."""
        return cls(target.store, target.read_version, request, partial(discard_job, target))

    def is_committed(self) -> bool:
        """Whether a version is that of the job."""
        try:
            latest, _ = latest_version(self.store)
        except TableNotFoundError:
            return False
        return bool(landed(self.store, self.request, range(self.since + 1, latest + 1)))


class Write(ABC, Generic[Part]):
    """What is written. It is made on the driver, and pickled for the tasks and for the commit.

    So it must be small: tasks open the table themselves.
    """

    job: Job

    @property
    def few(self) -> int:
        """Which rows of tasks that have few the commit writes (see `protocol.Writer`)."""
        return Writer.NONE

    @abstractmethod
    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[Part]:
        """Write the rows of the task with this number to files that no version refers to yet.

        If this fails, they are deleted.
        """

    @abstractmethod
    def commit(self, parts: Sequence[Part]) -> None:
        """Make what the tasks have written part of the table, in one version or not at all."""

    def discard_refused(self) -> None:
        """Delete the files after `commit` has raised that nothing was committed."""
        self.job.discard()


class LanceWriter(Headed, DataSourceArrowWriter):
    """Runs a write: its tasks in workers, its commit in another process."""

    def __init__(self, written: Write[Any], is_again: bool = False) -> None:
        """With `is_again`, another process may have committed."""
        self._write = written
        self._is_again = is_again

    def header(self) -> Writer:
        """What the JVM knows of the writer."""
        return Writer(self._write.few)

    def again(self) -> LanceWriter:
        """The writer that commits unless another process has done it."""
        return LanceWriter(self._write, is_again=True)

    @brief_errors()
    def write(self, iterator: Batches) -> TaskMessage[Any]:
        """Write a task's rows."""
        start_task()
        clock = WriteClock()
        return self._write.write(clock.rows(iterator), clock, _partition())

    @brief_errors()
    def commit(self, messages: Messages) -> None:
        """Commit what all tasks have written.

        After an error their files are deleted, unless the version may exist.
        """
        start_planning()
        job = self._write.job
        if self._is_again and job.is_committed():
            return
        if missing := messages.count(None):
            found = f"{missing} of {len(messages)} tasks returned no commit message"
            raise LanceError(f"{found}; nothing is committed: run the write again")
        with on_failure(job.discard):
            parts = list(self._parts(messages))
        with ids_of(job.request), on_refusal(self._write.discard_refused):
            self._write.commit(parts)

    def _parts(self, messages: Messages) -> Iterator[Any]:
        """What the tasks have written, in their order; few rows of a task are written here."""
        for task, message in enumerate(messages):
            if isinstance(message, TaskMessage):
                yield message.part
            elif isinstance(message, FewRows) and message.rows:
                yield self._write.write(pa.ipc.open_stream(message.rows), WriteClock(), task).part

    def abort(self, messages: Messages) -> None:
        """Delete the files of all tasks, also of those that still run after another one has failed.

        Spark also calls this after a failed commit. Then every task has a message, and `commit` has
        handled the files. They stay here: another process does not know what a version refers to.
        """
        if None in messages:
            self._write.job.discard()
        if messages.count(None) > 1:
            time.sleep(STOPPED_AFTER_S)
            self._write.job.discard()


def _partition() -> int:
    """The number of the partition of this task; 0 outside of tasks."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def of_session(rules: Rules) -> Rules:
    """The rules in a task, for whose session defaults such as current_date() are evaluated."""
    if not rules.needs_zone:
        return rules
    context = TaskContext.get()
    zone = None if context is None else context.getLocalProperty(_ZONE)
    return rules.in_zone(zone or MACHINE)
