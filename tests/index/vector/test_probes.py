"""How many partitions a search reads first is what pylance's plans say that it reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.index.vector.probes import ProbeRule
from tests.table.search.vectors import DIMENSIONS, column

PARTITIONS = 40
ASKED: list[dict[str, Any]] = [
    {},
    {"k": 1},
    {"k": 100},
    {"nprobes": 5},
    {"minimum_nprobes": 3},
    {"maximum_nprobes": 4},
    {"minimum_nprobes": 2, "maximum_nprobes": 8},
    {"nprobes": 5, "minimum_nprobes": 2},
    {"nprobes": 5, "maximum_nprobes": 9},
    {"refine_factor": 20},
    {"search_effort": 0.0},
    {"search_effort": 0.25},
    {"search_effort": 0.75},
    {"search_effort": 1.0},
    {"search_effort": 0.5, "nprobes": 3},
    {"search_effort": 0.0, "minimum_nprobes": 3},
    {"search_effort": 0.8, "maximum_nprobes": 10},
]


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Vectors without any order, so that many centroids are about as far."""
    return np.random.default_rng(2).normal(size=(2000, DIMENSIONS)).astype("float32")


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_as_many_partitions_are_read_first_as_in_pylance(tmp_path: Path, vectors: np.ndarray, metric: str) -> None:
    dataset = lance.write_dataset(pa.table({"vec": column(vectors)}), tmp_path / "t")
    dataset.create_index("vec", "IVF_FLAT", metric=metric, num_partitions=PARTITIONS)
    for number, asked in enumerate(ASKED):
        query = vectors[number] + np.float32(0.25)
        near = {"column": "vec", "q": query, "k": 10, **asked}
        plan = lance.dataset(tmp_path / "t").scanner(columns=["_distance"], nearest=near).analyze_plan()
        (theirs,) = re.findall(r"partitions_searched=(\d+)", plan)
        assert first_probes(tmp_path / "t", near) == int(theirs), asked


def first_probes(path: Path, near: dict[str, Any]) -> int:
    """How many partitions a search of ours reads first."""
    from lance_spark.table.search.index_search import index_search
    from lance_spark.table.search.nearest import nearest_of

    snapshot = Dataset.open(str(path)).snapshot
    nearest = nearest_of(snapshot, near)
    search = index_search(snapshot, nearest)
    assert search is not None
    numbers, _ = search.segments[0].first_pairs(nearest, nearest.queries)
    return len(numbers)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot", "hamming"])
@pytest.mark.parametrize("k", [1, 10, 1000, 200_000])
@pytest.mark.parametrize("effort", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_the_bounds_of_a_rule_hold_for_every_query(metric: str, k: int, effort: float) -> None:
    distances = np.sort(np.random.default_rng(1).uniform(0.1, 9, (50, 300)).astype(np.float32), axis=1)
    for minimum, maximum in [(None, None), (3, None), (None, 7), (5, 5), (400, None)]:
        rule = ProbeRule(k, minimum, maximum, effort)
        least, most = rule.bounds(metric, 300)
        counts = rule.counts(distances[:, : rule.compared(metric, 300)], metric, 300)
        assert (least <= counts).all()
        assert (counts <= most).all()
        assert (counts == rule.counts(distances, metric, 300)).all()
        assert most <= rule.most(300)


def test_an_index_without_partitions_has_none_to_read() -> None:
    rule = ProbeRule(10)
    assert rule.bounds("l2", 0) == (0, 0)
    assert rule.counts(np.empty((2, 0), np.float32), "l2", 0).tolist() == [0, 0]
