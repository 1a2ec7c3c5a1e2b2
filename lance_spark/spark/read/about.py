"""Reading a table about a table, such as `lance.ns.t.files`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.inspection.metadata_tables import metadata_table
from lance_spark.spark.read.kind import COLUMNS_ONLY
from lance_spark.spark.read.request import Request
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.table.versions.snapshot import Snapshot, open_pinned


@dataclass(frozen=True)
class AboutRead:
    """The rows of the metadata table of a version with a name."""

    snapshot: Snapshot
    name: str
    kind = "a metadata table"
    abilities = COLUMNS_ONLY

    def columns(self) -> pa.Schema:
        return metadata_table(self.name).schema

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        return AboutReader(self.snapshot, self.name)


class AboutReader(DataSourceReader):
    """Reads all columns with one task, which opens the version again: its manifest may be large."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self._name = name
        self._pinned = (
            snapshot.store,
            snapshot.version,
            snapshot.identity,
            snapshot.allow_other_stores,
        )

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        start_task()
        with brief_errors():
            yield from metadata_table(self._name).batches(open_pinned(*self._pinned))
