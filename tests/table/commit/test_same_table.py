"""A table that is dropped, and made anew at the same path, while a client has it open or writes to it: the new table stays as it is."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, LanceError, TableNotFoundError, VersionNotFoundError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import serialise
from lance_spark.storage.store import Store
from lance_spark.table.commit.same_table import is_misplaced
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.table.manifest_store.external import external
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write import write
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.target import WriteTarget
from tests.sample import by_turns
from tests.table.interleaving import interrupted_everywhere

pytestmark = pytest.mark.usefixtures("among_others")

VERSIONS = 4
STEP = 3
"""Some of the changes make six calls of the store: a test takes one of so many."""
"""Versions of the table that is dropped."""


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": [str(v) for v in values]})


def make(uri: str, versions: int, first: int = 0, side: str = "ours") -> None:
    """A table of as many versions, each with two rows more."""
    for i in range(versions):
        data, mode = rows(first + 2 * i, first + 2 * i + 1), "append" if i else "create"
        if side == "ours":
            Dataset.write(uri, data, mode)  # type: ignore[arg-type]
        else:
            lance.write_dataset(data, uri, mode=mode)


def _write(target: WriteTarget, data: pa.Table, base: Snapshot | None = None) -> object:
    fragments: tuple[Fragment, ...] = ()
    try:
        fragments = write.write_fragments(target, data.to_batches())
        return write.commit_write(target, fragments, base)
    except LanceError:
        write.discard(target, fragments)
        raise


def _append(ds: Dataset) -> object:
    return _write(write.rewrite_target(ds.snapshot, NO_OPTIONS), rows(9), ds.snapshot)


def _overwrite(ds: Dataset) -> object:
    return _write(replace(write.rewrite_target(ds.snapshot, NO_OPTIONS), mode="overwrite"), rows(9))


def _widening_append(ds: Dataset) -> object:
    data = rows(9).append_column("c", pa.array([1.5]))
    target = write.begin_write(ds.uri, data.schema, "append", WriteOptions(merge_schema=True))
    return _write(replace(target, store=ds.snapshot.store), data)


def _merge(ds: Dataset) -> object:
    return ds.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows(1, 99))


CHANGES: dict[str, Callable[[Dataset], object]] = {
    "append": _append,
    "append that widens": _widening_append,
    "overwrite": _overwrite,
    "delete rows": lambda ds: ds.delete("a % 2 = 0"),
    "delete nothing": lambda ds: ds.delete("a < 0"),
    "delete all": lambda ds: ds.delete("true"),
    "update": lambda ds: ds.update({"b": "'x'"}, "a > 1"),
    "merge": _merge,
    "rename": lambda ds: ds.alter_columns({"path": "b", "name": "c"}),
    "retype": lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int32()}),
    "add a null column": lambda ds: ds.add_columns(pa.schema([("c", pa.int32())])),
    "add a column": lambda ds: ds.add_columns({"c": "a + 1"}),
    "drop a column": lambda ds: ds.drop_columns(["b"]),
    "config": lambda ds: ds.update_config({"k": "v"}),
    "index": lambda ds: create_index(Here(), ds.snapshot, NewIndex("a", "BTREE", None, False, True, {}), {}),
    "compact": lambda ds: ds.optimize.compact_files(),
    "restore": lambda ds: ds.checkout_version(2).restore(),
}


def content(uri: str) -> tuple[Any, ...]:
    """All that a user sees of a table."""
    ds = lance.dataset(uri)
    table = ds.to_table()
    return sorted(table.to_pylist(), key=str), table.schema.names, ds.version


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "turn"), by_turns(CHANGES, STEP))
@pytest.mark.parametrize("versions", [1, VERSIONS, VERSIONS + 2], ids=["fewer", "same", "more"])
def test_a_table_made_anew_is_not_changed_whenever_that_happens(versions: int, name: str, turn: int, tmp_path: Path) -> None:
    uri, old, new = (str(tmp_path / folder) for folder in ("t", "old", "new"))
    make(old, VERSIONS)
    make(new, versions, 100, "pylance" if len(name) % 2 else "ours")
    expected, told = content(new), list[str]()

    def prepare() -> None:
        shutil.rmtree(uri, ignore_errors=True)
        shutil.copytree(old, uri)

    def anew() -> None:
        # At once, since a change may be writing with several threads.
        Path(uri).rename(tmp_path / uuid.uuid4().hex)
        shutil.copytree(new, uri, dirs_exist_ok=True)

    def change(store: Callable[[str], Store]) -> None:
        ds = Dataset(replace(open_snapshot(Store(uri)), store=store(uri)))
        try:
            CHANGES[name](ds)
        except LanceError as e:
            told.append(str(e))

    for at in interrupted_everywhere(change, prepare, anew, turn + 1, STEP):
        assert content(uri) == expected, f"made anew before call {at}"
    assert told
    assert [text for text in told if "the table was dropped" not in text] == []


@pytest.mark.parametrize(("name", "turn"), by_turns((name for name in CHANGES if name not in ("append that widens", "overwrite")), STEP))
def test_a_dropped_table_stays_away_whenever_that_happens(name: str, turn: int, tmp_path: Path) -> None:
    uri, old = str(tmp_path / "t"), str(tmp_path / "old")
    make(old, VERSIONS)

    def prepare() -> None:
        shutil.copytree(old, uri)

    def change(store: Callable[[str], Store]) -> None:
        ds = Dataset(replace(open_snapshot(Store(uri)), store=store(uri)))
        with contextlib.suppress(LanceError):
            CHANGES[name](ds)

    def drop() -> None:
        Path(uri).rename(tmp_path / uuid.uuid4().hex)

    for at in interrupted_everywhere(change, prepare, drop, turn + 1, STEP):
        left = [str(path.relative_to(uri)) for path in Path(uri).rglob("*")]
        assert not Path(uri).exists(), f"dropped before call {at}: {left}"
    if Path(uri).exists():
        shutil.rmtree(uri)


class Hooked(Store):
    """A store in which `before` happens before the put of a manifest."""

    __slots__ = ("before",)
    before: Callable[[], None] | None

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        self._hook(path)
        super().put(path, data, durable)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        self._hook(path)
        super().put_if_absent(path, data, sync_name)

    def _hook(self, path: str) -> None:
        if path.startswith("_versions/") and (before := self.before) is not None:
            self.before = None
            before()


@pytest.fixture(params=["memory", "s3", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A table's URI and its storage options."""
    name = uuid.uuid4().hex
    if request.param == "memory":
        return f"memory://{name}/t", {}
    if request.param == "sqlite":
        return str(tmp_path / "t"), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"}
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "allow_http": "true"}
    return f"s3://tables/{name}/t", {**keys, "endpoint": request.getfixturevalue("s3_server")}


@pytest.mark.matrix
@pytest.mark.parametrize("versions", [1, VERSIONS, VERSIONS + 2], ids=["fewer", "same", "more"])
@pytest.mark.parametrize("late", [False, True], ids=["before the commit", "right before the put"])
def test_every_kind_of_store_notices_a_table_made_anew(place: tuple[str, dict[str, str]], late: bool, versions: int) -> None:
    uri, options = place
    store = Hooked(uri, options)

    def write_all(versions: int, first: int) -> None:
        for i in range(versions):
            Dataset.write(uri, rows(first + i), "append" if i else "create", storage_options=options)

    def anew() -> None:
        for entry in store.walk(""):
            Store(uri, options).delete(entry.name)
        if (manifests := external(store)) is not None:
            manifests.forget()
        write_all(versions, 100)

    for name in ("append", "rename", "delete all"):
        store.before = None
        for entry in store.walk(""):
            store.delete(entry.name)
        if (manifests := external(store)) is not None:
            manifests.forget()
        write_all(VERSIONS, 0)
        ds = Dataset(replace(open_snapshot(Store(uri, options)), store=store))
        if late:
            store.before = anew
        else:
            anew()
        with pytest.raises(CommitConflictError, match="the table was dropped and made anew") as e:
            CHANGES[name](ds)
        assert not e.value.retryable
        there = Dataset.open(uri, storage_options=options)
        assert (there.version, there.schema.names) == (versions, ["a", "b"])
        assert sorted(there.scan().to_table()["a"].to_pylist()) == [*range(100, 100 + versions)]
        Dataset.write(uri, rows(7), "append", storage_options=options)  # the number of the withdrawn version is free
        assert Dataset.open(uri, storage_options=options).version == versions + 1


def test_a_reader_that_holds_a_version_is_told_that_its_table_was_dropped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for versions, expected in ((1, "made anew"), (VERSIONS, "made anew"), (VERSIONS + 2, "made anew"), (0, "the table was dropped")):
        shutil.rmtree(uri, ignore_errors=True)
        make(uri, VERSIONS)
        ds = Dataset.open(uri)
        shutil.rmtree(uri)
        make(uri, versions, 100, "pylance")
        with pytest.raises(VersionNotFoundError, match=expected):
            ds.scan().to_table()
        with pytest.raises(VersionNotFoundError, match=expected):
            ds.count_rows("a > 1")
        with pytest.raises((VersionNotFoundError, TableNotFoundError), match=f"{expected}|no Lance table"):
            ds.checkout_version(1)


def test_the_same_table_that_was_moved_away_and_back_is_the_same(tmp_path: Path) -> None:
    uri, other = str(tmp_path / "t"), str(tmp_path / "other")
    make(uri, VERSIONS)
    ds = Dataset.open(uri)
    shutil.copytree(uri, other)
    shutil.rmtree(uri)
    shutil.move(other, uri)
    assert ds.delete("a = 0").count_rows() == 2 * VERSIONS - 1


def test_manifests_of_old_writers_are_told_apart_without_a_transaction_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")

    def make_old(first: int) -> None:
        make(uri, 2, first)
        store = Store(uri)
        for version in (1, 2):
            snapshot = open_snapshot(store, version=version)
            store.put(snapshot.path, serialise(replace(snapshot.manifest, transaction=None, transaction_file="")))

    make_old(0)
    assert Dataset.open(uri).delete("a = 0").count_rows() == 3
    shutil.rmtree(uri)
    make_old(0)
    ds = Dataset.open(uri)
    shutil.rmtree(uri)
    make_old(100)
    with pytest.raises(CommitConflictError, match="the table was dropped and made anew"):
        ds.delete("false")


def test_a_long_config_does_not_hide_the_identity(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make(uri, 1)
    ds = Dataset.open(uri).update_config({"k": "x" * 20_000})
    assert ds.update_config({"other": "y"}).version == 3
    ds = Dataset.open(uri)
    shutil.rmtree(uri)
    make(uri, 2, 100)
    Dataset.open(uri).update_config({"k": "x" * 20_000})
    with pytest.raises(CommitConflictError, match="the table was dropped and made anew"):
        ds.delete("true")


def test_a_version_that_a_cleanup_removes_right_after_it_was_overtaken_is_no_dropped_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make(uri, VERSIONS)
    snapshot = open_snapshot(Store(uri))
    done = Dataset(snapshot).delete("a = 0").snapshot
    Dataset(done).cleanup_old_versions(timedelta(0))
    assert not is_misplaced(done, snapshot)
