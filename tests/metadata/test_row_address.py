"""Row addresses: the fragment's id in the upper half, the row's offset in the lower."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.metadata.row_address import RowAddress, addresses_of, by_fragment

HALF = st.integers(0, 2**32 - 1)


@given(HALF, HALF)
def test_both_halves_round_trip(fragment_id: int, offset: int) -> None:
    address = RowAddress.of(fragment_id, offset)
    assert (address.fragment_id, address.offset) == (fragment_id, offset)


@given(st.lists(st.tuples(HALF, HALF), max_size=20))
def test_addresses_are_grouped_by_fragment_in_their_order(rows: list[tuple[int, int]]) -> None:
    addresses = np.array([RowAddress.of(*row) for row in rows], dtype=np.uint64)
    found = {fragment_id: offsets.tolist() for fragment_id, offsets in by_fragment(addresses)}
    assert found == {i: [offset for fragment, offset in rows if fragment == i] for i, _ in rows}


def test_addresses_of_a_range_of_rows() -> None:
    assert addresses_of(2, range(3, 5)).tolist() == [RowAddress.of(2, 3), RowAddress.of(2, 4)]
