"""Deleting rows: remaining rows, written files, and concurrent writers, including pylance."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.dataset import Dataset
from lance_spark.errors import CommitConflictError, CorruptFileError, SchemaMismatchError
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Delete, Operation
from lance_spark.metadata.transaction import Transaction, parse
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import open_snapshot
from tests.table.commit.test_every_conflict import normal


def make(uri: Path, rows: int = 30, in_file: int = 10, stable: bool = False) -> Dataset:
    table = pa.table({"a": pa.array(range(rows), pa.int64()), "s": [None if i % 5 == 0 else str(i) for i in range(rows)]})
    lance.write_dataset(table, uri, max_rows_per_file=in_file, enable_stable_row_ids=stable)
    return Dataset.open(str(uri))


def numbers(uri: Path) -> list[int]:
    ds = lance.dataset(uri)
    ds.validate()
    ours = Dataset.open(str(uri)).scan(columns=["a"]).to_table()["a"].to_pylist()
    assert ours == ds.to_table()["a"].to_pylist()
    assert ds.count_rows() == Dataset.open(str(uri)).count_rows() == len(ours)
    return sorted(ours)


def manifest(uri: Path) -> Manifest:
    return open_snapshot(Store(str(uri))).manifest


def last_operation(uri: Path) -> Operation:
    content = manifest(uri).transaction
    assert content is not None
    return parse(content, "x").operation


PREDICATES = ["a = 3", "a < 10", "a >= 5 and a < 25", "s is null", "true", "false", "a % 7 = 2 or s = '4'", "a > 100"]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_the_version_is_that_of_pylance(tmp_path: Path, predicate: str, stable: bool) -> None:
    before = make(tmp_path / "ours", stable=stable)
    make(tmp_path / "pylance", stable=stable)
    after = before.delete(predicate)
    lance.dataset(tmp_path / "pylance").delete(predicate)
    assert after.version == before.version + 1
    assert normal(manifest(tmp_path / "ours")) == normal(manifest(tmp_path / "pylance"))
    assert numbers(tmp_path / "ours") == numbers(tmp_path / "pylance")
    assert before.count_rows() == 30
    theirs, ours = last_operation(tmp_path / "pylance"), last_operation(tmp_path / "ours")
    assert isinstance(theirs, Delete)
    assert isinstance(ours, Delete)
    assert ours.predicate == predicate
    assert ours.deleted_fragment_ids == theirs.deleted_fragment_ids
    assert len(ours.updated_fragments) == len(theirs.updated_fragments)


@pytest.mark.parametrize(("count", "ending"), [(4999, ".arrow"), (5000, ".bin")])
def test_many_deletions_are_a_bitmap_as_with_pylance(tmp_path: Path, count: int, ending: str) -> None:
    for side in ("ours", "pylance"):
        make(tmp_path / side, 20_000, 20_000)
    Dataset.open(str(tmp_path / "ours")).delete(f"a < {count}")
    lance.dataset(tmp_path / "pylance").delete(f"a < {count}")
    for side in ("ours", "pylance"):
        (file,) = os.listdir(tmp_path / side / "_deletions")
        assert file.endswith(ending)
        assert numbers(tmp_path / side) == list(range(count, 20_000))


def test_deletions_of_both_libraries_are_combined(tmp_path: Path) -> None:
    make(tmp_path)
    for i in range(0, 30, 2):
        Dataset.open(str(tmp_path)).delete(f"a = {i}")
        lance.dataset(tmp_path).delete(f"a = {i + 1}")
        assert numbers(tmp_path) == list(range(i + 2, 30))
    assert manifest(tmp_path).fragments == ()
    lance.write_dataset(pa.table({"a": [1], "s": ["x"]}), tmp_path, mode="append")
    assert numbers(tmp_path) == [1]


def test_pylance_compacts_and_appends_after_ours(tmp_path: Path) -> None:
    make(tmp_path)
    Dataset.open(str(tmp_path)).delete("a % 3 = 0")
    lance.dataset(tmp_path).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert manifest(tmp_path).num_rows == 20
    assert all(f.deletion is None for f in manifest(tmp_path).fragments)
    Dataset.open(str(tmp_path)).delete("a % 3 = 1")
    assert numbers(tmp_path) == [i for i in range(30) if i % 3 == 2]


def test_deleting_from_an_older_version_keeps_deletions_of_others(tmp_path: Path) -> None:
    old = make(tmp_path)
    lance.dataset(tmp_path).delete("a in (1, 2, 11)")
    lance.dataset(tmp_path).delete("a = 4")
    assert old.delete("a in (0, 12)").version == 4
    assert numbers(tmp_path) == [i for i in range(30) if i not in (0, 1, 2, 4, 11, 12)]
    read = lance.dataset(tmp_path).read_transaction(4)
    assert read is not None
    assert read.read_version == 3
    assert len(list((tmp_path / "_transactions").iterdir())) == 4


def test_rows_are_searched_again_after_a_conflict(tmp_path: Path) -> None:
    old = make(tmp_path)
    lance.dataset(tmp_path).delete("a = 1")
    lance.dataset(tmp_path).update({"a": "a + 100"}, where="a = 2")
    old.delete("a < 5")
    assert numbers(tmp_path) == [*range(5, 30), 102]
    Dataset.open(str(tmp_path)).delete("a between 100 and 110")
    assert numbers(tmp_path) == list(range(5, 30))


def test_deleting_the_last_rows_removes_the_fragment(tmp_path: Path) -> None:
    old = make(tmp_path)
    lance.dataset(tmp_path).delete("a < 5")
    old.delete("a between 5 and 9")
    assert [f.id for f in manifest(tmp_path).fragments] == [1, 2]
    assert numbers(tmp_path) == list(range(10, 30))


def test_pylance_keeps_our_deletions(tmp_path: Path) -> None:
    make(tmp_path)
    theirs = lance.dataset(tmp_path)
    Dataset.open(str(tmp_path)).delete("a in (1, 11)")
    theirs.delete("a in (2, 12)")
    assert numbers(tmp_path) == [i for i in range(30) if i not in (1, 2, 11, 12)]


def test_a_delete_that_was_prepared_by_hand_is_rebased(tmp_path: Path) -> None:
    make(tmp_path)
    fragment = lance.dataset(tmp_path).get_fragments()[0].delete("a = 3")
    assert fragment is not None
    lance.LanceDataset.commit(str(tmp_path), lance.LanceOperation.Delete([fragment], [], "x"), read_version=1)
    prepared = last_operation(tmp_path)
    lance.dataset(tmp_path, version=1).restore()
    lance.dataset(tmp_path).delete("a = 4")
    Dataset.commit(str(tmp_path), prepared, read_version=3)
    assert numbers(tmp_path) == [i for i in range(30) if i not in (3, 4)]
    with pytest.raises(CommitConflictError, match="row 3 of fragment 0") as conflict:
        commit(Store(str(tmp_path)), Transaction(3, prepared))
    assert conflict.value.retryable


def test_no_rows_are_deleted_from_a_replaced_table(tmp_path: Path) -> None:
    old = make(tmp_path)
    files = set((tmp_path / "_deletions").iterdir()) if (tmp_path / "_deletions").exists() else set()
    lance.write_dataset(pa.table({"a": [1], "s": ["x"]}), tmp_path, mode="overwrite")
    with pytest.raises(CommitConflictError) as conflict:
        old.delete("a = 1")
    assert not conflict.value.retryable
    assert set((tmp_path / "_deletions").iterdir()) == files
    assert numbers(tmp_path) == [1]


def test_checksums_stay_unverified_when_rows_are_looked_for_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"a": range(100), "b": np.random.default_rng(1).integers(0, 2**60, 100)}))
    (path,) = Path(uri, "data").iterdir()
    content = bytearray(path.read_bytes())
    content[content.index(np.random.default_rng(1).integers(0, 2**60, 100)[50].tobytes())] ^= 1
    path.write_bytes(content)
    damaged = Dataset.open(uri, verify_checksums=False)
    Dataset.open(uri, verify_checksums=False).delete("a < 3 AND b > 0")
    left = damaged.delete("a < 5 AND b > 0")  # conflicts, and runs again
    assert left.count_rows("b > 0") == 95
    with pytest.raises(CorruptFileError):
        Dataset.open(uri).delete("a < 7 AND b > 0")


def test_an_invalid_predicate_changes_nothing(tmp_path: Path) -> None:
    ds = make(tmp_path)
    with pytest.raises(SchemaMismatchError):
        ds.delete("nothing = 1")
    assert Dataset.open(str(tmp_path)).version == 1


@settings(max_examples=15)
@given(st.lists(st.sets(st.integers(0, 29), max_size=10), max_size=6), st.booleans())
def test_deletions_of_two_writers_are_both_applied(tmp_path_factory: pytest.TempPathFactory, groups: list[set[int]], stable: bool) -> None:
    folder = tmp_path_factory.mktemp("model")
    old = make(folder, stable=stable)
    left = set(range(30))
    for i, group in enumerate(groups):
        predicate = f"a in ({', '.join(map(str, group))})" if group else "false"
        if i % 2:
            lance.dataset(folder).delete(predicate)
        else:
            old.delete(predicate)
        left -= group
    assert numbers(folder) == sorted(left)


def test_rows_of_clones_and_branches_can_be_deleted(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    source.delete("a = 1")
    lance.dataset(tmp_path / "source").shallow_clone(str(tmp_path / "clone"), 2)
    branch = Dataset.open(str(tmp_path / "source")).create_branch("b")
    for ds in (Dataset.open(str(tmp_path / "clone")), branch):
        left = ds.delete("a < 5 or a = 12")
        assert left.scan(columns=["a"]).to_table()["a"].to_pylist() == [a for a in range(5, 30) if a != 12]
        lance.dataset(left.uri).validate()
        assert lance.dataset(left.uri).count_rows() == 24
    lance.dataset(tmp_path / "clone").delete("a = 13")
    assert Dataset.open(str(tmp_path / "clone")).count_rows() == 23
    assert numbers(tmp_path / "source") == [a for a in range(30) if a != 1]


def test_a_delete_that_fails_in_a_later_fragment_leaves_no_files(tmp_path: Path) -> None:
    before = make(tmp_path / "t", rows=500)
    last = tmp_path / "t" / "data" / before.snapshot.manifest.fragments[-1].files[0].path
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=last.name):
        before.delete("a % 2 = 0")
    assert not list((tmp_path / "t").glob("_deletions/*"))
    assert Dataset.open(str(tmp_path / "t")).version == 1


def test_more_fragments_than_wait_in_memory_lose_rows(tmp_path: Path) -> None:
    make(tmp_path / "t", rows=300, in_file=3)
    after = Dataset.open(str(tmp_path / "t")).delete("a % 3 = 1 OR a BETWEEN 60 AND 89")
    assert numbers(tmp_path / "t") == [a for a in range(300) if a % 3 != 1 and not 60 <= a <= 89]
    fragments = after.snapshot.manifest.fragments
    assert [f.id for f in fragments] == [i for i in range(100) if not 20 <= i <= 29]
    assert {f.deletion.num_deleted for f in fragments if f.deletion} == {1}
