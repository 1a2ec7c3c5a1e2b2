"""Hashes and bloom filters are those of other writers, bit for bit."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_spark.arrow.split_block import BLOCK_BYTES, filter_bytes, hashes, make_filter, may_contain

VALUES = {
    "int32": pa.array([0, 1, -1, 2**31 - 1, 7], pa.int32()),
    "uint8": pa.array(range(256), pa.uint8()),
    "int64": pa.array(np.arange(9000) * 12345 - 10**7),
    "double": pa.array([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5]),
    "string": pa.array(["", "a", "é", "x" * 31, "y" * 32, "z" * 100, *(f"value {i}" for i in range(300))]),
    "binary": pa.array([b"", b"\0", bytes(range(256))]),
    "timestamp": pa.array([0, 1, -1, 10**15], pa.timestamp("us")),
    "date": pa.array([0, 20000], pa.date32()),
}


def test_hashes_are_those_of_the_specification() -> None:
    """The vectors of XXH64 with seed 0."""
    found = hashes(pa.array(["", "a", "abc", "Nobody inspects the spammish repetition"]))
    assert [hex(h) for h in found] == ["0xef46db3751d8e999", "0xd24ec4f1a98c6e5b", "0x44bc2cf5ad770999", "0xfbcea83c8a378bf1"]


def test_hashes_of_a_slice_are_those_of_its_values() -> None:
    whole = VALUES["string"]
    assert (hashes(whole)[3:7] == hashes(whole.slice(3, 4))).all()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_filters_are_those_of_pylance(values: pa.Array, tmp_path: Path) -> None:
    table = lance.write_dataset(pa.table({"v": values}), tmp_path)
    table.create_scalar_index("v", "BLOOMFILTER")
    (file,) = tmp_path.glob("_indices/*/bloomfilter.lance")
    theirs = LanceFileReader(str(file)).read_all().to_table()["bloom_filter_data"].to_pylist()
    size = filter_bytes(8192, 0.00057)
    assert theirs == [make_filter(hashes(values.slice(i, 8192)), size) for i in range(0, len(values), 8192)]


def test_a_filter_contains_what_was_inserted_and_little_else() -> None:
    there, others = hashes(pa.array(range(8192))), hashes(pa.array(range(10**6, 10**6 + 8192)))
    size = filter_bytes(8192, 0.01)
    data = np.frombuffer(make_filter(there, size) + b"" + bytes(BLOCK_BYTES), np.uint8)
    bounds = np.array([0, size, size, size + BLOCK_BYTES])
    for h in there[:50]:
        assert may_contain(data, bounds, np.array([h])).tolist() == [True, False, False]
    assert sum(may_contain(data, bounds, np.array([h]))[0] for h in others) < 0.02 * len(others)
    assert may_contain(data, bounds, np.array([others[0], there[0]]))[0]


def test_sizes_are_powers_of_two_within_limits() -> None:
    assert filter_bytes(0, 0.01) == 32
    assert filter_bytes(8192, 0.00057) == 32768
    assert filter_bytes(10**9, 1e-9) == 1 << 27
