"""Scans skip fragments and pages by the bounds of their pages, which this project's writer stores; the rows stay the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.layouts.page_bounds import LEAST_ROWS, bounds_of, has_bounds, read_bounds
from lance_spark.schema.schema import Field, from_arrow
from lance_spark.table.scan import selection
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

ROWS = 20_000


def days(number: int) -> pa.Table:
    """The rows of an append: those of ten days."""
    ids = np.arange(ROWS) + number * ROWS
    day = pa.array((ids // (ROWS // 10)).astype(np.int32)).cast(pa.date32())
    return pa.table({"id": ids, "day": day, "x": np.random.default_rng(number).random(ROWS)})


@pytest.fixture
def appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        Dataset.write(uri, days(number), mode="append")
    monkeypatch.setattr(selection, "_LEAST_BYTES", 1000)
    return uri


def read(uri: str, condition: str, **plan: Any) -> tuple[list[int], int, int]:
    """The ids of the rows, the fragments that tasks read, and the bytes."""
    dataset, cost = Dataset.open(uri), Cost()
    found = dataset.scan(filter=condition)
    tasks = plan_tasks(dataset.snapshot, ScanPlan(predicate=found.plan.predicate, **plan), cores=2)
    ids = [i for task in tasks for batch in task.read(cost) for i in batch["id"].to_pylist()]
    return ids, sum(len(task.parts) for task in tasks), cost.counts.bytes_read


@pytest.mark.parametrize(
    ("condition", "fragments"),
    [
        ("day = DATE '1970-01-15'", 1),
        ("day BETWEEN DATE '1970-01-09' AND DATE '1970-01-12'", 2),
        ("id IN (5, 70000) AND x >= 0", 2),
        ("id < 0", 0),
        ("day < DATE '1970-01-05' OR x > 2", 4),
        ("x > 0.5", 4),
        ("day IS NULL", 4),
    ],
)
def test_fragments_without_a_matching_page_are_skipped_before_tasks_are_cut(appended: str, condition: str, fragments: int) -> None:
    ids, parts, _ = read(appended, condition)
    assert parts == fragments
    assert sorted(ids) == sorted(lance.dataset(appended).to_table(filter=condition)["id"].to_pylist())
    text = str(Dataset.open(appended).scan(filter=condition).explain())
    assert ("bounds of pages" in text) == (fragments < 4)
    assert f"in {fragments} fragments" in text


def test_fragments_that_an_index_does_not_cover_are_skipped(appended: str) -> None:
    Dataset.open(appended).create_scalar_index("day", "ZONEMAP")
    for number in (4, 5, 6):
        Dataset.write(appended, days(number), mode="append")
    ids, parts, _ = read(appended, "day = DATE '1970-02-15'")
    assert (len(ids), parts) == (ROWS // 10, 1)


def test_tasks_pass_over_pages(appended: str) -> None:
    everything = read(appended, "x >= 0")
    assert read(appended, "id = 7", task_limit=10)[2] < everything[2] // 2, "tasks look themselves if there is a limit"


def test_deletions_and_a_compaction_keep_the_bounds_right(appended: str) -> None:
    lance.dataset(appended).delete("id % 3 = 0")
    condition = "day = DATE '1970-01-15'"
    expected = sorted(lance.dataset(appended).to_table(filter=condition)["id"].to_pylist())
    assert (sorted(read(appended, condition)[0]), read(appended, condition)[1]) == (expected, 1)
    Dataset.open(appended).optimize.compact_files(target_rows_per_fragment=ROWS)
    assert sorted(read(appended, condition)[0]) == expected
    lance.dataset(appended).validate()
    lance.dataset(appended).optimize.compact_files()
    assert sorted(read(appended, condition)[0]) == expected


def test_tables_of_pylance_have_no_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(days(number), uri, mode="append")
    monkeypatch.setattr(selection, "_LEAST_BYTES", 1000)
    assert read(uri, "id = 7")[:2] == ([7], 3)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([3, None, -5], [-5, 3]),
        ([1.5, -2.0, None], [-2.0, 1.5]),
        ([dt.date(2020, 1, 1), dt.date(1960, 1, 1)], [dt.date(1960, 1, 1), dt.date(2020, 1, 1)]),
        ([dt.datetime(2020, 1, 1), None], [dt.datetime(2020, 1, 1)] * 2),
        ([dt.time(1), dt.time(2)], [dt.time(1), dt.time(2)]),
        ([Decimal("1.50"), Decimal("-7.25")], [Decimal("-7.25"), Decimal("1.50")]),
        ([Decimal("1.50"), None, Decimal("-7.25")], [Decimal("-7.25"), Decimal("1.50")]),
        ([Decimal(10**30), Decimal(-(10**30))], [Decimal(-(10**30)), Decimal(10**30)]),
        ([1.0, -0.5], [-0.5, 1.0]),
        ([1.0, float("nan")], None),
        ([None], None),
    ],
    ids=str,
)
def test_bounds_of_values(values: list[Any], bounds: list[Any] | None) -> None:
    array = pa.array(values[-1:] + values * LEAST_ROWS) if any(v is not None for v in values) else pa.nulls(LEAST_ROWS + 1, pa.int32())
    (field,) = from_arrow(pa.schema({"c": array.type})).fields
    found = read_bounds(bounds_of(array.slice(1)), field)
    assert (None if found is None else found.values.to_pylist()) == bounds
    assert bounds_of(array.slice(0, LEAST_ROWS - 1)) == b"", "few rows"


@pytest.mark.parametrize("t", [pa.string(), pa.bool_(), pa.float16(), pa.list_(pa.int32()), pa.binary(4), pa.duration("s")], ids=str)
def test_columns_without_bounds(t: pa.DataType) -> None:
    field: Field = from_arrow(pa.schema({"c": t})).fields[0]
    assert not has_bounds(field)
    assert read_bounds(bytes(8), field) is None


def test_bounds_of_another_width_are_ignored() -> None:
    (field,) = from_arrow(pa.schema({"c": pa.int64()})).fields
    assert read_bounds(bytes(8), field) is None
