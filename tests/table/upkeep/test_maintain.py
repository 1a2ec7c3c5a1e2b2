"""A table looks after itself: what gains most is done first, within a budget, and rows, other writers and kept versions stay right."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.cli.main import main
from lance_spark.errors import CorruptFileError, InvalidOptionError, MissingFileError, StorageError
from lance_spark.table.scan.runner import Here
from lance_spark.table.upkeep.maintain import Upkeep, maintain_all
from lance_spark.table.upkeep.waste import OPENING, waste_of
from lance_spark.table.versions.snapshot import Snapshot

ROWS = 30_000
SHARD = "00000000-0000-0000-0000-000000000001"


def rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "x": ids * 7 % 1000, "text": [f"text number {n} " * 8 for n in ids]})


def ids(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with an index, twelve appended fragments, and deleted rows in the first one."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, rows(0, ROWS)).create_scalar_index("x", "BTREE")
    for n in range(12):
        Dataset.write(uri, rows(ROWS + n * 100, 100), "append")
    Dataset.open(uri).delete(f"id < {ROWS} AND id % 3 = 0")
    return uri


def test_what_a_table_needs_is_done_in_the_order_of_its_gain(uri: str) -> None:
    before, expected = Dataset.open(uri), ids(uri)
    planned = before.maintain(dry_run=True)
    assert Dataset.open(uri).version == before.version
    assert [step.outcome for step in planned] == ["planned"] * len(planned)
    ratios = [step.expected_gain / max(step.bytes_to_rewrite, 1) for step in planned]
    assert ratios == sorted(ratios, reverse=True)
    done = before.maintain()
    assert {(step.action, step.outcome) for step in done} == {("compact", "done"), ("optimize_indices", "done")}
    assert all(step.gain > 0 for step in done)
    after = Dataset.open(uri)
    assert sum(step.gain for step in done) == waste_of(before.snapshot).total - waste_of(after.snapshot).total
    assert len(after.snapshot.manifest.fragments) == 2, "the deleted rows are gone, and the small ones are joined"
    assert after.index_statistics("x_idx")["num_unindexed_rows"] == 0
    assert ids(uri) == expected
    assert lance.dataset(uri).validate() is None
    assert "compact" in str(done)
    assert "done" in done._repr_html_()


def test_upkeep_comes_to_an_end(uri: str) -> None:
    """A step can make another one worth it: fragments that one index covers now can be joined."""
    rounds = 0
    while Dataset.open(uri).maintain():
        rounds += 1
        assert rounds < 5
    assert len(Dataset.open(uri).snapshot.manifest.fragments) == 1
    assert len(Dataset.open(uri).list_indices()) == 1


def test_a_large_neighbor_is_not_written_again_for_each_small_append(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    large = np.random.default_rng(0).bytes(40 * OPENING)
    for value in (large, b"small", b"small", b"small"):
        Dataset.write(uri, pa.table({"b": pa.array([value], pa.binary())}), "create" if value is large else "append")
    [step] = Dataset.open(uri).maintain()
    assert (step.action, step.what) == ("compact", "3 fragments")
    assert step.bytes_rewritten < OPENING
    assert [f.physical_rows for f in Dataset.open(uri).snapshot.manifest.fragments] == [1, 3]


@pytest.mark.parametrize("budget", [{"budget_bytes": 0}, {"budget_seconds": 0.0}], ids=["bytes", "seconds"])
def test_a_budget_ends_the_steps(uri: str, budget: dict[str, float]) -> None:
    version = Dataset.open(uri).version
    steps = Dataset.open(uri).maintain(**budget)  # type: ignore[arg-type]
    assert steps
    assert all(step.outcome.startswith("left out: it would exceed the budget") for step in steps)
    assert Dataset.open(uri).version == version


def test_a_budget_of_bytes_is_kept(uri: str) -> None:
    planned = Dataset.open(uri).maintain(dry_run=True)
    costs = sorted(step.bytes_to_rewrite for step in planned)
    budget = costs[0] + 1000
    done = Dataset.open(uri).maintain(budget_bytes=budget)
    assert "done" in {step.outcome for step in done}
    assert sum(step.bytes_to_rewrite for step in done if step.outcome == "done") <= budget


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_budget_that_is_no_time_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="budget_seconds must be at least 0"):
        Upkeep(budget_seconds=wrong)


def test_an_index_that_is_dropped_meanwhile_is_left_out(uri: str, tmp_path: Path) -> None:
    def other() -> Snapshot:
        Dataset.open(uri).drop_index("x_idx")
        return Dataset.write(tmp_path / "other.lance", rows(0, 1)).snapshot

    found = maintain_all(Here(), {"t": lambda: Dataset.open(uri).snapshot, "other": other}, Upkeep())
    outcomes = {step.action: step.outcome for step in found["t"]}
    assert outcomes["optimize_indices"].startswith("left out: ")
    assert "x_idx" in outcomes["optimize_indices"]
    assert outcomes["compact"] == "done"


def test_old_versions_are_removed_but_not_those_that_are_kept(uri: str) -> None:
    Dataset.open(uri).tags.create("kept", 3)
    [cleanup] = [step for step in Dataset.open(uri).maintain(retain_versions=1) if step.action == "cleanup"]
    assert cleanup.bytes_rewritten == 0
    assert cleanup.gain > 0
    left = [v.version for v in Dataset.open(uri).versions()]
    assert 3 in left
    assert 2 not in left
    assert [s.action for s in Dataset.open(uri).maintain(older_than=timedelta(days=1)) if s.action == "cleanup"] == []


def test_writers_go_on(uri: str) -> None:
    """Appends and deletions by both libraries are kept, while the table is looked after again and again."""
    stop = threading.Event()
    appended: list[int] = []

    def write() -> None:
        first = 10 * ROWS
        while not stop.is_set() and len(appended) < 12:
            if len(appended) % 2:
                lance.write_dataset(rows(first, 10), uri, mode="append")
            else:
                Dataset.write(uri, rows(first, 10), "append")
            appended.extend(range(first, first + 10))
            first += 10

    expected = ids(uri)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            Dataset.open(uri).maintain()
    finally:
        stop.set()
        writer.join()
    assert ids(uri) == sorted([*expected, *appended])


def test_a_clustered_table_is_sorted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, rows(0, ROWS)).optimize.cluster("x")
    for n in range(3):
        Dataset.write(uri, rows(ROWS + n * 5000, 5000), "append")
    before = waste_of(Dataset.open(uri).snapshot)
    assert before.unordered_bytes > 0
    steps = Dataset.open(uri).maintain()
    assert ("cluster", "done") in {(step.action, step.outcome) for step in steps}
    assert waste_of(Dataset.open(uri).snapshot).unordered_bytes == 0


def test_the_log_of_a_table_is_merged(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}), ("x", pa.int64())])
    table = Dataset.write(uri, pa.table({"id": [1, 2], "x": [1, 2]}, schema)).initialize_mem_wal(unsharded=True)
    with table.mem_wal_writer(SHARD) as writer:
        writer.put(pa.table({"id": [2, 3], "x": [20, 30]}, schema))
    steps = Dataset.open(uri).maintain()
    assert ("merge_mem_wal", "1 generation", "done") in {(s.action, s.what, s.outcome) for s in steps}
    merged = lance.dataset(uri).to_table().sort_by("id")
    assert merged.to_pydict() == {"id": [1, 2, 3], "x": [1, 20, 30]}


def test_scans_note_their_filters_and_indexes_are_recommended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, log = str(tmp_path / "t.lance"), tmp_path / "filters.jsonl"
    table = Dataset.write(uri, rows(0, ROWS))
    table.scan(filter="x = 1").count_rows()
    assert not log.exists(), "nobody has asked for a log"
    monkeypatch.setenv("LANCE_SPARK_FILTER_LOG", str(log))
    for n in range(12):
        table.scan(filter=f"x = {n}").count_rows()
        table.scan(filter=f"id > {n} AND id < {n + 50}").count_rows()
    steps = Dataset.open(uri).maintain(filter_log=str(log))
    assert [(s.action, s.what, s.outcome) for s in steps] == [
        ("create_index", "x", "recommended"),
        ("cluster", "id", "recommended"),
    ]
    assert Dataset.open(uri).version == table.version
    Dataset.open(uri).maintain(filter_log=str(log), apply_recommendations=True)
    made = Dataset.open(uri)
    assert [index["name"] for index in made.list_indices() if index["fields"] == ["x"]] == ["x_idx"]
    assert [s for s in made.maintain(filter_log=str(log)) if s.outcome == "recommended"] == []
    assert ids(uri) == list(range(ROWS))


def test_columns_whose_names_are_quoted_are_recommended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, log = str(tmp_path / "t.lance"), str(tmp_path / "filters.jsonl")
    inner = pa.array([{"b": n, "a b": n % 9} for n in range(1000)])
    Dataset.write(uri, pa.table({"a": inner, "a b": range(1000)}))
    monkeypatch.setenv("LANCE_SPARK_FILTER_LOG", log)
    for n in range(10):
        Dataset.open(uri).scan(filter=f"`a b` = {n} AND a.b = {n}").count_rows()
        Dataset.open(uri).scan(filter=f"a.`a b` = {n}").count_rows()
    steps = Dataset.open(uri).maintain(filter_log=log, apply_recommendations=True)
    assert {s.what for s in steps if s.action == "create_index" and s.outcome == "done"} == {"a b", "a.b", "a.a b"}


def test_all_doors_take_the_same_arguments() -> None:
    def options(function: Callable[..., object]) -> dict[str, object]:
        parameters = inspect.signature(function).parameters
        return {name: p.default for name, p in parameters.items() if name not in ("self", "catalog", "spark")}

    fields = {field.name: field.default for field in dataclasses.fields(Upkeep)}
    assert options(lance_spark.maintain) == options(Dataset.maintain) == options(LanceTable.maintain) == fields


def test_the_command_asks_before_it_removes_old_versions(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = [v.version for v in Dataset.open(uri).versions()]
    assert main(["maintain", uri, "--retain-versions", "1"]) != 0
    assert "Remove" in capsys.readouterr().err
    assert [v.version for v in Dataset.open(uri).versions()] == before
    assert main(["maintain", uri, "--retain-versions", "1", "--yes"]) == 0
    assert len(list(Dataset.open(uri).versions())) < len(before)


def test_a_log_of_filters_that_is_none_is_an_error(uri: str, tmp_path: Path) -> None:
    table = Dataset.open(uri)
    with pytest.raises(MissingFileError, match="LANCE_SPARK_FILTER_LOG"):
        table.maintain(filter_log=str(tmp_path / "none"))
    with pytest.raises(StorageError, match="cannot be read"):
        table.maintain(filter_log=str(tmp_path))
    good = b'{"table": "t", "rows": 1, "read": 1, "columns": {}}'
    for bad in (b'{"table": 1}', b"\xff", b"null", b"[]", good.replace(b": 1", b': "a"'), good.replace(b"{}", b"[1]")):
        (tmp_path / "bad").write_bytes(good + b"\n" + bad)
        with pytest.raises(CorruptFileError, match="line 2"):
            table.maintain(filter_log=str(tmp_path / "bad"))
    with pytest.raises(InvalidOptionError, match="filter_log"):
        table.maintain(apply_recommendations=True)


def test_all_tables_of_a_namespace_share_a_budget(tmp_path: Path) -> None:
    lake = lance_spark.namespace(tmp_path / "lake")
    lake.create_namespace(["inner"])
    for name in (("a",), ("inner", "b")):
        for n in range(4):
            lake.write(name, rows(n * 10, 10), "append" if n else "create")
    planned = lance_spark.maintain(lake, dry_run=True)
    assert {name: [s.action for s in steps] for name, steps in planned.items()} == {"a": ["compact"], "inner.b": ["compact"]}
    cost = planned["a"][0].bytes_to_rewrite
    first = lance_spark.maintain(lake, budget_bytes=cost + cost // 2)
    assert sorted(s.outcome.partition(":")[0] for steps in first.values() for s in steps) == ["done", "left out"]
    done = lance_spark.maintain(lake)
    assert [s.outcome for steps in done.values() for s in steps] == ["done"]


def test_a_damaged_table_does_not_keep_others_from_upkeep(tmp_path: Path) -> None:
    lake = lance_spark.namespace(tmp_path / "lake")
    for name in ("a", "b"):
        for n in range(4):
            lake.write([name], rows(n * 10, 10), "append" if n else "create")
    lake.declare_table(["later"])
    location = Path(lake.open(["a"]).uri)
    for manifest in (location / "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    steps = lance_spark.maintain(lake)
    assert steps["a"][0].outcome.startswith("failed: ")
    assert [s.outcome for s in steps["b"]] == ["done"]
    assert steps["later"] == [], "it has no data yet"


def test_what_is_no_namespace_of_tables_is_refused(tmp_path: Path) -> None:
    events = lance_spark.create_partitioned_namespace(tmp_path / "events", rows(0, 3).schema, [rows(0, 3).schema.names[0]])
    for given in (events, str(tmp_path)):
        with pytest.raises(InvalidOptionError, match="maintain looks after the tables of lance_spark"):
            lance_spark.maintain(given)  # type: ignore[arg-type]
