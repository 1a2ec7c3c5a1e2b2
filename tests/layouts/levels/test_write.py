"""The start and end of the events of chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.layouts.levels.write import event_bounds
from tests.layouts.levels.test_shred import shred_only_leaf


def test_a_chunk_ends_after_its_last_value_and_the_last_one_at_the_end() -> None:
    page = shred_only_leaf(pa.array([[1, 2], [], [3], [], [4], []], pa.list_(pa.int8())))
    assert event_bounds(page, np.array([2, 1, 1])).tolist() == [0, 2, 4, 7]
    assert event_bounds(page, np.array([2, 1])).tolist() == [0, 2, 7]
    assert event_bounds(page, np.array([2, 9])).tolist() == [0, 2, 7]


def test_without_empty_lists_every_event_has_a_value() -> None:
    page = shred_only_leaf(pa.array([[1, 2], [3]], pa.list_(pa.int8())))
    assert event_bounds(page, np.array([2, 1])).tolist() == [0, 2, 3]
