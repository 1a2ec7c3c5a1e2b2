"""Tags, branches and clones that one library creates can be used by the other, on local files and on S3."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import RefConflictError, TableAlreadyExistsError, VersionNotFoundError
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs

ONE, TWO, THREE = (pa.table({"a": pa.array([i], pa.int64()), "s": [str(i)]}) for i in (1, 2, 3))


@dataclass(frozen=True)
class Place:
    """The location of the tests' tables."""

    uri: str
    options: Mapping[str, str]

    def table(self) -> Dataset:
        """A table of three versions: one row, then another, then an index by pylance and one row deleted."""
        Dataset.write(self.uri, ONE, storage_options=self.options)
        Dataset.write(self.uri, TWO, "append", storage_options=self.options)
        self.theirs().delete("a = 1")
        return self.ours()

    def ours(self, **at: object) -> Dataset:
        return Dataset.open(self.uri, storage_options=self.options, **at)  # type: ignore[arg-type]

    def theirs(self, uri: str = "", version: object = None) -> lance.LanceDataset:
        ds = lance.dataset(uri or self.uri, storage_options=dict(self.options))
        return ds if version is None else ds.checkout_version(version)


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "file":
        return Place(str(tmp_path / "t"), {})
    endpoint = request.getfixturevalue("s3_server")
    options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
    return Place(f"s3://tables/{uuid.uuid4().hex}/t", options)


def rows(dataset: Dataset | lance.LanceDataset) -> list[int]:
    table = dataset.scan().to_table() if isinstance(dataset, Dataset) else dataset.to_table()
    return sorted(table["a"].to_pylist())


def test_tags_are_the_same_for_both(place: Place) -> None:
    ours = place.table()
    ours.tags.create("v1", 1)
    ours.tags.create("now")
    theirs = place.theirs().tags.list()
    assert {name: (t["version"], t["branch"]) for name, t in theirs.items()} == {"v1": (1, None), "now": (3, None)}
    place.theirs().tags.create("their.tag", 2)
    place.theirs().tags.replace_metadata("v1", {"why": "release"})
    ours.tags.update("v1", "their.tag")
    tag = ours.tags.list()["v1"]
    assert (tag.version, tag.metadata, ours.tags.get_version("their.tag")) == (2, {"why": "release"}, 2)
    assert place.theirs().tags.list()["v1"]["metadata"] == {"why": "release"}
    assert place.theirs().tags.list()["v1"]["manifest_size"] == Store(place.uri, place.options).size(place.ours(version=2).snapshot.path)
    assert rows(place.ours(tag="v1")) == rows(place.theirs(version="v1")) == [1, 2]
    ours.tags.delete("v1")
    ours.tags.replace_metadata("now", {"k": "v"})
    assert sorted(place.theirs().tags.list()) == ["now", "their.tag"]
    assert place.theirs().tags.list()["now"]["metadata"] == {"k": "v"}


def test_a_tag_needs_an_existing_version_and_a_new_name(place: Place) -> None:
    ours = place.table()
    ours.tags.create("v1", 1)
    with pytest.raises(RefConflictError, match="v1"):
        ours.tags.create("v1", 2)
    with pytest.raises(VersionNotFoundError, match="77"):
        ours.tags.create("v2", 77)
    for change in (ours.tags.update, ours.tags.delete, ours.tags.get_version):
        with pytest.raises(VersionNotFoundError, match="existing tags: v1"):
            change("none")
    with pytest.raises(ValueError, match="invalid tag name"):
        ours.tags.create("../v1", 1)
    assert list(ours.tags.list()) == ["v1"]


def test_branches_are_made_and_written_to_by_both(place: Place) -> None:
    ours = place.table()
    ours.tags.create("first", 1)
    mine = ours.create_branch("feature/mine", "first")
    assert (mine.version, mine.snapshot.manifest.branch, rows(mine)) == (1, "feature/mine", [1])
    mine = Dataset.write(mine.uri, THREE, "append", storage_options=place.options)
    assert rows(mine) == rows(place.theirs(version=("feature/mine", None))) == [1, 3]
    lance.write_dataset(TWO, place.theirs(version=("feature/mine", None)), mode="append")
    assert rows(place.ours(branch="feature/mine")) == [1, 2, 3]
    place.theirs().create_branch("theirs", ("feature/mine", 2))
    assert rows(Dataset.write(place.ours(branch="theirs").uri, ONE, "append", storage_options=place.options)) == [1, 1, 3]
    assert rows(place.theirs(version=("theirs", None))) == [1, 1, 3]
    inner = place.ours(branch="theirs").create_branch("feature/mine/inner")
    assert rows(inner) == rows(place.theirs(version=("feature/mine/inner", None))) == [1, 1, 3]
    listed, known = place.ours().branches.list(), place.theirs().branches.list()
    assert {n: (b.parent_branch, b.parent_version, b.created_at, b.manifest_size, list(b.identifier)) for n, b in listed.items()} == {
        n: (b["parent_branch"], b["parent_version"], b["create_at"], b["manifest_size"], b["branch_identifier"]) for n, b in known.items()
    }
    assert rows(place.ours()) == rows(place.theirs()) == [2]
    assert mine.checkout_version(1).snapshot.manifest.branch == "feature/mine"
    assert rows(inner.checkout_version((None, 2))) == [1, 2]


def test_only_unused_branches_can_be_deleted(place: Place) -> None:
    ours = place.table()
    one = ours.create_branch("one", 1)
    one.create_branch("one/two")
    one.tags.create("on-one", ("one", 1))
    with pytest.raises(RefConflictError, match="branch 'one/two', tag 'on-one'"):
        ours.branches.delete("one")
    ours.branches.delete("one/two")
    ours.tags.delete("on-one")
    two = ours.create_branch("one/two", 2)
    ours.branches.delete("one")
    assert rows(two) == rows(place.theirs(version=("one/two", None))) == [1, 2]
    assert list(place.theirs().branches.list()) == ["one/two"]
    assert Store(place.uri, place.options).walk("tree/one/_versions") == []
    with pytest.raises(VersionNotFoundError, match="existing branches: one/two"):
        ours.branches.delete("one")
    with pytest.raises(RefConflictError, match="already"):
        ours.create_branch("one/two")
    with pytest.raises(ValueError, match="invalid branch name"):
        ours.create_branch("main")


def test_remains_of_an_interrupted_branch_can_be_removed(place: Place) -> None:
    ours = place.table()
    ours.create_branch("x", 1)
    refs.delete_branch(Store(place.uri, place.options), "x")
    with pytest.raises(RefConflictError, match="removes them"):
        ours.create_branch("x", 1)
    ours.branches.delete("x")
    assert rows(ours.create_branch("x", 2)) == [1, 2]


def test_shallow_clones_read_their_source_and_have_their_own_versions(place: Place) -> None:
    ours = place.table()
    branch = Dataset.write(ours.create_branch("b").uri, THREE, "append", storage_options=place.options)
    clone = branch.shallow_clone(f"{place.uri}-clone")
    assert rows(clone) == rows(place.theirs(clone.uri)) == [2, 3]
    lance.write_dataset(ONE, clone.uri, mode="append", storage_options=dict(place.options))
    place.theirs(clone.uri).delete("a = 3")
    assert rows(Dataset.open(clone.uri, storage_options=place.options)) == [1, 2]
    place.theirs().shallow_clone(f"{place.uri}-theirs", 2, storage_options=dict(place.options))
    theirs = Dataset.write(f"{place.uri}-theirs", THREE, "append", storage_options=place.options)
    assert rows(theirs) == rows(place.theirs(theirs.uri)) == [1, 2, 3]
    with pytest.raises(TableAlreadyExistsError):
        ours.shallow_clone(theirs.uri)
    assert rows(branch) == [2, 3]


def test_deep_clones_do_not_need_their_source(place: Place) -> None:
    ours = place.table()
    place.theirs().create_scalar_index("a", "BTREE")
    branch = Dataset.write(place.ours().create_branch("b").uri, THREE, "append", storage_options=place.options)
    clone = branch.deep_clone(f"{place.uri}-deep")
    store = Store(place.uri, place.options)
    for entry in store.walk(""):
        store.delete(entry.name)
    assert rows(clone) == rows(place.theirs(clone.uri)) == [2, 3]
    assert place.theirs(clone.uri).to_table(filter="a = 2").num_rows == 1
    assert clone.snapshot.manifest.base_paths == ()
    assert [i.name for i in place.theirs(clone.uri).describe_indices()] == ["a_idx"]
    assert rows(Dataset.write(clone.uri, ONE, "append", storage_options=place.options)) == [1, 2, 3]
    with pytest.raises(TableAlreadyExistsError):
        clone.deep_clone(clone.uri)
    assert ours.uri != clone.uri


def test_history_lists_operations_messages_and_properties(place: Place) -> None:
    ours = place.table()
    lance.write_dataset(ONE, place.uri, mode="append", commit_message="more", storage_options=dict(place.options))
    found = place.ours().history()
    assert [(h.version, h.operation, h.message) for h in found] == [
        (4, "Append", "more"),
        (3, "Delete", None),
        (2, "Append", None),
        (1, "Overwrite", None),
    ]
    assert [h.timestamp for h in reversed(found)] == [v.timestamp for v in place.ours().versions()]
    assert [h.version for h in ours.history(limit=1)] == [4]
    assert ours.create_branch("x").history()[0].operation == "Clone"
