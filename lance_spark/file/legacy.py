"""The end of a legacy data file (storage version 0.1): footer, metadata, schema and page table, with every position checked.

The last 16 bytes are the position of the metadata (i64), the version (0.1 or 0.2) and "LANC". Metadata and schema are messages, each after
its length (u32); the schema is that of a manifest. The page table has a row for each field id from the smallest in the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from lance_spark._proto import file_pb2, table_pb2
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.steps import Steps
from lance_spark.schema.field_messages import parse_fields
from lance_spark.schema.schema import Schema
from lance_spark.v0_1.page_table import PageTable
from lance_spark.v0_1.statistics import Statistics

VERSIONS = ((0, 1), (0, 2))
"""File versions that a legacy footer shows."""

_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")
_ENTRY = 16  # bytes of one entry of the page table: i64 position, i64 length


@dataclass(frozen=True)
class LegacyFile:
    """The schema of a legacy file, its page table, and its statistics, if any."""

    schema: Schema
    pages: PageTable
    statistics: Statistics | None


def read_legacy_file(size: int) -> Steps[LegacyFile]:
    """The metadata at the end of a file of `size` bytes."""
    if size < _FOOTER.size:
        raise CorruptFileError(f"expected at least {_FOOTER.size} bytes in the file, found {size}")
    (footer,) = yield [ByteRange(size - _FOOTER.size, size)]
    position, _, _, magic = _FOOTER.unpack(footer.tobytes())
    if magic != b"LANC":
        raise CorruptFileError(f"not a Lance file: it ends with {magic!r}")
    metadata = parse_message(file_pb2.Metadata, (yield from _read_message(position, size)), "metadata")
    if not metadata.manifest_position:
        raise UnsupportedFeatureError("legacy files without a schema are not supported")
    manifest = parse_message(table_pb2.Manifest, (yield from _read_message(metadata.manifest_position, size)), "schema")
    schema = parse_fields(manifest.fields, manifest.schema_metadata)
    bounds = np.array(metadata.batch_offsets or [0], dtype=np.int64)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise CorruptFileError("expected batches that start at row 0 and do not decrease")
    pages = yield from _read_page_table(size, metadata.page_table_position, bounds, schema)
    return LegacyFile(schema, pages, (yield from _read_statistics(size, metadata.statistics, len(bounds) - 1)))


def _read_statistics(size: int, metadata: file_pb2.Metadata.StatisticsMetadata, num_batches: int) -> Steps[Statistics | None]:
    """The statistics of a file of `num_batches`; each batch is one row of them."""
    schema = parse_fields(metadata.schema, {})
    if not metadata.page_table_position or not schema.fields:
        return None
    bounds = np.array([0, num_batches], dtype=np.int64)
    return Statistics(schema, (yield from _read_page_table(size, metadata.page_table_position, bounds, schema)))


def _read_message(position: int, size: int) -> Steps[bytes]:
    """The bytes of the message at `position`, after its length."""
    if not 0 <= position <= size - _LENGTH.size:
        raise CorruptFileError(f"the metadata position {position} is outside the file of {size} bytes")
    (head,) = yield [ByteRange(position, position + _LENGTH.size)]
    (length,) = _LENGTH.unpack(head.tobytes())
    start = position + _LENGTH.size
    if length > size - start:
        raise CorruptFileError(f"the metadata of {length} bytes at {position} is not within the file of {size} bytes")
    (body,) = yield [ByteRange(start, start + length)]
    return bytes(body.tobytes())


def _read_page_table(size: int, start: int, bounds: np.ndarray, schema: Schema) -> Steps[PageTable]:
    ids = [f.id for f in schema.walk()]
    num_fields, num_batches = (max(ids) - min(ids) + 1 if ids else 0), len(bounds) - 1
    length = num_fields * num_batches * _ENTRY
    if start + length > size:
        raise CorruptFileError(
            f"the page table of {num_fields} fields and {num_batches} batches at {start} is not within the file of {size} bytes"
        )
    (table,) = yield [ByteRange(start, start + length)]
    entries = np.frombuffer(table.tobytes(), dtype="<i8").reshape(num_fields, num_batches, 2)
    dictionaries = {f.id: f.dictionary for f in schema.walk() if f.dictionary is not None}
    return PageTable(size, bounds, min(ids, default=0), entries, dictionaries)
