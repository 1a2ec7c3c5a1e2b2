"""A search by tasks over segments, partitions and fragments finds the rows that one search finds."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.table.search.search import Search
from tests.table.search.vectors import same, table, vectors

ROWS = 1200
QUERIES = np.asarray(vectors(rows=ROWS)[20:28] + 0.25, np.float32)


@dataclass
class Elsewhere:
    """Runs each task as another process has it: only what a pickle holds crosses."""

    cores: int = 5
    tasks: int = 0
    sizes: list[int] = field(default_factory=list)

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        self.tasks += len(tasks)
        self.sizes += [len(pickle.dumps(task)) for task in tasks]
        return [self._run(pickle.dumps((function, task))) for task in tasks]

    def _run(self, pickled: bytes) -> Any:
        function, task = pickle.loads(pickled)
        try:
            return pickle.loads(pickle.dumps(function(task)))
        except LanceError as e:
            raise pickle.loads(pickle.dumps(e)) from e


def by_tasks(path: Path, near: dict[str, Any], **scan: Any) -> tuple[pa.Table, Elsewhere]:
    """The rows of a search whose tasks run elsewhere."""
    search = Dataset.open(str(path)).scan(["id"], nearest=near, **scan)
    assert isinstance(search, Search)
    runner = Elsewhere()
    return replace(search, query=replace(search.query, runner=runner)).to_table(), runner  # type: ignore[type-var]


def indexed(path: Path, kind: str | None, **parameters: Any) -> Path:
    """A table with two segments of an index, fragments without one, deleted rows, and rows without a vector."""
    values = vectors(rows=ROWS)
    values[5, 2] = np.nan
    dataset = lance.write_dataset(table(values, null=7), path, max_rows_per_file=300)
    if kind is not None:
        dataset.create_index("vec", kind, metric="l2", num_partitions=3, **parameters)
    lance.write_dataset(table(vectors(rows=400, seed=3), first=ROWS), path, mode="append", max_rows_per_file=200)
    if kind is not None:
        lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).delete("id % 7 = 5")
    return path


@pytest.mark.matrix
@pytest.mark.parametrize("outside", [0, 60])
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (None, {}),
        ("IVF_FLAT", {}),
        ("IVF_PQ", {"num_sub_vectors": 4}),
        ("IVF_SQ", {}),
        ("IVF_RQ", {}),
        ("IVF_HNSW_SQ", {}),
        ("IVF_HNSW_PQ", {"num_sub_vectors": 4}),
    ],
)
def test_tasks_find_the_rows_of_one_search(tmp_path: Path, kind: str | None, parameters: dict[str, Any], outside: int) -> None:
    path = indexed(tmp_path / "t", kind, **parameters)
    if outside:
        lance.write_dataset(table(vectors(rows=outside, seed=4), first=2000), path, mode="append")
    dataset = Dataset.open(str(path))
    searches: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"nprobes": 2}, {}),
        ({"nprobes": 3, "refine_factor": 4}, {"filter": "kind <> 'k3'"}),
        ({"minimum_nprobes": 1, "k": 30}, {"filter": "id % 9 = 2", "prefilter": True}),
        ({"nprobes": 3, "distance_range": (0.5, 6.0)}, {"fast_search": True}),
    ]
    for q in (QUERIES[0], QUERIES):
        for more, scan in searches:
            near = {"column": "vec", "k": 10, "q": q, **more}
            found, runner = by_tasks(path, near, **scan)
            same(found, dataset.scan(["id"], nearest=near, **scan).to_table())
            assert runner.tasks or (kind is None and scan.get("fast_search"))


def test_tasks_are_small_and_as_many_as_cores(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t", "IVF_FLAT")
    _, runner = by_tasks(path, {"column": "vec", "q": QUERIES, "nprobes": 3})
    assert 2 < runner.tasks <= 6  # two segments of three partitions
    assert max(runner.sizes) < 20_000


def test_a_segment_that_a_task_finds_damaged_is_not_used(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t", "IVF_PQ", num_sub_vectors=4)
    near = {"column": "vec", "q": QUERIES[0]}
    expected = Dataset.open(str(path)).scan(["id"], nearest={**near, "use_index": False}).to_table()
    for file in (path / "_indices").glob("*/auxiliary.idx"):
        data = bytearray(file.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)  # the footer is good
        file.write_bytes(data)
    found, runner = by_tasks(path, near)
    assert runner.tasks
    same(found, expected)
