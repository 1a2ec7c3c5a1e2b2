"""Rows that are in no data file of a table, but are read as if they were: those of the entries of a write-ahead log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import DataFile
from lance_spark.predicate.bounds import Bounds
from lance_spark.reading import spans
from lance_spark.reading.steps import Counts, Rows
from lance_spark.schema.schema import Field, Schema


class HeldRows(Protocol):
    """Rows in memory, or in files of another format."""

    def rows(self, fields: Schema) -> pa.RecordBatch:
        """All rows, always in the same order, with these columns."""


@dataclass(frozen=True, slots=True)
class HeldFile(DataFile):
    """`num_rows` rows in place of a data file. They have all columns of the table."""

    source: HeldRows | None = None
    num_rows: int = 0


class HeldReader:
    """Reads a `HeldFile`, as `DataFileReader` reads a data file."""

    def __init__(self, file: HeldFile) -> None:
        self.version = file.version
        self.num_rows = file.num_rows
        self.schema = Schema(())
        self.counts = Counts()
        self._file = file

    def read(
        self,
        fields: Sequence[Field],
        columns: Mapping[int, int],
        rows: Rows,
        batch_rows: int,
        *,
        with_dictionaries: bool = False,
        with_views: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """See `DataFileReader.read`. There are no dictionaries and no views."""
        if not len(rows):
            return
        assert self._file.source is not None
        batch = self._file.source.rows(Schema(tuple(fields)))
        if batch.num_rows != self.num_rows:
            raise CorruptFileError(f"{self._file.path}: expected {self.num_rows} rows, found {batch.num_rows}")
        for start in range(0, len(rows), batch_rows):
            some = rows[start : start + batch_rows]
            if isinstance(some, range):
                yield [column.slice(some.start, len(some)) for column in batch.columns]
            else:
                numbers = pa.array(some)
                yield [take(column, numbers) for column in batch.columns]

    def prune_pages(
        self, field: Field, column: int | None, may_match: Callable[[pa.Array | Bounds], bool], only_bounds: bool = False
    ) -> spans.Spans | None:
        """There are no statistics."""
        return None
