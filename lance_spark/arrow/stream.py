"""Rows that are read on request, as an Arrow stream: what every reader of a table, a search and a feed has."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError


class ArrowStream:
    """Rows in batches. Each call reads them anew, and nothing is read before the first batch is asked for.

    Libraries read it as a stream of the Arrow PyCapsule interface: `pa.table(rows)`, `pl.DataFrame(rows)`, `FROM rows` in
    DuckDB.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @abstractmethod
    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of `schema`. A generator, which frees what it holds when it is closed."""

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows, batch by batch, as a reader, which is an iterator of batches with a schema.

        A batch is read when it is asked for. A reader that is dropped before its end closes what it reads from.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self._batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows as a DataFrame of pandas, which must be installed."""
        return self.to_table().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a DataFrame of polars, which must be installed."""
        return importlib.import_module("polars").from_arrow(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of the Arrow PyCapsule interface.

        `requested_schema` names other Arrow types for the same values, such as `large_string`: the rows are cast to it as they
        are read. They keep their own types if Arrow has no such cast. Raises SchemaMismatchError for other columns.
        """
        reader = self.to_batches()
        if requested_schema is not None:
            reader = _in_types_of(pa.schema(_Requested(requested_schema)), reader)
        return reader.__arrow_c_stream__()


class _Requested:
    """A capsule with a schema, as pyarrow takes one."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def _in_types_of(requested: pa.Schema, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows of the reader in the types of `requested`, or as they are if a cast does not exist."""
    own = reader.schema
    if requested.names != own.names:
        raise SchemaMismatchError(
            f"the requested schema has the columns {requested.names}, but the rows have {own.names}; "
            "request other types for the same columns, and choose columns in the scan"
        )
    if not all(_can_cast(ours.type, theirs.type) for ours, theirs in zip(own, requested)):
        return reader
    return reader.cast(requested)


def _can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    try:
        pa.nulls(0, source).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True
