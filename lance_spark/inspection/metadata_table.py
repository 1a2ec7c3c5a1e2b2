"""A table about a table: its columns, and its rows for a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.table.versions.snapshot import Snapshot

Row = Sequence[Any]


@dataclass(frozen=True)
class MetadataTable:
    """The columns of a table about a table, and the function that returns its rows for a version.

    Where they are many, they are batches.
    """

    columns: Mapping[str, pa.DataType]
    rows: Callable[[Snapshot], Iterable[Row] | pa.RecordBatchReader]

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return pa.schema(list(self.columns.items()))

    def read(self, snapshot: Snapshot) -> pa.Table:
        """All rows."""
        return self.batches(snapshot).read_all()

    def batches(self, snapshot: Snapshot) -> pa.RecordBatchReader:
        """The rows. Where they are many, one batch of them is in memory at a time."""
        found = self.rows(snapshot)
        if isinstance(found, pa.RecordBatchReader):
            return found
        columns = list(zip(*found)) or [()] * len(self.columns)
        arrays = [pa.array(values, t) for values, t in zip(columns, self.columns.values())]
        # One batch, also without rows: PySpark makes no DataFrame of a table without any.
        batch = pa.record_batch(arrays, schema=self.schema)
        return pa.RecordBatchReader.from_batches(self.schema, [batch])
