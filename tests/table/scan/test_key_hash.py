"""Sets of keys: every row with one of the keys is found, and few others."""

from __future__ import annotations

import decimal
import pickle

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.table.scan.key_hash import KeySet, key_hashes

NAN, TINY = float("nan"), float(np.float32(0.1))


def keys(*columns: pa.Array) -> KeySet:
    hashes, valid = key_hashes(columns)
    return KeySet(np.unique(hashes if valid is None else hashes[valid]))


def amounts(*values: int) -> list[decimal.Decimal]:
    return [decimal.Decimal(v) for v in values]


@pytest.mark.parametrize(
    ("wanted", "there", "found"),
    [
        (pa.array([3, None], pa.int8()), pa.array([None, 1, 3, -3, 3], pa.int64()), [2, 4]),
        (pa.array([0.0, NAN]), pa.array([-0.0, 1.0, np.float32("nan"), None], pa.float32()), [0, 2]),
        (pa.array([TINY]), pa.array([0.1, 0.2], pa.float32()), [0]),
        (pa.array(["", "a", "long " * 9]), pa.array(["a", None, "b", "", "long " * 9], pa.large_string()), [0, 3, 4]),
        (pa.array([b"\xff"]), pa.array([b"\xff", b""]), [0]),
        (pa.array(amounts(7, 10**20), pa.decimal128(30, 2)), pa.array(amounts(10**20, 8), pa.decimal128(30, 2)), [0]),
        (pa.array([5], pa.timestamp("us", "UTC")), pa.array([4, 5], pa.timestamp("us")), [1]),
        (pa.array([5], pa.date32()), pa.array([5, 4], pa.date32()), [0]),
        (pa.array([True]), pa.array([False, True, None]), [1]),
        (pa.array([], pa.int64()), pa.array([0, 1]), []),
    ],
)
def test_equal_values_are_found(wanted: pa.Array, there: pa.Array, found: list[int]) -> None:
    assert keys(wanted).find([there])[0].tolist() == found
    sliced = pa.concat_arrays([there, there]).slice(len(there))
    assert keys(wanted).find([sliced])[0].tolist() == found
    assert pickle.loads(pickle.dumps(keys(wanted))).find([there])[0].tolist() == found


def test_a_key_is_found_in_all_its_columns() -> None:
    wanted = keys(pa.array([1, 2, 3]), pa.array(["a", "b", None]))
    assert wanted.find([pa.array([1, 1, 2, 3]), pa.array(["a", "b", "b", None])])[0].tolist() == [0, 2]


def test_few_other_rows_are_found() -> None:
    numbers = np.random.default_rng(1).permutation(1_000_000)
    wanted = keys(pa.array(numbers[:50_000]))
    assert np.array_equal(np.sort(wanted.find([pa.array(numbers)])[0]), np.arange(50_000))
