"""Writes one data file of storage version 2.0, 2.1, 2.2 or 2.3 as a stream. Implements "File Layout" of the file format specification.

On disk: the buffers of the pages as they fill up, the checksum table, global buffer 0 (schema and row count), the metadata of each column,
the offset tables of both, the checksum trailer, the footer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from lance_spark._proto import encodings_v2_0_pb2, file2_pb2, file_pb2
from lance_spark.arrow.selection import joined
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.crc32c import MAGIC as CHECKSUMS
from lance_spark.buffers.crc32c import available
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.file.blob_writer import BlobWriter, Sidecars
from lance_spark.file.checksums import ALIGNMENT, Output, SummedOutput, checksum_table, checksum_trailer
from lance_spark.file.footer import FOOTER, MAGIC
from lance_spark.layouts import write_page as layouts
from lance_spark.layouts.levels.shred import split
from lance_spark.layouts.mini_block.alike import encode_together
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import GRAMMARS, Grammar
from lance_spark.layouts.page_bounds import bounds_of, has_bounds
from lance_spark.layouts.write_blob import encode_blob_pages
from lance_spark.schema.blobs import in_file
from lance_spark.schema.field_messages import serialise_fields
from lance_spark.schema.schema import Field, Schema
from lance_spark.schema.storage_version import V2_0, StorageVersion
from lance_spark.v2_0 import write as v2_0

PAGE_BYTES = 8 << 20
"""Size in bytes of the Arrow data of a page."""

_TOGETHER = 1024
"""Columns that are encoded together."""


@dataclass(frozen=True)
class WrittenFile:
    """What a manifest stores about a file: `column_indices[i]` is the column of the field with id `field_ids[i]`."""

    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
    num_rows: int
    size_bytes: int
    version: StorageVersion


@dataclass(frozen=True)
class _Format:
    """The writer of a version: the fields that own a column, the arrays for the columns of a field, the pages of a column's array.

    `encode_together` makes the pages of those of many columns that are alike, and None for the others.
    """

    footer_version: tuple[int, int]
    blobs_of_version_2: bool
    columns: Callable[[Schema], Iterable[Field]]
    split: Callable[[Field, pa.Array], Iterable[pa.Array]]
    encode_pages: Callable[[Field, pa.Array], Iterable[EncodedPage]]
    encode_together: Callable[[Sequence[tuple[Field, Sequence[pa.Array]]]], Iterable[EncodedPage | None]]


def _of_grammar(version: StorageVersion, grammar: Grammar) -> _Format:
    def columns(schema: Schema) -> Iterable[Field]:
        for f in schema.walk():
            if f.logical_type == "map" and not grammar.maps:
                raise UnsupportedFeatureError(f"column {f.name!r}: maps are not supported in storage version {version}")
        return schema.leaves()

    def pages(leaf: Field, array: pa.Array) -> list[EncodedPage]:
        return (encode_blob_pages if leaf.is_blob else layouts.encode_pages)(leaf, array, grammar)

    def together(columns: Sequence[tuple[Field, Sequence[pa.Array]]]) -> list[EncodedPage | None]:
        return encode_together(columns, grammar)

    return _Format(version, grammar.blob_structs, columns, split, pages, together)


FORMATS: Mapping[StorageVersion, _Format] = {
    V2_0: _Format((0, 3), False, v2_0.columns, v2_0.split, v2_0.encode_pages, lambda columns: [None] * len(columns)),
    **{version: _of_grammar(version, grammar) for version, grammar in GRAMMARS.items()},
}


@dataclass(slots=True)
class _LeafColumn:
    """The serialised metadata of one column's pages so far, and the Arrow data buffered for the next page."""

    leaf: Field
    is_blob: bool
    bounded: bool
    pages: list[bytes] = field(default_factory=list)
    waiting: list[pa.Array] = field(default_factory=list)
    waiting_bytes: int = 0
    rows_written: int = 0
    borrows: bool = False
    """Whether the last of the waiting arrays shares the memory of a wider batch."""


class DataFileWriter:
    """Writes record batches to `out`; nothing is readable before `finish`."""

    def __init__(self, out: Output, schema: Schema, version: StorageVersion, sidecars: Sidecars | None = None) -> None:
        if version not in FORMATS:
            raise UnsupportedFeatureError(f"writing files of storage version {version} is not supported")
        self._out = SummedOutput(out)
        self._schema = schema
        self._version = version
        self._format = FORMATS[version]
        self._num_rows = 0
        self._blobs = BlobWriter(self._out.put_aligned, sidecars)
        bounded = {f.id for f in schema.fields if version != V2_0 and has_bounds(f)}
        self._columns = [_LeafColumn(leaf, leaf.is_blob, leaf.id in bounded) for leaf in self._format.columns(schema)]

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, plus those of the Arrow data buffered for the next page."""
        return self._out.size + sum(column.waiting_bytes for column in self._columns)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`, whose columns are the schema's fields in order."""
        if batch.schema.names != self._schema.names:
            raise SchemaMismatchError(f"expected columns {self._schema.names}, found {batch.schema.names}")
        arrays = batch.columns
        sizes = [_size(array) for array in arrays]
        batch_bytes = sum(sizes)
        columns = iter(self._columns)
        for f, array, size in zip(self._schema.fields, arrays, sizes):
            for part in self._format.split(f, array):
                column = next(columns)
                if column.is_blob:
                    part = self._blobs.place(column.leaf, part, version_2=self._format.blobs_of_version_2)
                self._add(column, part, size if part is array else _size(part), batch_bytes)
        self._num_rows += batch.num_rows

    def copy_pages(self, column: int, pages: Iterable[EncodedPage]) -> None:
        """Add encoded pages to a column; afterwards call `count_copied` with the number of rows added to every column."""
        self._flush(self._columns[column])
        for page in pages:
            self._put_page(self._columns[column], page)

    def count_copied(self, rows: int) -> None:
        """Count rows whose pages were copied to every column."""
        self._num_rows += rows

    def finish(self, metadata: Mapping[str, bytes] = MappingProxyType({}), buffers: Iterable[bytes] = ()) -> WrittenFile:
        """Write the buffered data and the metadata. The output is not closed.

        `metadata` is added to that of the schema; `buffers` are the global buffers from number 1 on.
        """
        for start in range(0, len(self._columns), _TOGETHER):
            some = self._columns[start : start + _TOGETHER]
            for column, ready in zip(some, self._format.encode_together([(c.leaf, c.waiting) for c in some])):
                self._flush(column, ready)
        self._blobs.finish()
        extra = [self._out.put_aligned(b) for b in buffers]
        table, num_sidecars = self._put_checksums()
        places = [self._out.put_aligned(self._descriptor(metadata)), *extra]
        first_metadata = self._out.size
        columns = []
        for column in self._columns:
            encoding = _column_encoding(column.is_blob and self._version == V2_0)
            columns.append(self._out.put(b"".join([encoding, *column.pages])))
        columns_at, _ = self._out.put(np.array(columns, dtype="<u8").tobytes())
        buffers_at, _ = self._out.put(np.array(places, dtype="<u8").tobytes())
        footer = FOOTER.pack(first_metadata, columns_at, buffers_at, len(places), len(columns), *self._format.footer_version, MAGIC)
        if table:
            self._out.put(checksum_trailer(table, self._out.take_sums(), num_sidecars, footer))
        self._out.put(footer)
        self._out.flush()
        ids = tuple(c.leaf.id for c in self._columns)
        return WrittenFile(ids, tuple(range(len(ids))), self._num_rows, self._out.size, self._version)

    def _descriptor(self, metadata: Mapping[str, bytes]) -> bytes:
        """The file's schema and number of rows."""
        schema = file_pb2.Schema(fields=serialise_fields(in_file(self._schema)))
        for key, value in {**self._schema.metadata, **{k.encode(): v for k, v in metadata.items()}}.items():
            schema.metadata[key.decode()] = value
        return file_pb2.FileDescriptor(schema=schema, length=self._num_rows).SerializeToString(deterministic=True)

    def _put_checksums(self) -> tuple[ByteRange | None, int]:
        """The range of the checksum table, None if there is none, and the number of sidecars in it."""
        if not available():
            return None, 0
        start, _ = self._out.put_aligned(b"")
        sums, sidecars = self._out.take_sums(), self._blobs.sums()
        self._out.put(checksum_table(start, sums, sidecars))
        stop = self._out.size
        # The magic number ends at the start of the descriptor, so that the table is found even if the trailer is lost.
        self._out.pad(-(stop + len(CHECKSUMS)) % ALIGNMENT)
        self._out.put(CHECKSUMS)
        return ByteRange(start, stop), len(sidecars)

    def _add(self, column: _LeafColumn, array: pa.Array, size: int, batch_bytes: int) -> None:
        """Buffer `array` of `size` bytes, of a batch of `batch_bytes`, for its page, in pieces no larger than a page if rows allow it."""
        count = len(array)
        if column.borrows:
            column.waiting[-1] = pa.concat_arrays([column.waiting[-1]])
        if not count and not column.waiting and not column.pages:
            column.waiting.append(array)  # a column of items gets a page even if all lists of the file are empty
        pieces = max(1, min(count, size // PAGE_BYTES))
        rows = math.ceil(count / pieces)
        for start in range(0, count, max(rows, 1)):
            column.waiting.append(array if pieces == 1 else array.slice(start, rows))
            column.waiting_bytes += size // pieces
            if column.waiting_bytes >= PAGE_BYTES:
                self._flush(column)
        # Columns from IPC share the memory of their batch: a narrow column would keep all batches in memory until its page is full.
        # So it is copied, unless the file ends with this batch.
        column.borrows = bool(column.waiting) and size < batch_bytes // 4

    def _flush(self, column: _LeafColumn, ready: EncodedPage | None = None) -> None:
        """Write what waits; `ready` is its page, if it is encoded already."""
        if not column.waiting:
            return
        array = joined(column.waiting)
        column.waiting, column.waiting_bytes, column.borrows = [], 0, False
        if not len(array) and not self._num_rows:
            return
        if ready is not None:
            self._put_page(column, ready)
            return
        first = 0
        for page in self._format.encode_pages(column.leaf, array):
            if column.bounded:
                page = replace(page, bounds=bounds_of(array.slice(first, page.num_rows)))
                first += page.num_rows
            self._put_page(column, page)

    def _put_page(self, column: _LeafColumn, page: EncodedPage) -> None:
        places = [self._out.put_aligned(np.ascontiguousarray(b).data) for b in page.buffers]
        offsets, sizes = [at for at, _ in places], [size for _, size in places]
        message = file2_pb2.ColumnMetadata.Page(
            buffer_offsets=offsets, buffer_sizes=sizes, length=page.num_rows, priority=column.rows_written, bounds=page.bounds
        )
        column.pages.append(_page_of_column(message.SerializeToString() + _page_encoding(page.encoding, page.encoding_type)))
        column.rows_written += page.num_rows


def _size(array: pa.Array) -> int:
    """The bytes of the values of an array; `nbytes`, which is exact, takes longer than writing a few values."""
    return int(len(array) * array.type.bit_width // 8 if pa.types.is_primitive(array.type) else array.nbytes)


# The metadata of a column is serialised in parts: its encoding, and each page. A message is the concatenation of its fields.


@lru_cache(2)
def _column_encoding(blobs: bool) -> bytes:
    """The field `encoding` of a ColumnMetadata: values, or blobs in 2.0; later versions mark blobs in each page."""
    encoding = encodings_v2_0_pb2.ColumnEncoding(values={})
    if blobs:
        encoding = encodings_v2_0_pb2.ColumnEncoding(blob=encodings_v2_0_pb2.Blob(inner=encoding))
    direct = _direct(encoding.SerializeToString(), "lance.encodings.ColumnEncoding")
    return file2_pb2.ColumnMetadata(encoding=direct).SerializeToString(deterministic=True)


@lru_cache(256)
def _page_encoding(message: bytes, type_name: str) -> bytes:
    """The field `encoding` of a Page."""
    return file2_pb2.ColumnMetadata.Page(encoding=_direct(message, type_name)).SerializeToString(deterministic=True)


def _page_of_column(page: bytes) -> bytes:
    """The field `pages` of a ColumnMetadata with this page: its number and type, its size as a varint, its content."""
    head, size = bytearray([2 << 3 | 2]), len(page)
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + page


def _direct(message: bytes, type_name: str) -> file2_pb2.Encoding:
    wrapped = AnyMessage(type_url=f"/{type_name}", value=message)
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=wrapped.SerializeToString()))
