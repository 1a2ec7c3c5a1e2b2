"""A version is committed only if its new files exist: a cleanup by a client with a wrong clock may have removed them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, MissingFileError
from lance_spark.metadata.deletion_file import write_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Delete, Operation, Rewrite, RewriteGroup, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import Mode, WriteTarget

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """A table with one fragment, and its storage options."""
    uri = str(tmp_path / "t")
    options: dict[str, str] = {}
    if request.param == "s3":
        endpoint = request.getfixturevalue("s3_server")
        options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
        uri = f"s3://tables/{uuid.uuid4().hex}/t.lance"
    Dataset.write(uri, ROWS, storage_options=options)
    return uri, options


def prepared(uri: str, options: Mapping[str, str], mode: Mode = "append") -> tuple[WriteTarget, list[Fragment]]:
    target = write.begin_write(uri, ROWS.schema, mode, WriteOptions(options, max_rows_per_file=1))
    return target, list(write.write_fragments(target, ROWS.to_batches()))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_whose_files_were_removed_is_not_committed(place: tuple[str, Mapping[str, str]], mode: Mode) -> None:
    uri, options = place
    target, fragments = prepared(uri, options, mode)
    store = Store(uri, options)
    store.delete(f"data/{fragments[1].files[0].path}")
    transactions = store.list("_transactions")
    with pytest.raises(MissingFileError, match="nothing was committed"):
        write.commit_write(target, fragments)
    assert store.list("_transactions") == transactions
    table = lance.dataset(uri, storage_options=dict(options))
    assert (table.version, table.to_table()) == (1, ROWS)


def test_a_write_whose_file_was_cut_short_is_not_committed(place: tuple[str, Mapping[str, str]]) -> None:
    uri, options = place
    target, fragments = prepared(uri, options)
    store, path = Store(uri, options), f"data/{fragments[2].files[0].path}"
    store.put(path, store.read(path)[:-1])
    with pytest.raises(CorruptFileError, match="nothing was committed"):
        write.commit_write(target, fragments)
    assert lance.dataset(uri, storage_options=dict(options)).version == 1


def delete(ds: Dataset) -> tuple[Operation, str]:
    fragment = ds.snapshot.manifest.fragments[0]
    file = write_deletions(ds.snapshot.store, fragment.id, ds.version, pa.array([0]).to_numpy())
    return Delete((replace(fragment, deletion=file),)), file.path(fragment.id)


def insert(ds: Dataset) -> tuple[Operation, str]:
    _, fragments = prepared(ds.uri, {})
    return Update(new_fragments=tuple(fragments)), f"data/{fragments[0].files[0].path}"


def rewrite(ds: Dataset) -> tuple[Operation, str]:
    _, fragments = prepared(ds.uri, {})
    group = RewriteGroup(tuple(ds.snapshot.manifest.fragments), tuple(fragments))
    return Rewrite((group,)), f"data/{fragments[0].files[0].path}"


@pytest.mark.parametrize("make", [delete, insert, rewrite])
def test_no_change_whose_files_were_removed_is_committed(tmp_path: Path, make: Callable[[Dataset], tuple[Operation, str]]) -> None:
    uri = str(tmp_path / "t")
    ds = Dataset.write(uri, ROWS)
    operation, path = make(ds)
    assert commit(Store(uri), Transaction(1, operation)).version == 2
    Dataset.open(uri, version=1).restore()
    ds = Dataset.open(uri)
    operation, path = make(ds)
    Path(uri, path).unlink()
    with pytest.raises(MissingFileError, match="nothing was committed"):
        commit(Store(uri), Transaction(3, operation), base=ds.snapshot)
    assert lance.dataset(uri).version == 3


@pytest.mark.parametrize("place", ["s3"], indirect=True)
@pytest.mark.parametrize("old", [True, False])
def test_every_file_is_checked_if_some_may_be_an_hour_old(
    place: tuple[str, Mapping[str, str]], old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are old by the local clock, or the store's clock differs."""
    monkeypatch.setattr("lance_spark.storage.clock._CHECKED", {})
    uri, options = place
    rows = pa.table({"a": pa.array(range(40), pa.int64())})
    target = write.begin_write(uri, rows.schema, "append", WriteOptions(options, max_rows_per_file=1))
    fragments = write.write_fragments(target, rows.to_batches())
    target = replace(target, since=target.since - 7200) if old else replace(target, store=SlowClockStore(uri, options))
    for number in (4, 14, 24, 34):
        Store(uri, options).delete(f"data/{fragments[number].files[0].path}")
        with pytest.raises(MissingFileError, match="nothing was committed"):
            write.commit_write(replace(target), fragments[number - 4 : number + 6])
    assert lance.dataset(uri, storage_options=dict(options)).version == 1


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_sample_of_many_young_files_is_checked(place: tuple[str, Mapping[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.storage.clock._CHECKED", {})
    uri, options = place
    rows = pa.table({"a": pa.array(range(40), pa.int64())})
    target = write.begin_write(uri, rows.schema, "append", WriteOptions(options, max_rows_per_file=1))
    fragments = write.write_fragments(target, rows.to_batches())
    store = CountingStore(uri, options)
    assert write.commit_write(replace(target, store=store), fragments).version == 2
    assert 0 < len(set(store.asked)) < 10


class CountingStore(Store):
    """A store that records which data files are checked."""

    __slots__ = ("asked",)

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        super().__init__(uri, options)
        self.asked: list[str] = []

    def about(self, path: str) -> Entry:
        if path.startswith("data/"):
            self.asked.append(path)
        return super().about(path)


class SlowClockStore(Store):
    """A store whose clock is eight days slow, or a client whose clock is eight days fast."""

    __slots__ = ()

    def about(self, path: str) -> Entry:
        return _earlier(super().about(path))

    def walk(self, folder: str) -> list[Entry]:
        return [_earlier(entry) for entry in super().walk(folder)]

    def at(self, uri: str, base_id: int | None = None) -> Store:
        return SlowClockStore(uri, self._given)


def _earlier(entry: Entry) -> Entry:
    assert entry.modified is not None
    return replace(entry, modified=entry.modified - timedelta(days=8))


def test_cleanups_use_the_clock_of_the_store(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    ds = Dataset.write(uri, ROWS, "overwrite")
    target, fragments = prepared(uri, {})
    ahead = Dataset(replace(ds.snapshot, store=SlowClockStore(uri)))
    assert ahead.cleanup_old_versions(timedelta(days=1)).files == ()
    assert not any(file.name.startswith(".clock") for file in Path(uri, "_transactions").iterdir())
    write.commit_write(target, fragments)
    assert lance.dataset(uri).count_rows() == 6


def test_an_unsafe_cleanup_fails_active_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    target, fragments = prepared(uri, {})
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(MissingFileError, match="with a fast clock"):
        write.commit_write(target, fragments)
    assert lance.dataset(uri).to_table() == ROWS
