"""Columns of one hand-made page, from its message and its buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.layouts.read_column import open_field
from lance_spark.reading.spans import from_rows
from lance_spark.reading.steps import Column, Page, Rows, run
from lance_spark.schema.schema import Field

NUMBER = Field("c", 0, "int32")
STRING = Field("c", 0, "string")
VECTOR = Field("c", 0, "fixed_size_list:float:2")


def list_of(item: Field) -> Field:
    """A list field of `item`, which is a leaf with the id 0."""
    return Field("c", 1, "list", children=(item,))


def flat(bits: int) -> pb.CompressiveEncoding:
    """The message of flat values."""
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def numbers(dtype: type, *values: int) -> bytes:
    """The bytes of these numbers."""
    return np.array(values, dtype).tobytes()


def read(
    field: Field,
    layout: pb.MiniBlockLayout | pb.FullZipLayout | pb.ConstantLayout | pb.BlobLayout | pb23.PlanarLayout,
    buffers: Sequence[bytes],
    num_rows: int,
    rows: Rows | None = None,
) -> pa.Array:
    """The values, in these rows (None: all), of a file with one column and one page of this layout."""
    data = np.frombuffer(b"".join(buffers), dtype=np.uint8)
    ends = np.cumsum([0] + [len(b) for b in buffers]).tolist()
    kind, message = "lance.encodings23.PlanarLayout", layout.SerializeToString()
    if not isinstance(layout, pb23.PlanarLayout):
        names = {pb.MiniBlockLayout: "mini_block", pb.FullZipLayout: "full_zip", pb.ConstantLayout: "constant", pb.BlobLayout: "blob"}
        page_layout = pb.PageLayout(**{f"{names[type(layout)]}_layout": layout})  # type: ignore[arg-type]
        kind, message = "lance.encodings21.PageLayout", page_layout.SerializeToString()
    page = Page(0, num_rows, tuple(map(ByteRange, ends[:-1], ends[1:])), kind, message)
    chosen = range(num_rows) if rows is None else rows

    def fetch(ranges: Sequence[ByteRange]) -> list[Bytes]:
        assert all(0 <= start <= stop <= len(data) for start, stop in ranges)
        return [data[start:stop] for start, stop in ranges]

    return run(open_field(field, {0: Column((page,), (), "", b"")}, from_rows(chosen), num_rows).read(0, len(chosen)), fetch)
