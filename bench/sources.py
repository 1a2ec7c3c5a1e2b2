"""The other contestants: a simple wrapper of pylance, and the floor, which no Python data source can beat."""

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
    """A Lance table through the Rust wheel: one partition per fragment, and all columns unless the option `columns` is given."""

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
            yield batch.cast(self.schema)  # Spark has lists for vectors


@dataclass
class FragmentsMessage(WriterCommitMessage):
    """The fragments that a task wrote, and the schema of their rows; None for a task without rows."""

    fragments: list[Any]
    schema: pa.Schema | None


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with copied decimals: Spark aligns them to 8 bytes, and pylance panics unless they are aligned to 16."""
    columns = [pa.concat_arrays([c, c.slice(0, 0)]) if pa.types.is_decimal(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class PylanceWriter(DataSourceArrowWriter):
    """Writes fragments with pylance on the executors and commits them on the driver, to an existing or a new table."""

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
        """True if rows are appended to an existing table."""
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
    """Returns one prepared batch repeatedly, and discards its input: this measures Spark's own cost."""

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
    """A number of rows."""

    rows: int


class FloorReader(DataSourceReader):
    """Returns the batch of the Arrow file at `path` until `tasks` tasks have returned `rows` rows."""

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
    """Discards batches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
