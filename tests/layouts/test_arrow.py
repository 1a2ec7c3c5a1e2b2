"""What a few stored bytes would become too much of is refused before it is made; dictionaries become what the column is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings import limits
from lance_spark.encodings.blocks import FixedWidth
from lance_spark.errors import CorruptFileError
from lance_spark.layouts import arrow

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


def test_what_counts_are_the_items_that_are_used() -> None:
    assert len(arrow.look_up(ITEMS[0], pa.array([1] * 1000))) == 1000


def test_one_value_is_not_repeated_beyond_the_limit() -> None:
    assert len(arrow.repeat(ITEMS[2][:1], 20, None)) == 20
    with pytest.raises(CorruptFileError, match="a page of one value"):
        arrow.repeat(ITEMS[2][:1], 30, None)


def test_indices_wider_than_those_of_the_column_are_made_to_fit() -> None:
    """Writers of late 2025 put the dictionaries of several batches together, repeated items and all."""
    items = FixedWidth(32, np.tile(np.arange(120, dtype=np.uint32), 2).view(np.uint8), 240)
    indices = FixedWidth(32, np.array([0, 239, 119, 130], np.uint32).view(np.uint8), 4)
    t = pa.dictionary(pa.int8(), pa.int32())
    got = arrow.to_dictionary_array(indices, items, t, np.array([0b0111], np.uint8))
    assert got.type == t
    assert got.to_pylist() == [0, 119, 119, None]
