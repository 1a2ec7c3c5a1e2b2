"""What lance_spark is measured against: pylance wrapped the obvious way, and the floor that no Python data source can beat."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.ipc as ipc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType


class PylanceSource(DataSource):
    """A Lance table through the Rust wheel: a partition a fragment, all columns unless the option `columns` names some."""

    @classmethod
    def name(cls) -> str:
        return "pylance"

    def schema(self) -> StructType:
        import lance

        table = lance.dataset(self.options["path"])
        wanted = self.options.get("columns")
        names = wanted.split(",") if wanted else table.schema.names
        return from_arrow_schema(pa.schema([table.schema.field(n) for n in names]))

    def reader(self, schema: StructType) -> DataSourceReader:
        return PylanceReader(self.options["path"], schema, self.options.get("filter"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return PylanceWriter(self.options["path"], overwrite)


@dataclass
class FragmentPartition(InputPartition):
    """One fragment of the table."""

    fragment: int


class PylanceReader(DataSourceReader):
    """Reads whole fragments, with pylance's own projection and filter."""

    def __init__(self, path: str, schema: StructType, condition: str | None) -> None:
        self.path, self.columns, self.condition = path, schema.fieldNames(), condition
        self.schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        import lance

        return [FragmentPartition(f.fragment_id) for f in lance.dataset(self.path).get_fragments()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import lance

        assert isinstance(partition, FragmentPartition)
        fragment = lance.dataset(self.path).get_fragment(partition.fragment)
        assert fragment is not None
        for batch in fragment.to_batches(columns=self.columns, filter=self.condition):
            yield batch.cast(self.schema)  # vectors are lists to Spark


@dataclass
class FragmentsMessage(WriterCommitMessage):
    """Fragments that a task wrote, and the schema of their rows; None when it was given no rows."""

    fragments: list[Any]
    schema: pa.Schema | None


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its decimals copied: in Spark's stream they are aligned to 8 bytes, and pylance panics unless they are to 16."""
    columns = [pa.concat_arrays([c, c.slice(0, 0)]) if pa.types.is_decimal(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class PylanceWriter(DataSourceArrowWriter):
    """Writes fragments with pylance on the executors and commits them on the driver, as a new table unless there is one to append to."""

    def __init__(self, path: str, overwrite: bool) -> None:
        self.path, self.overwrite = path, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from lance.fragment import write_fragments

        first = next(iterator, None)
        if first is None:
            return FragmentsMessage([], None)
        reader = pa.RecordBatchReader.from_batches(first.schema, map(aligned, itertools.chain([first], iterator)))
        mode: Literal["append", "overwrite"] = "append" if self.appends() else "overwrite"
        return FragmentsMessage(write_fragments(reader, self.path, mode=mode), first.schema)

    def appends(self) -> bool:
        """Whether rows are added to a table that is there."""
        return not self.overwrite and os.path.exists(self.path + "/_versions")

    def commit(self, messages: list[Any]) -> None:
        import lance

        schema = next(m.schema for m in messages if m.schema is not None)
        made = [f for m in messages for f in m.fragments]
        if self.appends():
            lance.LanceDataset.commit(self.path, lance.LanceOperation.Append(made), read_version=lance.dataset(self.path).version)
        else:
            lance.LanceDataset.commit(self.path, lance.LanceOperation.Overwrite(schema, made))


class FloorSource(DataSource):
    """Yields one ready batch again and again, and discards what it is given: what Spark itself costs."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> StructType:
        return from_arrow_schema(ipc.open_file(self.options["path"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FloorReader(self.options["path"], int(self.options["rows"]), int(self.options["tasks"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return FloorWriter()


@dataclass
class RowsPartition(InputPartition):
    """So many rows."""

    rows: int


class FloorReader(DataSourceReader):
    """The batch of the Arrow file at `path`, until `rows` rows have been given in `tasks` tasks."""

    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self.path, self.rows, self.tasks = path, rows, tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [RowsPartition(self.rows // self.tasks) for _ in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)
        batch = ipc.open_file(self.path).get_batch(0)
        left = partition.rows
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


class FloorWriter(DataSourceArrowWriter):
    """Takes batches and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
