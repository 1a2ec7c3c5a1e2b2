"""Splitting a scan into tasks: all rows once, in order, in tasks of a reasonable size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.plan import ScanPlan, pack, plan_tasks, row_bytes

MB = 1 << 20
FIELDS = Schema((Field("a", 0, "int64"), Field("b", 1, "int64")))


def parts(*sizes: tuple[int, int | None]) -> list[Part]:
    """Fragments with these numbers of rows and bytes."""
    made = [Fragment(i, (DataFile(f"{i}.lance", (0, 1), (0, 1), (2, 1), size),), rows) for i, (rows, size) in enumerate(sizes)]
    return [Part(fragment, 0, fragment.physical_rows) for fragment in made]


SIZES = st.lists(st.tuples(st.integers(1, 10**7), st.none() | st.integers(0, 4000 * MB)), max_size=30)


@given(SIZES, st.integers(1, 64), st.sampled_from([16 * MB, 50 * MB, 128 * MB]))
def test_every_row_is_in_one_task_and_the_order_stays(sizes: list[tuple[int, int | None]], cores: int, max_bytes: int) -> None:
    whole = parts(*sizes)
    got = [part for group in pack(whole, FIELDS, cores, max_bytes) for part in group]
    at = 0
    for part in whole:
        end = part.start
        while end < part.stop:
            assert (got[at].fragment, got[at].start) == (part.fragment, end)
            assert got[at].num_rows > 0
            end, at = got[at].stop, at + 1
    assert at == len(got)


def test_a_huge_fragment_is_split_for_all_cores() -> None:
    assert len(pack(parts((10**7, 2400 * MB)), FIELDS, 2, 128 * MB)) == 19
    assert len(pack(parts((10**7, 600 * MB)), FIELDS, 2, 128 * MB)) == 6
    assert len(pack(parts((10**7, 60 * MB)), FIELDS, 2, 128 * MB)) == 4


def test_groups_have_equal_sizes_for_any_fragments() -> None:
    groups = pack(parts((1_000_000, 36 * MB), (150_000, 5 * MB)), FIELDS, 2, 128 * MB)
    rows = [sum(part.num_rows for part in group) for group in groups]
    assert len(rows) == 2
    assert max(rows) < 1.2 * min(rows)


def test_rows_of_indexes_make_tasks_by_the_chunks_that_they_are_in() -> None:
    def tasks(rows_of_each: int) -> int:
        found = BitMap(range(0, 1000 * rows_of_each, 1000))
        left = [replace(part, stop=rows_of_each, found=found) for part in parts(*[(1_000_000, 20 * MB)] * 10)]
        return len(pack(left, FIELDS, 2, 128 * MB))

    assert [tasks(rows) for rows in (1, 100, 1000)] == [1, 1, 2]


def test_tiny_fragments_are_few_tasks_but_not_one() -> None:
    assert len(pack(parts(*[(10, 1000)] * 2000), FIELDS, 2, 128 * MB)) == 6
    assert len(pack(parts(*[(10, 1000)] * 10_000), FIELDS, 2, 128 * MB)) <= 24
    assert len(pack(parts(*[(10, 1000)] * 20), FIELDS, 2, 128 * MB)) == 1


def test_unread_columns_do_not_count() -> None:
    one = Schema(FIELDS.fields[:1])
    assert len(pack(parts((10**7, 24 * MB)), one, 8, 128 * MB)) == 1
    assert len(pack(parts((10**7, 24 * MB)), FIELDS, 8, 128 * MB)) == 2
    assert row_bytes(parts((100, 1000), (100, None)), one).tolist() == [5.0, 64]


def test_few_rows_are_expected_to_satisfy_a_predicate() -> None:
    assert len(pack(parts((10**7, 120 * MB)), FIELDS, 2, 128 * MB)) == 6
    assert len(pack(parts((10**7, 120 * MB)), FIELDS, 2, 128 * MB, Schema(FIELDS.fields[:1]))) == 4
    assert len(pack(parts((10**7, 120 * MB)), FIELDS, 2, 20 * MB, Schema(()))) == 6


def test_fictitious_sizes_do_not_make_unbounded_tasks() -> None:
    assert len(pack(parts((2**40, 2**62)), FIELDS, 2, 128 * MB)) < 20_000


def test_chosen_fragments_are_read_whole_each_by_one_task(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", pa.table({"a": range(1000)}), max_rows_per_file=100).delete("a % 10 = 3")
    plan = ScanPlan(columns=("a", "_rowaddr"), fragments=frozenset({7, 2, 3, 99}))
    tasks = plan_tasks(table.snapshot, plan, cores=8, max_bytes=1)
    assert [[(part.fragment.id, part.num_rows) for part in task.parts] for task in tasks] == [[(2, 90)], [(3, 90)], [(7, 90)]]
    (task,) = plan_tasks(table.snapshot, plan, cores=1)
    rows = pa.Table.from_batches(task.read())
    assert rows["a"].to_pylist() == [a for a in range(1000) if a // 100 in (2, 3, 7) and a % 10 != 3]
    assert rows["_rowaddr"].to_pylist() == sorted(rows["_rowaddr"].to_pylist())
    assert plan_tasks(table.snapshot, ScanPlan(fragments=frozenset()))[0].parts == ()
    limited = plan_tasks(table.snapshot, ScanPlan(columns=("a",), fragments=frozenset({7}), limit=5, offset=2))
    assert [row for t in limited for batch in t.read() for row in batch["a"].to_pylist()] == [702, 704, 705, 706, 707]
