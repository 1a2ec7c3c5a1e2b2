"""Incompatible columns, and nested arrays that are split and joined again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.levels.assemble import leaf_of, merge, nest, paths, pick, with_leaf
from lance_spark.layouts.levels.read import Slots
from lance_spark.layouts.read_column import open_field
from lance_spark.reading.spans import all_rows
from lance_spark.reading.steps import Column, Page
from lance_spark.schema.schema import Field

A, B = Field("a", 2, "int32"), Field("b", 3, "int32")
STRUCT = Field("s", 1, "struct", children=(A, B))
LISTS = Field("l", 0, "list", children=(STRUCT,))
SIZED = Field("f", 0, "fixed_size_list:struct:2", children=(STRUCT,))
MAP = Field("m", 0, "map", children=(Field("entries", 1, "struct", children=(Field("key", 2, "string"), Field("value", 3, "int32"))),))
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())


def offsets(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("field", "slots", "complaint"),
    [
        (LISTS, (Slots(4, None), Slots(4, None)), "expected 3 layers in the page, found 2"),
        (LISTS, (Slots(4, None), Slots(4, None), Slots(2, None)), "the list layers of the page do not match those of the column at 'l'"),
        (LISTS, (Slots(4, None), Slots(4, None, offsets(0, 4)), Slots(1, None)), "do not match those of the column at 's'"),
        (LISTS, (Slots(4, None), Slots(4, None), Slots(2, None, offsets(0, 1, 5))), "expected 5 list items, found 4"),
        (LISTS, (Slots(4, None), Slots(3, None), Slots(2, None, offsets(0, 1, 4))), "expected 4 slots in a layer, found 3"),
        (SIZED, (Slots(4, None), Slots(4, None), Slots(3, None)), "expected 2 slots in a layer, found 3"),
    ],
)
def test_layers_that_do_not_fit_the_column_are_refused(field: Field, slots: tuple[Slots, ...], complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        nest(paths(field)[0], slots, NUMBERS)


def test_lists_of_lists_of_fixed_size_may_count_the_items_of_the_inner_ones() -> None:
    field = Field("l", 4, "list", children=(SIZED,))
    slots = (Slots(4, None), Slots(4, None), Slots(2, None), Slots(2, None, offsets(0, 2, 4)))
    assert nest(paths(field)[0], slots, NUMBERS).to_pylist() == [[[{"a": 1}, {"a": 2}]], [[{"a": 3}, {"a": 4}]]]


def test_columns_of_different_nesting_are_not_merged() -> None:
    with pytest.raises(CorruptFileError, match="expected values of type struct in a column of 's', found int32"):
        merge(STRUCT, [NUMBERS, NUMBERS])


def test_items_that_do_not_fill_the_last_list_of_fixed_size_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="3 items are not a multiple of the fixed list size 2"):
        nest(paths(SIZED)[0], (Slots(3, None), Slots(3, None), Slots(1, None)), NUMBERS[:3])


def test_rows_that_were_not_read_cannot_be_picked() -> None:
    assert pick(NUMBERS, all_rows(4), all_rows(0)).to_pylist() == []
    with pytest.raises(CorruptFileError, match="expected 5 rows, found 4"):
        pick(NUMBERS, all_rows(5), all_rows(1))


def of(field: Field, child: str, rows: list[Any]) -> pa.Array:
    inner = pa.struct([(child, pa.string() if child == "key" else pa.int32())])
    return pa.array(rows, pa.list_(inner) if field.logical_type in ("list", "map") else inner)


@pytest.mark.parametrize(
    ("field", "parts", "complaint"),
    [
        (STRUCT, [], "no column has values of 's'"),
        (STRUCT, [[{"a": 1}]], "no column has values of 'b'"),
        (STRUCT, [[{"a": 1}], [{"b": 1}, {"b": 2}]], r"the columns of 's' have different numbers of rows: \[1, 2\]"),
        (LISTS, [[[{"a": 1}]], [[{"b": 1}, {"b": 2}]]], "the columns of 'l' have different list lengths"),
        (MAP, [[[{"key": None}]], [[{"value": 1}]]], "a map has a null key"),
    ],
)
def test_columns_that_disagree_are_refused(field: Field, parts: list[list[Any]], complaint: str) -> None:
    names = ("key", "value") if field is MAP else ("a", "b")
    with pytest.raises(CorruptFileError, match=complaint):
        merge(field, [of(field, name, rows) for name, rows in zip(names, parts)])


ONE = pa.struct([("x", pa.int32())])
NESTED = [
    pa.array([{"x": 1}, None, {"x": 3}], ONE),
    pa.array([[{"x": 1}], None, [{"x": 2}, {"x": 3}]], pa.list_(ONE)),
    pa.array([[{"x": 1}], None, [{"x": 2}, {"x": 3}]], pa.large_list(ONE)),
    pa.array([[{"x": 1}, {"x": 2}], None, [{"x": 2}, None]], pa.list_(ONE, 2)),
]


@pytest.mark.parametrize("array", NESTED, ids=lambda array: str(array.type))
@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_leaf_is_exchanged_and_all_around_it_stays(array: pa.Array, start: int) -> None:
    part = array[start:]
    depth = 1 if pa.types.is_struct(array.type) else 2
    leaf = leaf_of(part, depth)
    assert with_leaf(part, depth, leaf).to_pylist() == part.to_pylist()
    text = with_leaf(part, depth, leaf.cast(pa.string()))
    assert text.to_pylist() == part.cast(text.type).to_pylist()


def test_a_file_without_the_column_of_a_leaf_is_refused() -> None:
    with pytest.raises(CorruptFileError, match=r"the file has no column for field 3 \('b'\)"):
        open_field(STRUCT, {2: Column((), (), "", b"")}, all_rows(0), 0)


def test_pages_that_end_within_a_row_are_refused() -> None:
    page = Page(
        0,
        3,
        (),
        "lance.encodings21.PageLayout",
        pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_ALL_VALID_ITEM] * 3)).SerializeToString(),
    )
    with pytest.raises(CorruptFileError, match="a page of 3 items is not a whole number of rows of 2 items"):
        open_field(SIZED, {leaf: Column((page,), (), "", b"") for leaf in (2, 3)}, all_rows(1), 1)
