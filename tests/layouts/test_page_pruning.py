"""The possible values of a page, known without decoding its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.layouts.page_pruning import MAX_ITEMS, distinct_values
from lance_spark.reading.steps import Column, Page, run
from lance_spark.schema.schema import Field
from tests.layouts.pages import NUMBER, STRING, flat, numbers

ITEM, LIST = pb.REPDEF_NULLABLE_ITEM, pb.REPDEF_ALL_VALID_LIST
ITEMS = numbers(np.int32, 5, 6)
TEXT = numbers(np.uint32, 2, 8, 2, 0, 2) + b"ab"


def mini_block(count: int, *layers: int) -> pb.PageLayout:
    dictionary = flat(32) if count else None
    return pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(layers=layers or [ITEM], dictionary=dictionary, num_dictionary_items=count))  # type: ignore[arg-type]


def constant(value: bytes | None = None, *layers: int) -> pb.PageLayout:
    return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers or [ITEM], inline_value=value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "layout", "buffers", "expected"),
    [
        (NUMBER, mini_block(2), [b"", b"", ITEMS], [5, 6, None]),
        (NUMBER, constant(ITEMS[:4]), [], [5, None]),
        (STRING, constant(), [TEXT], ["ab", None]),
        (NUMBER, constant(), [], [None]),
        (NUMBER, mini_block(0), [b"", b""], None),
        (NUMBER, mini_block(2), [b"", b""], None),
        (NUMBER, mini_block(MAX_ITEMS + 1), [b"", b"", ITEMS], None),
        (NUMBER, mini_block(2, ITEM, LIST), [b"", b"", ITEMS], None),
        (Field("c", 0, "dict:int32:int8:false"), mini_block(2), [b"", b"", ITEMS], None),
        (NUMBER, pb.PageLayout(full_zip_layout=pb.FullZipLayout(layers=[ITEM], value_compression=flat(32))), [ITEMS], None),
    ],
)
def test_values_are_those_that_the_layout_says(
    field: Field, layout: pb.PageLayout, buffers: list[bytes], expected: list[object] | None
) -> None:
    if layout.HasField("mini_block_layout"):
        layout.mini_block_layout.value_compression.CopyFrom(flat(8))
    data = np.frombuffer(b"".join(buffers), np.uint8)
    ends = np.cumsum([0] + [len(b) for b in buffers]).tolist()
    page = Page(0, 9, tuple(map(ByteRange, ends[:-1], ends[1:])), "lance.encodings21.PageLayout", layout.SerializeToString())
    (got,) = run(distinct_values(field, Column((page,), (), "", b"")), lambda ranges: [data[a:b] for a, b in ranges])
    assert (got if got is None else got.to_pylist()) == expected
    assert got is None or got.type == (pa.string() if field is STRING else pa.int32())
