"""Blocks become arrays of the column's type or are refused, before allocation if a few stored bytes would expand too much."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.buffers import limits
from lance_spark.buffers.blocks import Block, FixedSizeList, FixedWidth, PackedStruct, VariableWidth
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.values import to_arrow as arrow

ITEMS = [pa.array(["x" * 900, ""]), pa.array([b"x" * 900, b""], pa.large_binary()), pa.array([b"x" * 450] * 2, pa.binary(450))]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BYTES", 10_000)
    monkeypatch.setattr(arrow, "LARGE", 100)


@pytest.mark.parametrize("items", ITEMS, ids=lambda items: str(items.type))
def test_a_dictionary_is_not_expanded_beyond_the_limit(items: pa.Array) -> None:
    assert arrow.look_up(items, pa.array([0] * 10)).equals(items.take(pa.array([0] * 10)))
    with pytest.raises(CorruptFileError, match="values of a dictionary"):
        arrow.look_up(items, pa.array([0] * 30))


def test_only_used_items_count() -> None:
    assert len(arrow.look_up(ITEMS[0], pa.array([1] * 1000))) == 1000


def test_one_value_is_not_repeated_beyond_the_limit() -> None:
    assert len(arrow.repeat(ITEMS[2][:1], 20, None)) == 20
    with pytest.raises(CorruptFileError, match="a page of one value"):
        arrow.repeat(ITEMS[2][:1], 30, None)


def words(bits: int) -> FixedWidth:
    return FixedWidth(bits, np.zeros(bits // 8, np.uint8), 1)


TEXT = VariableWidth(np.array([0, 1], np.int32), np.frombuffer(b"a", np.uint8))


@pytest.mark.parametrize(
    ("block", "t", "complaint"),
    [
        (words(16), pa.int32(), "expected values of int32.*, found values of 16 bits"),
        (words(32), pa.bool_(), "expected values of bool.*, found values of 32 bits"),
        (words(32), pa.string(), "expected values of string.*, found values of 32 bits"),
        (TEXT, pa.int32(), "expected values of int32.*, found values of variable width"),
        (FixedSizeList(words(32), 1, None), pa.list_(pa.int32(), 2), "expected values of fixed_size_list.*, found lists of 1"),
        (
            PackedStruct((words(32),)),
            pa.struct([("a", pa.int32()), ("b", pa.int32())]),
            "expected values of struct.*, found a struct of 1 children",
        ),
        (PackedStruct((words(32),)), pa.int32(), "expected values of int32.*, found a struct of 1 children"),
    ],
)
def test_values_of_another_type_are_refused(block: Block, t: pa.DataType, complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        arrow.to_array(block, t, None)


def test_more_text_than_the_type_can_hold_is_refused() -> None:
    block = VariableWidth(np.array([0, 2**31], np.int64), np.empty(0, np.uint8))
    with pytest.raises(UnsupportedFeatureError, match="a page with 2147483648 bytes of values of string is not supported"):
        arrow.to_array(block, pa.string(), None)


def test_values_that_are_not_stored_as_a_dictionary_become_one() -> None:
    got = arrow.to_array(FixedWidth(32, np.array([7, 8, 7], np.int32).view(np.uint8), 3), pa.dictionary(pa.int8(), pa.int32()), None)
    assert got.type == pa.dictionary(pa.int8(), pa.int32())
    assert got.to_pylist() == [7, 8, 7]


def test_a_column_of_null_type_accepts_any_stored_values() -> None:
    assert arrow.to_array(words(8), pa.null(), None).to_pylist() == [None]


@pytest.mark.parametrize("indices", [words(128), TEXT], ids=["wide", "text"])
@pytest.mark.parametrize("t", [pa.int32(), pa.dictionary(pa.int8(), pa.int32())], ids=str)
def test_non_numeric_indices_are_refused(indices: Block, t: pa.DataType) -> None:
    with pytest.raises(CorruptFileError, match="expected dictionary indices of 8 to 64 bits"):
        arrow.look_up_later(indices, words(32), t, None)


def test_wide_indices_are_cast_to_those_of_the_column() -> None:
    """Writers of late 2025 concatenate the dictionaries of several batches, including repeated items."""
    items = FixedWidth(32, np.tile(np.arange(120, dtype=np.uint32), 2).view(np.uint8), 240)
    indices = FixedWidth(32, np.array([0, 239, 119, 130], np.uint32).view(np.uint8), 4)
    t = pa.dictionary(pa.int8(), pa.int32())
    got = arrow.to_dictionary_array(indices, items, t, np.array([0b0111], np.uint8))
    assert got.type == t
    assert got.to_pylist() == [0, 119, 119, None]
