"""Writing a stream to a table: each batch is one version, once, however often Spark repeats it.

Spark makes the writer anew for the tasks of each batch, and again for its commit, so all that the
commit needs is in the tasks' messages. It repeats a batch under the same number after any failure,
also one after our commit. Therefore the id of the query, which is that of its checkpoint, and the
number of the batch are noted in the transaction (see `table.commit.idempotence`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.import_cache import brief_errors
from lance_spark.spark.write.rows import Fragments, Rows
from lance_spark.spark.write.writer import Batches, LanceWriter, Messages, TaskMessage

QUERY_ID, EPOCH_ID = "lance.streaming.queryId", "lance.streaming.epochId"
"""What the JVM connector notes in the transaction of a batch, besides our numbers."""

LOCAL_QUERY_ID = "sql.streaming.queryId"
"""The property of a task with the id of the query in its checkpoint, which a restart keeps."""

_LOG = logging.getLogger(__name__)


@dataclass
class StreamMessage(TaskMessage[Fragments]):
    """The message of a task, with what is written, and the id of the query."""

    rows: Rows
    query: str


def stream_options(given: Mapping[str, str]) -> SparkWriteOptions:
    """The options of a stream. `txnAppId` stands alone: each batch has a number (see `numbered`).

    Raises InvalidOptionError for options that make sense for a single write only.
    """
    names = {name.lower() for name in given}
    first = {}
    if APP_ID.lower() in names and APP_VERSION.lower() not in names:
        first = {APP_VERSION: "0"}
    options = parse_options(SparkWriteOptions, {**given, **first})
    for name, advice in (
        ("txnVersion", "the number of a batch is its txnVersion"),
        ("write_mode", "the first batch creates the table, and the others append to it"),
        ("replaceWhere", "use foreachBatch"),
    ):
        if name in options.given and name not in first:
            raise InvalidOptionError(f"the option {name} does not apply to a stream: {advice}")
    return options


def numbered(rows: Rows, query: str, batch: int) -> Rows:
    """The rows as those of a batch of a query, or of the user's own txnAppId."""
    options = rows.target.options
    app = query if options.txn_app_id is None else options.txn_app_id
    target = replace(rows.target, options=replace(options, txn_app_id=app, txn_version=batch))
    return replace(rows, target=target.noting({QUERY_ID: query, EPOCH_ID: str(batch)}))


class LanceStreamWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Runs the writes of the batches by `LanceWriter`.

    From the first base class, Spark sees that `write` takes Arrow batches. `rows` is None where the
    batch is committed: the messages of its tasks have it.
    """

    def __init__(self, rows: Rows | None) -> None:
        self._rows = rows

    @brief_errors()
    def write(self, iterator: Batches) -> StreamMessage:
        """Write a task's rows."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(LOCAL_QUERY_ID)
        if not query:
            what = "the task does not know the id of its streaming query"
            raise LanceError(f"{what}; use foreachBatch with txnAppId and txnVersion")
        assert self._rows is not None
        message = LanceWriter(self._rows).write(iterator)
        return StreamMessage(message.report, message.part, self._rows, query)

    @brief_errors()
    def commit(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Commit what all tasks have written, unless this batch has been committed before.

        A batch without rows makes no version.
        """
        given = _first(messages)
        if given is None:
            what = "no task of the batch returned a commit message; nothing is committed"
            raise LanceError(f"{what}: start the query again")
        _LOG.info("batch %d of query %s: %d tasks", batchId, given.query, len(messages))
        LanceWriter(numbered(given.rows, given.query, batchId)).commit(messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Delete the files of all tasks, unless a version names them.

        Spark also calls this after a commit that it has not seen succeed.
        """
        given = _first(messages)
        if given is not None:
            LanceWriter(given.rows).abort(messages)


def _first(messages: Messages) -> StreamMessage | None:
    return next((message for message in messages if isinstance(message, StreamMessage)), None)
