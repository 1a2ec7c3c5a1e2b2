"""Manifests of both naming schemes: a table with one of them is opened, one with both is migrated."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import list_versions, manifest_path

pytestmark = pytest.mark.spec("format-document.md", "Manifest Naming Schemes")

ROWS = pa.table({"a": [1]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Twelve versions with names of the first scheme, and a tag, by pylance."""
    made = tmp_path / "t"
    for version in range(12):
        lance.write_dataset(ROWS, made, mode="append" if version else "create", enable_v2_manifest_paths=False)
    lance.dataset(made).tags.create("third", 3)
    return made


def rename(path: Path, versions: list[int]) -> None:
    for version in versions:
        (path / manifest_path(version, v2=False)).rename(path / manifest_path(version))


def names(path: Path) -> set[str]:
    return {f"_versions/{entry.name}" for entry in (path / "_versions").iterdir() if entry.suffix == ".manifest"}


@pytest.mark.parametrize("done", [[], [1], [12], [1, 2, 3], [5, 9], list(range(1, 12))], ids=str)
def test_a_migration_that_was_interrupted_anywhere_is_completed(path: Path, done: list[int]) -> None:
    rename(path, done)
    if done:
        for opened in (Dataset.open, lambda uri: Dataset.write(uri, ROWS, "append"), lambda uri: list_versions(Store(uri))):
            with pytest.raises(UnsupportedFeatureError, match=r"names of both schemes, _versions/.*migrate_manifest_paths_v2\('"):
                opened(path)
        with pytest.raises((ValueError, OSError), match="multiple manifest naming schemes"):
            lance.dataset(path)
        assert Dataset.migrate_manifest_paths_v2(path).version == 12
    else:
        assert Dataset.open(path).migrate_manifest_paths_v2().version == 12
    assert names(path) == {manifest_path(version) for version in range(1, 13)}
    theirs = lance.dataset(path)
    theirs.validate()
    assert [v["version"] for v in theirs.versions()] == list(range(1, 13))
    assert lance.write_dataset(ROWS, path, mode="append").count_rows() == 13
    assert Dataset.open(path, tag="third").count_rows() == 3
    assert Dataset.open(path).insert(ROWS).version == 14
    assert Dataset.migrate_manifest_paths_v2(path).version == 14


def test_a_manifest_that_was_copied_and_not_removed_is_removed(path: Path) -> None:
    (path / manifest_path(4)).write_bytes((path / manifest_path(4, v2=False)).read_bytes())
    assert Dataset.migrate_manifest_paths_v2(path).count_rows() == 12


def test_a_version_with_two_contents_is_refused_and_loses_nothing(path: Path) -> None:
    (path / manifest_path(4)).write_bytes((path / manifest_path(5, v2=False)).read_bytes())
    with pytest.raises(CommitConflictError, match=r"version 4 has two manifests that differ, _versions/4\.manifest and _versions/1844"):
        Dataset.migrate_manifest_paths_v2(path)
    assert {manifest_path(4), manifest_path(4, v2=False)} <= names(path)


def test_there_is_nothing_to_migrate_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        Dataset.migrate_manifest_paths_v2(tmp_path)
