"""Commits that must be the very next version, the latest version where a listing is wrong, and operations without a read version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, CommitStateUnknownError, StorageError
from lance_spark.metadata.operations import Append, Overwrite, Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit, commit_next, commit_operation
from lance_spark.table.versions.snapshot import manifest_path, open_snapshot
from lance_spark.table.write import write
from tests.table.commit.test_commit import TABLE, TroubledStore, new_fragments, pylance_table, remote, remote_append
from tests.table.commit.test_old_tables import TWINS, ids, rows, twins, values

__all__ = ["remote"]


def test_the_next_version_is_ours_or_another_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    base = open_snapshot(Store(uri))
    done = commit_next(Store(uri), Transaction(1, Append(new_fragments(uri))), base)
    assert done is not None
    assert done.version == 2
    transactions = Store(uri).list("_transactions")
    assert commit_next(Store(uri), Transaction(1, Append(new_fragments(uri))), base) is None
    assert Store(uri).list("_transactions") == transactions
    assert lance.dataset(uri).count_rows() == 6


def test_the_next_version_in_a_database(tmp_path: Path) -> None:
    uri, options = str(tmp_path / "t"), {"manifest_store": f"sqlite:///{tmp_path}/manifests.db"}
    Dataset.write(uri, TABLE, storage_options=options)
    base = open_snapshot(Store(uri, options))
    done = commit_next(base.store, Transaction(1, Append(new_fragments(uri))), base)
    assert done is not None
    assert Dataset.open(uri, storage_options=options).count_rows() == 6


def test_a_next_version_that_cannot_be_written_leaves_no_transaction(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    transactions = Store(uri).list("_transactions")

    def full(number: int, put: object) -> None:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        commit_next(TroubledStore(uri, full), Transaction(1, Append(new_fragments(uri))), open_snapshot(Store(uri)))
    assert Store(uri).list("_transactions") == transactions


def test_a_next_version_whose_store_never_answers_is_in_doubt(remote: tuple[str, dict[str, str]]) -> None:
    uri, options = remote

    def cut(number: int, put: object) -> None:
        raise StorageError("connection cut")

    base = open_snapshot(Store(uri, options))
    with pytest.raises(CommitStateUnknownError):
        commit_next(TroubledStore(uri, cut, options), Transaction(1, remote_append(uri, options)), base)


class ListingStore(Store):
    """A store whose listings of `_versions` lack some names and have others besides."""

    __slots__ = ("added", "hidden")

    def __init__(self, uri: str, hidden: frozenset[str], added: frozenset[str] = frozenset()) -> None:
        super().__init__(uri)
        self.hidden, self.added = hidden, added

    def names(self, folder: str) -> list[str]:
        return sorted({*super().names(folder)} - self.hidden | self.added)


def name(version: int) -> str:
    return manifest_path(version, v2=True).rpartition("/")[2]


def test_a_listing_that_lacks_the_version_that_was_read_is_outdated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE)
    Dataset.write(uri, TABLE, "append")
    outdated = ListingStore(uri, frozenset({name(2)}))
    assert commit(outdated, Transaction(2, Append(new_fragments(uri)))).version == 3
    assert lance.dataset(uri).count_rows() == 9


def test_a_latest_version_that_is_never_there_is_given_up(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE)
    with pytest.raises(CommitConflictError, match="run the operation again"):
        commit(ListingStore(uri, frozenset(), frozenset({name(9)})), Transaction(1, Append(new_fragments(uri))))


def test_only_what_replaces_everything_needs_no_read_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = Dataset.write(uri, TABLE)
    store, manifest = Store(uri), table.snapshot.manifest
    with pytest.raises(ValueError, match="Append needs read_version"):
        commit_operation(store, Append(new_fragments(uri)), None, {})
    with pytest.raises(TypeError, match="not str"):
        commit_operation(store, "append", 1, {})  # type: ignore[arg-type]
    assert commit_operation(store, Overwrite(new_fragments(uri), manifest.schema), None, {}).version == 2
    assert commit_operation(store, Restore(1), None, {}).version == 3
    assert lance.dataset(uri).to_table() == TABLE


def test_another_writer_may_be_first_to_give_fragments_their_own_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = twins(uri)
    target = write.begin_write(uri, rows(90).schema, "append")
    late = tuple(write.write_fragments(target, rows(90).to_batches()))

    def overtaken(number: int, put: Callable[[], None]) -> None:
        if number == 1:
            Dataset.write(uri, rows(80), "append")
        put()

    commit(TroubledStore(uri, overtaken), Transaction(table.version, Append(late)))
    assert ids(uri) == sorted(set(ids(uri)))
    assert sorted(values(uri)) == [*TWINS, 80, 81, 82, 90, 91, 92]
