"""The version hint, from which pylance searches the latest version: no commit is lost after our commits and cleanups."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from lance_spark.storage.store import Store
from lance_spark.table.versions.hint import PATH, is_kept_at, move_hint, read_hint
from lance_spark.table.versions.snapshot import open_snapshot
from tests.sample import TURNS, by_turns, others_slow
from tests.table.interleaving import interrupted_everywhere

NOW = timedelta(0)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@dataclass(frozen=True)
class Place:
    """The location of a table."""

    uri: str
    options: Mapping[str, str]

    def theirs(self) -> lance.LanceDataset:
        return lance.dataset(self.uri, storage_options=dict(self.options))

    def ours(self) -> Dataset:
        return Dataset.open(self.uri, storage_options=self.options)

    def append(self, *values: int) -> Dataset:
        return Dataset.write(self.uri, rows(*values), "append", storage_options=self.options)


@pytest.fixture(
    params=others_slow(
        ["file", "file, old names", "file, migrated names", "file, a branch", "s3", "s3, a branch"], ["file", "file, a branch"]
    )
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A table with one row, created by pylance."""
    kind, _, what = request.param.partition(", ")
    uri, options = str(tmp_path / "t"), dict[str, str]()
    if kind == "s3":
        endpoint = request.getfixturevalue("s3_server")
        options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
        uri = f"s3://tables/{uuid.uuid4().hex}/t"
    made = lance.write_dataset(rows(0), uri, storage_options=options, enable_v2_manifest_paths="names" not in what)
    if what == "migrated names":
        made.migrate_manifest_paths_v2()
    if what == "a branch":
        Dataset.open(uri, storage_options=options).create_branch("dev/x")
        uri = f"{uri}/tree/dev/x"
    return Place(uri, options)


def values(place: Place) -> list[int]:
    ours, theirs = place.ours().scan().to_table(), place.theirs().to_table()
    assert sorted(ours["a"].to_pylist()) == sorted(theirs["a"].to_pylist())
    return sorted(ours["a"].to_pylist())


def hint(uri: str) -> int | None:
    path = Path(uri, PATH)
    return int(json.loads(path.read_text())["version"]) if path.exists() else None


def test_appends_by_old_pylance_handles_are_kept(place: Place) -> None:
    held, expected = [place.theirs()], [0]
    for i in range(1, 8 if place.options else 20):
        for j in range(1 + i % 3):
            place.append(1000 * i + j)
            expected.append(1000 * i + j)
        assert place.ours().cleanup_old_versions(NOW).old_versions > 0
        for handle in held[-2:]:
            handle.insert(rows(i))
            expected.append(i)
        held.append(place.theirs())
    assert values(place) == sorted(expected)


def test_every_commit_moves_the_hint(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = Dataset.write(uri, rows(1))
    assert hint(uri) == 1
    Dataset.write(uri, rows(2), "append").delete("a = 1")
    assert hint(uri) == 3
    assert hint(ds.create_branch("dev", 2).uri) == 2
    assert hint(ds.shallow_clone(str(tmp_path / "shallow"), 2).uri) == 2
    assert hint(ds.deep_clone(str(tmp_path / "deep")).uri) == 1
    lance.write_dataset(rows(3), uri, mode="append")
    assert hint(uri) == 4
    Dataset.write(uri, rows(4), "overwrite")
    assert hint(uri) == read_hint(Store(uri)) == 5
    assert Path(uri, PATH).read_text() == '{"version":5}'


def test_the_hint_is_kept_where_pylance_keeps_it(s3_server: str) -> None:
    assert is_kept_at(Store("/tmp/t"))
    assert is_kept_at(Store("s3://tables--use1-az4--x-s3/t"))
    assert not any(is_kept_at(Store(uri)) for uri in ("s3://tables/t", "gs://tables/t", "az://tables/t", "memory://t"))
    options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": s3_server, "allow_http": "true"}
    uri = f"s3://tables/{uuid.uuid4().hex}/t"
    Dataset.write(uri, rows(1), storage_options=options)
    lance.write_dataset(rows(1), uri, mode="append", storage_options=options)
    assert not Store(uri, options).exists(PATH)


def test_the_hint_never_moves_backwards(tmp_path: Path) -> None:
    store = Store(tmp_path / "t")
    Dataset.write(store.uri, rows(1))
    store.put(PATH, b'{"version":7}')
    move_hint(store, 2)
    assert hint(store.uri) == 7


def test_a_slow_writer_does_not_move_the_hint_backwards(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")

    def prepare() -> None:
        Dataset.write(uri, rows(1), "overwrite")
        store = Store(uri)
        store.put(PATH, json.dumps({"version": Dataset.open(uri).version - 1}).encode())

    def others() -> None:
        for i in range(3):
            Dataset.write(uri, rows(i), "append")
        Dataset.open(uri).cleanup_old_versions(NOW)

    def slow(store: Callable[[str], Store]) -> None:
        move_hint(store(uri), Dataset.open(uri).version)

    for _ in interrupted_everywhere(slow, prepare, others):
        assert hint(uri) == Dataset.open(uri).version


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"[" * 4000, b"[" * 10_000, b'{"version":-1}', b'{"version":"2"}', b'{"version":1e999}', b"{}", b"2", b"\xff\xfe"],
)
def test_an_invalid_hint_is_ignored(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path / "t")
    ds = Dataset.write(store.uri, rows(1))
    held = lance.dataset(store.uri)
    store.put(PATH, content)
    assert read_hint(store) is None
    Dataset.write(store.uri, rows(2), "append")
    assert hint(store.uri) == 2
    store.put(PATH, content)
    assert Dataset.open(store.uri).cleanup_old_versions(NOW).old_versions == 1
    held.insert(rows(3))
    assert values(Place(ds.uri, {})) == [1, 2, 3]


def test_a_failure_to_write_the_hint_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, rows(1))
    Path(uri, PATH).unlink()
    Path(uri, PATH).mkdir()
    assert Dataset.write(uri, rows(2), "append").version == 2
    assert "moving the version hint" in caplog.text
    with pytest.raises(CorruptFileError, match="expected a file"):
        read_hint(Store(uri))


def stale(uri: str) -> None:
    """A table with seven versions and a hint for the second one, as left by writers that do not maintain hints."""
    for i in range(1, 8):
        Dataset.write(uri, rows(i), "append" if i > 1 else "create")
    Store(uri).put(PATH, b'{"version":2}')


def test_a_cleanup_leaves_no_gap_above_the_hint_that_it_finds(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    stale(uri)
    held = {version: lance.dataset(uri, version=version) for version in (1, 2, 4)}
    ds = Dataset.open(uri)
    planned = ds.cleanup_old_versions(NOW, dry_run=True)
    assert hint(uri) == 2
    assert ds.cleanup_old_versions(NOW) == planned
    assert [v.version for v in ds.versions()] == [3, 4, 5, 6, 7]
    assert hint(uri) == 7
    # A slow writer has read the hint before.
    Store(uri).put(PATH, b'{"version":2}')
    held[2].insert(rows(12))
    assert [v.version for v in ds.versions()] == [3, 4, 5, 6, 7, 8]
    assert ds.checkout_version((None, None)).cleanup_old_versions(NOW).old_versions == 5
    for handle in held.values():
        handle.insert(rows(20))
    assert values(Place(uri, {})) == [1, 2, 3, 4, 5, 6, 7, 12, 20, 20, 20]


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_writer_that_has_read_the_hint_before_a_cleanup_loses_nothing_whenever_it_commits(turn: int, tmp_path: Path) -> None:
    uris = (str(tmp_path / str(i)) for i in itertools.count())
    held: list[lance.LanceDataset] = []

    def prepare() -> None:
        uri = next(uris)
        stale(uri)
        held.append(lance.dataset(uri, version=2))

    def clean_up(store: Callable[[str], Store]) -> None:
        Dataset(open_snapshot(store(held[-1].uri))).cleanup_old_versions(NOW)

    def append() -> None:
        Store(held[-1].uri).put(PATH, b'{"version":2}')
        held[-1].insert(rows(99))

    for _ in interrupted_everywhere(clean_up, prepare, append, turn + 1, TURNS):
        assert values(Place(held[-1].uri, {})) == [1, 2, 3, 4, 5, 6, 7, 99]
