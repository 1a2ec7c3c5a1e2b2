"""Reading the changes that lead from one branch to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lance_spark.arrow.types import expected_width
from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import COLUMNS_ONLY, shown
from lance_spark.spark.read.reader import LanceReader, Parts, Returned
from lance_spark.spark.read.request import Request
from lance_spark.table.branches.diff import BranchDiff
from lance_spark.table.branches.heads import latest_of
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.own_rows import FindsItsRows
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.versions.identity import Pin
from lance_spark.table.versions.snapshot import Snapshot, open_pinned


@dataclass(frozen=True)
class BranchDiffRead:
    """The changes that lead from a branch to the version that is read. Which rows differ is found by the task that reads them."""

    snapshot: Snapshot
    diff_from: str
    options: ReadOptions
    kind = "a comparison of branches"
    abilities = COLUMNS_ONLY

    @property
    def _diff(self) -> BranchDiff:
        return BranchDiff(latest_of(self.snapshot, self.diff_from), self.snapshot)

    def columns(self) -> pa.Schema:
        return shown(self._diff.fields)

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        task = BranchDiffTask.of(self._diff, tuple(schema.names))
        conversion = Conversion(promised(schema), self.options.truncates)
        return LanceReader(Parts(lambda cores, most: [task], request.rows_only), Returned(conversion, reports=request.reports))


@dataclass(frozen=True)
class BranchDiffTask(FindsItsRows):
    """The columns `names` of a comparison. `num_rows` and `num_bytes` are guesses: only reading tells how many rows differ."""

    before: Pin
    after: Pin
    allow_other_stores: bool
    verify_checksums: bool
    names: tuple[str, ...]
    num_rows: int
    num_bytes: int

    @classmethod
    def of(cls, diff: BranchDiff, names: tuple[str, ...]) -> BranchDiffTask:
        """The task that reads a comparison."""
        rows = int(all_live_rows(diff.after).sum())
        width = sum(expected_width(field.type) for field in diff.schema)
        after = diff.after
        return cls(diff.before.pin, after.pin, after.allow_other_stores, after.verify_checksums, names, rows, rows * width)

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """The changes, in the order of `BranchDiff.to_batches`. They do not tell their cost."""
        return (batch.select(list(self.names)) for batch in self._diff.to_batches())

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The number of changes in each batch."""
        return (batch.num_rows for batch in self._diff.to_batches())

    @property
    def _diff(self) -> BranchDiff:
        before, after = (self._opened(pin) for pin in (self.before, self.after))
        return BranchDiff(before, after)

    def _opened(self, pin: Pin) -> Snapshot:
        opened = open_pinned(pin.store, pin.version, pin.identity, self.allow_other_stores)
        return replace(opened, verify_checksums=self.verify_checksums)
