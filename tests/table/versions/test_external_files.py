"""Row ids, row versions and details of the fragment reuse index that are in files of their own: what a table of them can do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.fragment import ExternalFile, Fragment
from lance_spark.metadata.manifest import serialise
from lance_spark.storage.store import Store
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE, reuse_history
from lance_spark.table.versions.snapshot import open_snapshot

ROWS = pa.table({"id": pa.array(range(12), pa.int64()), "v": [str(i) for i in range(12)]})
FOLDER = "data/sequences"
COLUMNS = ["id", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
SEQUENCES: Mapping[str, tuple[str, ...]] = {
    "row ids": ("row_ids",),
    "created": ("created_at",),
    "updated": ("updated_at",),
    "all": ("row_ids", "created_at", "updated_at"),
}


def in_files(uri: str, names: tuple[str, ...]) -> None:
    """Move these sequences of all fragments into one file each, where they have other bytes around them."""
    snapshot = open_snapshot(Store(uri))

    def moved(fragment: Fragment) -> Fragment:
        files = {}
        for name in names:
            sequence = getattr(fragment, name)
            assert isinstance(sequence, bytes)
            path = f"{FOLDER}/{fragment.id}-{name}.bin"
            snapshot.store.put(path, b"before" + sequence + b"after")
            files[name] = ExternalFile(path, len(b"before"), len(sequence))
        return replace(fragment, **files)  # type: ignore[arg-type]

    changed = replace(snapshot.manifest, fragments=tuple(moved(f) for f in snapshot.manifest.fragments))
    snapshot.store.put(snapshot.path, serialise(changed))


def table_with(folder: Path, names: tuple[str, ...]) -> Dataset:
    """A table of several versions, of which the last has sequences in files."""
    uri = str(folder / "t.lance")
    Dataset.write(uri, ROWS, max_rows_per_file=4, enable_stable_row_ids=True).update({"v": "'new'"}, "id in (1, 6)").delete("id = 2")
    if names:
        in_files(uri, names)
    return Dataset.open(uri)


def indexed(table: Dataset) -> Dataset:
    table = table.create_scalar_index("id", "BTREE")
    assert table.scan(filter="id = 6").to_table()["v"].to_pylist() == ["new"]
    return table


def cleaned(table: Dataset) -> Dataset:
    table.cleanup_old_versions(timedelta(0))
    return table


def fed(table: Dataset) -> Dataset:
    table = table.update({"v": "'again'"}, "id = 7")
    found = table.changes(3).to_table().select(["id", "_change_type"]).to_pylist()
    assert sorted(row["_change_type"] for row in found if row["id"] == 7) == ["update_postimage", "update_preimage"]
    assert len(found) == 2
    return table


def merged(table: Dataset) -> Dataset:
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(pa.table({"id": [3, 30], "v": ["m", "m"]}))


VERBS: Mapping[str, Callable[[Dataset], Dataset]] = {
    "scan": lambda table: table,
    "append": lambda table: table.insert(ROWS.slice(0, 2)),
    "update": lambda table: table.update({"v": "'x'"}, "id > 5"),
    "merge": merged,
    "delete": lambda table: table.delete("id = 4"),
    "compact": lambda table: table.optimize.compact_files(),
    "add columns": lambda table: table.add_columns({"w": "id"}).drop_columns(["w"]),
    "feed": fed,
    "index": indexed,
    "restore": lambda table: table.delete("true").checkout_version(3).restore(),
    "branch": lambda table: table.create_branch("b"),
    "deep clone": lambda table: table.deep_clone(f"{table.uri}-copy"),
    "cleanup": cleaned,
}


@pytest.mark.spec("format-document.md", "Row ID sequences")
@pytest.mark.matrix
@pytest.mark.parametrize("names", SEQUENCES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("alone")
def test_a_verb_on_a_table_with_sequences_in_files(tmp_path: Path, verb: str, names: str) -> None:
    table = VERBS[verb](table_with(tmp_path / "files", SEQUENCES[names]))
    twin = VERBS[verb](table_with(tmp_path / "twin", ()))
    assert table.scan(columns=COLUMNS).to_table().sort_by("_rowid") == twin.scan(columns=COLUMNS).to_table().sort_by("_rowid")
    ids = twin.scan(columns=["_rowid"]).to_table()["_rowid"].to_pylist()
    assert table.take_rows(ids) == twin.take_rows(ids)
    assert table.verify().ok


@pytest.mark.usefixtures("alone")
@pytest.mark.spec("format-document.md", "Row ID sequences")
def test_a_cleanup_removes_sequences_with_the_versions_that_name_them(tmp_path: Path) -> None:
    table = table_with(tmp_path, SEQUENCES["all"])
    folder = Path(table.uri) / FOLDER
    named = {path.name for path in folder.iterdir()}
    table.cleanup_old_versions(timedelta(0))
    assert {path.name for path in folder.iterdir()} == named
    table.optimize.compact_files().cleanup_old_versions(timedelta(0))
    assert not folder.exists()


@pytest.mark.spec("format-document.md", "Row ID sequences")
def test_pylance_reads_versions_in_files_but_opens_no_table_whose_row_ids_are_in_one(tmp_path: Path) -> None:
    versions = table_with(tmp_path / "versions", ("created_at", "updated_at"))
    assert lance.dataset(versions.uri).count_rows() == 11
    ids = table_with(tmp_path / "ids", ("row_ids",))
    with pytest.raises(ValueError, match="All fragments must have row ids"):
        lance.dataset(ids.uri).to_table(with_row_id=True)
    # After our next change of rows it is open to pylance again.
    ids.update({"v": "'x'"}, "id = 3")
    assert lance.dataset(ids.uri).to_table(with_row_id=True).num_rows == 11


@pytest.mark.spec("format-document.md", "Row ID sequences")
def test_large_sequences_are_in_the_manifest_and_pylance_reads_them(tmp_path: Path) -> None:
    """pylance does not open a table whose row ids are in a file, so those of any size are in the manifest."""
    uri = str(tmp_path / "t.lance")
    count = 70_000
    ids = np.random.default_rng(1).permutation(count)
    Dataset.write(uri, pa.table({"id": ids}), enable_stable_row_ids=True).optimize.cluster("id")
    [fragment] = Dataset.open(uri).snapshot.manifest.fragments
    assert isinstance(fragment.row_ids, bytes)
    assert len(fragment.row_ids) > 200 << 10
    theirs = lance.dataset(uri)
    theirs.validate()
    rows = theirs.to_table(columns=["id"], with_row_id=True)
    assert np.array_equal(ids[rows["_rowid"].to_numpy()], rows["id"].to_numpy())


# --- details of the fragment reuse index


@pytest.fixture(scope="module")
def reused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pylance's table with a zone map, compacted without a remap of so many scattered rows that the details are in a file."""
    path = tmp_path_factory.mktemp("reuse") / "t.lance"
    numbers = np.arange(1_700_000, dtype=np.int32)
    table = lance.write_dataset(pa.table({"id": numbers}), path, max_rows_per_file=850_000)
    table.create_scalar_index("id", "ZONEMAP")
    table.delete("(id * 7919) % 1009 % 2 = 0")
    table.optimize.compact_files(defer_index_remap=True)
    return path


def entry_of(table: Dataset) -> Any:
    """The fragment reuse index."""
    return next(index for index in table.snapshot.manifest.indexes if index.name == FRAGMENT_REUSE)


@pytest.mark.spec("table.md", "Indices")
def test_details_in_a_file_are_read(reused: Path) -> None:
    table = Dataset.open(reused)
    where = entry_of(table).details_file
    assert where.path.endswith("details.binpb")
    assert where.size > 200 << 10
    scan = table.scan(filter="id = 4321")
    assert "id_idx" in scan.explain()
    assert scan.to_table() == lance.dataset(reused).to_table(filter="id = 4321")
    assert table.verify(decode=False).ok


@pytest.mark.spec("table.md", "Indices")
def test_details_are_extended_in_the_manifest_and_pylance_reads_them(reused: Path, tmp_path: Path) -> None:
    uri = str(shutil.copytree(reused, tmp_path / "t.lance"))
    table = Dataset.open(uri).delete("id % 5 = 0").optimize.compact_files(defer_index_remap=True)
    entry = entry_of(table)
    assert entry.details_file is None
    assert len(entry.details) > 200 << 10
    assert len(reuse_history((entry,)) or ()) == 2
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.count_rows() == table.count_rows()
    for filter in ("id = 4321", "id BETWEEN 100 AND 300"):
        assert table.scan(filter=filter).to_table() == theirs.to_table(filter=filter)
    theirs.optimize.optimize_indices()
    assert Dataset.open(uri).count_rows("id = 4321") == 1


@pytest.mark.spec("table.md", "Indices")
@pytest.mark.parametrize("damage", ["missing", "cut", "other bytes"])
def test_damaged_details_lead_to_a_scan(reused: Path, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(shutil.copytree(reused, tmp_path / "t.lance"))
    [path] = Path(uri).rglob("details.binpb")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:1000] if damage == "cut" else b"\xff" * len(content))
    table = Dataset.open(uri)
    assert table.count_rows("id = 4321") == 1
    assert "the fragment reuse index is not used" in caplog.text
    [problem] = table.verify(decode=False).problems
    assert problem.path.endswith("details.binpb")


@pytest.mark.spec("table.md", "Indices")
def test_a_deep_clone_has_the_details_in_its_manifest(reused: Path, tmp_path: Path) -> None:
    clone = Dataset.open(reused).deep_clone(str(tmp_path / "clone.lance"))
    assert not list((tmp_path / "clone.lance").rglob("details.binpb"))
    assert "id_idx" in clone.scan(filter="id = 4321").explain()
    theirs = lance.dataset(clone.uri)
    assert theirs.to_table(filter="id = 4321") == clone.scan(filter="id = 4321").to_table()
    shallow = Dataset.open(reused).shallow_clone(str(tmp_path / "shallow.lance"))
    assert "id_idx" in shallow.scan(filter="id = 4321").explain()


@pytest.mark.spec("table.md", "Indices")
@pytest.mark.usefixtures("alone")
def test_a_cleanup_keeps_details_that_a_version_names(reused: Path, tmp_path: Path) -> None:
    uri = str(shutil.copytree(reused, tmp_path / "t.lance"))
    Dataset.open(uri).cleanup_old_versions(timedelta(0))
    assert list(Path(uri).rglob("details.binpb"))
    assert "id_idx" in Dataset.open(uri).scan(filter="id = 4321").explain()
