"""addColumns with a checkpoint: what was calculated before a failure is not calculated again, unless it was changed since."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from tests.sample import others_slow

ROWS = pa.table({"id": pa.array(range(120), pa.int64()), "x": pa.array(range(120), pa.int64())})
NEW = pa.schema({"double": pa.int64()})
Compute = Callable[[pa.RecordBatch], pa.RecordBatch]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def table(request: pytest.FixtureRequest, uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id IN (5, 40)")
    return LanceTable.forPath(spark, uri)


def expensive(folder: Path, fails_from: int = 1000) -> Compute:
    """A function that notes the ids that it sees, in files, and fails from an id on, once the other fragments are finished."""

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch.column("id")[0].as_py()
        if first >= fails_from:
            deadline = time.monotonic() + 250
            while len(list((folder / "notes").glob("*.json"))) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            raise RuntimeError("out of credits")
        with (folder / "calls").open("a") as calls:
            calls.write(f"{first}\n")
        return pa.record_batch({"double": pc.multiply(batch.column("x"), 2)})

    return compute


def calls(folder: Path) -> list[int]:
    found = sorted(map(int, (folder / "calls").read_text().split())) if (folder / "calls").exists() else []
    (folder / "calls").unlink(missing_ok=True)
    return found


def begun(table: LanceTable, folder: Path) -> str:
    """The first call, which finishes all fragments but the last."""
    notes = str(folder / "notes")
    with pytest.raises(PySparkException, match="out of credits"):
        table.addColumns(expensive(folder, 90), schema=NEW, columns=["id", "x"], checkpoint=notes)
    return notes


def check(uri: str) -> None:
    lance.dataset(uri).validate()
    assert Dataset.open(uri).verify().ok
    rows = lance.dataset(uri).to_table().to_pylist()
    assert rows
    assert all(row["double"] == 2 * row["x"] for row in rows)


def test_finished_fragments_are_not_calculated_again(table: LanceTable, uri: str, tmp_path: Path) -> None:
    notes = begun(table, tmp_path)
    before = calls(tmp_path)
    done = table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    after = calls(tmp_path)
    assert 90 in after
    assert sorted(before + after) == [0, 30, 60, 90]
    assert done.num_files_added == 4
    assert list(Path(notes).iterdir()) == []
    check(uri)


def test_changed_fragments_are_calculated_again(table: LanceTable, uri: str, tmp_path: Path) -> None:
    notes = begun(table, tmp_path)
    before = calls(tmp_path)
    lance.dataset(uri).delete("id IN (0, 1)")
    lance.dataset(uri).insert(ROWS.slice(0, 10))
    Dataset.open(uri).update({"x": "x + 1000"}, "id >= 30 AND id < 60")  # in place: the fragment gets a file with other values
    table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    after = calls(tmp_path)
    assert {0, 30, 90} <= set(after)  # 0: the rows that were appended
    assert (2 in after) == (0 not in before)  # the fragment that lost its first rows
    check(uri)


def test_rows_that_come_back_get_values(table: LanceTable, uri: str, tmp_path: Path) -> None:
    notes = begun(table, tmp_path)
    table.restoreToVersion(1)
    calls(tmp_path)
    table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    assert {0, 30} <= set(calls(tmp_path))
    assert lance.dataset(uri).count_rows() == 120
    check(uri)


def test_notes_that_cannot_be_used_are_passed_over(table: LanceTable, uri: str, tmp_path: Path) -> None:
    notes = begun(table, tmp_path)
    calls(tmp_path)
    files = {path.name for fragment in lance.dataset(uri).get_fragments() for path in [Path(fragment.data_files()[0].path)]}
    for path in Path(uri, "data").iterdir():
        if path.name not in files:
            path.unlink()
    table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    assert calls(tmp_path) == [0, 30, 60, 90]
    check(uri)


BAD_PATH = b'{"file": ["../../x.lance", [2], [0], [2, 1], 5]}'


@pytest.mark.parametrize("content", others_slow([b"", b"{", b"[]", BAD_PATH, b'{"file": 1}'], [b"{", BAD_PATH]))
def test_broken_notes_are_passed_over(uri: str, spark: SparkSession, tmp_path: Path, content: bytes) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30)
    table = LanceTable.forPath(spark, uri)
    notes = begun(table, tmp_path)
    calls(tmp_path)
    for note in Path(notes).iterdir():
        note.write_bytes(content)
    table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    assert calls(tmp_path) == [0, 30, 60, 90]
    check(uri)


def test_other_columns_and_tables_have_notes_of_their_own(uri: str, spark: SparkSession, tmp_path: Path) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30)
    table = LanceTable.forPath(spark, uri)
    notes = begun(table, tmp_path)
    calls(tmp_path)

    def triple(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"triple": pc.multiply(batch.column("x"), 3)})

    table.addColumns(triple, schema=pa.schema({"triple": pa.int64()}), columns=["x"], checkpoint=notes)
    table.addColumns(expensive(tmp_path), schema=NEW, columns=["id", "x"], checkpoint=notes)
    rows = lance.dataset(uri).to_table().to_pylist()
    assert all((row["double"], row["triple"]) == (2 * row["x"], 3 * row["x"]) for row in rows)
    with pytest.raises(ValueError, match="columns from a function"):
        table.addColumns({"a": "1"}, checkpoint=notes)
