"""A table of thousands of fragments is planned from the bytes of its manifest, and its tasks are as small as their part of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.manifest import serialise
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

FRAGMENTS, ROWS = 5_000, 10
FEWER = 500


def many(folder: Path, count: int = FRAGMENTS) -> Dataset:
    """A table whose fragments share one data file of ten rows."""
    snapshot = Dataset.write(folder / "many", pa.table({"id": range(ROWS), "s": [f"text {i}" for i in range(ROWS)]})).snapshot
    (fragment,) = snapshot.manifest.fragments
    fragments = tuple(replace(fragment, id=i) for i in range(count))
    manifest = replace(snapshot.manifest, fragments=fragments, max_fragment_id=count - 1)
    snapshot.store.put(snapshot.path, serialise(manifest))
    return Dataset.open(folder / "many")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return many(tmp_path_factory.mktemp("fragments"))


def test_tasks_read_every_row_once_and_in_order(table: Dataset) -> None:
    tasks = pickle.loads(pickle.dumps(plan_tasks(table.snapshot, ScanPlan(("_rowaddr",)), cores=4)))
    assert len(tasks) > 4
    addresses = np.concatenate([batch.column(0).to_numpy() for task in tasks for batch in task.read()])
    expected = np.repeat(np.arange(FRAGMENTS, dtype=np.uint64) << np.uint64(32), ROWS) + np.tile(
        np.arange(ROWS, dtype=np.uint64), FRAGMENTS
    )
    assert np.array_equal(addresses, expected)


def test_a_task_is_as_large_as_its_part_of_the_manifest(table: Dataset) -> None:
    tasks = plan_tasks(table.snapshot, ScanPlan(), cores=4)
    manifest = len(table.snapshot.store.read(table.snapshot.path))
    assert sum(len(pickle.dumps(task)) for task in tasks) < 1.5 * manifest + 4_000 * len(tasks)


def test_rows_are_numbered_over_all_fragments(table: Dataset) -> None:
    rows = table.to_table(columns=["_rowoffset", "id"], offset=31_234, limit=3)
    assert rows.to_pydict() == {"_rowoffset": [31_234, 31_235, 31_236], "id": [4, 5, 6]}


@pytest.mark.parametrize("condition", ["_fragid = 777", "id > 3 AND _fragid < 40", "_rowaddr IN (4294967297, 8589934595)"])
def test_a_condition_finds_what_pylance_finds(table: Dataset, condition: str) -> None:
    # pylance has no column _fragid.
    theirs = condition.replace("_fragid = 777", "_rowaddr BETWEEN 3337189588992 AND 3337189589001").replace(
        "_fragid < 40", "_rowaddr < 171798691840"
    )
    assert table.to_table(columns=["id", "s"], filter=condition) == lance.dataset(table.uri).to_table(columns=["id", "s"], filter=theirs)


CHANGES: dict[str, Callable[[Dataset], Dataset]] = {
    "update": lambda ds: ds.update({"s": "'new'"}, where="_rowaddr = 30064771075"),
    "rename": lambda ds: ds.alter_columns({"path": "s", "name": "t"}),
    "drop": lambda ds: ds.drop_columns(["s"]),
    "delete": lambda ds: ds.delete("_fragid IN (3, 400) OR _rowaddr = 30064771075"),
    "append": lambda ds: ds.insert(pa.table({"id": [-1], "s": ["more"]})),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_pylance_reads_what_a_change_makes(tmp_path: Path, change: Callable[[Dataset], Dataset]) -> None:
    changed = change(many(tmp_path, FEWER))
    assert changed.to_table() == lance.dataset(changed.uri).to_table()
    assert changed.count_rows() == lance.dataset(changed.uri).count_rows()
