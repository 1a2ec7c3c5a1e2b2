"""Arithmetic on decimals, compared with Python's integers."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import InvalidOptionError
from lance_spark.spark.aggregation import exact
from lance_spark.spark.aggregation.exact import MOST, Exact

NUMBERS = st.none() | st.integers(-99, 99) | st.integers(-MOST, MOST)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8)
SCALES = st.tuples(st.integers(0, 6), st.integers(0, 6))


def column(unscaled: Sequence[int | None], scale: int) -> Exact:
    with decimal.localcontext(prec=80):
        numbers = [None if n is None else Decimal(n).scaleb(-scale) for n in unscaled]
    return exact.from_column(pa.array(numbers, pa.decimal128(38, scale)))


def unscaled(found: Exact) -> list[int | None]:
    with decimal.localcontext(prec=80):
        scale = found.values.type.scale
        return [None if n is None else int(n.scaleb(scale)) for n in found.values.to_pylist()]


def check(calculate: Callable[[], Exact], expected: list[int | None], scale: int) -> None:
    """The result, or the error if a number has too many digits."""
    if any(abs(n) > MOST for n in expected if n is not None):
        with pytest.raises(InvalidOptionError, match="arithmetic overflow"):
            calculate()
        return
    found = calculate()
    assert found.values.type == pa.decimal128(38, scale)
    assert unscaled(found) == expected
    assert all(abs(n) <= found.most for n in expected if n is not None)


@given(PAIRS, SCALES)
def test_products_are_exact(pairs: list[tuple[int | None, int | None]], scales: tuple[int, int]) -> None:
    expected = [None if None in (a, b) else a * b for a, b in pairs]  # type: ignore[operator]
    a, b = (column([pair[i] for pair in pairs], scales[i]) for i in (0, 1))
    check(lambda: exact.multiply(a, b), expected, sum(scales))


@given(PAIRS, st.integers(0, 6))
def test_sums_are_exact(pairs: list[tuple[int | None, int | None]], scale: int) -> None:
    expected = [None if None in (a, b) else a + b for a, b in pairs]  # type: ignore[operator]
    check(lambda: exact.add(column([a for a, _ in pairs], scale), column([b for _, b in pairs], scale)), expected, scale)


def test_operands_of_a_sum_get_the_larger_scale() -> None:
    found = exact.add(exact.constant(1, 0), exact.negate(column([5, None, 10], 2)))
    assert found.values.to_pylist() == [Decimal("0.95"), None, Decimal("0.90")]
    assert found.most >= 95


def test_integers_become_decimals() -> None:
    numbers = exact.from_column(pa.array([-128, None, 127], pa.int8()))
    assert numbers.most == 128
    assert exact.to_decimal(numbers, 2).values.to_pylist() == [Decimal("-128.00"), None, Decimal("127.00")]
    longs = exact.from_column(pa.array([-(2**63), 2**63 - 1], pa.int64()))
    assert unscaled(exact.to_decimal(longs, 0)) == [-(2**63), 2**63 - 1]
