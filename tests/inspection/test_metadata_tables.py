"""A table about a table says what pylance says of the same version."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.inspection.metadata_tables import METADATA_TABLES


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
        ("main", "branch", None, lance.dataset(dataset.uri).latest_version),
        ("side", "branch", "side", on_side.latest_version),
        ("first", "tag", None, 1),
        ("later", "tag", "side", 3),
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
