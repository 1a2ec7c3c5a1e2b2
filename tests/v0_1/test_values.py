"""Hand-made pages of legacy files with false declarations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.reading.steps import run
from lance_spark.schema.schema import Field
from lance_spark.v0_1.field import open_field
from lance_spark.v0_1.page_table import PageTable

pytestmark = pytest.mark.spec("format-document.md", "File Encodings")

NUMBER, STRING, DICTIONARY = Field("c", 0, "int32"), Field("c", 0, "string"), Field("c", 0, "dict:string:int8:false")
LISTS = Field("c", 0, "list", children=(Field("item", 1, "int8"),))


def read(field: Field, data: bytes, *positions: int, dictionary: tuple[int, int] = (0, 0)) -> pa.Array:
    """The two rows of a file with these bytes, whose fields have their pages at these positions."""
    entries = np.array([[[position, 2]] for position in positions], np.int64)
    pages = PageTable(len(data), np.array([0, 2]), 0, entries, {field.id: dictionary})
    array = np.frombuffer(data, np.uint8)
    return run(open_field(field, pages, range(2)).read(0, 2), lambda ranges: [array[start:stop] for start, stop in ranges])


def i64(*values: int) -> bytes:
    return np.array(values, np.int64).tobytes()


def i32(*values: int) -> bytes:
    return np.array(values, np.int32).tobytes()


def test_hand_made_pages_are_read() -> None:
    assert read(NUMBER, b"...." + i32(7, 8), 4).to_pylist() == [7, 8]
    assert read(STRING, b"abc" + i64(0, 1, 3), 3).to_pylist() == ["a", "bc"]
    assert read(LISTS, i32(0, 1, 3) + b"\1\2\3", 0, 12).to_pylist() == [[1], [2, 3]]
    assert read(DICTIONARY, b"\1\0ab" + i64(2, 3, 4), 0, dictionary=(4, 2)).to_pylist() == ["b", "a"]


@pytest.mark.parametrize(
    ("field", "data", "positions", "dictionary", "complaint"),
    [
        (NUMBER, i32(7, 8), (9,), (0, 0), "page position 9 is outside the file of 8 bytes"),
        (NUMBER, i32(7, 8), (-1,), (0, 0), "page position -1 is outside the file of 8 bytes"),
        (NUMBER, i32(7, 8), (4,), (0, 0), "expected 2 values of 32 bits, found a buffer of 4 bytes"),
        (NUMBER, i32(7, 8), (), (0, 0), "the page table has no field 0"),
        (STRING, b"abc" + i64(0, 1, 99), (3,), (0, 0), "strings at bytes 0 to 99 are outside the file of 27 bytes"),
        (STRING, b"abc" + i64(-1, 1, 3), (3,), (0, 0), "strings at bytes -1 to 3 are outside the file of 27 bytes"),
        (STRING, b"abc" + i64(0, 2, 1), (3,), (0, 0), "decreasing offsets"),
        (STRING, b"a\xff\xff" + i64(0, 1, 3), (3,), (0, 0), "UTF8"),
        (LISTS, i32(0, 1, 999), (0, 12), (0, 0), "999 list items do not fit a file of 12 bytes"),
        (LISTS, i32(0, 2, 1) + b"\1\2\3", (0, 12), (0, 0), "lists have decreasing offsets"),
        (LISTS, i32(-1, 0, 1) + b"\1\2\3", (0, 12), (0, 0), "lists have decreasing offsets"),
        (DICTIONARY, b"\1\0ab" + i64(2, 3, 4), (0,), (4, 99), "a dictionary of 99 values does not fit a file of 28 bytes"),
        (DICTIONARY, b"\1\0ab" + i64(2, 3, 4), (0,), (4, -1), "a dictionary of -1 values"),
        (DICTIONARY, b"\2\0ab" + i64(2, 3, 4), (0,), (4, 2), "index 2 is out of bounds: the dictionary has 2 items"),
    ],
)
def test_false_declarations_are_found(
    field: Field, data: bytes, positions: tuple[int, ...], dictionary: tuple[int, int], complaint: str
) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(field, data, *positions, dictionary=dictionary)
