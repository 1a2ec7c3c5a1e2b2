"""Snapshots: every reference opens the same version as in pylance, and errors list the existing ones."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError, TableNotFoundError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import (
    is_v2_path,
    latest_version,
    list_versions,
    manifest_path,
    open_snapshot,
    reopened,
    version_of,
)

pytestmark = pytest.mark.spec("format-document.md", "Dataset Directory")


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Three versions, and two more on a branch."""
    uri = str(tmp_path / "t.lance")
    for i in range(3):
        lance.write_dataset(pa.table({"a": [i]}), uri, mode="append" if i else "create")
    ds = lance.dataset(uri)
    ds.tags.create("second", 2)
    branch = ds.create_branch("bug/fix", 2)
    branch = lance.write_dataset(pa.table({"a": [10]}), branch, mode="append")
    ds.tags.create("on-branch", ("bug/fix", branch.version))
    return tmp_path / "t.lance"


def to_v1_names(table: Any, versions: Any) -> None:
    for version in versions:
        shutil.move(table / manifest_path(version), table / manifest_path(version, v2=False))


@pytest.mark.parametrize("old", [[], [1, 2, 3]], ids=str)
def test_versions_are_found_under_both_naming_schemes(table: Any, old: Any) -> None:
    to_v1_names(table, old)
    store = Store(str(table))
    assert list(list_versions(store)) == [1, 2, 3]
    assert open_snapshot(store).version == 3
    for version in (1, 2, 3):
        snapshot = open_snapshot(store, version=version)
        assert snapshot.version == version
        assert is_v2_path(snapshot.path) == (version not in old)
        assert len(snapshot.manifest.fragments) == version


def test_the_latest_version_is_not_read_again(table: Any) -> None:
    store = Store(str(table))
    old, latest = open_snapshot(store, version=2), open_snapshot(store)
    assert reopened(latest) is latest
    assert reopened(old).manifest == latest.manifest
    to_v1_names(table, [1, 2, 3])
    assert reopened(latest).path == manifest_path(3, v2=False)
    lance.write_dataset(pa.table({"a": [9]}), str(table), mode="append", enable_v2_manifest_paths=False)
    assert reopened(latest).version == 4
    shutil.rmtree(table)
    with pytest.raises(TableNotFoundError):
        reopened(latest)
    for i in range(3):
        lance.write_dataset(pa.table({"a": [i]}), str(table), mode="append" if i else "create")
    with pytest.raises(VersionNotFoundError, match="made anew"):
        reopened(latest)


def test_more_than_nine_versions_of_the_first_scheme_are_in_order(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for i in range(11):
        lance.write_dataset(pa.table({"a": [i]}), uri, mode="append" if i else "create", enable_v2_manifest_paths=False)
    assert (tmp_path / "t/_versions/11.manifest").exists()
    assert open_snapshot(Store(uri)).version == 11


def test_the_hint_is_not_trusted(table: Any) -> None:
    (table / "_versions/latest_version_hint.json").write_text('{"version":99}')
    assert open_snapshot(Store(str(table))).version == 3


def test_detached_versions_and_other_files_are_not_versions(table: Any) -> None:
    for name in (f"d{2**63 + 5}.manifest", f"{2**63 + 5}.manifest", "x.manifest", "5.manifest.tmp", ".manifest", "²2.manifest"):
        (table / "_versions" / name).write_bytes(b"")
    assert list(list_versions(Store(str(table)))) == [1, 2, 3]


@pytest.mark.parametrize("version", [0, 1, 9, 10, 2**63 - 1])
def test_names_and_versions_round_trip(version: int) -> None:
    for v2 in (True, False):
        assert version_of(manifest_path(version, v2).removeprefix("_versions/")) == version


def test_tags_and_branches_open_what_pylance_opens(table: Any) -> None:
    store = Store(str(table))
    assert open_snapshot(store, tag="second").version == 2
    assert open_snapshot(store, branch="main").version == 3
    branch = open_snapshot(store, branch="bug/fix")
    assert branch.version == lance.dataset(str(table)).checkout_version(("bug/fix", None)).version == 3
    assert branch.manifest.branch == "bug/fix"
    assert branch.store.uri == f"{table}/tree/bug/fix"
    assert open_snapshot(store, branch="bug/fix", version=2).version == 2
    assert open_snapshot(store, tag="on-branch").path == branch.path
    assert {n: t.version for n, t in refs.tags(store).items()} == {"second": 2, "on-branch": 3}
    assert refs.branches(store)["bug/fix"].parent_version == 2


def test_a_timestamp_opens_the_latest_version_of_that_time(table: Any) -> None:
    store = Store(str(table))
    times = [v["timestamp"].astimezone(UTC) for v in lance.dataset(str(table)).versions()]
    for i, time in enumerate(times):
        # pylance rounds to microseconds as we do; the version itself is up to one younger.
        assert open_snapshot(store, timestamp=time + timedelta(microseconds=1)).version == i + 1
    assert open_snapshot(store, timestamp=datetime.now(UTC)).version == 3
    assert open_snapshot(store, timestamp=(datetime.now(UTC) + timedelta(days=1)).replace(tzinfo=None)).version == 3
    assert open_snapshot(store, timestamp=times[1].isoformat()).version in (1, 2)
    with pytest.raises(VersionNotFoundError, match="the oldest version is from 20"):
        open_snapshot(store, timestamp="1999-01-01")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"version": 4}, "no version 4; existing versions: 1 to 3"),
        ({"version": -1}, "existing versions: 1 to 3"),
        ({"version": 2**64 + 1}, "existing versions: 1 to 3"),
        ({"tag": "third"}, "no tag 'third'; existing tags: on-branch, second"),
        ({"branch": "dev"}, "no branch 'dev'; existing branches: bug/fix"),
        ({"branch": "bug/fix", "version": 1}, "no version 1; existing versions: 2 to 3"),
    ],
    ids=str,
)
def test_errors_of_missing_versions_list_the_existing_ones(table: Any, asked: Any, message: Any) -> None:
    with pytest.raises(VersionNotFoundError, match=message):
        open_snapshot(Store(str(table)), **asked)


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    for version in (None, 1):
        with pytest.raises(TableNotFoundError, match="no Lance table found at"):
            open_snapshot(Store(str(tmp_path)), version=version)
    assert issubclass(TableNotFoundError, FileNotFoundError)


@pytest.mark.parametrize(
    "asked", [{"version": 1, "tag": "x"}, {"tag": "x", "branch": "y"}, {"version": 1, "timestamp": "2020-01-01"}], ids=str
)
def test_contradicting_arguments_are_refused(tmp_path: Path, asked: Any) -> None:
    with pytest.raises(ValueError, match="only one"):
        open_snapshot(Store(str(tmp_path)), **asked)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "x.", "a..b", "x.lock", "a b", "a\0"])
def test_tag_names_cannot_be_paths(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ValueError, match="invalid tag name"):
        refs.tag(Store(str(tmp_path)), name)


@pytest.mark.parametrize("name", ["", "main", "../x", "/a", "a/", "a//b", "a\\b", "x.lock", "a b", "a/./b"])
def test_branch_names_cannot_be_paths(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ValueError, match="invalid branch name"):
        refs.branch_folder(name)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": "1"}', '{"version": 1, "branch": 5}', '{"version": -1}', '{"version": true}']
)
def test_a_broken_tag_is_refused_by_name(table: Any, content: Any) -> None:
    (table / "_refs/tags/second.json").write_text(content)
    with pytest.raises(CorruptFileError, match=r"second\.json"):
        open_snapshot(Store(str(table)), tag="second")


@given(
    st.lists(st.tuples(st.integers(1, 2**63 + 5), st.booleans()), max_size=8), st.lists(st.text("0123456789dz", min_size=20, max_size=20))
)
def test_the_latest_version_is_the_last_of_the_list(tmp_path_factory: pytest.TempPathFactory, versions: Any, others: list[str]) -> None:
    folder = tmp_path_factory.mktemp("t")
    (folder / "_versions").mkdir()
    for path in [*(manifest_path(version, v2) for version, v2 in versions), *(f"_versions/{name}.manifest" for name in others)]:
        (folder / path).touch()
    store = Store(str(folder))
    try:
        expected = list(list_versions(store).items())[-1]
    except (TableNotFoundError, UnsupportedFeatureError) as e:
        with pytest.raises(type(e)):
            latest_version(store)
    else:
        assert latest_version(store) == expected
