"""Full-zip pages that no writer of today makes, put together here: large values of which all are null, with levels only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.byte_ranges import ByteRange, Bytes
from lance_spark.columns import Column, Page, Rows, run
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.column import open_field
from lance_spark.schema import Field

VECTOR = Field("c", 0, "fixed_size_list:float:2")
LISTS = Field("c", 1, "list", children=(VECTOR,))
NO_VALUE = pb.CompressiveEncoding(constant=pb.Constant())
ITEM, LIST = pb.REPDEF_NULLABLE_ITEM, pb.REPDEF_NULL_AND_EMPTY_LIST


def read(field: Field, layout: pb.FullZipLayout, buffers: list[bytes], num_rows: int, rows: Rows | None = None) -> pa.Array:
    """What a file with one column of one page of this layout holds."""
    data = np.frombuffer(b"".join(buffers), dtype=np.uint8)
    ends = np.cumsum([0] + [len(b) for b in buffers]).tolist()
    message = pb.PageLayout(full_zip_layout=layout).SerializeToString()
    page = Page(0, num_rows, tuple(map(ByteRange, ends[:-1], ends[1:])), "lance.encodings21.PageLayout", message)
    chosen = range(num_rows) if rows is None else rows

    def fetch(ranges: list[ByteRange]) -> list[Bytes]:
        return [data[start:stop] for start, stop in ranges]

    return run(open_field(field, {0: Column((page,), (), "", b"")}, chosen, num_rows).read(0, len(chosen)), fetch)


def nulls_only(**widths: int) -> pb.FullZipLayout:
    return pb.FullZipLayout(value_compression=NO_VALUE, bits_per_value=0, layers=[ITEM], **widths)


def test_a_page_of_nulls_has_no_values() -> None:
    assert read(VECTOR, nulls_only(bits_def=1), [b"\1" * 5], 5).to_pylist() == [None] * 5
    assert read(VECTOR, nulls_only(bits_def=1), [b"\1" * 5], 5, np.array([1, 4])).to_pylist() == [None] * 2


def test_a_page_of_lists_of_nulls_has_no_values() -> None:
    layout = pb.FullZipLayout(value_compression=NO_VALUE, bits_per_value=0, bits_rep=1, bits_def=2, layers=[ITEM, LIST])
    events = [(1, 1), (0, 1), (1, 2), (1, 3), (1, 1)]  # of repetition and definition
    words = bytes(repetition << 2 | definition for repetition, definition in events)
    assert read(LISTS, layout, [words, bytes([0, 2, 3, 4, 5])], 4).to_pylist() == [[None, None], None, [], [None]]
    assert read(LISTS, layout, [words, bytes([0, 2, 3, 4, 5])], 4, range(2, 4)).to_pylist() == [[], [None]]


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (nulls_only(bits_def=1), b"\1\0\1"),
        (nulls_only(), b""),
        (pb.FullZipLayout(value_compression=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=0)), bits_per_value=0, layers=[ITEM]), b""),
    ],
    ids=["one that is not null", "no levels", "no constant"],
)
def test_values_of_no_bits_are_refused_unless_all_are_null(layout: pb.FullZipLayout, data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="0 bits"):
        read(VECTOR, layout, [data], 3)
