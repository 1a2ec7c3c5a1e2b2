"""Remainders of many integers by one are those of Python's exact integers, with the sign of the dividend, for every width and any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.kernels.remainders import remainders


@pytest.mark.parametrize("t", [np.int8, np.int16, np.int32, np.int64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("times", [1, 4096], ids=["few", "many"])
@given(data=st.data())
def test_remainders_are_exact(t: type[np.signedinteger], times: int, data: st.DataObject) -> None:
    least, most = int(np.iinfo(t).min), int(np.iinfo(t).max)
    near = [2**52 - 1, 2**52, 2**53 + 1, -(2**52), least, most]
    numbers = st.one_of(st.sampled_from([n for n in near if least <= n <= most]), st.integers(least, most))
    values = data.draw(st.lists(st.one_of(numbers, st.integers(-100, 100)), min_size=1, max_size=9))
    divisor = data.draw(st.one_of(numbers, st.sampled_from([-1, 1, 3, 100]))) or 7
    found = remainders(np.tile(np.array(values, t), times), divisor)
    expected = [abs(v) % abs(divisor) * (1 if v >= 0 else -1) for v in values]
    assert found.dtype == t
    assert (found.reshape(times, -1) == expected).all()


def test_multiples_and_their_neighbours_below_the_largest_exact_size() -> None:
    for divisor in (3, 7, 10, 99_991, 2**26 + 1, 2**51 + 1, 2**52 - 1):
        multiples = (2**52 - 2) // divisor * divisor - divisor * np.arange(min(3000, 2**52 // divisor - 1))
        values = np.concatenate([multiples + step for step in (-1, 0, 1)])
        values = np.resize(np.concatenate([values, -values]), 10_000)
        assert (remainders(values, divisor) == np.fmod(values, divisor)).all()
