"""Files of storage 2.0 that pylance writes, opened here down to their columns, and a count of the bytes that reading asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.file.footer import read_columns, read_descriptor, read_footer
from lance_spark.reading.spans import from_rows
from lance_spark.reading.steps import Rows, run
from lance_spark.schema.schema import Field
from lance_spark.v2_0.field import open_field


def write(path: Path, array: pa.Array, page_rows: int, metadata: dict[str, str] | None = None) -> None:
    """Write `array` as column "c", with a page for about every `page_rows` rows."""
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    # With next to nothing to buffer, every batch is a page of each column.
    with LanceFileWriter(str(path), schema, version="2.0", data_cache_bytes=1) as writer:
        for start in range(0, max(len(array), 1), page_rows):
            # pylance panics about structs in structs that are slices of others; a concatenation starts at 0.
            rows = pa.concat_arrays([array.slice(start, page_rows)])
            writer.write_batch(pa.record_batch([rows], schema=schema))


class OpenFile:
    """The only field of a file, `read` being the bytes that its data took."""

    def __init__(self, path: Path) -> None:
        self._data = np.fromfile(path, dtype=np.uint8)
        footer = run(read_footer(len(self._data)), self._fetch)
        descriptor = run(read_descriptor(footer), self._fetch)
        self.field = descriptor.schema.fields[0]
        self.num_rows = descriptor.num_rows
        self.columns = dict(zip(_owners(self.field), run(read_columns(footer, range(footer.num_columns)), self._fetch), strict=True))
        self.bytes_read = 0

    def _fetch(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        self.bytes_read = getattr(self, "bytes_read", 0) + sum(stop - start for start, stop in ranges)
        return [self._data[start:stop] for start, stop in ranges]

    def read(self, rows: Rows, batch_rows: int) -> pa.Array:
        """The given rows of the field, read `batch_rows` at a time."""
        reader = open_field(self.field, self.columns, from_rows(rows), self.num_rows)
        steps = [reader.read(start, min(start + batch_rows, len(rows))) for start in range(0, max(len(rows), 1), batch_rows)]
        arrays = [run(s, self._fetch) for s in steps]
        assert {a.type for a in arrays} == {self.field.type}
        return pa.concat_arrays(arrays)


def _owners(field: Field) -> Iterator[int]:
    """The ids of the fields that own a column, in column order: every struct, list and leaf."""
    yield field.id
    if not field.is_packed:
        for child in field.children:
            yield from _owners(child)


def without_struct_nulls(array: pa.Array) -> pa.Array:
    """The array with no struct in it null, which storage 2.0 cannot say."""
    if array.offset:
        array = pa.concat_arrays([array])
    t, count = array.type, len(array)
    if pa.types.is_struct(t):
        return pa.Array.from_buffers(t, count, [None], children=[without_struct_nulls(array.field(i)) for i in range(t.num_fields)])
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.Array.from_buffers(t, count, array.buffers()[:2], children=[without_struct_nulls(array.values)])
    return array
