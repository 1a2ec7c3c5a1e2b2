"""The cost of reading one task."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.reading.steps import Counts
from lance_spark.storage.waiting import waited

FragmentName = tuple[str, int]
"""The table, as in `ScanTask.table`, and the id of a fragment."""


@dataclass
class Cost:
    """The cost of reading a task so far.

    `rows` are those that satisfy the filter, within the limit of the task, and `log_rows` those of them that are of a write-ahead log.
    `waiting` are the seconds that its reading thread has waited for the store, and `decoding` the other seconds in which this thread was
    reading.

    `bytes` and `pages` are those of the fragments, without those `elsewhere`, which count for another task with rows of the same fragment.
    So the sums over all tasks of a scan count each fragment once.
    """

    elsewhere: frozenset[FragmentName] = frozenset()
    rows: int = 0
    counts: Counts = field(default_factory=Counts)
    bytes: int = 0
    pages: int = 0
    waiting: float = 0.0
    decoding: float = 0.0
    log_rows: int = 0

    def add(self, fragment: FragmentName, counts: Counts) -> None:
        """Add the cost of reading rows of a fragment."""
        self.counts.add(counts)
        if fragment not in self.elsewhere:
            self.bytes += counts.bytes
            self.pages += counts.pages

    def include(self, other: Cost) -> None:
        """Add the cost of another task."""
        self.counts.add(other.counts)
        for name in ("rows", "bytes", "pages", "waiting", "decoding", "log_rows"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def timed(self, batches: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
        """The same batches. The time to get each is counted, in the thread that gets it."""
        try:
            while True:
                start, before = time.perf_counter(), waited()
                batch = next(batches, None)
                store = waited() - before
                self.waiting += store
                self.decoding += time.perf_counter() - start - store
                if batch is None:
                    return
                yield batch
        finally:
            batches.close()
