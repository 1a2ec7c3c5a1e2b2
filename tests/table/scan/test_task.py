"""Reading tasks: fast paths return the same rows as reading everything, at no more cost than necessary."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import evaluate, parse
from lance_spark.table.scan import selection
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from tests.sample import examples

ROWS = 6000


def numbers(rng: random.Random) -> pa.Table:
    """Columns that pylance stores in all kinds of pages, with nulls and structs."""
    key = [rng.randrange(1000) for _ in range(ROWS)]
    return pa.table(
        {
            "key": key,
            "sorted": range(ROWS),
            "word": [None if k % 7 == 0 else f"word {k % 5}" for k in key],
            "text": [f"{k} " * 200 if k % 3 else None for k in key],
            "same": ["x"] * ROWS,
            "s": [{"a": k, "b": {"c": str(k)}} if k % 11 else None for k in key],
            "l": [list(range(k % 4)) for k in key],
            "v": pa.array(np.random.default_rng(1).random((ROWS, 16)).astype(np.float32).tolist(), pa.list_(pa.float32(), 16)),
        }
    )


@pytest.fixture(scope="module", params=["0.1", "2.0", "2.1", "2.2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three fragments, of which one has deleted rows."""
    path = str(tmp_path_factory.mktemp("task") / "t.lance")
    data = numbers(random.Random(5))
    if request.param in ("0.1", "2.0"):
        data = data.drop_columns(["s"])
    version = {"0.1": "legacy"}.get(request.param, request.param)
    written = lance.write_dataset(data, path, max_rows_per_file=2500, data_storage_version=version)
    written.delete("key >= 100 AND key < 400 AND sorted < 2500")
    return Dataset.open(path)


CONDITIONS = [
    "key = 7",
    "key < 500",
    "key >= 0",
    "key < 0",
    "word = 'word 3'",
    "NOT (word = 'word 3')",
    "word IS NULL",
    "word = 'no such word'",
    "same = 'x' AND key % 2 = 1",
    "same = 'y'",
    "text LIKE '7%'",
    "sorted BETWEEN 2400 AND 2600",
    "sorted IN (1, 2499, 2500, 5999)",
    "_rowaddr = 4294967300",
    "_fragid = 1 AND key < 100",
    "_rowid > 8589934592",
]
COLUMNS = [None, ["key"], ["text", "word"], ["v", "_rowaddr"], ["l", "key", "_fragid"], ["_rowid"]]


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reading_the_predicates_columns_first_gives_the_same_rows(table: Dataset, data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS) | st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=3).map(" OR ".join))
    columns = data.draw(st.sampled_from(COLUMNS))
    names = columns or table.schema.names
    predicate = parse(condition, with_row_columns(table.snapshot.manifest.schema))
    everything = table.scan([*table.schema.names, "_rowid", "_rowaddr", "_fragid"]).to_table()
    expected = everything.filter(evaluate(predicate, everything)).select(names)
    plan = ScanPlan(None if columns is None else tuple(columns), predicate, batch_size=data.draw(st.sampled_from([100, 3000, None])))
    before, selection.WINDOW_ROWS = selection.WINDOW_ROWS, data.draw(st.sampled_from([1, 1000, 1 << 20]))
    try:
        got = [b for task in plan_tasks(table.snapshot, plan, 3) for b in task.read()]
    finally:
        selection.WINDOW_ROWS = before
    assert pa.Table.from_batches(got, schema=plan.schema(table.snapshot)).to_pylist() == expected.to_pylist()
    limit = data.draw(st.integers(0, 50))
    assert table.scan(columns, condition, limit=limit, offset=3).to_table().to_pylist() == expected.slice(3, limit).to_pylist()


@pytest.mark.parametrize("columns", [["s"], ["s.b"], ["s.a", "key"], ["s.b.c"]])
def test_a_struct_can_be_in_the_predicate_and_in_the_result_with_different_children(columns: list[str], tmp_path: Path) -> None:
    data = numbers(random.Random(5))
    lance.write_dataset(data, str(tmp_path / "t"), data_storage_version="2.1")
    ds = Dataset.open(str(tmp_path / "t"))
    kept = data.filter(pa.array([k % 11 != 0 and k < 300 for k in data["key"].to_pylist()]))
    expected = lance.write_dataset(kept, str(tmp_path / "kept")).to_table(columns=[c.split(".")[0] for c in columns])
    got = ds.scan(columns, "s.a < 300").to_table()
    assert got.num_rows == expected.num_rows
    for name in columns:
        top, *inner = name.split(".")
        for a, b in zip(got[top].to_pylist(), expected[top].to_pylist()):
            for step in inner:
                a, b = a[step], b[step]
            assert a == b


@pytest.fixture(scope="module")
def wide() -> Iterator[Dataset]:
    """200,000 rows and 40 columns of incompressible noise: 64 MB."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(3)
        data = {"key": np.arange(200_000), **{f"c{i}": rng.random(200_000) for i in range(39)}}
        lance.write_dataset(pa.table(data), f"{folder}/t.lance", data_storage_version="2.1")
        yield Dataset.open(f"{folder}/t.lance")


def bytes_read(ds: Dataset, columns: list[str] | None, condition: str) -> int:
    store = ds.snapshot.store
    before = store.counters.bytes_read
    ds.scan(columns, condition).to_table()
    return store.counters.bytes_read - before


def test_a_filter_reads_its_own_column_and_little_more(wide: Dataset) -> None:
    # A key of 18 bits takes 450 KB; ten rows near each other lie in a chunk or two of 8 KB in each of 39 columns.
    assert bytes_read(wide, None, "key BETWEEN 100000 AND 100010") < 450_000 + 39 * 2 * 8192 + 200_000
    assert bytes_read(wide, ["c1"], "key < 0") < 650_000


def test_a_predicate_on_the_row_address_reads_only_that_row(wide: Dataset) -> None:
    assert bytes_read(wide, ["c1", "c2"], "_rowaddr = 77777") < 200_000
    assert bytes_read(wide, ["c1"], "_rowid IN (5, 6)") < 200_000
    assert bytes_read(wide, ["c1"], "_fragid = 1") == 0
    assert bytes_read(wide, ["c1"], "_metadata.file_name = 'of another table'") == 0
    store = wide.snapshot.store
    before = store.counters.bytes_read
    wide.take([5, 150_000], ["c1"])
    assert store.counters.bytes_read - before < 200_000


def test_a_task_logs_what_it_read_and_skipped(wide: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="lance_spark"):
        wide.scan(filter="key = 100000").to_table()
        wide.scan(["c1"], filter="_row_created_at_version = 7").to_table()
    taken, nothing = (r.getMessage() for r in caplog.records if r.name == "lance_spark.table.scan.task" and "200000 rows" in r.getMessage())
    # The key takes one page; of each other column one of its pages of 8 MB, which 200,000 numbers do not fill.
    assert "1 of 200000 rows in 1 fragments; read 40 of 40 pages" in taken
    read, of = (float(word) for word in taken.split("pages of the columns, ")[1].split(" MB")[0].split(" of "))
    assert read < 2 < 60 < of
    assert "0 of 200000 rows in 1 fragments; read 0 of 0 pages of the columns, 0.0 of 61" in nothing


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def days(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Separate pages for rows of a day or two each, and a column of noise."""
    path = str(tmp_path_factory.mktemp("days") / "t.lance")
    rng = np.random.default_rng(4)
    words = [f"the word of day {i:03d}" for i in range(8)]
    day = np.repeat(np.arange(8), 40_000) // 2 * 2 + rng.integers(0, 2, 320_000)
    data = pa.table({"day": pa.array(words).take(pa.array(day)), "one": ["x"] * 320_000, "noise": rng.random(320_000)})
    lance.write_dataset(data, path, data_storage_version=request.param, max_rows_per_file=80_000)
    return Dataset.open(path)


def test_pages_whose_values_cannot_match_are_not_read(days: Dataset) -> None:
    one_fragment = days.snapshot.manifest.fragments[0].files[0].size or 0
    assert bytes_read(days, ["day"], "day = 'the word of day 003' AND one = 'x'") < one_fragment
    assert bytes_read(days, None, "day = 'the word of day 999'") < 4 * 70_000
    if days.snapshot.manifest.data_format != "2.1":  # which has constant pages of nulls only
        assert bytes_read(days, None, "one <> 'x' AND noise > 0.5") < 4 * 70_000
    for condition, count in (("day >= 'the word of day 006'", 80_000), ("one IS NULL", 0), ("one = 'x' AND day IS NOT NULL", 320_000)):
        assert days.count_rows(condition) == count


def test_rows_after_deletions_are_those_of_the_pages_that_can_match(days: Dataset) -> None:
    days.delete("noise < 0.1 AND day <> 'the word of day 003'")
    left, theirs = Dataset.open(days.snapshot.store.uri), lance.dataset(days.snapshot.store.uri)
    one_fragment = left.snapshot.manifest.fragments[0].files[0].size or 0
    assert bytes_read(left, ["day"], "day = 'the word of day 003' AND one = 'x'") < one_fragment
    for condition in ("day = 'the word of day 003'", "day >= 'the word of day 006' AND noise < 0.5", "day = 'the word of day 000'"):
        assert left.scan(filter=condition).to_table().equals(theirs.to_table(filter=condition))


@pytest.fixture(scope="module")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Legacy files keep statistics of their batches, here of 10,000 rows. Nulls of numbers are zeros there, nulls of strings empty."""
    path = str(tmp_path_factory.mktemp("legacy") / "t.lance")
    n = np.arange(200_000)
    columns = {
        "n": pa.array(n),
        "some": pa.array(n + 10, mask=n % 10_000 == 9_999),
        "price": pa.array(np.where(n == 75_000, np.nan, n / 10)),
        "day": pa.array((n // 500).astype(np.int32)).cast(pa.date32()),
        "word": pa.array([f"word {i // 100:05d}" if i % 97 else None for i in n]),
    }
    lance.write_dataset(pa.table(columns), path, data_storage_version="legacy", max_rows_per_group=10_000)
    return Dataset.open(path)


@pytest.mark.spec("format-document.md", "Statistics")
@pytest.mark.parametrize(
    ("condition", "column", "batches"),
    [
        ("n = 43210", "n", 1),
        ("n BETWEEN 49900 AND 50100", "n", 2),
        ("5 > n OR n >= 199999", "n", 2),
        ("n IN (30000, 30001, 45000)", "n", 2),
        ("n < 0", "n", 0),
        ("some = 0", "some", 20),
        ("price < 100", "price", 1),
        ("price > 19950", "price", 20),
        ("day = DATE '1970-04-11'", "day", 1),
        ("word < 'word 00100'", "word", 1),
        ("word IS NULL", "word", 20),
        ("NOT n < 199990", "n", 20),
    ],
)
def test_statistics_of_legacy_files_say_which_batches_can_match(legacy: Dataset, condition: str, column: str, batches: int) -> None:
    theirs = lance.dataset(legacy.snapshot.store.uri).to_table(filter=condition)
    if column != "price":
        assert legacy.scan(filter=condition).to_table().equals(theirs)
    # NaN is above all numbers for Spark, and not for pylance.
    assert legacy.count_rows(condition) == theirs.num_rows + ("price >" in condition)
    everything = bytes_read(legacy, [column], f"{column} IS NOT NULL")
    assert bytes_read(legacy, [column], condition) <= 2 * 64 * 1024 + everything * batches / 20
