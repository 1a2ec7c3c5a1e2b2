"""The positions of the ones of a bitmap are those that numpy finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.kernels.bits import ones


@given(st.lists(st.integers(0, 2**64 - 1), max_size=9))
def test_positions_of_ones(words: list[int]) -> None:
    bits = np.unpackbits(np.array(words, "<u8").view(np.uint8), bitorder="little")
    found = ones(np.array(words, np.uint64), int(bits.sum()))
    assert found.tolist() == np.flatnonzero(bits).tolist()


@pytest.mark.parametrize("counted", [0, 1, 3])
def test_a_wrong_count_is_noticed(counted: int) -> None:
    with pytest.raises(AssertionError, match="counted"):
        ones(np.array([1 << 63, 1], np.uint64), counted)
