"""Levels are those of the specification: compared with a plain recursive walk over Python values, and with its own example."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto.encodings_v2_1_pb2 import RepDefLayer
from lance_spark.buffers.blocks import FixedWidth
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.layouts.levels.shred import Shredded, shred, split
from lance_spark.schema.schema import from_arrow
from tests.arrays import ArrayMaker


def shred_only_leaf(array: pa.Array) -> Shredded:
    field = from_arrow(pa.schema([pa.field("c", array.type)])).fields[0]
    (leaf,) = field.leaves()
    (part,) = split(field, array)
    return shred(leaf, part)


def test_the_example_of_the_specification() -> None:
    rows = [[[[0, 1], [], [2]], [[3]], []], [], [[[4]]]]
    page = shred_only_leaf(pa.array(rows, pa.list_(pa.list_(pa.list_(pa.int32())))))
    assert page.repetition is not None
    # The specification's table leaves out that the second row, which is empty, is an event too.
    assert page.repetition.tolist() == [3, 0, 1, 1, 2, 2, 3, 3]
    assert page.layers == (
        RepDefLayer.REPDEF_ALL_VALID_ITEM,
        RepDefLayer.REPDEF_EMPTYABLE_LIST,
        RepDefLayer.REPDEF_EMPTYABLE_LIST,
        RepDefLayer.REPDEF_EMPTYABLE_LIST,
    )
    assert page.definition is not None
    assert page.definition.tolist() == [0, 0, 1, 0, 0, 2, 3, 0]
    assert isinstance(page.values, FixedWidth)
    assert page.values.view(np.int32).tolist() == [0, 1, 2, 3, 4]


def test_null_comes_before_empty_and_inner_layers_before_outer_ones() -> None:
    t = pa.struct([("a", pa.list_(pa.int8()))])
    page = shred_only_leaf(pa.array([{"a": [1, None]}, {"a": []}, {"a": None}, None], t))
    assert page.layers == (
        RepDefLayer.REPDEF_NULLABLE_ITEM,
        RepDefLayer.REPDEF_NULL_AND_EMPTY_LIST,
        RepDefLayer.REPDEF_NULLABLE_ITEM,
    )
    assert page.definition is not None
    assert page.definition.tolist() == [0, 1, 3, 2, 4]
    assert (page.num_events, page.num_visible, page.max_visible) == (5, 2, 1)


def test_the_items_of_null_lists_are_left_out() -> None:
    offsets, valid = pa.array([0, 2, 4, 6], pa.int32()), pa.py_buffer(b"\x05")
    items = pa.array([1, 2, 3, 4, 5, 6], pa.int64())
    page = shred_only_leaf(pa.Array.from_buffers(pa.list_(pa.int64()), 3, [valid, offsets.buffers()[1]], children=[items]))
    assert isinstance(page.values, FixedWidth)
    assert page.values.view(np.int64).tolist() == [1, 2, 5, 6]


def walk(t: pa.DataType, values: list[object]) -> tuple[list[int], list[object]]:
    """Repetition levels, and for each event the leaf or the depth and kind of its end."""
    depth = str(t).count("list")
    repetition: list[int] = []
    found: list[object] = []

    def go(t: pa.DataType, value: object, level: int, layer: int, rest: int) -> None:
        if pa.types.is_struct(t):
            if value is None:
                repetition.append(level)
                found.append(("null", layer))
            else:
                go(t.field(0).type, value["f"], level, layer + 1, rest)  # type: ignore[index]
        elif pa.types.is_list(t):
            if not value:
                repetition.append(level)
                found.append(("null" if value is None else "empty", layer))
                return
            for i, item in enumerate(value):  # type: ignore[arg-type, var-annotated]
                go(t.value_type, item, level if i == 0 else rest - 1, layer + 1, rest - 1)
        else:
            repetition.append(level)
            found.append(value if value is not None else ("null", layer))

    for value in values:
        go(t, value, depth, 0, depth)
    return repetition, found


def kinds_outside_in(t: pa.DataType) -> list[bool]:
    """Whether each layer is a list."""
    kinds = []
    while pa.types.is_struct(t) or pa.types.is_list(t):
        kinds.append(pa.types.is_list(t))
        t = t.field(0).type
    return kinds


def nulls_around(kinds: list[bool], ways: set[tuple[str, int]], layer: int) -> bool:
    """Whether a struct directly around this layer has a null."""
    outer = layer
    while outer and not kinds[outer - 1]:
        outer -= 1
    return any(("null", i) in ways for i in range(outer, layer))


def nestings() -> st.SearchStrategy[pa.DataType]:
    return st.lists(st.booleans(), max_size=4).map(nest)


def nest(lists: list[bool]) -> pa.DataType:
    t: pa.DataType = pa.int16()
    for is_list in lists:
        t = pa.list_(t) if is_list else pa.struct([("f", t)])
    return t


@given(t=nestings(), seed=st.integers(0, 2**32), count=st.integers(0, 40), nulls=st.sampled_from([0, 0.2, 0.6]))
def test_levels_are_those_of_a_plain_walk(t: pa.DataType, seed: int, count: int, nulls: float) -> None:
    array = ArrayMaker(seed, nulls, 2).sliced(t, count)
    page = shred_only_leaf(array)
    repetition, found = walk(t, array.to_pylist())
    if page.repetition is None:
        assert "list" not in str(t)
    else:
        assert page.repetition.tolist() == repetition
    levels = page.definition.tolist() if page.definition is not None else [0] * page.num_events
    assert len(levels) == len(found)
    # Each way to end has a level of its own; deeper layers have lower levels, and in a layer null comes before empty.
    # A layer in a struct that is null somewhere has a level for null, used or not.
    kinds = kinds_outside_in(t)
    ways = {e for e in found if isinstance(e, tuple)}
    for layer in range(len(kinds) + 1):
        if layer and not kinds[layer - 1] and nulls_around(kinds, ways, layer):
            ways.add(("null", layer))
    ends = sorted(ways, key=lambda e: (-e[1], e[0] == "empty"))
    numbers = {end: i + 1 for i, end in enumerate(ends)}
    assert levels == [numbers[e] if isinstance(e, tuple) else 0 for e in found]
    if page.values is not None:
        assert isinstance(page.values, FixedWidth)
        visible = [e for e, level in zip(found, levels) if level <= page.max_visible]
        values = page.values.view(np.int16).tolist()
        assert [v for v, e in zip(values, visible) if not isinstance(e, tuple)] == [e for e in visible if not isinstance(e, tuple)]
        assert len(values) == len(visible) == page.num_visible


def test_the_items_of_null_lists_beside_empty_lists_are_left_out() -> None:
    valid, offsets = pa.py_buffer(b"\x05"), pa.array([0, 2, 4, 6], pa.int32())
    inner = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [valid, offsets.buffers()[1]], children=[pa.array([1, 2, 3, 4, 5, 6])])
    page = shred_only_leaf(pa.ListArray.from_arrays(pa.array([0, 0, 3], pa.int32()), inner))
    assert isinstance(page.values, FixedWidth)
    assert page.values.view(np.int64).tolist() == [1, 2, 5, 6]


def test_arrays_of_extension_types_are_their_storage() -> None:
    (field,) = from_arrow(pa.schema([pa.field("c", pa.binary(16))])).fields
    (part,) = split(field, pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16))))
    assert part.type == pa.binary(16)


def test_arrays_of_another_type_than_the_column_are_refused() -> None:
    (field,) = from_arrow(pa.schema([pa.field("c", pa.int32())])).fields
    with pytest.raises(SchemaMismatchError, match="column 'c': expected type int32, found string"):
        list(split(field, pa.array(["a"])))


def test_columns_of_too_many_layers_are_refused() -> None:
    array = pa.array([1])
    for _ in range(70):
        array = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array)
    with pytest.raises(UnsupportedFeatureError, match="nested more than"):
        shred_only_leaf(array)
