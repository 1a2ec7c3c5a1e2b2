"""Fingerprints of rows: equal for equal values, however Arrow stores them, and different for different ones."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.table.backfill.fingerprints import fingerprints

S = pa.struct({"a": pa.int32(), "b": pa.string()})
CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int32(), [1, None, -1, 0]),
    "floats": (pa.float64(), [1.5, None, float("inf"), 0.0]),
    "halves": (pa.float16(), [np.float16(1.5), None, np.float16(2)]),
    "booleans": (pa.bool_(), [True, None, False]),
    "texts": (pa.string(), ["a", None, "", "ab", "a long text, longer than a block of the hash"]),
    "bytes": (pa.large_binary(), [b"a", None, b""]),
    "fixed bytes": (pa.binary(3), [b"abc", None, b"abd"]),
    "decimals": (pa.decimal128(20, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("-1.50")]),
    "dates": (pa.date32(), [datetime.date(2026, 1, 1), None, datetime.date(1970, 1, 1)]),
    "instants": (pa.timestamp("us", "UTC"), [1, None, 2]),
    "vectors": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [2.0, 1.0], [None, 1.0]]),
    "lists": (pa.list_(pa.string()), [["a", "b"], None, [], ["ab"], ["a", None], [None], [""]]),
    "lists of lists": (pa.list_(pa.list_(pa.int8())), [[[1], [2]], [[1, 2]], [[], [1, 2]], [], None]),
    "structs": (S, [{"a": 1, "b": "x"}, None, {"a": None, "b": "x"}, {"a": 1, "b": None}, {"a": None, "b": None}]),
    "maps": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, [], [("a", None)], [("a", 1), ("b", 2)]]),
    "nothing": (pa.null(), [None]),
}


@pytest.mark.parametrize(("type", "values"), CASES.values(), ids=CASES.keys())
def test_values_are_told_apart_and_found_again(type: pa.DataType, values: list[Any]) -> None:
    found = fingerprints([pa.array(values, type)])
    assert len(set(found.tolist())) == len(values)
    twice = pa.array([*values, *values], type)
    assert fingerprints([twice.slice(len(values))]).tolist() == found.tolist()
    assert fingerprints([twice.slice(1, len(values))]).tolist()[:-1] == found.tolist()[1:]
    assert len(fingerprints([pa.array([], type)])) == 0


def test_how_values_are_stored_does_not_matter() -> None:
    texts = ["a", None, "b", "a"]
    plain = fingerprints([pa.array(texts)])
    for other in (pa.array(texts).dictionary_encode(), pa.array(texts, pa.large_string())):
        assert fingerprints([other]).tolist() == plain.tolist()
    garbage = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.array([7, 99], pa.int32()).buffers()[1]])
    assert fingerprints([garbage]).tolist() == fingerprints([pa.array([7, None], pa.int32())]).tolist()


def test_columns_are_told_apart() -> None:
    a, b = pa.array(["x", "xy"]), pa.array(["yz", "z"])
    found = fingerprints([a, b])
    assert found[0] != found[1]
    assert fingerprints([b, a]).tolist() != found.tolist()


def test_fingerprints_stay_the_same_in_later_releases() -> None:
    """They are stored with tables: another hash would have every row computed again."""
    found = fingerprints([pa.array([1, None], pa.int64()), pa.array(["a", "b"])])
    assert found.tolist() == [14199449636564295788, 17891330081581164033]
