"""Repetition and definition levels -> validity and offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.levels.read import Slots, unravel
from lance_spark.layouts.nodes.page_layouts import Dense, Layer

ITEM = Layer(False, 0, 0)


def u16(*values: int) -> np.ndarray:
    return np.array(values, np.uint16)


def valid(slots: Slots) -> list[bool]:
    if slots.validity is None:
        return [True] * slots.count
    return [bool(b) for b in np.unpackbits(slots.validity, count=slots.count, bitorder="little")]


def test_the_definition_levels_of_the_specification() -> None:
    """The example of the file encoding page: {middle: {inner: 1}}, null, {middle: null}, {middle: {inner: null}}."""
    structure = Dense((Layer(False, 1, 0), Layer(False, 2, 0), Layer(False, 3, 0)))
    inner, middle, outer = unravel(structure, None, u16(0, 3, 2, 1), 4)
    assert valid(inner) == [True, False, False, False]
    assert valid(middle) == [True, False, False, True]
    assert valid(outer) == [True, False, True, True]


def test_the_repetition_levels_of_the_specification() -> None:
    """The example of the file encoding page: [{<0,1>, <>, <2>}, {<3>}, {}], [], [{<4>}]."""
    structure = Dense((ITEM, Layer(True, 0, 1), Layer(True, 0, 2), Layer(True, 0, 3)))
    items, inner, middle, outer = unravel(structure, u16(3, 0, 1, 1, 2, 2, 3, 3), u16(0, 0, 1, 0, 0, 2, 3, 0), 8)
    assert items.count == 5
    assert [list(s.offsets) for s in (inner, middle, outer) if s.offsets is not None] == [[0, 2, 2, 3, 4, 5], [0, 3, 4, 4, 5], [0, 3, 3, 4]]


def test_a_null_list_comes_before_an_empty_one_in_the_levels_of_a_layer() -> None:
    structure = Dense((Layer(False, 1, 0), Layer(True, 2, 3)))
    items, lists = unravel(structure, u16(1, 1, 1, 0, 1), u16(2, 3, 0, 1, 0), 5)
    assert valid(lists) == [False, True, True, True]
    assert lists.offsets is not None
    assert lists.offsets.tolist() == [0, 0, 0, 2, 3]
    assert valid(items) == [True, False, True]


def test_a_null_struct_around_a_list_leaves_no_item_and_one_inside_leaves_one() -> None:
    structure = Dense((ITEM, Layer(False, 1, 0), Layer(True, 0, 0), Layer(False, 2, 0)))
    items, inside, lists, around = unravel(structure, u16(1, 1, 0), u16(2, 1, 0), 3)
    assert (items.count, inside.count, lists.count, around.count) == (2, 2, 2, 2)
    assert (valid(inside), valid(around)) == ([False, True], [False, True])


def test_more_layers_than_any_schema_has_are_refused() -> None:
    structure = Dense(tuple(Layer(True, 2 * i + 1, 2 * i + 2) for i in range(500)))
    with pytest.raises(UnsupportedFeatureError, match="500 layers"):
        unravel(structure, u16(500), u16(0), 1)


LISTS: st.SearchStrategy[Any] = st.lists(
    st.none() | st.lists(st.none() | st.lists(st.none() | st.just({"x": None}) | st.just({"x": 1}), max_size=3), max_size=3), max_size=8
)


def levels_of(rows: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The levels of lists of lists of structs, one event at a time; of definition leaf 1, struct 2, inner list 3 and 4, outer 5 and 6."""
    events = []
    for row in rows:
        repetition = 2
        for inner in row or [None]:
            for item in (inner if row else None) or [None]:
                if not row:
                    definition = 5 if row is None else 6
                elif not inner:
                    definition = 3 if inner is None else 4
                else:
                    definition = 2 if item is None else 1 if item["x"] is None else 0
                events.append((repetition, definition))
                repetition = 0
            repetition = 1
    return u16(*(r for r, _ in events)), u16(*(d for _, d in events))


@given(LISTS)
def test_levels_made_one_by_one_are_the_offsets_and_validity_of_arrow(rows: list[Any]) -> None:
    structure = Dense((Layer(False, 1, 0), Layer(False, 2, 0), Layer(True, 3, 4), Layer(True, 5, 6)))
    repetition, definition = levels_of(rows)
    slots = unravel(structure, repetition, definition, len(repetition))
    leaf = pa.Array.from_buffers(
        pa.int8(), slots[0].count, [pa.py_buffer(slots[0].validity), pa.py_buffer(np.ones(slots[0].count, np.int8))]
    )
    struct = pa.Array.from_buffers(pa.struct([("x", pa.int8())]), slots[1].count, [pa.py_buffer(slots[1].validity)], children=[leaf])
    array = struct
    for layer in slots[2:]:
        buffers = [pa.py_buffer(layer.validity), pa.py_buffer(layer.offsets)]
        array = pa.Array.from_buffers(pa.list_(array.type), layer.count, buffers, children=[array])
    array.validate(full=True)
    assert array.to_pylist() == rows


@pytest.mark.parametrize(
    ("repetition", "definition"),
    [
        pytest.param(u16(0, 1), u16(0, 0), id="the first event continues a list"),
        pytest.param(u16(1, 2), u16(0, 0), id="a repetition level too high"),
        pytest.param(u16(1, 0), u16(0, 9), id="a definition level too high"),
        pytest.param(None, u16(0), id="lists without repetition levels"),
    ],
)
def test_meaningless_levels_are_refused(repetition: np.ndarray | None, definition: np.ndarray) -> None:
    with pytest.raises(CorruptFileError):
        unravel(Dense((ITEM, Layer(True, 1, 2))), repetition, definition, len(definition))


def test_a_list_that_goes_on_after_a_null_outer_list_is_refused() -> None:
    structure = Dense((ITEM, Layer(True, 0, 0), Layer(True, 1, 0)))
    with pytest.raises(CorruptFileError, match="before the first list starts"):
        unravel(structure, u16(2, 0, 1), u16(1, 0, 0), 3)
