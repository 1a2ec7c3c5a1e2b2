"""Conditions on addresses of rows find the same rows as a scan of all fragments, and leave out fragments without such rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.predicate import parse
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

CONDITIONS: list[tuple[str, Callable[[int, int, int], bool], set[int]]] = [
    ("_rowaddr = 12884901891", lambda row, fragment, address: address == 12884901891, {3}),
    ("12884901891 > _rowaddr", lambda row, fragment, address: address < 12884901891, {0, 1, 2, 3}),
    ("_rowaddr IN (1, 4294967299, 99)", lambda row, fragment, address: address in (1, 4294967299), {0, 1}),
    ("_rowaddr BETWEEN 4294967305 AND 8589934592", lambda row, fragment, address: 4294967305 <= address <= 8589934592, {1, 2}),
    ("_fragid = 3 AND id <> 34", lambda row, fragment, address: fragment == 3 and row != 34, {3}),
    ("NOT (_fragid > 0 OR id = 5)", lambda row, fragment, address: not (fragment > 0 or row == 5), {0}),
    ("_fragid = 1 OR id = 5", lambda row, fragment, address: fragment == 1 or row == 5, {0, 1, 2, 3, 4}),
    ("_fragid % 2 = 0", lambda row, fragment, address: fragment % 2 == 0, {0, 1, 2, 3, 4}),
    ("_rowaddr IS NULL", lambda row, fragment, address: False, set()),
    ("_fragid = -1", lambda row, fragment, address: False, set()),
]


@pytest.fixture(scope="module", params=[False, True], ids=["ids are addresses", "stable ids"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = str(tmp_path_factory.mktemp("addresses") / "t.lance")
    whole = Dataset.write(path, pa.table({"id": range(50)}), max_rows_per_file=10, enable_stable_row_ids=request.param)
    return whole.delete("id IN (33, 12)")


@pytest.mark.parametrize(("condition", "holds", "fragments"), CONDITIONS, ids=[c[0] for c in CONDITIONS])
def test_a_condition_on_addresses_reads_only_fragments_that_may_have_them(
    table: Dataset, condition: str, holds: Callable[[int, int, int], bool], fragments: set[int]
) -> None:
    rows = table.to_table(["id", "_fragid", "_rowaddr"]).to_pylist()
    expected = [row["id"] for row in rows if holds(row["id"], row["_fragid"], row["_rowaddr"])]
    assert table.to_table(["id"], condition)["id"].to_pylist() == expected
    plan = ScanPlan(columns=("id",))
    plan = ScanPlan(columns=("id",), predicate=parse(condition, plan.known(table.snapshot)))
    assert {part.fragment.id for task in plan_tasks(table.snapshot, plan) for part in task.parts} == fragments


def test_row_ids_that_are_addresses_leave_out_fragments(table: Dataset) -> None:
    plan = ScanPlan(columns=("id",))
    plan = ScanPlan(columns=("id",), predicate=parse("_rowid >= 17179869184", plan.known(table.snapshot)))
    read = {part.fragment.id for task in plan_tasks(table.snapshot, plan) for part in task.parts}
    assert read == ({0, 1, 2, 3, 4} if table.snapshot.manifest.has_stable_row_ids else {4})


def test_a_column_of_the_table_is_not_taken_for_an_address(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t"), pa.table({"_fragid": pa.array([7, 8], pa.int32())}))
    assert table.count_rows("_fragid = 7") == 1


def test_an_index_that_covers_other_fragments_hides_no_rows(tmp_path: Path) -> None:
    made = Dataset.write(str(tmp_path / "t"), pa.table({"id": range(20)}), max_rows_per_file=10).create_scalar_index("id", "BTREE")
    # The rows of the first fragment move to another one, which the index does not cover.
    table = made.update({"id": "id + 100"}, "_fragid = 0")
    assert table.to_table(["id"], "_fragid = 2 AND id = 103")["id"].to_pylist() == [103]
    assert table.to_table(["id"], "_fragid = 1 AND id = 13")["id"].to_pylist() == [13]
