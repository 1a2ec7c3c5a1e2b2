"""Tiles of a treemap have areas in proportion to the sizes, fill the box and do not overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.inspection.treemap import Box, squarified

BOX = Box(0, 0, 240, 100)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=40))
def test_tiles_have_the_areas_of_the_sizes_within_the_box(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    tiles = squarified(sizes, BOX)
    for size, tile in zip(sizes, tiles, strict=True):
        assert tile.width * tile.height == pytest.approx(24_000 * size / sum(sizes), rel=1e-6, abs=1e-6)
        assert tile.x >= 0
        assert tile.y >= 0
        assert tile.x + tile.width <= 240 * (1 + 1e-6)
        assert tile.y + tile.height <= 100 * (1 + 1e-6)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20))
def test_tiles_do_not_overlap(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    tiles = squarified(sizes, BOX)
    for i, a in enumerate(tiles):
        for b in tiles[i + 1 :]:
            width = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
            height = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
            assert min(width, height) < 1e-6


def test_equal_sizes_become_near_squares() -> None:
    assert all(0.5 < tile.width / tile.height < 2 for tile in squarified([1] * 24, BOX))


def test_no_sizes_give_no_tiles() -> None:
    assert squarified([], BOX) == []
