"""The rows with the smallest distances: which they are, and which of several at one distance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.index.vector.best import Best, Heap

FEW = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf"), float("nan")]), max_size=60)


def rows_of(distances: list[float]) -> np.ndarray:
    return np.arange(len(distances), dtype=np.uint64)


@given(FEW, st.integers(1, 70), st.data())
def test_the_nearest_rows_are_kept_however_they_are_cut(distances: list[float], count: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(distances)))
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(distances), max_size=len(distances))), bool)
    values, rows = np.array(distances, np.float32), rows_of(distances)
    expected = sorted(d for d, a in zip(distances, allowed) if a and d == d)[:count]
    best, heap = Best(count), Heap(count)
    for part in (slice(0, cut), slice(cut, None)):
        heap.add(values[part], rows[part], allowed[part])
        best.add(values[part][allowed[part]], rows[part][allowed[part]])
    assert len(heap) == len(best) == len(expected)
    for kept, numbers in (heap.found(), best.found()):
        assert sorted(kept.tolist()) == expected
        assert sorted(values[numbers.astype(int)].tolist()) == expected
        assert len(set(numbers.tolist())) == len(numbers)


def test_of_rows_at_one_distance_those_with_the_smallest_numbers_are_the_best() -> None:
    best = Best(3)
    rows = np.arange(100, dtype=np.uint64)[::-1]
    for part in (slice(0, 40), slice(40, None)):
        best.add(np.zeros(len(rows[part]), np.float32), rows[part])
    assert best.found()[1].tolist() == [0, 1, 2]


def test_of_rows_at_one_distance_the_first_ones_stay() -> None:
    heap = Heap(3)
    heap.add(np.full(5, 5, np.float32), rows_of([0] * 5))
    assert sorted(heap.found()[1].tolist()) == [0, 1, 2]


def test_which_of_the_farthest_rows_is_replaced_follows_from_the_heap() -> None:
    # The order that the IVF_PQ index with 4 bits of pylance 14.0.2 shows: the first of the farthest rows gives way.
    heap = Heap(3)
    heap.add(np.array([5, 5, 5, 1], np.float32), rows_of([0] * 4))
    assert sorted(heap.found()[1].tolist()) == [1, 2, 3]


def test_distances_are_between_the_bounds() -> None:
    for kind in (Best, Heap):
        kept = kind(9, (1.0, 3.0))
        kept.add(np.array([0, 1, 2, 3, np.nan], np.float32), rows_of([0] * 5))
        assert sorted(kept.found()[1].tolist()) == [1, 2]
