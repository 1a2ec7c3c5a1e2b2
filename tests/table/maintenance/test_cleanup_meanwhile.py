"""Other clients reference, restore and write versions at every call of a cleanup: their results stay valid."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError, StorageError
from lance_spark.storage.store import Store
from lance_spark.table.maintenance import cleanup
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import manifest_path, open_snapshot
from tests.sample import TURNS, by_turns
from tests.table.interleaving import interrupted_everywhere

NOW = timedelta(0)
OLD, LATEST = 2, 4
SIDES = ["ours", "pylance"]
At = Callable[[int | None], Any]
"""Opens a version, ours or pylance's; None is the latest."""


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def read(dataset: Any) -> list[int]:
    table = dataset.scan().to_table() if isinstance(dataset, Dataset) else dataset.to_table()
    return sorted(table["a"].to_pylist())


@dataclass(frozen=True)
class Table:
    """A table in which version i is an overwrite with the row i; each run starts with a copy of it."""

    uri: str
    template: str

    def prepare(self) -> None:
        for uri in (self.uri, f"{self.uri}-clone"):
            shutil.rmtree(uri, ignore_errors=True)
        shutil.copytree(self.template, self.uri)

    def opener(self, side: str) -> At:
        return lambda version: Dataset.open(self.uri, version=version) if side == "ours" else lance.dataset(self.uri, version=version)

    def opened(self, store: Callable[[str], Store]) -> At:
        return lambda version: Dataset(open_snapshot(store(self.uri), version=version))

    def clean_up(self, side: str) -> Any:
        return self.opener(side)(None).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)

    def interrupted_cleanup(self, store: Callable[[str], Store]) -> None:
        self.opened(store)(None).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)

    def check(self) -> None:
        """Check that all versions, tags, branches and clones can be read, with the same rows in both libraries."""
        ours, theirs = Dataset.open(self.uri), lance.dataset(self.uri)
        assert [v.version for v in ours.versions()] == [v["version"] for v in theirs.versions()]
        names = [v.version for v in ours.versions()], ours.tags.list(), [(branch, None) for branch in ours.branches.list()]
        for name in [name for kind in names for name in kind]:
            there = ours.checkout_version(name)
            assert there.verify(decode=False).ok, name
            assert read(there) == read(theirs.checkout_version(name)), name
        if Path(f"{self.uri}-clone").exists() and list(Path(f"{self.uri}-clone").rglob("*.manifest")):
            assert read(Dataset.open(f"{self.uri}-clone")) == [OLD]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a tag and a branch. Actions of others are immediate."""
    made = Table(str(tmp_path / "t"), str(tmp_path / "template"))
    for i in range(1, LATEST + 1):
        Dataset.write(made.uri, rows(i), "overwrite")
    Dataset.open(made.uri).tags.create("moving", LATEST)
    Dataset.open(made.uri).create_branch("dev")
    shutil.copytree(made.uri, made.template)
    return made


@dataclass(frozen=True)
class Naming:
    """A change that creates a reference, `named`, to the version OLD."""

    change: Callable[[At], object]
    named: Callable[[At], Any]


NAMINGS = {
    "tag": Naming(lambda at: at(None).tags.create("new", OLD), lambda at: at(None).checkout_version("new")),
    "moved tag": Naming(lambda at: at(None).tags.update("moving", OLD), lambda at: at(None).checkout_version("moving")),
    "branch": Naming(lambda at: at(None).create_branch("new", OLD), lambda at: at(None).checkout_version(("new", None))),
    "inner branch": Naming(lambda at: at(OLD).create_branch("dev/data/new"), lambda at: at(None).checkout_version(("dev/data/new", None))),
    "clone": Naming(lambda at: at(None).shallow_clone(f"{at(None).uri}-clone", OLD), lambda at: Dataset.open(f"{at(None).uri}-clone")),
    "restore": Naming(lambda at: at(OLD).restore(), lambda at: at(None)),
}
CASES = [(name, side) for name in NAMINGS for side in SIDES if (name, side) != ("clone", "pylance")]
"""A clone by pylance is not noted anywhere, unless its version is tagged."""


def done(change: Callable[[At], object], at: At) -> bool:
    try:
        change(at)
    except (LanceError, OSError, ValueError):
        return False
    return True


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "side", "turn"), by_turns(CASES))
def test_versions_referenced_during_a_cleanup_can_be_read(table: Table, name: str, side: str, turn: int) -> None:
    naming, told = NAMINGS[name], list[bool]()

    def refer() -> None:
        told.append(done(naming.change, table.opener(side)))

    for _ in interrupted_everywhere(table.interrupted_cleanup, table.prepare, refer, turn + 1, TURNS):
        table.check()
        if told[-1]:
            assert read(naming.named(table.opener("ours"))) == [OLD]
    # The first came before anything was removed, and the last after it.
    assert told[0]
    assert not told[-1]


@pytest.mark.matrix
@pytest.mark.parametrize("cleaner", SIDES)
@pytest.mark.parametrize("name", NAMINGS)
def test_a_version_removed_during_a_reference_gets_no_reference(table: Table, name: str, cleaner: str) -> None:
    naming, told = NAMINGS[name], list[bool]()

    def change(store: Callable[[str], Store]) -> None:
        told.append(done(naming.change, table.opened(store)))

    for _ in interrupted_everywhere(change, table.prepare, lambda: table.clean_up(cleaner)):
        table.check()
        if told[-1]:
            assert read(naming.named(table.opener("ours"))) == [OLD]
    assert not told[0]
    assert told[-1]


@pytest.mark.parametrize(("side", "turn"), by_turns(SIDES))
def test_rows_appended_during_a_cleanup_are_kept(table: Table, side: str, turn: int) -> None:
    def append() -> None:
        if side == "ours":
            Dataset.write(table.uri, rows(9), "append")
        else:
            lance.write_dataset(rows(9), table.uri, mode="append")

    for _ in interrupted_everywhere(table.interrupted_cleanup, table.prepare, append, turn + 1, TURNS):
        table.check()
        assert read(Dataset.open(table.uri)) == [LATEST, 9]


@pytest.mark.parametrize(("side", "turn"), by_turns(SIDES))
def test_concurrent_cleanups_count_removed_files_once(table: Table, side: str, turn: int) -> None:
    first, second = list[Any](), list[Any]()

    def clean_up_too() -> None:
        second.append(table.clean_up(side))

    def clean_up(store: Callable[[str], Store]) -> None:
        first.append(table.opened(store)(None).cleanup_old_versions(NOW, error_if_tagged_old_versions=False))

    for _ in interrupted_everywhere(clean_up, table.prepare, clean_up_too, turn + 1, TURNS):
        table.check()
        assert [v.version for v in Dataset.open(table.uri).versions()] == [LATEST]
        for count in ("old_versions", "data_files_removed", "transaction_files_removed", "bytes_removed"):
            assert getattr(first[-1], count) + getattr(second[-1], count) == getattr(first[0], count) + getattr(second[0], count), count
    assert (first[-1].old_versions, second[-1].old_versions) == (LATEST - 1, 0)


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_failed_cleanup_leaves_all_references_readable(table: Table, turn: int) -> None:
    """The cleanup loses its connection at one of its calls, right after another client has tagged a version."""
    told = list[bool]()

    def tag_and_fail() -> None:
        told.append(done(NAMINGS["tag"].change, table.opener("pylance")))
        raise ConnectionResetError

    def clean_up(store: Callable[[str], Store]) -> None:
        with contextlib.suppress(StorageError):
            table.interrupted_cleanup(store)

    for _ in interrupted_everywhere(clean_up, table.prepare, tag_and_fail, turn + 1, TURNS):
        table.check()
        if told[-1]:
            assert read(Dataset.open(table.uri, tag="new")) == [OLD]
    assert told[0]


@pytest.mark.parametrize(("name", "turn"), by_turns(["tag", "branch", "clone"]))
def test_a_branch_during_deletion_gets_no_reference(table: Table, name: str, turn: int) -> None:
    table.prepare()
    branch = f"{table.uri}/tree/dev"
    Dataset.write(branch, rows(OLD), "overwrite")
    shutil.rmtree(table.template)
    shutil.copytree(table.uri, table.template)
    changes: dict[str, Callable[[At], object]] = {
        "tag": lambda at: at(None).tags.create("new"),
        "branch": lambda at: at(None).create_branch("new"),
        "clone": lambda at: at(None).shallow_clone(f"{table.uri}-clone"),
    }
    told, deleted = list[bool](), list[bool]()

    def delete(store: Callable[[str], Store]) -> None:
        deleted.append(done(lambda at: at(None).branches.delete("dev"), table.opened(store)))

    def change() -> None:
        told.append(done(changes[name], lambda version: Dataset.open(branch)))

    for _ in interrupted_everywhere(delete, table.prepare, change, turn + 1, TURNS):
        table.check()
        assert told[-1] != deleted[-1]
        if told[-1]:
            assert read(NAMINGS[name].named(table.opener("ours"))) == [OLD]
    assert told[0]
    assert deleted[-2]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Actions that other clients have started, and finish during the pause of a cleanup."""
    begun: list[Callable[[], object]] = []
    own, sleep = threading.get_ident(), time.sleep

    def pause(seconds: float) -> None:
        if threading.get_ident() != own:  # a thread that has nothing to do with the cleanup
            sleep(seconds)
            return
        while begun:
            begun.pop()()

    monkeypatch.setattr(time, "sleep", pause)
    return begun


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_tag_of_a_version_checked_before_its_removal_can_be_read(
    table: Table, begun: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """pylance checks that the version exists and then writes the tag."""
    monkeypatch.setattr(cleanup, "PAUSE_S", 60.0)
    told = list[bool]()

    def begin() -> None:
        told.append(Store(table.uri).exists(manifest_path(OLD)))
        if told[-1]:
            begun.append(lambda: refs.put_tag(Store(table.uri), refs.Tag("new", OLD, None, 0), new=True))

    for _ in interrupted_everywhere(table.interrupted_cleanup, table.prepare, begin, turn + 1, TURNS):
        table.check()
        assert ("new" in lance.dataset(table.uri).tags.list()) == told[-1]
    assert told[0]
    assert not told[-1]


def test_a_writer_that_was_overtaken_finds_its_version_taken(
    table: Table, begun: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer determined version 2 as the latest before others committed 3 and 4 and a cleanup began."""
    monkeypatch.setattr(cleanup, "PAUSE_S", 60.0)
    table.prepare()
    taken = list[bool]()

    def commit() -> None:
        try:
            Store(table.uri).put_if_absent(manifest_path(3), b"")
        except FileExistsError:
            taken.append(True)

    begun.append(commit)
    table.clean_up("ours")
    assert taken == [True]
    assert [v.version for v in Dataset.open(table.uri).versions()] == [LATEST]


def test_a_version_tagged_during_the_pause_is_kept(
    table: Table, begun: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "PAUSE_S", 60.0)
    table.prepare()
    manifest = Path(table.uri, manifest_path(OLD))
    before = manifest.stat().st_ino
    begun.append(lambda: lance.dataset(table.uri).tags.create("new", OLD))
    assert table.clean_up("ours").old_versions == LATEST - 2
    assert manifest.stat().st_ino == before
    table.check()


def test_files_of_versions_removed_by_another_cleanup_are_kept(table: Table) -> None:
    """The other cleanup may be about to put the version back."""
    removed, stats = list[bool](), list[Any]()
    (file,) = Dataset.open(table.uri, version=OLD).snapshot.manifest.fragments[0].files

    def remove() -> None:
        removed.append(Store(table.uri).delete(manifest_path(OLD)))

    def clean_up(store: Callable[[str], Store]) -> None:
        stats.append(table.opened(store)(None).cleanup_old_versions(NOW, error_if_tagged_old_versions=False))

    for _ in interrupted_everywhere(clean_up, table.prepare, remove):
        assert Path(table.uri, "data", file.path).exists() == removed[-1]
        assert stats[-1].old_versions == LATEST - 1 - removed[-1]
    assert removed[0]
    assert not removed[-1]
