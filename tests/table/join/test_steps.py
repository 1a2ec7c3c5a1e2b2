"""The tasks of a nearest join hold few questions and rows at once, however many there are."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset
from lance_spark.predicate import parse
from lance_spark.table.join import answers, compare, plan, questions, steps
from lance_spark.table.join.plan import plan_join
from lance_spark.table.join.steps import Answer, Ask, Compare, Join
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.nearest import nearest_of
from tests.table.search.vectors import DIMENSIONS, column, table, vectors

QUESTIONS = np.asarray(vectors(rows=60)[20:60] + 0.25, np.float32)
QUESTION = pa.struct([("c0", pa.string())])
SENT, FOUND = steps.sent_schema(QUESTION), steps.found_schema(QUESTION)
RESULT = pa.schema([("question", QUESTION), ("t0", pa.int64()), ("_distance", pa.float32())])
WITHOUT = 3
"""The number of a question without a vector."""


def batches(rows: pa.Table, size: int) -> list[pa.RecordBatch]:
    return [batch for batch in rows.combine_chunks().to_batches(size) if batch.num_rows]


@pytest.fixture(params=[True, False], ids=["each task searches all", "a task for each group"], autouse=True)
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether tables are so small that a task searches all of them."""
    if not request.param:
        monkeypatch.setattr(plan, "_GROUP_BYTES", 1)
    return bool(request.param)


def joined(dataset: Dataset, size: int, queries: np.ndarray = QUESTIONS, **near: Any) -> pa.Table:
    """The rows that tasks find, which get batches of so many rows. The question WITHOUT has no vector."""
    lists: list[list[float] | None] = queries.tolist()
    lists[WITHOUT] = None
    return joined_with(dataset, lists, size, None, near)


def joined_with(
    dataset: Dataset, lists: Sequence[Sequence[float] | None], size: int, condition: str | None, near: Mapping[str, Any]
) -> pa.Table:
    """The same for these questions, and with a condition."""
    snapshot = dataset.snapshot
    nearest = nearest_of(snapshot, {**near, "column": "vec", "q": [0] * DIMENSIONS})
    predicate = None if condition is None else parse(condition, snapshot.manifest.schema)
    join, _ = plan_join(snapshot, nearest, predicate, False, 2)
    names = pa.array([f"question {i}" for i in range(len(lists))])
    asked = pa.table({"c0": names, "vector": pa.array(lists, pa.list_(pa.float64()))})
    ask, compare = Ask(join, np.arange(max(join.group_count, 1), dtype=np.int32), True), Compare(join)
    answer = Answer(join, ScanPlan(("id",)), True)
    if join.together:
        found = Join(ask, compare, answer)(iter(batches(asked, size)), RESULT)
        return pa.Table.from_batches(found, RESULT)
    asked = asked.append_column("number", pa.array(range(len(lists)), pa.int64()))
    probes = pa.Table.from_batches([*ask(iter(batches(asked, size)), SENT)])
    parts = [probes.filter(pc.equal(probes["key"], key)) for key in pc.unique(probes["key"])]
    compared = pa.concat_tables([pa.Table.from_batches([*compare(iter(batches(part, size)), FOUND)]) for part in parts])
    order = [("number", "ascending"), ("is_found", "ascending")]
    ordered = compared.append_column("is_found", pc.is_null(compared["question"])).sort_by(order)
    return pa.Table.from_batches([*answer(iter(batches(ordered, size)), RESULT)], RESULT)


@pytest.mark.parametrize("refined", [{}, {"refine_factor": 3}])
def test_small_batches_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refined: dict[str, int]) -> None:
    monkeypatch.setattr(steps, "_CHUNK_BYTES", 700)  # about three questions
    monkeypatch.setattr(steps, "_ROWS_BYTES", 500)  # about ten rows
    monkeypatch.setattr(compare, "_FOUND_BYTES", 1500)  # about five questions
    monkeypatch.setattr(compare, "_PIECE_ROWS", 3)
    monkeypatch.setattr(questions, "_AT_ONCE_BYTES", 1000)
    monkeypatch.setattr(answers, "_CUT_ROWS", 20)
    lance.write_dataset(table(vectors(rows=1200)), tmp_path / "t").create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    lance.write_dataset(table(vectors(rows=50, seed=4), first=1200), tmp_path / "t", mode="append")
    dataset = Dataset.open(str(tmp_path / "t"))
    found = joined(dataset, 7, QUESTIONS, k=9, nprobes=3, **refined)
    asked = np.delete(np.arange(len(QUESTIONS)), WITHOUT)
    expected = dataset.scan(columns=["id"], nearest={"column": "vec", "q": QUESTIONS[asked], "k": 9, "nprobes": 3, **refined}).to_table()
    names = found["question"].combine_chunks().field("c0").to_pylist()
    others = [name for name in names if name != f"question {WITHOUT}"]
    assert others == [f"question {asked[i]}" for i in expected["query_index"].to_pylist()]
    assert names.count(f"question {WITHOUT}") == 1
    there = found.filter(pc.is_valid(found["t0"]))
    assert there["t0"].to_pylist() == expected["id"].to_pylist()
    assert there["_distance"].to_pylist() == expected["_distance"].to_pylist()


@pytest.mark.parametrize(
    ("dtype", "metric", "kind"),
    [("float16", "l2", "IVF_PQ"), ("float64", "cosine", "IVF_FLAT"), ("uint8", "hamming", "IVF_FLAT"), ("int8", "l2", None)],
)
def test_vectors_of_all_types(tmp_path: Path, dtype: str, metric: str, kind: str | None) -> None:
    dataset = lance.write_dataset(table(vectors(dtype, rows=600)), tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=200)
    if kind is not None:
        dataset.create_index("vec", kind, metric=metric, num_partitions=3, **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {}))
    ours = Dataset.open(str(tmp_path / "t"))
    # Rows of which the index has earlier vectors.
    ours = ours.merge_insert("id").when_matched_update_all().execute(table(vectors(dtype, rows=90, seed=8), first=300))
    queries = vectors(dtype, rows=60)[20:60]
    near: dict[str, Any] = {"k": 7, "nprobes": 2, "metric": metric}
    found = joined(ours, 100, queries, **near)
    asked = np.delete(np.arange(len(queries)), WITHOUT)
    expected = ours.scan(columns=["id"], nearest={**near, "column": "vec", "q": queries[asked]}).to_table()
    there = found.filter(pc.is_valid(found["t0"]))
    assert there["t0"].to_pylist() == expected["id"].to_pylist()
    assert there["_distance"].to_pylist() == expected["_distance"].to_pylist()


def test_tasks_of_large_tables_have_few_partitions(tmp_path: Path, together: bool) -> None:
    lance.write_dataset(table(vectors(rows=600)), tmp_path / "t").create_index("vec", "IVF_FLAT", num_partitions=3)
    snapshot = Dataset.open(str(tmp_path / "t")).snapshot
    join, _ = plan_join(snapshot, nearest_of(snapshot, {"column": "vec", "q": [0] * DIMENSIONS}), None, False, 2)
    assert (join.together, join.group_count) == ((True, 1) if together else (False, 3))


def test_the_rows_of_a_filter_travel_in_few_bytes(tmp_path: Path) -> None:
    """Each of 20,000 addresses takes 8 bytes in memory, but less than one in what tasks get."""
    rows = pa.table({"id": range(40_000), "vec": column(np.zeros((40_000, 2), np.float32))})
    lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=10_000).create_index("vec", "IVF_FLAT", num_partitions=1)
    snapshot = Dataset.open(str(tmp_path / "t")).snapshot
    nearest = nearest_of(snapshot, {"column": "vec", "q": [0, 0]})
    join, _ = plan_join(snapshot, nearest, parse("id % 4 < 2", snapshot.manifest.schema), False, 2)
    whole, without = pickle.dumps(join), pickle.dumps(replace(join, allowed=None))
    assert len(whole) - len(without) < 20_000
    allowed = pickle.loads(whole).allowed
    assert len(allowed) == 20_000
    np.testing.assert_array_equal(allowed, join.allowed)


def test_a_question_with_many_rows_in_many_groups(tmp_path: Path) -> None:
    lance.write_dataset(table(vectors(rows=6000)), tmp_path / "t").create_index("vec", "IVF_FLAT", num_partitions=8)
    dataset = Dataset.open(str(tmp_path / "t"))
    found = joined(dataset, 1000, k=5000)
    assert found.num_rows == 5000 * (len(QUESTIONS) - 1) + 1
