"""Groups of rows that pairs connect."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.table.join import components


def groups(pairs: list[tuple[int, int]], size: int) -> dict[int, int]:
    rows = pa.table({"a": pa.array([a for a, _ in pairs], pa.int64()), "b": pa.array([b for _, b in pairs], pa.int64())})
    return {row["a"]: row["b"] for batch in components.components(rows.to_batches(size)) for row in batch.to_pylist()}


def test_rows_are_in_the_group_of_the_lowest_row_that_they_are_connected_with() -> None:
    assert groups([], 10) == {}
    assert groups([(7, 9), (1, 2), (9, 2**40), (3, 2), (2**40, 8)], 10) == {1: 1, 2: 1, 3: 1, 7: 7, 8: 7, 9: 7, 2**40: 7}


def test_pairs_that_are_reduced_on_the_way_give_the_same_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    pairs = [(int(a), int(b)) for a, b in rng.integers(0, 3000, (2000, 2)) if a != b]
    at_once = groups(pairs, 10_000)
    monkeypatch.setattr(components, "_PAIRS", 50)
    assert groups(pairs, 7) == at_once
    assert all(at_once[a] == at_once[b] <= min(a, b) for a, b in pairs)
    assert len({*at_once.values()}) > 100
