"""Bitmaps of rows that a change touches."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from lance_spark.metadata.bitmaps import bitmap_of


@pytest.mark.parametrize("offsets", [[], [5], [3, 4, 5], [1, 1, 3], [5, 4, 3], [1, 3], [4, 6, 5], [70_000, 70_001]])
def test_the_bitmap_has_exactly_the_given_rows(offsets: list[int]) -> None:
    for kind in (np.uint32, np.int64):
        assert bitmap_of(np.array(offsets, dtype=kind)) == BitMap(offsets)
