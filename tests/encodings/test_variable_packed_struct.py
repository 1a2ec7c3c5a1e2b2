"""VariablePackedStruct: structs with strings, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import FixedWidth, VariableWidth
from lance_spark.encodings import flat, fsst, variable
from lance_spark.encodings import variable_packed_struct as packed
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import PackedField, VariablePackedStruct
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases import numbers
from tests.encodings.cases.strings import block_of, strings_of

U16_AND_STRING = VariablePackedStruct((PackedField(Flat(16), 16, False), PackedField(Variable(Flat(32)), 32, True)))
STRING_64_AND_U8 = VariablePackedStruct((PackedField(Variable(Flat(64)), 64, True), PackedField(Flat(8), 8, False)))

# name, encoding, numbers, strings, rows
ROWS = [
    ("a number, then a string", U16_AND_STRING, np.array([1, 2], np.uint16), [b"abc", b""], [b"\1\0\3\0\0\0abc", b"\2\0\0\0\0\0"]),
    ("a string with a long length, then a number", STRING_64_AND_U8, np.array([7], np.uint8), [b"xy"], [b"\2\0\0\0\0\0\0\0xy\7"]),
    ("no rows", U16_AND_STRING, np.array([], np.uint16), [], []),
]


@pytest.mark.parametrize(("node", "values", "strings", "rows"), [c[1:] for c in ROWS], ids=[c[0] for c in ROWS])
def test_rows_are_written_as_the_format_says(
    node: VariablePackedStruct, values: np.ndarray, strings: list[bytes], rows: list[bytes]
) -> None:
    children: list[FixedWidth | VariableWidth] = [
        numbers.block_of(values),
        block_of(strings, np.int32 if node is U16_AND_STRING else np.int64),
    ]
    encodings = [field.values for field in node.fields]
    if node.fields[0].variable:
        children.reverse()
    encoding, block = packed.encode_values(list(zip(encodings, children)))
    assert encoding == node
    assert strings_of(block) == rows


@pytest.mark.parametrize(("node", "values", "strings", "rows"), [c[1:] for c in ROWS], ids=[c[0] for c in ROWS])
def test_rows_are_read_as_the_format_says(node: VariablePackedStruct, values: np.ndarray, strings: list[bytes], rows: list[bytes]) -> None:
    number, string = sorted(node.decode_values(block_of(rows)).children, key=lambda child: isinstance(child, VariableWidth))
    assert numbers.bytes_of(number) == values.tobytes()
    assert strings_of(string) == strings


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**32 - 1), st.binary(max_size=9)), max_size=30))
def test_structs_come_back_with_each_child_compressed_by_itself(rows: list[tuple[bytes, int, bytes]]) -> None:
    first, number, second = (
        block_of([r[0] for r in rows]),
        np.array([r[1] for r in rows], np.uint32),
        block_of([r[2] for r in rows], np.int64),
    )
    node = fsst.train(first)
    compressed = variable.encode_values(first) if node is None else fsst.encode_values(first, node)
    children = [compressed, flat.encode_values(numbers.block_of(number)), variable.encode_values(second)]
    encoding, block = packed.encode_values(children)
    back = encoding.decode_values(block).children
    assert strings_of(back[0]) == [r[0] for r in rows]
    assert numbers.bytes_of(back[1]) == number.tobytes()
    assert strings_of(back[2]) == [r[2] for r in rows]


BAD = [
    ("no room for the number", b"\1"),
    ("no room for the length", b"\1\0\0\0\0"),
    ("a string longer than the row", b"\1\0\3\0\0\0ab"),
    ("a string shorter than the row", b"\1\0\3\0\0\0abcd"),
]


@pytest.mark.parametrize("row", [c[1] for c in BAD], ids=[c[0] for c in BAD])
def test_a_row_with_surplus_bytes_is_refused(row: bytes) -> None:
    with pytest.raises(CorruptFileError, match="row 1 "):
        U16_AND_STRING.decode_values(block_of([b"\1\0\3\0\0\0abc", row, b"\1\0\3\0\0\0abc"]))


def test_a_length_that_wraps_around_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="row 0 "):
        STRING_64_AND_U8.decode_values(block_of([b"\xff" * 8 + b"ab"]))


def test_more_rows_than_bytes_are_refused() -> None:
    with pytest.raises(CorruptFileError):
        U16_AND_STRING.decode_values(block_of([b""] * 3))


def test_invalid_descriptions_are_refused() -> None:
    with pytest.raises(CorruptFileError):
        VariablePackedStruct(())
    with pytest.raises(CorruptFileError):
        PackedField(Variable(Flat(32)), 16, True)
    with pytest.raises(UnsupportedFeatureError):
        PackedField(Flat(1), 1, False)
    with pytest.raises(CorruptFileError):
        U16_AND_STRING.decode_values(FixedWidth(8, np.zeros(2, np.uint8), 2))
