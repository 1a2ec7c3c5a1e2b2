"""Random changes by this package and pylance in turn: after each, searches by a vector index find the nearest rows of a model, in both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from tests.table.indexes.both_writers import BothWriters
from tests.table.search.vectors import DIMENSIONS, table

PQ: dict[str, Any] = {"num_sub_vectors": 4, "num_bits": 4}
KINDS: dict[str, dict[str, Any]] = {"IVF_FLAT": {}, "IVF_PQ": PQ, "IVF_SQ": {}, "IVF_RQ": {"num_bits": 8}, "IVF_HNSW_SQ": {}}
NAMES = ("one", "two")
K = 6


class Steps(BothWriters):
    """The table, the vectors of its rows by id, and the steps that change both."""

    _most_new = 39

    def __init__(self, path: Path, stable: bool, seed: int) -> None:
        self.path, self.random, self.numbers = path, random.Random(seed), np.random.default_rng(seed)
        self.vectors: dict[int, np.ndarray] = {}
        self.next_id = 0
        Dataset.write(path, self.new(120), max_rows_per_file=50, enable_stable_row_ids=stable)

    def new(self, count: int, of: list[int] | None = None) -> Any:
        """Rows with new vectors: with the next ids, or with these."""
        values = (self.numbers.integers(0, 4, (count, 1)) * 8 + self.numbers.normal(size=(count, DIMENSIONS))).astype(np.float32)
        if of is None:
            of = list(range(self.next_id, self.next_id + count))
            self.next_id += count
        self.vectors |= dict(zip(of, values))
        return table(values).set_column(0, "id", pa.array(of, pa.int64()))

    def delete(self) -> None:
        self._delete(self.ours)

    def delete_theirs(self) -> None:
        self._delete(self.theirs)

    def _delete(self, client: Any) -> None:
        rest = self.random.randrange(9)
        client.delete(f"id % 9 = {rest}")
        self.vectors = {i: v for i, v in self.vectors.items() if i % 9 != rest}

    def update_of_others(self) -> None:
        self.ours.update({"kind": "'new'"}, f"id % 5 = {self.random.randrange(5)}")

    def update_of_others_theirs(self) -> None:
        self.theirs.update({"kind": "'new'"}, where=f"id % 5 = {self.random.randrange(5)}")

    def update_of_vectors(self) -> None:
        self._update(self.ours)

    def update_of_vectors_theirs(self) -> None:
        self._update(self.theirs)

    def _update(self, client: Any) -> None:
        changed = self.random.sample(sorted(self.vectors), min(len(self.vectors), 9))
        client.merge_insert("id").when_matched_update_all().execute(self.new(len(changed), changed))

    def restore(self) -> None:
        """Delete all rows, and restore the version before."""
        before = self.ours
        before.delete("true")
        before.restore()

    def compact(self) -> None:
        self.ours.optimize.compact_files(target_rows_per_fragment=self.random.choice([60, 200]))

    def compact_theirs(self) -> None:
        self.theirs.optimize.compact_files(target_rows_per_fragment=self.random.choice([60, 200]))

    def compact_later(self) -> None:
        self.ours.optimize.compact_files(target_rows_per_fragment=self.random.choice([60, 200]), defer_index_remap=not self._walked())

    def compact_later_theirs(self) -> None:
        # pylance does not defer it with stable row ids.
        later = not self.theirs.has_stable_row_ids and not self._walked()
        self.theirs.optimize.compact_files(target_rows_per_fragment=self.random.choice([60, 200]), defer_index_remap=later)

    def _walked(self) -> bool:
        """Whether there are graphs. pylance cannot search them, not even its own, if they have rows that were deleted before a deferred
        compaction.
        """
        return any("HNSW" in str(i["type"]) for i in self.ours.list_indices())

    def index(self) -> None:
        self._index(self.ours)

    def index_theirs(self) -> None:
        self._index(self.theirs)

    def _index(self, client: Any) -> None:
        """Make an index, or replace it, even by another kind."""
        kind = self.random.choice(list(KINDS))
        if len(self.vectors) >= 40:
            client.create_index("vec", kind, name=self.random.choice(NAMES), replace=True, num_partitions=3, **KINDS[kind])

    def optimize(self) -> None:
        self.ours.optimize.optimize_indices(num_indices_to_merge=self.random.choice([None, 0, 1]))

    def optimize_theirs(self) -> None:
        self.theirs.optimize.optimize_indices(num_indices_to_merge=self.random.choice([0, 1, 9]))

    def retrain(self) -> None:
        self.ours.optimize.optimize_indices(retrain=True)

    def retrain_theirs(self) -> None:
        self.theirs.optimize.optimize_indices(retrain=True)

    def drop(self) -> None:
        names = {*NAMES} & {str(i["name"]) for i in self.ours.list_indices()}
        if len(names) > 1:
            self.ours.drop_index(self.random.choice(sorted(names)))

    def check(self, after: str) -> None:
        ours, theirs = self.ours, self.theirs
        assert ours.count_rows() == theirs.count_rows() == len(self.vectors), after
        assert ours.verify().problems == (), after
        walked = self._walked()
        for q in self.numbers.integers(0, 4, (3, 1)) * 8 + self.numbers.normal(size=(3, DIMENSIONS)).astype(np.float32):
            # Of all rows, distances are computed exactly.
            near = {"column": "vec", "q": q.astype(np.float32), "k": K, "nprobes": 9, "refine_factor": 100, "ef": 600}
            for found in (ours.scan(columns=["id"], nearest=near).to_table(), theirs.to_table(columns=["id"], nearest=near)):
                self._check(found, near["q"], walked, after)

    def _check(self, found: Any, q: np.ndarray, walked: bool, after: str) -> None:
        ids = found["id"].to_pylist()
        assert len(ids) == len(set(ids)), after
        distances = {i: float(((v - q) ** 2).sum()) for i, v in self.vectors.items()}
        own = np.array([distances[i] for i in ids])
        np.testing.assert_allclose(found["_distance"].to_numpy(), own, rtol=1e-3, atol=1e-3, err_msg=after)
        expected = np.sort(list(distances.values()))[:K]
        if not walked:  # no path of a graph leads to a few vectors, as in pylance
            np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-3, err_msg=after)


STEPS = [name for name in (*vars(BothWriters), *vars(Steps)) if not name.startswith("_") and name not in ("new", "ours", "theirs", "check")]
OFTEN = ["index", "index_theirs", "append", "compact", "optimize"]
FULL = settings().max_examples > 100


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40 if FULL else 6))])
@pytest.mark.parametrize("stable", [False, True])
def test_the_nearest_rows_are_found_after_every_change_by_either_writer(stable: bool, seed: int, tmp_path: Path) -> None:
    steps = Steps(tmp_path / "t.lance", stable, seed)
    steps.index()
    done = []
    for _ in range(14):
        done.append(steps.random.choice(STEPS + OFTEN))
        getattr(steps, done[-1])()
        steps.check(", ".join(done))
