"""Small tables with vectors, and searches of them by pylance and by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_spark import Dataset

ROWS = 300
DIMENSIONS = 8


def vectors(dtype: str = "float32", rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Random vectors around a few centres; the first rows have zeros only."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(10, DIMENSIONS)) * 3
    found = centres[rng.integers(0, 10, rows)] + rng.normal(size=(rows, DIMENSIONS))
    found[0] = 0
    return np.clip(found * 20, 0, 255).astype(dtype) if np.dtype(dtype).kind in "iu" else found.astype(dtype)


def column(values: np.ndarray, null: int | None = None) -> pa.Array:
    """The rows of a matrix as vectors; the one with the number `null` is null."""
    mask = None if null is None else pa.array(np.arange(len(values)) == null)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1], mask=mask)


def table(values: np.ndarray, first: int = 0, null: int | None = None) -> pa.Table:
    """A table with ids from `first` and vectors."""
    ids = np.arange(first, first + len(values))
    return pa.table({"id": ids, "kind": [f"k{i % 7}" for i in ids], "vec": column(values, null)})


# Indexes estimate a distance as a difference of squares of some hundreds, in float32: that leaves an error of about 1e-4.
CLOSE = 3e-4


def both(path: Path | str, nearest: dict[str, Any], **scan: Any) -> tuple[pa.Table, pa.Table]:
    """The rows of a search by us and by pylance."""
    ours = Dataset.open(str(path)).scan(nearest=nearest, **scan).to_table()
    return ours, lance.dataset(str(path)).to_table(nearest=nearest, **scan)


def same(ours: pa.Table, theirs: pa.Table, close: float = CLOSE) -> None:
    """Check that both have the same columns and rows; those whose distances are equal, or at most `close` apart, in any order."""
    assert ours.schema.names == theirs.schema.names
    assert ours.schema.types == theirs.schema.types
    a, b = ours["_distance"].to_numpy(), theirs["_distance"].to_numpy()
    assert np.isfinite(a).all()
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=close)
    for name in set(ours.schema.names) & {"id", "query_index"}:
        x, y = ours[name].to_numpy(), theirs[name].to_numpy()
        apart = np.flatnonzero(x != y)
        # Only rows at one distance, or at the last one, may be others.
        assert all(np.isclose(a, a[i], rtol=1e-4, atol=close).sum() > 1 or i == len(a) - 1 for i in apart), (x, y)
