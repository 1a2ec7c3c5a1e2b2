"""The verbs of Dataset match those of pylance on a copy of the table, including row ids and row versions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import AmbiguousMergeError, SchemaMismatchError, VersionNotFoundError

ROWS = pa.table({
    "id": pa.array(range(200), pa.int64()),
    "name": [None if i % 7 == 0 else f"n{i}" for i in range(200)],
    "x": pa.array([float("nan") if i % 11 == 0 else i / 2 for i in range(200)]),
    "s": pa.array([{"a": i, "b": [f"{i}"] * (i % 3)} for i in range(200)], pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    "v": pa.array([[i, i + 1] for i in range(200)], pa.list_(pa.float32(), 2)),
})  # fmt: skip
NEW = pa.table({
    "id": pa.array([3, 50, 51, 900, 901], pa.int64()),
    "name": ["three", None, "fifty-one", "new", "newer"],
    "x": [0.5, 1.5, None, 2.5, 3.5],
    "s": pa.array([None, {"a": 1, "b": []}, {"a": 2, "b": None}, None, {"a": 3, "b": ["q"]}], ROWS.schema.field("s").type),
    "v": pa.array([[0, 0], None, [1, 1], [2, 2], None], pa.list_(pa.float32(), 2)),
})  # fmt: skip
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]

Verb = Callable[[Any], Any]
VERBS: dict[str, Verb] = {
    "update some": lambda d: d.update({"name": "'new'", "x": "x + 1"}, "id < 5"),
    "update all": lambda d: d.update({"x": "id * 2"}),
    "update none": lambda d: d.update({"x": "1"}, "id > 1000"),
    "upsert": lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(NEW),
    "upsert on a condition": lambda d: (
        d.merge_insert("id").when_matched_update_all("source.x > target.x").when_not_matched_insert_all().execute(NEW)
    ),
    "insert if new": lambda d: d.merge_insert("id").when_not_matched_insert_all().execute(NEW),
    "replace all": lambda d: (
        d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete().execute(NEW)
    ),
    "replace some": lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete("id >= 100").execute(NEW),
    "add columns": lambda d: d.add_columns({"twice": "id * 2"}),
    "compact": lambda d: d.optimize.compact_files(),
}
"""Calls that mean the same on a Dataset of ours and on one of pylance's."""


def rows(uri: Path, stable: bool) -> list[tuple[object, ...]]:
    """The rows sorted by key; with stable row ids, also the ids and versions from our reader."""
    lance.dataset(str(uri)).validate()
    assert Dataset.open(uri).verify().ok
    table = Dataset.open(uri).scan(columns=[*lance.dataset(str(uri)).schema.names, *(LINEAGE if stable else [])]).to_table()
    assert lance.dataset(str(uri)).count_rows() == table.num_rows
    return [tuple(map(repr, row.values())) for row in table.sort_by("id").to_pylist()]


@pytest.mark.matrix
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("verb", VERBS)
def test_results_match_pylance(tmp_path: Path, verb: str, stable: bool) -> None:
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    lance.write_dataset(ROWS, str(ours), max_rows_per_file=60, enable_stable_row_ids=stable)
    lance.dataset(str(ours)).delete("id IN (5, 50, 130)")
    shutil.copytree(ours, theirs)
    VERBS[verb](Dataset.open(ours))
    VERBS[verb](lance.dataset(str(theirs)))
    got, expected = rows(ours, stable), rows(theirs, stable)
    if stable and verb in ("upsert", "upsert on a condition", "replace all", "insert if new"):
        # Which of the new rows gets which of the next ids is free.
        assert [row[:5] for row in got] == [row[:5] for row in expected]
        assert sorted(row[5:] for row in got) == sorted(row[5:] for row in expected)
    else:
        assert got == expected
    lance.dataset(str(ours)).insert(lance.dataset(str(ours)).to_table(limit=3))
    lance.dataset(str(ours)).optimize.compact_files()
    assert len(rows(ours, stable)) == len(got) + min(3, len(got))


def test_a_row_of_the_table_is_changed_at_most_once(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "t.lance"))
    dataset = Dataset.open(tmp_path / "t.lance")
    twice = pa.concat_tables([NEW.slice(0, 1), NEW.slice(0, 1)])
    with pytest.raises(AmbiguousMergeError, match="more than one row of the source"):
        dataset.merge_insert("id").when_matched_update_all().execute(twice)
    with pytest.raises(SchemaMismatchError, match="lacks the key 'id'"):
        dataset.merge_insert("id").when_matched_update_all().execute(NEW.drop_columns(["id"]))
    with pytest.raises(SchemaMismatchError, match="'x' is string"):
        dataset.update({"x": "'text'"})
    assert lance.dataset(str(tmp_path / "t.lance")).version == 1


@pytest.mark.parametrize("verb", ["update some", "upsert", "add columns"])
def test_a_version_that_was_cleaned_up_cannot_be_changed(tmp_path: Path, verb: str) -> None:
    uri = str(tmp_path / "t.lance")
    old = Dataset.write(uri, ROWS, max_rows_per_file=60)
    old.update({"x": "1.0"})
    Dataset.open(uri).cleanup_old_versions(retain_versions=1)
    with pytest.raises(VersionNotFoundError):
        VERBS[verb](old)
    assert Dataset.open(uri).version == 2


@pytest.mark.parametrize("where", [None, "id < 3"], ids=["all rows", "few rows"])
def test_values_may_be_calculated_from_addresses_and_ids_of_rows(tmp_path: Path, where: str | None) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS, uri, max_rows_per_file=150, enable_stable_row_ids=True)
    added = Dataset.open(uri).add_columns({"place": "_rowaddr", "number": "_rowid", "both": "_rowaddr + id"})
    read = added.scan(columns=["id", "place", "number", "both", "_rowid", "_rowaddr"]).to_table().to_pylist()
    assert [(row["place"], row["number"], row["both"]) for row in read] == [
        (row["_rowaddr"], row["_rowid"], row["_rowaddr"] + row["id"]) for row in read
    ]
    before = {row["id"]: row["_rowaddr"] for row in read}
    updated = added.update({"x": "_rowaddr"}, where)
    after = {row["id"]: row["x"] for row in updated.scan(columns=["id", "x"]).to_table().to_pylist()}
    assert [after[i] for i in range(3)] == [before[i] for i in range(3)]


def test_dates_and_times_are_assigned_as_in_spark(tmp_path: Path) -> None:
    """Dates, local times and instants are cast to the column's type; local times are those in UTC."""
    at = datetime(2021, 1, 2, 3, 4, 5)
    types = {"ns": pa.timestamp("ns"), "ms": pa.timestamp("ms"), "zoned": pa.timestamp("us", "Europe/Berlin"), "day": pa.date32()}
    table = Dataset.write(tmp_path / "t", pa.table({name: pa.array([at], pa.timestamp("us")).cast(t) for name, t in types.items()}))
    table = table.update({"ns": "TIMESTAMP '2022-03-04 05:06:07'", "zoned": "TIMESTAMP_NTZ '2022-03-04 05:06:07'", "day": "ns"})
    table = table.update({"ms": "zoned", "ns": "DATE '2023-01-01'"})
    expected = {"ns": datetime(2023, 1, 1), "ms": datetime(2022, 3, 4, 5, 6, 7), "day": date(2021, 1, 2)}
    (row,) = table.scan().to_table().to_pylist()
    assert {name: row[name] for name in expected} == expected
    assert row["zoned"] == datetime(2022, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert lance.dataset(str(tmp_path / "t")).to_table() == table.scan().to_table()


def test_columns_that_are_null_in_all_rows_need_no_files(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", ROWS)
    files = [f.files for f in table.snapshot.manifest.fragments]
    added = table.add_columns({"i": "CAST(NULL AS INT)", "text": "CAST(NULL AS STRING)"})
    assert [f.files for f in added.snapshot.manifest.fragments] == files
    assert added.schema.field("i").type == pa.int32()
    assert added.schema.field("text").type == pa.string()
    assert added.scan(columns=["i", "text"]).to_table() == lance.dataset(str(tmp_path / "t")).to_table(columns=["i", "text"])


MIXED_VERBS: dict[str, Callable[[Dataset], Dataset]] = {
    "append": lambda table: Dataset.write(table.uri, ROWS.slice(7, 3), mode="append"),
    "add columns": lambda table: table.add_columns({"next": "id + 1"}).add_columns({"last": "next + 1"}),
    "update in place": lambda table: table.update({"x": "id"}),
    "update": lambda table: table.update({"name": "'new'"}, "id % 50 = 3"),
    "change a type": lambda table: table.alter_columns({"path": "id", "data_type": pa.int32()}),
    "delete": lambda table: table.delete("id % 50 = 3"),
    "merge": lambda table: table.merge_insert("id").when_matched_update_all().execute(ROWS.slice(10, 100)),
    "compact": lambda table: table.optimize.compact_files(),
}


@pytest.mark.parametrize("verb", MIXED_VERBS)
def test_a_table_with_files_of_several_versions_can_be_changed(tmp_path: Path, verb: str) -> None:
    """Since pylance 14 each append can choose the version of its files; other changes write the table's own."""
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS.slice(0, 50), uri, data_storage_version="2.0")
    lance.write_dataset(ROWS.slice(50, 50), uri, mode="append", data_storage_version="2.1")
    lance.write_dataset(ROWS.slice(100), uri, mode="append", data_storage_version="2.2")
    changed = MIXED_VERBS[verb](Dataset.open(uri))
    assert changed.verify().ok
    theirs = lance.dataset(uri)
    theirs.validate()
    assert [repr(row) for row in theirs.to_table().to_pylist()] == [repr(row) for row in changed.scan().to_table().to_pylist()]
    theirs.delete("id = 51")
    assert Dataset.open(uri).count_rows() == theirs.count_rows()


def test_compaction_limits_the_bytes_of_files(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", pa.table({"b": [bytes([i]) * 100_000 for i in range(40)]}), max_rows_per_file=5)
    compacted = table.optimize.compact_files(max_bytes_per_file=1_000_000)
    assert [f.physical_rows for f in compacted.snapshot.manifest.fragments] == [15, 15, 10]
    assert compacted.scan().to_table() == table.scan().to_table()
