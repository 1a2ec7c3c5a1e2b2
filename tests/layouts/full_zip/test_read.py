"""Hand-made full-zip pages that current writers do not produce: large values that are all null, and false declarations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field
from tests.layouts.pages import NUMBER, STRING, VECTOR, flat, list_of, read

LISTS = list_of(VECTOR)
NO_VALUE = pb.CompressiveEncoding(constant=pb.Constant())
ITEM, LIST = pb.REPDEF_NULLABLE_ITEM, pb.REPDEF_NULL_AND_EMPTY_LIST


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


VALID, ALL_VALID_LIST = pb.REPDEF_ALL_VALID_ITEM, pb.REPDEF_ALL_VALID_LIST
STRINGS: dict[str, Any] = {"value_compression": pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(32))), "layers": [VALID]}
NUMBERS: dict[str, Any] = {"value_compression": flat(32), "bits_per_value": 32, "layers": [VALID]}
NUMBER_LISTS: dict[str, Any] = {"value_compression": flat(32), "bits_per_value": 32, "bits_rep": 1, "layers": [VALID, ALL_VALID_LIST]}
TWO_STRINGS = b"\2\0\0\0ab\1\0\0\0c"
TWO_LISTS = b"\1abcd\0efgh\1ijkl"


def test_hand_made_pages_are_read() -> None:
    strings = pb.FullZipLayout(bits_per_offset=32, **STRINGS)
    assert read(STRING, strings, [TWO_STRINGS, bytes([0, 6, 11])], 2).to_pylist() == ["ab", "c"]
    assert read(STRING, strings, [TWO_STRINGS, bytes([0, 6, 11])], 2, range(1, 2)).to_pylist() == ["c"]
    lists = read(list_of(NUMBER), pb.FullZipLayout(**NUMBER_LISTS), [TWO_LISTS, bytes([0, 10, 15])], 2)
    assert [len(x) for x in lists] == [2, 1]


@pytest.mark.parametrize(
    ("field", "layout", "buffers", "rows", "complaint"),
    [
        (NUMBER, pb.FullZipLayout(**NUMBERS), [], None, "at least 1 buffer in a full-zip page, found 0"),
        (NUMBER, pb.FullZipLayout(bits_rep=17, **NUMBERS), [bytes(8)], None, "levels of 17 and 0 bits"),
        (NUMBER, pb.FullZipLayout(**NUMBERS), [bytes(7)], None, "expected at least 8 bytes for the rows of the page, found 7"),
        (STRING, pb.FullZipLayout(bits_per_offset=32, **STRINGS), [TWO_STRINGS], range(1), "expected a repetition index"),
        (
            STRING,
            pb.FullZipLayout(bits_per_offset=32, **STRINGS),
            [TWO_STRINGS, bytes(4)],
            range(1),
            "index has 4 bytes, an invalid size for 2 rows",
        ),
        (STRING, pb.FullZipLayout(bits_per_offset=32, **STRINGS), [TWO_STRINGS, bytes([6, 0, 11])], range(1), "decreasing offsets"),
        (STRING, pb.FullZipLayout(bits_per_offset=32, **STRINGS), [TWO_STRINGS, bytes([0, 99, 99])], range(1), "decreasing offsets"),
        (STRING, pb.FullZipLayout(bits_per_offset=24, **STRINGS), [TWO_STRINGS], None, "lengths of 24 bits"),
        (
            STRING,
            pb.FullZipLayout(bits_per_offset=32, **STRINGS),
            [TWO_STRINGS[:-1]],
            None,
            "the item at byte 6 of 10 bytes read is truncated",
        ),
        (STRING, pb.FullZipLayout(bits_per_offset=32, **STRINGS), [TWO_STRINGS[:6]], None, "expected 2 items, found 1"),
        (
            STRING,
            pb.FullZipLayout(bits_per_offset=32, **STRINGS),
            [TWO_STRINGS[:8]],
            None,
            "the item at byte 6 of 8 .* truncated",
        ),
        (
            STRING,
            pb.FullZipLayout(bits_per_offset=32, bits_def=9, **STRINGS),
            [b"\0\0" + TWO_STRINGS[:6] + b"\0"],
            None,
            "the item at byte 8 of 9 bytes read is truncated",
        ),
        (STRING, pb.FullZipLayout(bits_per_offset=32, **STRINGS), [b"\1\0\0\0\xff\1\0\0\0a"], None, "page 0: ArrowInvalid.*UTF8"),
    ],
)
def test_false_declarations_are_found(
    field: Field, layout: pb.FullZipLayout, buffers: list[bytes], rows: Rows | None, complaint: str
) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(field, layout, buffers, 2, rows)


def test_a_level_above_those_of_the_layers_is_found() -> None:
    layout = pb.FullZipLayout(bits_def=2, value_compression=flat(32), bits_per_value=32, layers=[ITEM])
    with pytest.raises(CorruptFileError, match="definition level 3 exceeds the maximum of the layers, 1"):
        read(NUMBER, layout, [b"\0abcd\3efgh"], 2)
