"""What a task has read or written and how long it took, for Spark's UI: the planner's classes in the JVM take these numbers.

The worker of a scan sends them as the update of an accumulator, for which ColumnarReader.java and ReportingReader.java give it an
accumulator of their own. The numbers of a write are in the task's commit message, which MeasuredWrite.java reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.accumulators import Accumulator, AddingAccumulatorParam

from lance_spark.metadata.fragment import Fragment
from lance_spark.spark.protocol import ACCUMULATOR, Read, Written
from lance_spark.storage.waiting import waited
from lance_spark.table.scan.cost import Cost


def report(cost: Cost) -> None:
    """Send the cost of a scan's task to the JVM when the task ends. The session's accumulators must not get it: they do not know its id."""
    sizes = cost.rows, cost.counts.bytes_read, cost.bytes, cost.counts.pages_read, cost.pages
    read = Read(*sizes, _nanoseconds(cost.waiting), _nanoseconds(cost.decoding), cost.log_rows)
    Accumulator(ACCUMULATOR, read.frame(), AddingAccumulatorParam(b""))  # type: ignore[type-var]


class WriteClock:
    """Measures the time of a write task in this thread: waiting for the store, and encoding, which is the rest but waiting for rows."""

    def __init__(self) -> None:
        self._start, self._waited, self._idle = time.perf_counter(), waited(), 0.0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches. The time to get them is not part of the write."""
        source = iter(batches)
        while True:
            start = time.perf_counter()
            batch = next(source, None)
            self._idle += time.perf_counter() - start
            if batch is None:
                return
            yield batch

    def report(self, fragments: Iterable[Fragment], deleted: int = 0, updated: int = 0, inserted: int = 0) -> Written:
        """What the task has written, for its commit message: new fragments, and the numbers of rows that a row-level command changes."""
        fragments = list(fragments)
        files = [file for fragment in fragments for file in fragment.files]
        store = waited() - self._waited
        encoding = time.perf_counter() - self._start - self._idle - store
        sizes = len(files), sum(file.size or 0 for file in files), sum(fragment.physical_rows for fragment in fragments)
        return Written(*sizes, _nanoseconds(store), _nanoseconds(encoding), deleted, updated, inserted)


def _nanoseconds(seconds: float) -> int:
    return round(max(seconds, 0.0) * 1e9)
