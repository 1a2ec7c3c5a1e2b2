"""A search finds the first k of the rows that meet all its conditions, whatever is searched and however.

The oracle is brute force in NumPy. Where an index has the vectors themselves (FLAT), or none is used,
the rows are exactly those of brute force. Codes may find others, but as many, and each meets all conditions.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lance_spark import Dataset
from tests.table.search.vectors import DIMENSIONS, table, vectors

COVERED, UNCOVERED = 600, 40
K = 10
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "IVF_FLAT": ("l2", {}),
    "IVF_FLAT of cosine": ("cosine", {}),
    "IVF_FLAT of dot": ("dot", {}),
    "IVF_HNSW_FLAT": ("l2", {}),
    "IVF_PQ": ("l2", {"num_sub_vectors": 4, "num_bits": 4}),
    "IVF_SQ": ("l2", {}),
    "IVF_RQ": ("l2", {"num_bits": 2}),
    "IVF_HNSW_PQ": ("l2", {"num_sub_vectors": 4, "num_bits": 4}),
    "IVF_HNSW_SQ": ("l2", {}),
    "no index": ("l2", {}),
}
STATES = ("indexed", "appended", "appended and deleted", "deleted")
RANGES = ("none", "lower", "upper", "both", "narrow")
CONDITION = "id % 3 = 0"


@dataclass(frozen=True)
class Cell:
    """How one search is done. `filter` is "before" or "after" the search, or None."""

    state: str
    range: str
    refine_factor: int | None
    filter: str | None
    fast_search: bool
    use_index: bool


CELLS = [
    Cell(*values) for values in itertools.product(STATES, RANGES, (None, 1, 3), (None, "before", "after"), (False, True), (True, False))
]


@dataclass(frozen=True)
class Case:
    """A table with an index of one kind, in all states."""

    kind: str
    metric: str
    versions: dict[str, Dataset]
    values: np.ndarray

    @property
    def is_exact(self) -> bool:
        """Whether the index has the vectors themselves, without a graph that leads to some of them."""
        return self.kind.startswith("IVF_FLAT") or self.kind == "no index"

    def distances(self, query: np.ndarray) -> np.ndarray:
        """The distances of all rows that ever were."""
        vectors, query = self.values.astype(np.float64), query.astype(np.float64)
        if self.metric == "l2":
            return np.asarray(((vectors - query) ** 2).sum(axis=1))
        along = vectors @ query
        if self.metric == "dot":
            return np.asarray(1 - along)
        return np.asarray(1 - along / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    values = vectors(rows=COVERED + UNCOVERED, seed=5)
    values[0] = values[1]  # zeros have no direction
    found = {}
    for kind, (metric, parameters) in KINDS.items():
        path = str(tmp_path_factory.mktemp("t") / "t")
        indexed = Dataset.write(path, table(values[:COVERED]), max_rows_per_file=250)
        if kind != "no index":
            name = kind.partition(" ")[0]
            indexed = indexed.create_index("vec", name, metric=metric, num_partitions=3, **parameters)
        appended = Dataset.write(path, table(values[COVERED:], first=COVERED), mode="append")
        both = appended.delete("id % 7 = 3")
        indexed.restore()
        deleted = Dataset.open(path).delete("id % 7 = 3")
        versions = dict(zip(STATES, (indexed, appended, both, deleted), strict=True))
        found[kind] = Case(kind, metric, versions, values)
    return found


def bounds(name: str, distances: np.ndarray) -> tuple[float | None, float | None]:
    """A range of distances: a lower bound is that of a row, which is in the range."""
    ordered = np.sort(distances)
    lower, upper = (float(np.float32(ordered[len(ordered) * part // 100])) for part in (30, 70))
    narrow = float(np.float32(ordered[len(ordered) * 30 // 100 + 12]))
    return {
        "none": (None, None),
        "lower": (lower, None),
        "upper": (None, upper),
        "both": (lower, upper),
        "narrow": (lower, narrow),
    }[name]


def check(case: Case, cell: Cell, query: np.ndarray) -> None:
    """One search: its rows are those of brute force, or meet all conditions and are as many."""
    exact = case.distances(query)
    ids = np.arange(len(exact))
    there = ids < COVERED if cell.state in ("indexed", "deleted") else ids >= 0
    if "deleted" in cell.state:
        there &= ids % 7 != 3
    uses_index = cell.use_index and case.kind != "no index"
    if cell.fast_search:
        there &= (ids < COVERED) & uses_index
    if cell.filter == "before":
        there &= ids % 3 == 0
    low, high = bounds(cell.range, exact)
    near: dict[str, Any] = {"column": "vec", "q": query, "k": K, "metric": case.metric}
    near |= {"use_index": cell.use_index, "refine_factor": cell.refine_factor}
    if cell.range != "none":
        near["distance_range"] = (low, high)
    scan: dict[str, Any] = {"columns": ["id"], "fast_search": cell.fast_search}
    if cell.filter is not None:
        scan |= {"filter": CONDITION, "prefilter": cell.filter == "before"}
    found = case.versions[cell.state].scan(nearest=near, **scan).to_table()
    own, distances = found["id"].to_numpy(), found["_distance"].to_numpy()

    assert there[own].all()
    assert len(np.unique(own)) == len(own)
    assert (np.diff(distances) >= 0).all()
    assert low is None or (distances >= np.float32(low)).all()
    assert high is None or (distances < np.float32(high)).all()
    computed = not uses_index or cell.refine_factor is not None
    computed |= "appended" in cell.state and not cell.fast_search
    if computed or case.is_exact:
        np.testing.assert_allclose(distances, exact[own], rtol=1e-4, atol=1e-4)
    # Rows at a bound may be on either side of it: distances are rounded.
    slack = 1e-4
    surely = there & (exact >= (-np.inf if low is None else low + slack)) & (exact < (np.inf if high is None else high - slack))
    if case.is_exact or not uses_index:
        perhaps = there & (exact >= (-np.inf if low is None else low - slack)) & (exact < (np.inf if high is None else high + slack))
        if cell.filter == "after":
            assert (own % 3 == 0).all()
            return
        assert min(surely.sum(), K) <= len(own) <= min(perhaps.sum(), K)
        best = np.sort(exact[surely])[: len(own)]
        assert (exact[own][: len(best)] <= best + slack).all()
    elif cell.filter != "after" and (computed or surely.sum() >= 3 * K):
        assert len(own) >= min(surely.sum(), K)


def checked(case: Case, cells: list[Cell]) -> None:
    """Check cells, each with a query of its own, and tell which one is wrong."""
    rng = np.random.default_rng(8)
    for cell in cells:
        query = (case.values[rng.integers(len(case.values))] + rng.normal(size=DIMENSIONS)).astype("float32")
        try:
            check(case, cell, query)
        except AssertionError as e:
            raise AssertionError(f"{case.kind}, {cell}: {e}") from e


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_counts_rows_that_meet_all_conditions(cases: dict[str, Case], kind: str) -> None:
    checked(cases[kind], random.Random(4).sample(CELLS, 60))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_search_count_rows_that_meet_all_conditions(cases: dict[str, Case], kind: str) -> None:
    checked(cases[kind], CELLS)
