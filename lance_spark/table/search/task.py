"""A search as a task that crosses to another process, where the indexes that it opens stay in memory for later ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.arrow.types import expected_width
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.own_rows import FindsItsRows
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.runner import Runner
from lance_spark.table.search.search import Query, Search
from lance_spark.table.search.segments import opened
from lance_spark.table.search.vector_search import VectorSearch
from lance_spark.table.versions.snapshot import MemWal

_COMPARED_HERE_BYTES = 256 << 20
"""A core compares about 1 GB a second, and a job of Spark takes about 0.2 s: it does not pay for less."""

_FOUND_BYTES = 32 << 20
"""Rows of at most so many bytes are kept in the driver: less than `spark.sql.execution.arrow.localRelationThreshold`, 48 MB."""


@dataclass(frozen=True)
class SearchTask(FindsItsRows):
    """A search of the version of a table that had the number and the identity. `num_rows` and `num_bytes` estimate its result."""

    store: Store
    version: int
    identity: str
    allow_other_stores: bool
    verify_checksums: bool
    mem_wal: MemWal
    plan: ScanPlan
    query: Query
    num_rows: int = 0
    num_bytes: int = 0

    def found(self, runner: Runner) -> Search | None:
        """The search, which is to find its rows in this process: by itself if it compares little, otherwise by the tasks of `runner`.

        None if it is not for vectors, or may find rows of many bytes.
        """
        if not self.version or not isinstance(self.query, VectorSearch) or self.num_bytes > _FOUND_BYTES:
            return None
        search = self.search
        here = self.query.bytes_compared(search.snapshot) <= _COMPARED_HERE_BYTES
        return search if here else replace(search, query=replace(self.query, runner=runner))

    @property
    def search(self) -> Search:
        """The search, of a version that this process may have opened for another task."""
        snapshot = opened(self.store, self.version, self.identity, self.allow_other_stores, self.verify_checksums)
        return Search(with_log(snapshot) if self.mem_wal == "merged" else snapshot, self.plan, self.query, None)

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the query; none of a table that has not been written. A search does not tell its cost."""
        return self.search.to_batches() if self.version else iter(())

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The number of rows."""
        yield self.search.count_rows() if self.version else 0


def search_task(search: Search) -> SearchTask:
    """The task of a search."""
    snapshot = search.snapshot
    bounds = (search.query.most_rows, search.plan.limit)
    rows = min([*(bound for bound in bounds if bound is not None)] or [int(all_live_rows(snapshot).sum())])
    size = sum(expected_width(field.type) for field in search.schema)
    return SearchTask(
        snapshot.store,
        snapshot.version,
        snapshot.identity,
        snapshot.allow_other_stores,
        snapshot.verify_checksums,
        snapshot.mem_wal,
        search.plan,
        search.query,
        rows,
        rows * size,
    )
