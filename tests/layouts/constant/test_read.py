"""Hand-made constant pages: every form of the value, and false declarations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.constant.read import scalar
from lance_spark.schema.schema import Field
from tests.layouts.pages import NUMBER, STRING, VECTOR, flat, list_of, numbers, read

ITEM, NULLABLE, LIST = pb.REPDEF_ALL_VALID_ITEM, pb.REPDEF_NULLABLE_ITEM, pb.REPDEF_ALL_VALID_LIST
MATRIX = Field("c", 0, "fixed_size_list:fixed_size_list:int32:2:2")


def u32(*values: int) -> bytes:
    return numbers(np.uint32, *values)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (NUMBER, u32(7), 7),
        (VECTOR, numbers(np.float32, 1, 2), [1, 2]),
        (MATRIX, u32(1, 2, 3, 4), [[1, 2], [3, 4]]),
        (Field("c", 0, "fixed_size_list:bool:10"), b"\1\2", [True] + [False] * 8 + [True]),
    ],
)
def test_a_value_of_fixed_width_is_in_the_message_or_in_a_buffer(field: Field, value: bytes, expected: object) -> None:
    assert read(field, pb.ConstantLayout(layers=[ITEM], inline_value=value), [], 2).to_pylist() == [expected] * 2
    assert read(field, pb.ConstantLayout(layers=[ITEM]), [u32(1, len(value)) + value], 2).to_pylist() == [expected] * 2


def test_a_string_comes_after_its_offsets() -> None:
    stored = u32(2, 8, 2) + u32(0, 2) + b"ab"
    got = read(STRING, pb.ConstantLayout(layers=[NULLABLE]), [stored, b"", numbers(np.uint16, 0, 1, 0)], 3)
    assert got.to_pylist() == ["ab", None, "ab"]


@pytest.mark.parametrize(
    "data", [b"", b"abc", u32(0), u32(3, 1, 1, 1), u32(1), u32(1, 5) + b"1234", u32(2, 8), u32(2, 8, 2) + u32(0, 2) + b"a"]
)
def test_a_buffer_without_its_declared_content_is_found(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="does not have the parts that it declares"):
        scalar(np.frombuffer(data, np.uint8), pa.string())


@pytest.mark.parametrize(
    ("field", "layout", "buffers", "complaint"),
    [
        (
            MATRIX,
            pb.ConstantLayout(layers=[ITEM], inline_value=u32(1, 2, 3)),
            [],
            "expected 4 values of int32, found 12 bytes|values of 24 bits",
        ),
        (
            Field("c", 0, "fixed_size_list:bool:10"),
            pb.ConstantLayout(layers=[ITEM], inline_value=b"\1"),
            [],
            "expected 10 values of bool, found 1 bytes",
        ),
        (list_of(NUMBER), pb.ConstantLayout(layers=[ITEM, LIST], inline_value=u32(1)), [], "a constant page of lists has no levels"),
        (
            list_of(NUMBER),
            pb.ConstantLayout(layers=[NULLABLE, LIST]),
            [numbers(np.uint16, 1, 1), numbers(np.uint16, 1)],
            "2 repetition levels but 1 definition levels",
        ),
    ],
)
def test_false_declarations_are_found(field: Field, layout: pb.ConstantLayout, buffers: list[bytes], complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(field, layout, buffers, 2)


def test_rows_and_levels_without_bytes_are_bounded() -> None:
    with pytest.raises(UnsupportedFeatureError, match="a constant page of 268435456 rows"):
        read(NUMBER, pb.ConstantLayout(layers=[ITEM], inline_value=u32(7)), [], 2**28)
    runs = pb.CompressiveEncoding(rle=pb.Rle(values=flat(16), run_lengths=flat(32)))
    with pytest.raises(UnsupportedFeatureError, match="268435456 levels"):
        read(NUMBER, pb.ConstantLayout(layers=[NULLABLE], def_compression=runs, num_def_values=2**28), [b"", bytes(20)], 2)


def test_structs_without_fields_are_only_counted() -> None:
    empty = Field("s", 0, "struct")
    layout = pb.ConstantLayout(layers=[ITEM])
    assert read(empty, layout, [], 3, range(2)).to_pylist() == [{}, {}]
    with pytest.raises(UnsupportedFeatureError, match="structs without fields in lists"):
        read(list_of(empty), layout, [], 3)
