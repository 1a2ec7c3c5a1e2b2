"""The row of lists in which a batch goes to the JVM: dictionaries become items and codes, other columns lists of their values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.read.column_lists import ColumnLists


def lists(t: pa.DataType, nullable: bool = True) -> ColumnLists:
    """Those of a batch with a column of texts, bytes or decimals."""
    values = pa.list_(pa.field("element", t, nullable))
    coded = pa.struct([pa.field("values", values, False), pa.field("codes", pa.binary(), False)])
    return ColumnLists(pa.schema([pa.field("rows", pa.int32(), False), pa.field("_0", coded, False)]))


def sent(array: pa.Array, t: pa.DataType) -> tuple[list[Any], bytes]:
    """The values and codes of a batch of one column, which Spark shows as `t`."""
    made = Conversion(pa.schema([("c", t)]), keeps_dictionaries=True).apply(pa.record_batch([array], ["c"]))
    row = lists(t).of(made)
    row.validate(full=True)
    (found,) = row.to_pylist()
    assert found["rows"] == len(array)
    return found["_0"]["values"], found["_0"]["codes"]


def test_a_dictionary_becomes_items_and_codes() -> None:
    array = pa.array(["a", "b", "a", "c", "c"]).dictionary_encode()
    assert sent(array, pa.string()) == (["a", "b", "c"], bytes([0, 1, 0, 2, 2]))
    assert sent(array.slice(1, 3), pa.string()) == (["a", "b", "c"], bytes([1, 0, 2]))
    money = pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("1.50")], pa.decimal128(5, 2)).dictionary_encode()
    assert sent(money, pa.decimal128(5, 2)) == ([Decimal("1.50"), Decimal("2.00")], bytes([0, 1, 0]))


def test_nulls_are_an_item() -> None:
    assert sent(pa.array(["a", None, "a"]).dictionary_encode(), pa.string()) == (["a", None], bytes([0, 1, 0]))
    assert sent(pa.array([None, None], pa.string()).dictionary_encode(), pa.string()) == ([None], bytes([0, 0]))


@pytest.mark.parametrize(("items", "width"), [(256, 1), (257, 2), (65536, 2)])
def test_codes_have_one_or_two_bytes(items: int, width: int) -> None:
    values, codes = sent(pa.array(np.arange(items).astype(str), pa.string()).dictionary_encode(), pa.string())
    assert len(values) == items
    assert codes == np.arange(items).astype(f"<u{width}").tobytes()


def test_columns_without_a_dictionary_have_values() -> None:
    assert sent(pa.array(["a", None, "a"]), pa.string()) == (["a", None, "a"], b"")
    assert sent(pa.array([], pa.string()).dictionary_encode(), pa.string()) == ([], b"")


def test_dictionaries_that_codes_cannot_have_become_values() -> None:
    many = pa.array(np.arange(65537).astype(str), pa.string())
    assert sent(many.dictionary_encode(), pa.string()) == (many.to_pylist(), b"")
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    assert sent(nulls, pa.string()) == (["a", None, "a"], b"")


def test_items_are_converted() -> None:
    array = pa.array([b"x", b"y", b"x"], pa.large_binary()).dictionary_encode()
    assert sent(array, pa.binary()) == ([b"x", b"y"], bytes([0, 1, 0]))
