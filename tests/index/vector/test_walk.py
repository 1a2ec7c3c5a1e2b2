"""Random tables, indexes of pylance, changes by both and searches: both find the same rows, or ours those of brute force."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from hypothesis import settings

from lance_spark import Dataset
from tests.table.search.vectors import same, table, vectors

FULL = settings().max_examples > 100
ROWS = 500
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("IVF_FLAT", {}),
    ("IVF_PQ", {"num_sub_vectors": 4}),
    ("IVF_PQ", {"num_sub_vectors": 4, "num_bits": 4}),
    ("IVF_SQ", {}),
    ("IVF_HNSW_SQ", {}),
    ("IVF_RQ", {"num_bits": 1}),
    ("IVF_RQ", {"num_bits": 5}),
]
FILTERS = (None, "id % 3 = 0", "id > 400 AND kind = 'k3'", "kind <> 'k1'")


def change(path: Path, rng: random.Random, step: int) -> None:
    """One change of the table, by either of us."""
    theirs, ours = lance.dataset(path), Dataset.open(path)
    more = table(vectors(rows=60, seed=10 + step), first=10_000 * (step + 1))
    part = f"id % 13 = {rng.randrange(13)}"
    kind = rng.choice(["append", "delete", "compact", "optimize"])
    if kind == "append":
        if rng.random() < 0.5:
            Dataset.write(str(path), more, mode="append")
        else:
            lance.write_dataset(more, path, mode="append")
    elif kind == "delete":
        ours.delete(part) if rng.random() < 0.5 else theirs.delete(part)
    elif kind == "compact":
        theirs.optimize.compact_files(defer_index_remap=rng.random() < 0.5)
    else:
        theirs.optimize.optimize_indices(num_indices_to_merge=rng.choice([0, 1]))


def check(path: Path, rng: random.Random, metric: str) -> None:
    """One search: by the vectors' distances, the rows of pylance; otherwise the rows of brute force."""
    ours = Dataset.open(path)
    query = np.asarray(vectors(rows=ROWS)[rng.randrange(ROWS)] + 0.25, np.float32)
    near: dict[str, Any] = {"column": "vec", "q": query, "k": rng.choice([1, 7, 40]), "metric": metric}
    scan: dict[str, Any] = {"columns": ["id"], "filter": rng.choice(FILTERS), "prefilter": rng.random() < 0.7}
    alone = ours.scan(**scan, nearest={**near, "use_index": False}).to_table()
    same(alone, lance.dataset(path).to_table(**scan, nearest={**near, "use_index": False}))
    # All partitions, and distances of so many rows that codes lose none of the nearest.
    refined = ours.scan(**scan, nearest={**near, "nprobes": 50, "refine_factor": ROWS, "ef": 2000}).to_table()
    same(refined, alone)


@pytest.mark.parametrize("seed", range(len(KINDS) * (6 if FULL else 1)))
def test_searches_find_the_nearest_rows_after_any_changes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kind, parameters = KINDS[seed % len(KINDS)]
    metric = rng.choice(["l2", "cosine"])
    lance.write_dataset(table(vectors(rows=ROWS), null=7), tmp_path / "t", max_rows_per_file=200).create_index(
        "vec", kind, metric=metric, num_partitions=4, **parameters
    )
    for step in range(8 if FULL else 3):
        check(tmp_path / "t", rng, metric)
        change(tmp_path / "t", rng, step)
    check(tmp_path / "t", rng, metric)
