"""The data source of a table about a table, such as `lance.ns.t.files`: the driver loads it for the SQL catalog and `LanceTable`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.inspection.metadata_tables import metadata_table
from lance_spark.spark.columns.types import to_spark
from lance_spark.spark.protocol import METADATA_FORMAT
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.table.versions.snapshot import Snapshot, open_pinned


class MetadataSource(DataSource):
    """The rows of the metadata table with the name `name` of a version. One task reads them."""

    def __init__(self, options: Mapping[str, str], snapshot: Snapshot, name: str) -> None:
        super().__init__(dict(options))
        self._snapshot, self._name = snapshot, name

    @classmethod
    def name(cls) -> str:
        """Not "lance": Spark's planner, not ours, plans the query."""
        return METADATA_FORMAT

    def schema(self) -> StructType:
        """The columns."""
        return to_spark(metadata_table(self._name).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of all columns: Spark prunes none of a Python source."""
        return MetadataReader(self._snapshot, self._name)


class MetadataReader(DataSourceReader):
    """Reads a metadata table of a version, which the executor opens again: its manifest may be large."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self._pinned = (snapshot.store, snapshot.version, snapshot.identity, snapshot.allow_other_stores)
        self._name = name

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        start_task()
        with brief_errors():
            yield from metadata_table(self._name).read(open_pinned(*self._pinned)).to_batches()
