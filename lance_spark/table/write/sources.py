"""Rows to write, from the libraries in which people have them, as a stream of batches. None of these libraries is imported."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from lance_spark.arrow.stream import ArrowStream
from lance_spark.errors import SchemaMismatchError

Data: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch]
"""Rows to write; `as_reader` tells of which other types they may be."""

_SAMPLES = 1000
"""Rows that a dataset of Hugging Face is asked for at once."""


def as_reader(data: Data, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """The rows as a stream of batches, cast to `schema` if there is one.

    They may be anything with `__arrow_c_stream__`, such as a frame of pandas or polars; a dataset or scanner of pyarrow; a
    lazy frame of polars; a dataset of Hugging Face; and an iterable of such pieces. Raises TypeError for anything else, and
    SchemaMismatchError for pieces of other columns than the first one, or than the schema.
    """
    reader = _reader(data, schema)
    if schema is None or reader.schema.equals(schema):
        return reader
    return pa.RecordBatchReader.from_batches(schema, _cast(reader, schema))


def read_all(data: Data) -> pa.Table:
    """All rows of `data` in memory."""
    return data if isinstance(data, pa.Table) else as_reader(data).read_all()


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if _is_one_piece(data):
        return _of_one_piece(data)
    if hasattr(data, "to_reader"):  # a scanner of pyarrow
        return data.to_reader()
    if hasattr(data, "scanner"):  # a dataset of pyarrow
        return data.scanner().to_reader()
    if hasattr(data, "collect_batches"):  # a lazy frame of polars
        return _of_pieces(data.collect_batches(), _reader(data.head(0).collect(), None).schema)
    if hasattr(data, "with_format") and hasattr(data, "features"):  # a dataset of Hugging Face
        samples = data.with_format("arrow").iter(_SAMPLES)
        return _of_pieces(samples, schema if data.features is None else data.features.arrow_schema)
    if isinstance(data, Mapping):
        raise TypeError(_refusal(f"; of its values, which are {_kind(next(iter(data.values()), None))}, write one"))
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise TypeError(_refusal(f", not {_kind(data)}"))
    return _of_pieces(data, schema)


def _of_pieces(pieces: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of pieces, each of which is something that `_reader` takes; None: the schema is that of the first one."""
    readers = map(_of_one_piece, pieces)
    if schema is not None:
        batches = itertools.chain.from_iterable(_cast(reader, schema) for reader in readers)
        return pa.RecordBatchReader.from_batches(schema, batches)
    first = next(readers, None)
    if first is None:
        raise TypeError("data has no rows and no columns; pass schema=.. with the columns, or an empty pa.Table of them")
    return pa.RecordBatchReader.from_batches(first.schema, _alike(itertools.chain([first], readers), first.schema))


def _is_one_piece(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _of_one_piece(data: Any) -> pa.RecordBatchReader:
    if not _is_one_piece(data):
        raise TypeError(_refusal(f", not of {_kind(data)}"))
    # An error that passes through a stream of Arrow is a text: our own rows are asked for directly.
    own = data.scan() if hasattr(data, "scan") else data
    if isinstance(own, ArrowStream):
        return own.to_batches()
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        return pa.Table.from_batches([pa.record_batch(data)]).to_reader()
    except (pa.ArrowInvalid, TypeError) as e:  # an array, or a stream of arrays
        raise TypeError(_refusal(f", not {_kind(data)}")) from e


def _alike(readers: Iterable[pa.RecordBatchReader], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, reader in enumerate(readers):
        if not reader.schema.equals(schema):
            raise SchemaMismatchError(
                f"piece {number} of the data has the columns {_columns(reader.schema)}, but the first has {_columns(schema)}; "
                "pass schema=.. to cast them"
            )
        yield from reader


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _cast(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if missing := [name for name in schema.names if name not in reader.schema.names]:
        raise SchemaMismatchError(f"the schema has a column {missing[0]!r}, which the data has not; it has {reader.schema.names}")
    for batch in reader:
        try:
            yield batch.select(schema.names).cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
            raise SchemaMismatchError(f"the data does not fit the schema: {e}") from e


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _refusal(found: str) -> str:
    return (
        "data must be a pyarrow table, reader or record batch, a frame or another object with __arrow_c_stream__, a dataset of pyarrow or "
        f"Hugging Face, or an iterable of tables or record batches{found}; "
        "of rows as dictionaries, make pa.Table.from_pylist(rows), of columns pa.table(columns)"
    )
