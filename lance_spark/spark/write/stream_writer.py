"""Writing a stream to a table: each batch is one version, once, however often Spark repeats it.

Spark makes the writer anew for the tasks of each batch, and again for its commit, so all that the commit needs is in the tasks' messages.
It repeats a batch under the same number after any failure, also one after our commit. Therefore the id of the query, which is that of its
checkpoint, and the number of the batch are noted in the transaction (see `table.commit.idempotence`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.import_cache import brief_errors, start_planning
from lance_spark.spark.write.writer import LanceCommitMessage, LanceWriter, no_message

QUERY_ID, EPOCH_ID = "lance.streaming.queryId", "lance.streaming.epochId"
"""What the JVM connector notes in the transaction of a batch, besides our numbers."""

_LOCAL_QUERY_ID = "sql.streaming.queryId"
"""The property of a task that has the id of the query in its checkpoint; it stays the same when the query is started again."""

_LOG = logging.getLogger(__name__)


@dataclass
class StreamCommitMessage(WriterCommitMessage):
    """What a task has written, with the writer that it used, and the id of the query."""

    written: LanceCommitMessage
    writer: LanceWriter
    query: str


def stream_options(given: Mapping[str, str]) -> SparkWriteOptions:
    """The options of a stream. `txnAppId` stands alone: each batch has a number (see `LanceWriter.numbered`).

    Raises InvalidOptionError for options that make sense for a single write only.
    """
    names = {name.lower() for name in given}
    first = {APP_VERSION: "0"} if APP_ID.lower() in names and APP_VERSION.lower() not in names else {}
    options = parse_options(SparkWriteOptions, {**given, **first})
    for name, advice in (
        ("txnVersion", "the number of a batch is its txnVersion"),
        ("write_mode", "the first batch creates the table, and the others append to it"),
        ("replaceWhere", "use foreachBatch"),
    ):
        if name in options.given and name not in first:
            raise InvalidOptionError(f"the option {name} does not apply to a stream: {advice}")
    return options


class LanceStreamWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Writes the batches of a stream. From the first base class, Spark sees that `write` takes Arrow batches, in all versions.

    `writer` is None where the batch is committed: the messages of its tasks have it.
    """

    def __init__(self, writer: LanceWriter | None) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamCommitMessage:
        """Write a task's rows to data files, which no version refers to yet."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_LOCAL_QUERY_ID)
        if not query:
            raise LanceError("the task does not know the id of its streaming query; use foreachBatch with txnAppId and txnVersion")
        assert self._writer is not None
        return StreamCommitMessage(self._writer.write(iterator), self._writer, query)

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        """Commit the files of all tasks, unless this batch has been committed before. A batch without rows makes no version."""
        start_planning()
        given = _given(messages)
        if None in messages or not given:
            raise no_message(messages.count(None), len(messages))
        query = given[0].query
        _LOG.info("batch %d of query %s: %d tasks", batchId, query, len(given))
        numbered = given[0].writer.numbered(query, batchId, {QUERY_ID: query, EPOCH_ID: str(batchId)})
        numbered.commit([message.written for message in given])

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        """Delete the files of all tasks, unless a version names them: Spark also calls this after a commit that it has not seen succeed."""
        if given := _given(messages):
            given[0].writer.abort([m.written if isinstance(m, StreamCommitMessage) else None for m in messages])


def _given(messages: Sequence[WriterCommitMessage | None]) -> list[StreamCommitMessage]:
    return [message for message in messages if isinstance(message, StreamCommitMessage)]
