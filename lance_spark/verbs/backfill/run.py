"""BACKFILL: a function computes a column on the executors; the driver commits fragments as they are finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType
from pyspark.util import InheritableThread

from lance_spark.errors import CommitConflictError, InvalidOptionError, LanceError, check_at_least, check_type, logged
from lance_spark.spark.columns.types import stored
from lance_spark.spark.stopped import named
from lance_spark.table.backfill.code_version import version_of
from lance_spark.table.backfill.commit import Commits
from lance_spark.table.backfill.function import LanceFunction, OnError, as_function
from lance_spark.table.backfill.plan import Request
from lance_spark.table.backfill.results import result_file
from lance_spark.table.backfill.rounds import Backfilled, Rounds
from lance_spark.table.backfill.state import with_columns
from lance_spark.table.backfill.work import Job, Share, ShareDone, run_share
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.maintenance.progress import bar
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.job import run_tasks
from lance_spark.verbs.target import Target

_LOOK_S = 1.0
"""How often the driver looks for finished fragments."""
_ROUNDS = 10
"""How often rows are planned again that others have changed or moved meanwhile."""
_FAILURES = 3
"""Jobs that lose a worker in a row, without a result in between, after which the error is raised."""
_LOST = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Executor heartbeat timed out")
_SPARK_TASKS_PER_CORE = 16


@dataclass(frozen=True)
class Backfill:
    """The arguments of `LanceTable.backfill`."""

    column: str
    function: Callable[..., Any]
    where: str | None = None
    inputs: Sequence[str] | None = None
    batch_size: int | None = None
    checkpoint: str | None = None
    on_error: OnError = "fail"
    version: str | None = None
    num_tasks: int | None = None
    fragments_per_commit: int = 16
    progress: bool | None = None

    def described(self) -> LanceFunction:
        """The function, with the arguments in place of what it says of itself."""
        check_type("column", self.column, str, "the name of a column")
        check_at_least("fragments_per_commit", self.fragments_per_commit, 1)
        if self.where is not None:
            check_type("where", self.where, str, "SQL text")
        function = as_function(self.function)
        if isinstance(self.inputs, str):
            raise TypeError(f"inputs must be a sequence of names, not text; pass [{self.inputs!r}]")
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        version, batch_size = self.version or function.version, self.batch_size or function.batch_size
        inputs = function.inputs if self.inputs is None else tuple(self.inputs)
        function = replace(function, version=version, inputs=inputs, batch_size=batch_size)
        if function.inputs is None:
            if function.kind in ("batch", "frame"):
                raise InvalidOptionError(f"{function.name} receives whole batches; name the columns of these: inputs=['text']")
            function = replace(function, inputs=tuple(function.parameters))
        return replace(function, version=version_of(function))


def backfill(target: Target, asked: Backfill, options: WriteOptions) -> Backfilled:
    """Compute the column for all rows that lack a result of this function. See `BackfillVerbs.backfill`."""
    if options.txn_app_id is not None:
        raise InvalidOptionError("a backfill commits several times, so it cannot be numbered by txnAppId; run it again instead")
    function = asked.described()
    version, inputs = function.version, function.inputs
    assert version is not None
    assert inputs is not None
    request = Request(function, version, asked.where, asked.on_error, asked.checkpoint, asked.num_tasks)
    column = _new_column(asked.column, function.data_type)
    with_columns(with_own_ids(target.latest()), asked.column, column, inputs)
    run = _Run(target, asked, request, options)
    done = run.until_done()
    return replace(done, version=target.latest().version, function_version=version)


@dataclass
class _Run:
    """One call, whose rounds are Spark jobs."""

    target: Target
    asked: Backfill
    request: Request
    options: WriteOptions
    _has_progressed: bool = False

    def until_done(self) -> Backfilled:
        """Compute in rounds, until there is nothing left of what was there at the beginning."""
        cores = self.target.cores()
        rounds = Rounds(
            self.target.latest,
            self.asked.column,
            self.request,
            self.options,
            self.asked.fragments_per_commit,
            cores,
            partial(self._run, cores=cores),
        )
        failures, conflicts = 0, 0
        while True:
            before = rounds.done.num_rows
            try:
                if not rounds.round():
                    return rounds.done
            except Exception as e:
                failures = 0 if rounds.done.num_rows > before or self._has_progressed else failures + 1
                if not _is_lost_worker(e) or failures >= _FAILURES:
                    raise
                continue
            conflicts += 1
            if conflicts >= _ROUNDS:
                what = f"others changed fragments in each of {_ROUNDS} rounds, so some rows still lack a result; run it again"
                raise CommitConflictError(f"{self.target.uri}: {what}", retryable=True)

    def _run(self, shares: Sequence[Share], job: Job, commits: Commits, cores: int) -> list[ShareDone]:
        """Run the shares as one Spark job, and commit meanwhile."""
        found: list[ShareDone] = []
        failed: list[BaseException] = []
        tag = f"lance-backfill-{job.run}"

        def work() -> None:
            try:
                self.target.spark.addTag(tag)
                _describe(self.target.spark, f"Lance backfill of {self.asked.column}: {len(shares)} shares, {self.target.uri}")
                found.extend(run_tasks(self.target.spark, shares, partial(run_share, job=job), cores * _SPARK_TASKS_PER_CORE))
            except BaseException as e:  # noqa: BLE001 (raised by the thread that waits)
                failed.append(e)

        thread = InheritableThread(target=work, daemon=True)
        rows = sum(share.scan.num_rows for share in shares)
        before = _results(job)
        with bar(self.asked.progress, f"backfill {self.asked.column}", rows) as shown:
            thread.start()
            try:
                while thread.is_alive():
                    thread.join(_LOOK_S)
                    commits.collect()
                    if shown is not None:
                        now = _results(job)
                        shown(commits.rows + now[0], f"{now[1]} failed")
            except BaseException:
                with logged("cancelling the job of the backfill"):
                    self.target.spark.interruptTag(tag)
                    thread.join()
                raise
            finally:
                self._has_progressed = _results(job) != before
        if failed:
            raise failed[0]
        return found


def _is_lost_worker(error: Exception) -> bool:
    """Whether a Spark job failed because a worker process or an executor was lost. In local mode Spark does not try a task again."""
    return not isinstance(error, LanceError) and any(sign in str(error) for sign in _LOST)


def _results(job: Job) -> tuple[int, int]:
    """The rows that have a result in the folder, and the failed ones among them."""
    files = [found for entry in job.notes.store.walk("") if (found := result_file(entry.name.rpartition("/")[2])) is not None]
    return sum(file.rows for file in files), sum(file.failed for file in files)


def _describe(spark: SparkSession, text: str) -> None:
    """Show what the job of this thread is for in Spark's UI, which a client of Spark Connect cannot."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        context.setJobDescription(text)


def _new_column(name: str, data_type: Any) -> pa.Field | None:
    """The column of a declared type: an Arrow type or field, or a Spark type or its name."""
    if data_type is None or isinstance(data_type, pa.Field):
        return data_type
    if isinstance(data_type, pa.DataType):
        return pa.field(name, data_type)
    check_type("data_type", data_type, (str, DataType), "a type of Arrow or Spark, or the name of one")
    return stored(StructType([StructField(name, named(data_type))]), {}).field(0)
