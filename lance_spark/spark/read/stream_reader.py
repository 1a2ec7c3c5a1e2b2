"""Reading a table as a stream. Spark asks for offsets and tasks of batches; `table.feed.stream` knows them.

One reader lives as long as the query, in a process of its own, and keeps what it knows of the table. Tasks get other readers, which know
nothing of it, so that all that a task needs is in its partition. Spark 4.0 and 4.1 have neither limits of a batch nor the offset from
which it goes on: there, the reader keeps the offset itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.changes import ADDED
from lance_spark.spark.read.kind import plan_of, selected, shown
from lance_spark.spark.read.opened import Opened
from lance_spark.spark.read.reader import LancePartition
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.table.feed.changes import Changes
from lance_spark.table.feed.offset import Offset
from lance_spark.table.feed.request import feed
from lance_spark.table.feed.stream import TableStream

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # Spark 4.0 and 4.1
        SupportsTriggerAvailableNow = object


class RefusedStream(DataSourceStreamReader):
    """Raises why a stream cannot be read. Spark hides an error of `streamReader` itself behind one of its own."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    @brief_errors()
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    @brief_errors()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Raises the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises the error."""
        raise self._error


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the batches of a stream. Only the conversion is pickled for the executors."""

    def __init__(self, stream: TableStream, conversion: Conversion) -> None:
        self._stream = stream
        self._conversion = conversion
        self._at: Offset | None = None

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._stream.initial().to_json()

    @brief_errors()
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Where the next batch ends. Before 4.2, Spark gives neither its start nor a limit."""
        at = Offset.from_json(start) if start is not None else self._at or self._stream.initial()
        self._stream.renew()
        self._at = self._stream.advance(at, type(limit).__name__ != "ReadAllAvailable")
        return self._at.to_json()

    def getDefaultReadLimit(self) -> Any:
        """The limit with which Spark asks for batches; all limits of the options apply then."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        return ReadMaxFiles(self._stream.max_files) if self._stream.is_limited else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The offset after the last known version, which the progress of the query shows."""
        return None if self._at is None else self._stream.known(self._at).to_json()

    @brief_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """End with the version that is the latest now."""
        self._stream.end_now()

    @brief_errors()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch. After a restart, Spark 4.0 and 4.1 tell by an empty batch where the stream is."""
        self._at, first = Offset.from_json(end), Offset.from_json(start)
        if first != self._at:
            self._stream.record(first)
        return [LancePartition(task, False) for task in self._stream.tasks(first, self._at)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the batches of one task, in exactly the promised schema."""
        start_task()
        with brief_errors():
            yield from map(self._conversion.apply, cast(LancePartition, partition).task.read())

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing is kept between batches: offsets say all."""

    def stop(self) -> None:
        """Nothing is to be closed."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_conversion": self._conversion}


def stream_reader(opened: Opened, options: ReadOptions, schema: StructType) -> LanceStreamReader:
    """The reader of the columns `schema` of the rows of a table, or of its changes, that follows its versions."""
    options.check_stream()
    snapshot = opened.table_for("; read streams of its tables")
    if options.feed.changes:
        found = feed(snapshot, plan_of(opened, options), options.filter, snapshot.version, options.feed)
        own = shown(found.fields)
    else:
        plan = plan_of(opened, options)
        found = Changes(snapshot, snapshot.version, snapshot.version, replace(plan, predicate=None), plan.predicate)
        own = shown(plan.fields(snapshot))
    found = replace(found, plan=selected(found.plan, snapshot, own, ADDED, schema))
    stream = TableStream(found, options.feed, os.cpu_count() or 1, options.max_partition_bytes)
    return LanceStreamReader(stream, Conversion(promised(schema), options.truncates))
