"""A shallow clone holds what it reads of other tables by tags, so that cleanups of both libraries keep it, until the clone is dropped."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.cli.main import main
from lance_spark.namespace.connect import namespace as open_namespace
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs

NOW = timedelta(0)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def source(tmp_path: Path) -> Dataset:
    return Dataset.write(tmp_path / "t.lance", rows(1, 2))


def clean_up(uri: str, side: str = "pylance", branch: str | None = None) -> None:
    """Replace all rows of a table, so that nothing of its old versions is needed, and remove these."""
    Dataset.open(uri, branch=branch).insert(rows(9), "overwrite")
    if side == "ours":
        Dataset.open(uri, branch=branch).cleanup_old_versions(NOW, delete_unverified=True)
    else:
        theirs = lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))
        theirs.cleanup_old_versions(NOW, delete_unverified=True, error_if_tagged_old_versions=False)


def read(uri: str) -> list[int]:
    ours, theirs = (sorted(table["a"].to_pylist()) for table in (Dataset.open(uri).scan().to_table(), lance.dataset(uri).to_table()))
    assert ours == theirs
    return ours


def tags_of(uri: str) -> list[str]:
    return [name for name in lance.dataset(uri).tags.list() if name.startswith("lance_spark.clone.")]


def at(source: Dataset, name: str) -> str:
    return str(Path(source.snapshot.root.uri).parent / name)


def test_a_clone_is_a_tag_of_its_source_that_tells_where_it_is(source: Dataset) -> None:
    clone = source.shallow_clone(at(source, "my experiment.lance"))
    source.shallow_clone(at(source, "x"))
    first, _ = sorted(tags_of(source.uri))
    assert first.startswith("lance_spark.clone.my-experiment.")
    tag = source.tags.list()[first]
    assert (tag.version, tag.branch, tag.metadata) == (1, None, {refs.CLONE_URI: clone.uri})


@pytest.mark.parametrize("side", ["ours", "pylance"])
def test_cleanups_of_a_source_keep_what_a_clone_reads(source: Dataset, side: str) -> None:
    indexed = source.create_scalar_index("a", "BTREE").delete("a = 2")
    clone = indexed.shallow_clone(at(source, "c"))
    clean_up(source.uri, side)
    assert read(clone.uri) == [1]
    assert clone.verify().problems == ()
    assert clone.verify().unheld == ()


@pytest.mark.parametrize("side", ["ours", "pylance"])
def test_a_clone_of_a_branch_holds_the_version_of_the_branch(source: Dataset, side: str) -> None:
    branch = source.create_branch("dev/x").insert(rows(3))
    clone = branch.shallow_clone(at(source, "c"))
    clean_up(source.uri, side, "dev/x")
    clean_up(source.uri, side)
    assert read(clone.uri) == [1, 2, 3]
    assert (clone.verify().problems, clone.verify().unheld) == ((), ())


@pytest.mark.parametrize("side", ["ours", "pylance"])
@pytest.mark.parametrize("first", ["ours", "pylance", "a branch"])
def test_a_clone_of_a_clone_holds_versions_of_all_tables_that_it_reads(source: Dataset, first: str, side: str) -> None:
    newest = source.insert(rows(3)).delete("a = 1")
    if first == "pylance":
        lance.dataset(source.uri).shallow_clone(at(source, "first"), 2)
    else:
        newest.shallow_clone(at(source, "first"), 2)
    middle = Dataset.open(at(source, "first")) if first != "a branch" else Dataset.open(at(source, "first")).create_branch("b")
    clone = middle.insert(rows(4)).shallow_clone(at(source, "second"))
    assert len(tags_of(at(source, "first"))) == 1
    clean_up(at(source, "first"), side, middle.snapshot.manifest.branch)
    for name in set(tags_of(source.uri)):
        if source.tags.list()[name].metadata[refs.CLONE_URI] != clone.uri:
            source.tags.delete(name)
    clean_up(source.uri, side)
    assert read(clone.uri) == [1, 2, 3, 4]
    assert clone.verify().unheld == ()


def test_a_cleanup_that_finds_the_clone_gone_releases_the_version(source: Dataset) -> None:
    clone = source.shallow_clone(at(source, "c"))
    shutil.rmtree(clone.uri)
    clean_up(source.uri, "ours")
    assert tags_of(source.uri) == []
    assert [v.version for v in Dataset.open(source.uri).versions()] == [2]


@pytest.mark.parametrize("delete_unverified", [False, True])
def test_a_cleanup_leaves_no_empty_folders_of_indexes(source: Dataset, delete_unverified: bool) -> None:
    replaced = source.create_scalar_index("a", "BTREE").create_scalar_index("a", "BITMAP", "a_idx")
    folders = Path(source.uri, "_indices")
    (folders / "5f0e4c1a-0000-4000-8000-000000000000").mkdir()  # of a writer that was killed at once, or that has just begun
    replaced.cleanup_old_versions(NOW, delete_unverified=delete_unverified)
    assert len(list(folders.iterdir())) == (1 if delete_unverified else 2)
    assert replaced.count_rows("a = 1") == 1


def test_a_branch_whose_clones_are_gone_can_be_deleted(source: Dataset) -> None:
    clone = source.create_branch("b").shallow_clone(at(source, "c"))
    shutil.rmtree(clone.uri)
    source.branches.delete("b")
    assert tags_of(source.uri) == []


@pytest.mark.parametrize("door", ["namespace", "command line"])
def test_a_dropped_clone_releases_its_version(source: Dataset, door: str, tmp_path: Path) -> None:
    namespace = open_namespace(str(tmp_path))
    kept = source.shallow_clone(at(source, "kept.lance"))
    source.shallow_clone(at(source, "c.lance")).create_branch("b").insert(rows(7))
    if door == "namespace":
        namespace.drop_table(["c"])
    else:
        assert main(["namespace", str(tmp_path), "drop", "c", "--yes"]) == 0
    assert [source.tags.list()[name].metadata[refs.CLONE_URI] for name in tags_of(source.uri)] == [kept.uri]


def test_a_renamed_clone_keeps_its_version(source: Dataset, tmp_path: Path) -> None:
    namespace = open_namespace(str(tmp_path))
    source.shallow_clone(at(source, "c.lance"))
    namespace.rename_table(["c"], ["d"])
    (name,) = tags_of(source.uri)
    assert source.tags.list()[name].metadata[refs.CLONE_URI] == at(source, "d.lance")
    clean_up(source.uri, "ours")
    assert read(at(source, "d.lance")) == [1, 2]


def test_a_clone_that_cannot_be_made_leaves_no_tag(source: Dataset) -> None:
    existing = Dataset.write(at(source, "c"), rows(5))
    with pytest.raises(Exception, match="already exists"):
        source.shallow_clone(existing.uri)
    assert tags_of(source.uri) == []


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions do not apply to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_clone_of_a_table_that_cannot_be_written_to_warns(caplog: pytest.LogCaptureFixture) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        source = Dataset.write(folder / "t.lance", rows(1, 2))
        (folder / "mine").mkdir()
        os.chmod(folder / "mine", 0o777)
        os.chmod(folder, 0o755)
        os.chmod(source.uri, 0o555)
        with as_nobody(), caplog.at_level(logging.WARNING), pytest.warns(UserWarning, match="is not protected: a cleanup of .*t.lance"):
            clone = source.shallow_clone(str(folder / "mine" / "c"))
        assert "is not protected" in caplog.text
        os.chmod(source.uri, 0o755)
        assert read(clone.uri) == [1, 2]
        assert clone.verify().unheld == (source.uri,)
        assert f"unheld: {source.uri} has no tag for this clone" in str(clone.verify())
    finally:
        shutil.rmtree(folder)


def test_verification_of_a_clone_says_what_is_missing_in_its_source(source: Dataset) -> None:
    clone = source.create_scalar_index("a", "BTREE").delete("a = 1").shallow_clone(at(source, "c"))
    for kind in ("data", "_deletions", "_indices"):
        for file in [path for path in Path(source.uri, kind).rglob("*") if path.is_file()]:
            file.unlink()
    problems = Dataset.open(clone.uri).verify().problems
    assert {problem.path.partition("/")[0] for problem in problems if problem.kind == "missing"} == {"data", "_deletions", "_indices"}
    for problem in problems:
        assert f"it is a file of {source.uri}, which this table reads" in problem.message
    shutil.rmtree(source.uri)
    assert len(Dataset.open(clone.uri).verify().problems) == len(problems)


def test_clones_of_the_first_version_of_this_package_are_kept(source: Dataset) -> None:
    clone = source.shallow_clone(at(source, "c"))
    source.tags.delete(tags_of(source.uri)[0])
    Store(source.uri).put(f"{refs.CLONES}/x.json", f'{{"uri": "{clone.uri}", "version": 1, "branch": null}}'.encode())
    clean_up(source.uri, "ours")
    assert read(clone.uri) == [1, 2]
    assert clone.verify().unheld == ()
