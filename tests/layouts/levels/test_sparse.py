"""Hand-made sparse structures: forms that pylance does not write, and false declarations."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_spark.schema.schema import Field
from tests.layouts.pages import NUMBER, STRING, flat, list_of, numbers, read

NULL, VALID = 1, 2
SEVEN = pb23.ValuePlane(constant=pb23.ConstantValues(scalar=numbers(np.int32, 7)))
CONSTANT = pb.CompressiveEncoding(constant=pb.Constant(value=numbers(np.uint64, 0)))


def validity(meaning: int, count: int, positions: pb.CompressiveEncoding | None = None) -> pb23.SparseValidity:
    return pb23.SparseValidity(meaning=meaning, positions=positions or flat(64), num_positions=count)


def of_items(plane: pb23.ValuePlane, *layers: pb23.SparseLayer | pb23.SparseValidity) -> pb23.PlanarLayout:
    made = [pb23.SparseLayer(validity=layer) if isinstance(layer, pb23.SparseValidity) else layer for layer in layers]
    return pb23.PlanarLayout(structure=pb23.StructuralPlane(sparse=pb23.SparseStructure(layers=made)), values=plane)


def lists(num_items: int, count: int) -> pb23.SparseLayer:
    made = pb23.SparseList(
        num_child_slots=num_items, non_empty_positions=flat(64), num_non_empty_positions=count, counts=flat(64), validity=validity(NULL, 0)
    )
    return pb23.SparseLayer(list=made)


def u64(*values: int) -> bytes:
    return numbers(np.uint64, *values)


def test_hand_made_structures_are_read() -> None:
    assert read(NUMBER, of_items(SEVEN, validity(NULL, 2)), [u64(0, 2)], 4).to_pylist() == [None, 7, None, 7]
    assert read(NUMBER, of_items(SEVEN, validity(VALID, 1)), [u64(1)], 3).to_pylist() == [None, 7, None]
    layout = of_items(SEVEN, lists(3, 2), validity(NULL, 0))
    assert read(list_of(NUMBER), layout, [u64(0, 2), u64(1, 2), b"", b""], 3).to_pylist() == [[7], [], [7, 7]]


CHUNKED = pb23.ValuePlane(chunked=pb23.Chunked(value=flat(32), num_buffers=1))
CHUNKS = [numbers(np.uint32, 2 << 4 | 1, 2 << 4), (numbers(np.uint16, 0, 8, 0, 0) + numbers(np.int32, 1, 2, 0, 0)) * 2]


@pytest.mark.parametrize(("nulls", "expected"), [((), [1, 2, 1, 2]), ((1, 2), [1, None, None, 2])])
def test_some_rows_of_chunks_have_their_part_of_the_structure(nulls: tuple[int, ...], expected: list[int | None]) -> None:
    layout = of_items(CHUNKED, validity(NULL, len(nulls)))
    for rows in (range(4), range(1), range(1, 3), range(3, 4)):
        assert read(NUMBER, layout, [*CHUNKS, u64(*nulls)], 4, rows).to_pylist() == expected[rows.start : rows.stop]


LISTS = list_of(NUMBER)
TWO = of_items(SEVEN, lists(3, 2), validity(NULL, 0))


@pytest.mark.parametrize(
    ("field", "layout", "buffers", "complaint"),
    [
        (NUMBER, of_items(SEVEN, validity(NULL, 1)), [], "expected 1 buffers of structure, found 0"),
        (NUMBER, of_items(SEVEN, validity(NULL, 4)), [u64(0, 1, 2, 3)], "4 positions for 3 slots"),
        (NUMBER, of_items(SEVEN, validity(NULL, 2)), [u64(1, 0)], "positions that do not increase, or are outside its 3 slots"),
        (NUMBER, of_items(SEVEN, validity(NULL, 2)), [u64(1, 1)], "positions that do not increase, or are outside its 3 slots"),
        (NUMBER, of_items(SEVEN, validity(NULL, 2)), [u64(0, 3)], "positions that do not increase, or are outside its 3 slots"),
        (NUMBER, of_items(SEVEN, validity(NULL, 2)), [u64(2**63, 1)], "positions that do not increase, or are outside its 3 slots"),
        (NUMBER, of_items(SEVEN, validity(NULL, 2, flat(32))), [u64(0, 1)], "expected 2 numbers of 64 bits"),
        (LISTS, TWO, [u64(0, 2), u64(1, 1), b"", b""], "add up to 3 items"),
        (LISTS, TWO, [u64(0, 2), u64(0, 3), b"", b""], "add up to 3 items"),
        (LISTS, TWO, [u64(0, 2), u64(2**63 + 1, 2**63 + 2), b"", b""], "add up to 3 items"),
    ],
)
def test_false_declarations_are_found(field: Field, layout: pb23.PlanarLayout, buffers: list[bytes], complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(field, layout, buffers, 3)


@pytest.mark.parametrize(
    ("layout", "num_rows"),
    [(of_items(SEVEN, validity(NULL, 0, CONSTANT)), 2**28), (of_items(SEVEN, lists(2**28, 1), validity(NULL, 0)), 1)],
)
def test_slots_without_bytes_are_bounded(layout: pb23.PlanarLayout, num_rows: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"a (constant )?page of \d+ rows"):
        read(NUMBER if num_rows > 1 else LISTS, layout, [], num_rows)


ZIPPED = pb23.Zipped(value=flat(32), bits_per_value=32, num_items=2)
STRINGS = pb23.Zipped(value=pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(32))), bits_per_offset=32, num_items=2)
TWO_STRINGS = b"\2\0\0\0ab\1\0\0\0c"


def test_large_values_are_those_of_the_valid_slots() -> None:
    values = pb23.ValuePlane(zipped=ZIPPED)
    assert read(NUMBER, of_items(values, validity(NULL, 1)), [numbers(np.int32, 5, 6), u64(1)], 3).to_pylist() == [5, None, 6]
    assert read(NUMBER, of_items(values, validity(NULL, 0)), [numbers(np.int32, 5, 6), b""], 2).to_pylist() == [5, 6]
    strings = pb23.ValuePlane(zipped=STRINGS)
    assert read(STRING, of_items(strings, validity(NULL, 1)), [TWO_STRINGS, b"", u64(0)], 3).to_pylist() == [None, "ab", "c"]


def test_indices_are_numbers_of_items() -> None:
    values = pb23.ValuePlane(indexed=pb23.Indexed(indices=flat(32), items=STRINGS))
    buffers = [numbers(np.uint32, 1, 0, 1), TWO_STRINGS, b"", u64(1)]
    assert read(STRING, of_items(values, validity(NULL, 1)), buffers, 3).to_pylist() == ["c", None, "c"]


@pytest.mark.parametrize(
    ("plane", "buffers", "error", "complaint"),
    [
        (pb23.ValuePlane(zipped=ZIPPED), [bytes(8), u64(1)], CorruptFileError, "2 valid values|3 valid values, found 2"),
        (
            pb23.ValuePlane(indexed=pb23.Indexed(indices=flat(32), items=STRINGS)),
            [bytes(12)],
            CorruptFileError,
            "at least 3 buffers in an indexed page, found 1",
        ),
        (
            pb23.ValuePlane(indexed=pb23.Indexed(indices=flat(32), items=STRINGS)),
            [bytes(8), TWO_STRINGS, b"", b""],
            CorruptFileError,
            "holds 4 values: expected a buffer of 16 bytes",
        ),
    ],
)
def test_values_that_are_not_as_many_as_the_slots_are_found(
    plane: pb23.ValuePlane, buffers: list[bytes], error: type[LanceError], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        read(NUMBER if plane.HasField("zipped") else STRING, of_items(plane, validity(NULL, 1 if len(buffers) == 2 else 0)), buffers, 4)
