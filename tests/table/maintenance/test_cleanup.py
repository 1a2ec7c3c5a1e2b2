"""Cleanup: kept versions can be read by both libraries, and unneeded files are removed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError, RefConflictError, VersionNotFoundError
from lance_spark.options.durations import duration
from lance_spark.storage.store import Store
from lance_spark.table.maintenance.cleanup import auto_cleanup
from lance_spark.table.versions.ref_files import clones

NOW = timedelta(0)
COLUMN = "column"


def rows(*values: int) -> pa.Table:
    return pa.table({COLUMN: pa.array(values, pa.int64())})


def table(uri: str, versions: int = 5) -> Dataset:
    """Version i is an overwrite with the row i."""
    for i in range(1, versions + 1):
        Dataset.write(uri, rows(i), "overwrite")
    return Dataset.open(uri)


def readable(uri: str, expected: dict[int, list[int]]) -> None:
    """Check that exactly these versions exist, with these rows, in both libraries."""
    assert [v.version for v in Dataset.open(uri).versions()] == list(expected)
    assert [v["version"] for v in lance.dataset(uri).versions()] == list(expected)
    for version, values in expected.items():
        assert sorted(Dataset.open(uri, version=version).scan().to_table()[COLUMN].to_pylist()) == values
        assert sorted(lance.dataset(uri, version=version).to_table()[COLUMN].to_pylist()) == values


def age(uri: str, paths: Iterable[str], days: float) -> None:
    for path in paths:
        then = time.time() - days * 86400
        os.utime(f"{uri}/{path}", (then, then))


def files(uri: str) -> set[str]:
    return {entry.name for entry in Store(uri).walk("") if "hint" not in entry.name}


def test_old_versions_are_removed_with_their_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri)
    before = files(uri)
    planned = ds.cleanup_old_versions(NOW, dry_run=True)
    assert files(uri) == before
    done = ds.cleanup_old_versions(NOW)
    assert (done.old_versions, done.data_files_removed, done.transaction_files_removed) == (4, 4, 4)
    assert done == planned
    assert set(done.files) == before - files(uri)
    assert len(files(uri)) == 3
    readable(uri, {5: [5]})
    assert ds.cleanup_old_versions(NOW).files == ()


def test_the_reported_bytes_are_those_of_the_removed_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri)
    before = {path: Store(uri).size(path) for path in files(uri)}
    done = ds.cleanup_old_versions(retain_versions=2)
    assert done.bytes_removed == sum(size for path, size in before.items() if path not in files(uri))
    readable(uri, {4: [4], 5: [5]})


def test_old_versions_are_chosen_by_age_and_number(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri)
    assert ds.cleanup_old_versions().old_versions == 0
    assert ds.cleanup_old_versions(timedelta(hours=1)).old_versions == 0
    assert ds.cleanup_old_versions(timedelta(hours=1), retain_versions=1).old_versions == 0
    assert ds.cleanup_old_versions(NOW, retain_versions=9).old_versions == 0
    assert Dataset.open(uri, version=2).cleanup_old_versions(NOW).old_versions == 1
    readable(uri, {i: [i] for i in (2, 3, 4, 5)})
    with pytest.raises(ValueError, match="retain_versions must be at least 1"):
        ds.cleanup_old_versions(retain_versions=0)
    with pytest.raises(ValueError, match="delete_rate_limit"):
        ds.cleanup_old_versions(NOW, delete_rate_limit=0)
    assert ds.cleanup_old_versions(timedelta.max).files == ()


def test_files_of_later_versions_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, rows(1, 2, 3))
    for i in range(4, 8):
        Dataset.write(uri, rows(i), "append")
    lance.dataset(uri).delete(f"{COLUMN} = 2")
    lance.dataset(uri).create_scalar_index(COLUMN, "BTREE")
    lance.dataset(uri).create_scalar_index(COLUMN, "BTREE", replace=True)
    done = Dataset.open(uri).cleanup_old_versions(retain_versions=2)
    assert (done.old_versions, done.data_files_removed, done.deletion_files_removed, done.index_files_removed) == (6, 0, 0, 0)
    done = Dataset.open(uri).cleanup_old_versions(NOW)
    assert (done.old_versions, done.index_files_removed) == (1, 2)
    readable(uri, {8: [1, 3, 4, 5, 6, 7]})
    assert lance.dataset(uri).to_table(filter=f"{COLUMN} = 5").num_rows == 1


def test_tagged_versions_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri)
    ds.tags.create("keep", 2)
    before = files(uri)
    with pytest.raises(RefConflictError, match=r"'keep': 2"):
        ds.cleanup_old_versions(NOW)
    assert files(uri) == before
    assert ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False).old_versions == 3
    readable(uri, {2: [2], 5: [5]})


def test_branches_keep_what_they_read_and_are_cleaned_up_alone(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri)
    branch = lance.dataset(uri).create_branch("dev", 2)
    lance.write_dataset(rows(20), branch, mode="append")
    inner = Dataset.open(uri, branch="dev").create_branch("dev/data/inner")
    Dataset.write(inner.uri, rows(30), "append")
    ds.cleanup_old_versions(NOW, delete_unverified=True)
    readable(uri, {2: [2], 5: [5]})
    lance.write_dataset(rows(21), lance.dataset(uri).checkout_version(("dev", None)), mode="append")
    done = Dataset.open(uri, branch="dev").cleanup_old_versions(NOW, delete_unverified=True)
    assert done.old_versions == 1
    for table_uri, expected in ((f"{uri}/tree/dev", [2, 20, 21]), (f"{uri}/tree/dev/data/inner", [2, 20, 30])):
        assert sorted(Dataset.open(table_uri).scan().to_table()[COLUMN].to_pylist()) == expected
        assert sorted(lance.dataset(table_uri).to_table()[COLUMN].to_pylist()) == expected
    lance.write_dataset(rows(22), lance.dataset(uri).checkout_version(("dev", None)), mode="overwrite")
    Dataset.open(uri, branch="dev").cleanup_old_versions(NOW)
    assert sorted(Dataset.open(inner.uri).scan().to_table()[COLUMN].to_pylist()) == [2, 20, 30]


def test_clones_keep_what_they_read_until_they_are_gone(tmp_path: Path) -> None:
    uri, other = str(tmp_path / "t"), str(tmp_path / "other")
    ds = table(uri)
    clone = ds.shallow_clone(other, 3)
    assert [c.uri for c in clones(Store(uri))] == [other]
    ds.cleanup_old_versions(NOW)
    readable(uri, {3: [3], 5: [5]})
    readable(other, {3: [3]})
    Dataset.write(other, rows(4), "overwrite")
    Dataset.open(other).cleanup_old_versions(NOW, delete_unverified=True)
    readable(uri, {3: [3], 5: [5]})
    assert clone.uri == other
    shutil.rmtree(other)
    ds.cleanup_old_versions(NOW)
    readable(uri, {5: [5]})


@pytest.mark.parametrize("branch", [None, "b"])
def test_a_clone_of_a_clone_keeps_what_it_reads_of_the_first_table(tmp_path: Path, branch: str | None) -> None:
    clone, other = str(tmp_path / "clone"), str(tmp_path / "other")
    ds = Dataset.write(tmp_path / "t", rows(1))
    source = ds if branch is None else ds.create_branch(branch)
    source.shallow_clone(clone).shallow_clone(other)
    shutil.rmtree(clone)
    if branch is not None:
        ds.branches.delete(branch)  # its versions name files of the first table only
    newer = Dataset.write(ds.uri, rows(2), "overwrite")
    assert newer.cleanup_old_versions(NOW).old_versions == 0
    assert sorted(lance.dataset(other).to_table()[COLUMN].to_pylist()) == [1]
    shutil.rmtree(other)
    assert newer.cleanup_old_versions(NOW).old_versions == 1


def test_files_of_active_writers_are_kept_for_seven_days(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri, 2)
    written = lance.fragment.write_fragments(rows(7), uri, mode="append")
    debris = {"_transactions/1-x.txn", "_versions/.x.manifest.tmp", "_indices/x/page", "_deletions/0-1-2.bin"}
    for path in debris:
        Store(uri).put(path, b"x")
    debris.add(f"data/{written[0].files[0].path}")
    assert debris.isdisjoint(ds.cleanup_old_versions(NOW).files)
    age(uri, debris, 6.9)
    assert ds.cleanup_old_versions(NOW).files == ()
    age(uri, debris, 7.1)
    assert set(ds.cleanup_old_versions(NOW, dry_run=True).files) == debris
    assert set(ds.cleanup_old_versions(NOW).files) == debris
    written = lance.fragment.write_fragments(rows(7), uri, mode="append")
    assert ds.cleanup_old_versions(NOW, delete_unverified=True).files == (f"data/{written[0].files[0].path}",)
    readable(uri, {2: [2]})


def test_reading_a_removed_version_raises_a_clear_error(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, rows(1, 2))
    old = Dataset.open(uri).delete("column = 1")
    Dataset.write(uri, rows(3), "overwrite").cleanup_old_versions(NOW)
    for use in (lambda: old.scan().to_table(), lambda: old.delete("column = 2")):
        with pytest.raises(VersionNotFoundError, match="version 2, was removed"):
            use()


def test_sidecars_are_removed_with_their_data_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri, 2)
    stems = [ds.checkout_version(v).snapshot.manifest.fragments[0].files[0].path.removesuffix(".lance") for v in (1, 2)]
    for stem in stems:
        Store(uri).put(f"data/{stem}/00000001.blob", b"large")
    assert f"data/{stems[0]}/00000001.blob" in ds.cleanup_old_versions(NOW).files
    assert Store(uri).exists(f"data/{stems[1]}/00000001.blob")
    assert ds.cleanup_old_versions(NOW, delete_unverified=True).files == ()


def test_versions_are_removed_before_their_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    done = table(uri).cleanup_old_versions(NOW, delete_rate_limit=1000)
    assert [path.startswith("_versions/") for path in done.files] == sorted((p.startswith("_versions/") for p in done.files), reverse=True)


@pytest.mark.parametrize("theirs", [True, False])
def test_writers_clean_up_if_the_config_requires_it(tmp_path: Path, theirs: bool) -> None:
    uri = str(tmp_path / "t")
    table(uri, 1)
    lance.dataset(uri).update_config({"lance.auto_cleanup.interval": "3", "lance.auto_cleanup.retain_versions": "2"})
    for i in range(3, 9):
        if theirs:
            lance.write_dataset(rows(i), uri, mode="overwrite")
        else:
            Dataset.write(uri, rows(i), "overwrite")
    assert [v.version for v in Dataset.open(uri).versions()] == [5, 6, 7, 8]
    readable(uri, {i: [i] for i in range(5, 9)})


@pytest.mark.parametrize(
    "config",
    [
        {"interval": "1", "older_than": "0s"},
        {"interval": "0", "older_than": "0s"},
        {"interval": "3", "older_than": "0s"},
        {"interval": "1", "retain_versions": "1"},
        {"interval": "1", "retain_versions": "3"},
        {"interval": "2", "retain_versions": "3", "older_than": "0s"},
        {"interval": "1", "retain_versions": "1", "older_than": "1h"},
        {"retain_versions": "1", "older_than": "0s"},
    ],
    ids=lambda config: ", ".join(f"{key} {value}" for key, value in config.items()),
)
def test_automatic_cleanup_matches_pylance(tmp_path: Path, config: dict[str, str]) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (ours, theirs):
        table(uri, 1).update_config({f"lance.auto_cleanup.{key}": value for key, value in config.items()})
    for i in range(3, 10):
        Dataset.write(ours, rows(i), "overwrite" if i % 2 else "append")
        lance.write_dataset(rows(i), theirs, mode="overwrite" if i % 2 else "append")
        kept = [v["version"] for v in lance.dataset(theirs).versions()]
        assert [v.version for v in Dataset.open(ours).versions()] == kept
        assert i - 1 in kept, "the version that was replaced"


def test_automatic_cleanup_keeps_the_previous_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table(uri, 1).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    for i in range(3, 6):
        held = Dataset.open(uri), lance.dataset(uri)
        Dataset.write(uri, rows(i), "overwrite")
        assert held[0].scan().to_table() == held[1].to_table()
    assert Dataset.open(uri, version=4).restore().scan().to_table()[COLUMN].to_pylist() == [4]


def test_automatic_cleanup_keeps_tagged_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table(uri, 1).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    Dataset.open(uri).tags.create("keep", 1)
    for i in range(3, 6):
        Dataset.write(uri, rows(i), "overwrite")
    readable(uri, {1: [1], 4: [4], 5: [5]})


@pytest.mark.parametrize("wish", [("older_than", "soon"), ("older_than", "9999999999999days"), ("retain_versions", "0"), ("interval", "x")])
def test_a_commit_succeeds_even_if_the_cleanup_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture, wish: tuple[str, str]) -> None:
    uri = str(tmp_path / "t")
    ds = table(uri, 1).update_config({f"lance.auto_cleanup.{key}": value for key, value in dict([("interval", "1"), wish]).items()})
    assert Dataset.write(uri, rows(3), "append").version == ds.version + 1 == 3
    assert wish[1] in caplog.text
    with pytest.raises(LanceError, match=wish[1]):
        auto_cleanup(Dataset.open(uri).snapshot)


def test_durations_are_those_of_pylance() -> None:
    assert duration("14days") == timedelta(days=14)
    assert duration("1h 30m") == timedelta(minutes=90)
    assert duration("3600s") == timedelta(hours=1)
    assert duration("1day 12h 5min 2s 250ms") == timedelta(days=1, hours=12, minutes=5, seconds=2, milliseconds=250)
    for text in ("", "14", "days", "1 fortnight", "-1day"):
        with pytest.raises(ValueError, match="is not a duration"):
            duration(text)
