"""Dictionaries with as many items as their indices can count are read by both libraries, or refused by name when they are written."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError

MOST = {"int8": 1 << 7, "uint8": 1 << 8, "int16": 1 << 15, "uint16": 1 << 16, "int32": 300}
"""Items that indices of a type can count; for the last one, just some."""


def column(index_type: str, items: int, nulls: str) -> pa.DictionaryArray:
    """A column that refers to each item once; nulls are in the indices or are an item."""
    values = [f"item {i}" for i in range(items - (nulls == "an item"))] + [None] * (nulls == "an item")
    numbers = [*range(items), *[None] * (nulls == "indices")]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, index_type), pa.array(values))


@pytest.mark.parametrize("version", ["2.0", *(pytest.param(later, marks=pytest.mark.slow) for later in ("2.1", "2.2"))])
@pytest.mark.parametrize("nulls", ["none", "indices", "an item"])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("index_type", [pytest.param(name, marks=pytest.mark.slow) if MOST[name] > 10_000 else name for name in MOST])
def test_full_dictionaries(tmp_path: Path, index_type: str, left: int, nulls: str, version: str) -> None:
    dictionary = column(index_type, MOST[index_type] - left, nulls)
    rows = pa.table({"d": dictionary, "id": range(len(dictionary))})
    if index_type != "int32" and (left, nulls, version) == (0, "indices", "2.0"):
        with pytest.raises(
            UnsupportedFeatureError, match=f"column 'd': .* items, including null, are too many for indices of the type {index_type}"
        ):
            Dataset.write(tmp_path / "ours", rows, data_storage_version=version)
        with pytest.raises(OSError, match="dictionary indices use"):
            lance.write_dataset(rows, tmp_path / "theirs", data_storage_version=version)
        return
    Dataset.write(tmp_path / "ours", rows, data_storage_version=version)
    assert Dataset.open(tmp_path / "ours").verify().ok
    lance.write_dataset(rows, tmp_path / "theirs", data_storage_version=version)
    for writer in ("ours", "theirs"):
        ours, theirs = Dataset.open(tmp_path / writer).to_table(), lance.dataset(tmp_path / writer).to_table()
        assert ours["d"].to_pylist() == theirs["d"].to_pylist() == dictionary.to_pylist()


def test_a_null_item_serves_the_null_indices(tmp_path: Path) -> None:
    items = pa.array([*(f"item {i}" for i in range(127)), None])
    dictionary = pa.DictionaryArray.from_arrays(pa.array([*range(128), None], pa.int8()), items)
    Dataset.write(tmp_path, pa.table({"d": dictionary}), data_storage_version="2.0")
    assert (
        lance.dataset(tmp_path).to_table()["d"].to_pylist() == Dataset.open(tmp_path).to_table()["d"].to_pylist() == dictionary.to_pylist()
    )
