"""A table about a table says what pylance says of the same version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, MissingFileError
from lance_spark.inspection.metadata_tables import METADATA_TABLES, metadata_table


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(100), "s": [{"x": i, "y": str(i)} for i in range(100)]}), uri, max_rows_per_file=40)
    theirs = lance.dataset(uri)
    theirs.delete("a < 10")
    theirs.create_scalar_index("a", "BTREE")
    theirs.tags.create("first", 1)
    theirs.create_branch("side", 2)
    return Dataset.open(uri)


def test_fragments_files_indexes_tags_and_branches_are_those_of_pylance(dataset: Dataset) -> None:
    theirs = lance.dataset(dataset.uri)
    fragments = dataset.metadata_table("fragments").to_pylist()
    assert [(f["id"], f["rows"], f["deleted_rows"]) for f in fragments] == [
        (f.fragment_id, f.count_rows(), f.num_deletions) for f in theirs.get_fragments()
    ]
    files = dataset.metadata_table("files").to_pylist()
    assert [Path(f["path"]).name for f in files] == [file.path for f in theirs.get_fragments() for file in f.data_files()]
    assert all(Path(f["path"]).stat().st_size == f["size"] for f in files)
    assert {c for f in files for c in f["columns"]} >= {"a", "s.x", "s.y"}
    [index] = dataset.metadata_table("indexes").to_pylist()
    with pytest.warns(DeprecationWarning, match="describe_indices"):
        [other] = theirs.list_indices()
    assert (index["name"], index["uuid"], set(index["fragments"])) == (other["name"], other["uuid"], other["fragment_ids"])
    assert [t["name"] for t in dataset.metadata_table("tags").to_pylist()] == [*theirs.tags.list()]
    [branch] = dataset.metadata_table("branches").to_pylist()
    assert (branch["name"], branch["parent_version"]) == ("side", 2)
    assert {c["path"]: c["rows"] for c in dataset.metadata_table("columns").to_pylist()} == {"a": 100, "s.x": 100, "s.y": 100}


def test_refs_are_the_branches_with_their_latest_version_and_the_tags(dataset: Dataset) -> None:
    on_side = lance.dataset(dataset.uri).checkout_version(("side", None))
    on_side.delete("a < 20")
    Dataset.open(dataset.uri, branch="side").tags.create("later", ("side", 3))
    found = Dataset.open(dataset.uri).metadata_table("refs")
    assert [tuple(row.values())[:4] for row in found.to_pylist()] == [
        ("main", "BRANCH", None, lance.dataset(dataset.uri).latest_version),
        ("side", "BRANCH", "side", on_side.latest_version),
        ("first", "TAG", None, 1),
        ("later", "TAG", "side", 3),
    ]
    assert found["created_at"].is_null().to_pylist() == [True, False, False, False]
    shutil.rmtree(f"{dataset.uri}/tree/side")
    assert Dataset.open(dataset.uri).metadata_table("refs")["version"].to_pylist()[:2] == [3, None]


def test_history_and_transactions_end_with_the_version_that_is_read(dataset: Dataset) -> None:
    versions = sorted((v["version"] for v in lance.dataset(dataset.uri).versions()), reverse=True)
    history = dataset.metadata_table("history").to_pylist()
    assert [e["version"] for e in history] == versions
    assert [e["operation"] for e in history][-2:] == ["Delete", "Overwrite"]
    assert dataset.checkout_version(1).metadata_table("versions")["version"].to_pylist() == [1]
    assert dataset.checkout_version(2).metadata_table("transactions")["read_version"].to_pylist() == [1, 0]


def test_a_table_without_rows_has_its_columns_and_an_unknown_name_is_an_error(dataset: Dataset) -> None:
    empty = Dataset.write(dataset.uri, pa.table({"a": pa.array([], pa.int64())}), mode="overwrite")
    for name, table in METADATA_TABLES.items():
        assert empty.metadata_table(name).schema == table.schema
    with pytest.raises(InvalidOptionError, match="did you mean 'files'"):
        empty.metadata_table("filez")


def test_the_tables_of_iceberg_have_its_columns(dataset: Dataset) -> None:
    theirs = lance.dataset(dataset.uri)
    latest = dataset.version

    def rows(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = dataset.metadata_table(name).to_pylist()
        return found

    assert [(s["snapshot_id"], s["parent_id"]) for s in rows("snapshots")] == [(v, v - 1 or None) for v in range(latest, 0, -1)]
    assert [h["snapshot_id"] for h in rows("history")] == [s["snapshot_id"] for s in rows("snapshots")]
    assert [m["latest_snapshot_id"] for m in rows("metadata_log_entries")] == list(range(latest, 0, -1))
    data, deletions = rows("data_files"), rows("delete_files")
    assert [f["record_count"] for f in data] == [f.physical_rows for f in theirs.get_fragments()]
    assert all(Path(f["file_path"]).is_file() for f in (*data, *deletions))
    assert [(d["content"], d["record_count"]) for d in deletions] == [(1, 10)]
    positions = rows("position_deletes")
    assert {(p["file_path"], p["delete_file_path"]) for p in positions} == {(data[0]["file_path"], deletions[0]["file_path"])}
    assert [p["pos"] for p in positions] == list(range(10))
    assert [f["file_path"] for f in rows("files")] == [f["file_path"] for f in data]
    assert [e["data_file"]["file_path"] for e in rows("entries")] == [f["file_path"] for f in (*data, *deletions)]
    assert {e["status"] for e in rows("entries")} == {0}, "the latest version, of an index, added no file of rows"
    [manifest] = rows("manifests")
    assert Path(manifest["path"]).stat().st_size == manifest["length"]
    assert (manifest["existing_data_files_count"], manifest["existing_delete_files_count"]) == (len(data), 1)
    [partition] = rows("partitions")
    assert (partition["record_count"], partition["position_delete_record_count"]) == (theirs.count_rows(), 10)
    assert {r["type"] for r in rows("refs")} == {"BRANCH", "TAG"}


def test_the_tables_of_all_versions_have_each_file_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    lance.write_dataset(pa.table({"a": [4]}), uri, mode="append")
    lance.dataset(uri).delete("a = 1")
    lance.write_dataset(pa.table({"a": [9]}), uri, mode="overwrite")
    dataset = Dataset.open(uri)
    assert dataset.metadata_table("data_files").num_rows == 1
    assert sorted(dataset.metadata_table("all_data_files")["record_count"].to_pylist()) == [1, 1, 3]
    assert dataset.metadata_table("all_delete_files").num_rows == 1
    assert dataset.metadata_table("all_files").num_rows == 4
    assert dataset.metadata_table("all_manifests").num_rows == 4
    added = [e["snapshot_id"] for e in dataset.metadata_table("all_entries").to_pylist() if e["status"] == 1]
    assert added == [4, 3, 2, 1], "each version added one file"
    [manifest] = dataset.metadata_table("manifests").to_pylist()
    assert (manifest["added_data_files_count"], manifest["existing_data_files_count"]) == (1, 0)
    assert dataset.checkout_version(2).metadata_table("all_data_files").num_rows == 2


def test_deleted_rows_are_read_in_batches(tmp_path: Path) -> None:
    rows = pa.table({"a": range(200_000)})
    table = Dataset.write(tmp_path / "t", rows, max_rows_per_file=150_000).delete("a % 10 > 0")
    batches = list(metadata_table("position_deletes").batches(table.snapshot))
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    positions = [position for batch in batches for position in batch["pos"].to_pylist()]
    deleted = [a for a in range(200_000) if a % 10]
    assert positions == [a if a < 150_000 else a - 150_000 for a in deleted]


def test_a_lost_file_of_deletions_is_named(tmp_path: Path) -> None:
    Dataset.write(tmp_path / "t", pa.table({"a": range(10)})).delete("a < 5")
    [lost] = (tmp_path / "t" / "_deletions").iterdir()
    lost.unlink()
    with pytest.raises(MissingFileError, match="_deletions"):
        Dataset.open(tmp_path / "t").metadata_table("position_deletes")
