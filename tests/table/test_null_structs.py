"""A null struct has no values for any reader, also where the children of the Arrow array have some, and after every verb."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.rows import assert_same_values, values_in_nulls

GOLDEN = Path(__file__).parents[1] / "golden"
OLD = ["s0_1_0_21_structnull", "s0_1_0_22_structnull"]
"""Tables of lance-spark 0.1.0 with values in null structs."""


def struct(count: int, first: int = 0) -> pa.StructArray:
    """Structs of which every third is null, with values in all of their children."""
    x = pa.array(range(first, first + count), pa.int64())
    null = pa.array([i % 3 == 1 for i in range(count)])
    inner = pa.StructArray.from_arrays([x, x.cast(pa.string())], names=["y", "s"], mask=pa.array([i % 4 == 2 for i in range(count)]))
    lists = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), inner)
    return pa.StructArray.from_arrays([x, inner, lists], names=["x", "inner", "lists"], mask=null)


def rows(count: int, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "st": struct(count, first)})


def check(table: Dataset, column: str = "st") -> None:
    """pylance reads the rows that we read, and sees no values in null structs."""
    theirs = lance.dataset(table.uri)
    theirs.validate()
    mine, seen = table.scan([column]).to_table()[column].combine_chunks(), theirs.to_table([column])[column].combine_chunks()
    assert_same_values(seen, mine)
    assert not values_in_nulls(seen)
    assert table.verify().ok


def appended(table: Dataset) -> Dataset:
    return Dataset.write(table.uri, rows(30, 100), mode="append")


def merged(table: Dataset) -> Dataset:
    return table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(30, 10))


def updated(table: Dataset) -> Dataset:
    return table.update({"id": "id + 1000"}, where="id % 2 = 0")


def added(table: Dataset) -> Dataset:
    return table.add_columns({"more": "st"})


def deleted_and_compacted(table: Dataset) -> Dataset:
    table = appended(table).delete("id % 5 = 0")
    table.optimize.compact_files()
    return Dataset.open(table.uri)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("verb", [appended, merged, updated, added, deleted_and_compacted])
def test_every_verb_writes_null_structs_without_values(tmp_path: Path, version: str, verb: Callable[[Dataset], Dataset]) -> None:
    table = Dataset.write(str(tmp_path / "t"), rows(30), data_storage_version=version)
    check(table)
    table = verb(table)
    check(table)
    if "more" in table.schema.names:
        check(table, "more")


def test_pylance_finds_and_deletes_rows_as_we_do(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t"), rows(30))
    theirs = lance.dataset(table.uri)
    assert theirs.count_rows("st.x IS NULL") == table.count_rows("st.x IS NULL") == 10
    assert theirs.to_table(columns={"x": "st.x"})["x"].null_count == 10
    theirs.delete("st.x = 1")
    assert theirs.count_rows() == 30, "row 1 has no x"


@pytest.mark.parametrize("name", OLD)
def test_verify_finds_values_in_null_structs_of_earlier_files(name: str) -> None:
    report = Dataset.open(str(GOLDEN / f"{name}.lance")).verify()
    (problem,) = report.problems
    assert problem.kind == "nulls"
    assert "'st.x', 'st.s', 'st.inner.x', 'st.inner.s', 'ls.item.x', 'ls.item.s'" in problem.message
    assert [p.kind for p in Dataset.open(report.uri).verify(decode=False).problems] == ["nulls"]


@pytest.mark.parametrize("name", OLD)
def test_our_reader_shows_no_values_of_null_structs_of_earlier_files(name: str) -> None:
    table = Dataset.open(str(GOLDEN / f"{name}.lance"))
    assert table.count_rows("st.x IS NULL") == 3
    assert table.count_rows("st.x = 1") == 2
    assert table.count_rows("st.inner.x IS NULL") == 6
    assert table.count_rows("array_contains(st.l, 1)") == 2


@pytest.mark.parametrize("name", OLD)
def test_the_update_that_verify_names_mends_earlier_files(tmp_path: Path, name: str) -> None:
    table = Dataset.open(shutil.copytree(GOLDEN / f"{name}.lance", tmp_path / "t"))
    (problem,) = table.verify().problems
    assert "update({'st': '`st`', 'ls': '`ls`'})" in problem.message
    table = table.update({"st": "`st`", "ls": "`ls`"})
    check(table)
    check(table, "ls")


def test_compaction_encodes_pages_with_values_in_null_structs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.compaction.task.WHOLE_PAGES_ROWS", 10)
    uri = str(shutil.copytree(GOLDEN / "s0_1_0_22_structnull.lance", tmp_path / "t"))
    table = Dataset.write(uri, Dataset.open(uri).scan().to_table(), mode="append")
    table.optimize.compact_files()
    table = Dataset.open(uri)
    assert np.array_equal(table.scan(["id"]).to_table()["id"].to_numpy(), np.tile(np.arange(12), 2))
    check(table)
    check(table, "ls")
