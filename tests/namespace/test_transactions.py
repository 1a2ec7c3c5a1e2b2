"""Transactions over several tables of a directory namespace: readers of the namespace see all changes or none, and no commit is lost."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import CreateNamespaceRequest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, InvalidOperationError, RefConflictError, StorageError, UnsupportedFeatureError
from lance_spark.namespace import transaction_commit as committing
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.protocol import Namespace
from lance_spark.namespace.transaction_records import ABANDONED_S
from lance_spark.storage.store import Store
from tests import programs
from tests.sample import by_turns
from tests.table.crash import moved

KEY = {"lance-schema:unenforced-primary-key": "true"}
DEBIT, CREDIT = ["debit"], ["shop", "credit"]
Rows = list[tuple[int, int]]
OLD: Rows = [(i, 100) for i in range(6)]


def lake_at(root: str, *, credit: list[str] = CREDIT, stable: bool = False, key: bool = False) -> DirectoryNamespace:
    """A namespace with two tables of six rows in three fragments."""
    lake = lance_spark.namespace(root)
    assert isinstance(lake, DirectoryNamespace)
    if len(credit) > 1:
        lake.create_namespace(credit[:-1])
    for id in (DEBIT, credit):
        named = [pa.field("id", pa.int64(), nullable=False, metadata=KEY if key else None), pa.field("amount", pa.int64())]
        rows = pa.table([list(range(6)), [100] * 6], schema=pa.schema(named))
        lake.write(id, rows, stable_row_ids=stable, max_rows_per_file=2)
    return lake


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryNamespace:
    return lake_at(str(tmp_path / "lake"))


def rows(table: Dataset) -> Rows:
    return sorted((row["id"], row["amount"]) for row in table.to_table().to_pylist())


def by_path(lake: DirectoryNamespace, id: list[str]) -> str:
    """The path of a table, at which clients know nothing of transactions."""
    return lake.describe_table(id).location


def there(lake: DirectoryNamespace, id: list[str]) -> Rows:
    """The rows that pylance sees at the path of a table."""
    return sorted((row["id"], row["amount"]) for row in lance.dataset(by_path(lake, id)).to_table().to_pylist())


def row(id: int, amount: int = 0) -> pa.Table:
    return pa.table([[id], [amount]], schema=pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64())]))


def with_one(old: Rows, id: int, amount: int) -> Rows:
    return sorted([*(r for r in old if r[0] != id), (id, amount)])


def is_clean(lake: DirectoryNamespace) -> bool:
    """No branch, file or deletion of a transaction is left, and every file is intact."""
    tables = [Dataset.open(by_path(lake, id)) for id in (DEBIT, CREDIT)]
    return not any(table.branches.list() or table.verify().problems for table in tables) and not lake.root.names("__transactions")


def test_changes_are_seen_inside_at_once_and_outside_after_the_commit(lake: DirectoryNamespace) -> None:
    with lake.transaction() as both:
        both.open(DEBIT).update({"amount": "amount - 30"}, "id = 1")
        both.write(CREDIT, row(7, 30), "append")
        assert rows(both.open(DEBIT)) == with_one(OLD, 1, 70)
        assert rows(both.open(CREDIT)) == with_one(OLD, 7, 30)
        assert rows(lake.open(DEBIT)) == rows(lake.open(CREDIT)) == there(lake, DEBIT) == OLD
    assert rows(lake.open(DEBIT)) == there(lake, DEBIT) == with_one(OLD, 1, 70)
    assert rows(lake.open(CREDIT)) == there(lake, CREDIT) == with_one(OLD, 7, 30)
    assert is_clean(lake)


def test_versions_are_those_outside_and_branches_are_refused(lake: DirectoryNamespace) -> None:
    lake.open(DEBIT).tags.create("first")
    lake.open(DEBIT).delete("id = 0")
    with lake.transaction() as both:
        both.open(DEBIT).delete("id = 1")
        lake.open(DEBIT).delete("id = 5")
        for version in ({"version": 1}, {"tag": "first"}):
            assert rows(both.open(DEBIT, **version)) == OLD
        assert rows(both.open(DEBIT, version=3)) == OLD[1:5]
        assert rows(both.open(DEBIT, timestamp="2100-01-01")) == OLD[1:5]
        assert rows(both.open(DEBIT)) == OLD[2:]
        with pytest.raises(UnsupportedFeatureError, match="is not in the transaction"):
            both.open(DEBIT, branch="main")


def test_an_error_rolls_all_changes_back(lake: DirectoryNamespace) -> None:
    def fail() -> None:
        with lake.transaction() as both:
            both.open(DEBIT).delete("true")
            both.open(CREDIT).delete("id = 1")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert rows(lake.open(DEBIT)) == rows(lake.open(CREDIT)) == OLD
    assert lake.open(DEBIT).version == 1
    assert is_clean(lake)


def insert(table: Dataset) -> object:
    return table.insert(row(8, 8))


def update_some(table: Dataset) -> object:
    return table.update({"amount": "1"}, "id = 1")


def update_whole_fragment(table: Dataset) -> object:
    return table.update({"amount": "2"}, "id < 2")


def delete(table: Dataset) -> object:
    return table.delete("id = 1 OR id = 5 OR id = 8")


def merge(table: Dataset) -> object:
    return (
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(pa.concat_tables([row(2, 9), row(9, 9)]))
    )


def overwrite(table: Dataset) -> object:
    return Dataset.write(table.uri, row(3, 3), "overwrite")


def compact(table: Dataset) -> object:
    return table.optimize.compact_files()


def add_column(table: Dataset) -> object:
    return table.add_columns({"twice": "amount * 2"})


STEPS: list[Callable[[Dataset], object]] = [insert, update_some, update_whole_fragment, delete, merge, overwrite, compact, add_column]
CASES = [
    (first, second, kind)
    for first in STEPS
    for second in STEPS
    for kind in ("plain", "stable", "key")
    # The second step gets rows of the first columns, and an overwrite drops the key.
    if second is not overwrite and (first, second) != (add_column, add_column) and (kind, first) != ("key", overwrite)
]


@pytest.mark.matrix
@pytest.mark.parametrize(("first", "second", "kind"), CASES)
def test_a_transaction_leaves_what_its_statements_do_to_a_table(
    first: Callable[[Dataset], object], second: Callable[[Dataset], object], kind: str, tmp_path: Path
) -> None:
    lake, plain = (lake_at(str(tmp_path / name), stable=kind == "stable", key=kind == "key") for name in ("lake", "plain"))
    with lake.transaction() as both:
        for step in (first, second):
            step(both.open(DEBIT))
            step(plain.open(DEBIT))
        both.open(CREDIT).delete("id = 0")
    found, expected = lake.open(DEBIT).to_table(), plain.open(DEBIT).to_table()
    assert found.sort_by("id") == expected.sort_by("id")
    assert lance.dataset(by_path(lake, DEBIT)).to_table().sort_by("id").to_pylist() == expected.sort_by("id").to_pylist()
    assert is_clean(lake)
    assert lake.open(DEBIT).version == 2


@pytest.mark.parametrize("stable", [False, True])
def test_row_ids_of_rows_that_are_kept_stay_and_new_ones_are_unique(stable: bool, tmp_path: Path) -> None:
    lake = lake_at(str(tmp_path / "lake"), stable=True)
    before = {r["id"]: r["_rowid"] for r in lake.open(DEBIT).scan(with_row_id=True).to_table().to_pylist()}
    with lake.transaction() as both:
        merge(both.open(DEBIT))
        insert(both.open(DEBIT))
        update_some(both.open(DEBIT))
        if stable:
            lance.write_dataset(pa.concat_tables([row(20), row(21)]), by_path(lake, DEBIT), mode="append")
    after = {r["id"]: r["_rowid"] for r in lake.open(DEBIT).scan(with_row_id=True).to_table().to_pylist()}
    assert {id: after[id] for id in before} == before
    assert len(set(after.values())) == len(after) == len(before) + 2 + 2 * stable


@pytest.mark.parametrize("stable", [False, True])
def test_what_others_change_meanwhile_is_kept_if_rows_differ(stable: bool, tmp_path: Path) -> None:
    lake = lake_at(str(tmp_path / "lake"), stable=stable)
    with lake.transaction() as both:
        both.open(DEBIT).update({"amount": "1"}, "id = 1")
        both.open(DEBIT).insert(row(8))
        both.open(CREDIT).delete("id = 5")
        lance.write_dataset(row(20), by_path(lake, DEBIT), mode="append")
        lance.dataset(by_path(lake, DEBIT)).delete("id = 0")
        lake.open(CREDIT).update({"amount": "3"}, "id = 4")
        assert rows(both.open(DEBIT)) == with_one(with_one(OLD, 1, 1), 8, 0)
    expected = with_one(with_one(with_one(OLD, 1, 1), 8, 0), 20, 0)
    assert rows(lake.open(DEBIT)) == there(lake, DEBIT) == expected[1:]
    assert rows(lake.open(CREDIT)) == with_one(OLD, 4, 3)[:-1]
    assert is_clean(lake)


@pytest.mark.parametrize("theirs", ["row", "compaction", "overwrite", "dropped"])
def test_a_conflict_fails_the_whole_transaction_by_name(theirs: str, lake: DirectoryNamespace) -> None:
    other = lance.dataset(by_path(lake, CREDIT))
    changes: dict[str, Callable[[], object]] = {
        "row": lambda: other.update({"amount": "5"}, "id = 1"),
        "compaction": lambda: other.optimize.compact_files(),
        "overwrite": lambda: lance.write_dataset(row(1), other.uri, mode="overwrite"),
        "dropped": lambda: lake.drop_table(CREDIT),
    }
    both = lake.begin_transaction()
    both.open(DEBIT).update({"amount": "1"}, "id = 1")
    both.open(DEBIT).update({"amount": "1"}, "id > 3")
    both.open(CREDIT).update({"amount": "2"}, "id = 1")
    changes[theirs]()
    with pytest.raises(CommitConflictError, match="credit"):
        both.commit()
    assert rows(lake.open(DEBIT)) == OLD
    assert lake.open(DEBIT).version == 1
    assert not lake.open(DEBIT).branches.list()
    assert not lake.open(DEBIT).verify().orphans
    assert not lake.root.names("__transactions")


def test_one_of_two_transactions_that_change_the_same_row_fails_and_the_other_one_lands_whole(lake: DirectoryNamespace) -> None:
    first, second = lake.begin_transaction(), lake.begin_transaction()
    for transaction, amount in ((first, "1"), (second, "2")):
        transaction.open(DEBIT).update({"amount": amount}, "id = 1")
        transaction.open(CREDIT).update({"amount": amount}, f"id = {amount}")
    second.commit()
    with pytest.raises(CommitConflictError, match="row 1 of fragment 0"):
        first.commit()
    assert rows(lake.open(DEBIT)) == with_one(OLD, 1, 2)
    assert rows(lake.open(CREDIT)) == with_one(OLD, 2, 2)
    assert is_clean(lake)


def test_a_transaction_sees_no_part_of_a_later_one(lake: DirectoryNamespace) -> None:
    reader = lake.begin_transaction()
    assert rows(reader.open(DEBIT)) == OLD
    with lake.transaction() as both:
        both.open(DEBIT).delete("true")
        both.open(CREDIT).delete("true")
    lance.write_dataset(row(20), by_path(lake, CREDIT), mode="append")
    assert rows(reader.open(CREDIT)) == rows(reader.open(DEBIT)) == OLD
    reader.commit()
    assert rows(lake.open(CREDIT)) == [(20, 0)]
    assert is_clean(lake)


def test_rows_that_were_only_read_are_not_checked(lake: DirectoryNamespace) -> None:
    """Snapshot isolation: each of two transactions reads what the other one changes, and both commit."""
    first, second = lake.begin_transaction(), lake.begin_transaction()
    assert rows(first.open(CREDIT)) == rows(second.open(DEBIT)) == OLD
    first.open(DEBIT).update({"amount": "0"}, "id = 1")
    second.open(CREDIT).update({"amount": "0"}, "id = 1")
    first.commit()
    second.commit()
    assert rows(lake.open(DEBIT)) == rows(lake.open(CREDIT)) == with_one(OLD, 1, 0)


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Writers die right after the commit of a transaction, until what this returns is called."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(committing, "finish", die)
        yield patch.undo


def interrupted(lake: DirectoryNamespace, alive: Callable[[], None]) -> None:
    both = lake.begin_transaction()
    both.open(DEBIT).update({"amount": "amount - 30"}, "id = 1")
    both.open(DEBIT).insert(row(7))
    both.open(CREDIT).update({"amount": "amount + 30"}, "id = 1")
    with pytest.raises(KeyboardInterrupt):
        both.commit()
    alive()
    assert there(lake, DEBIT) == there(lake, CREDIT) == OLD


MEANWHILE: dict[str, Callable[[str], object]] = {
    "nothing": lambda uri: None,
    "append": lambda uri: lance.write_dataset(row(20), uri, mode="append"),
    "delete": lambda uri: lance.dataset(uri).delete("id = 0"),
    "update": lambda uri: lance.dataset(uri).update({"amount": "5"}, "id = 0"),
    "compact": lambda uri: lance.dataset(uri).optimize.compact_files(),
    "append_and_compact": lambda uri: lance.write_dataset(row(20), uri, mode="append").optimize.compact_files(),
    "cleanup": lambda uri: lance.dataset(uri).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    ),
    "index": lambda uri: lance.dataset(uri).create_scalar_index("id", "BTREE"),
}
AFTERWARD: dict[str, Rows] = {
    "append": [*OLD, (20, 0)],
    "append_and_compact": [*OLD, (20, 0)],
    "delete": OLD[1:],
    "update": with_one(OLD, 0, 5),
}


@pytest.mark.parametrize("kind", ["plain", "stable"])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_reader_finishes_a_transaction_whose_writer_died_and_keeps_what_pylance_has_done_meanwhile(
    meanwhile: str, kind: str, dying: Callable[[], None], tmp_path: Path
) -> None:
    lake = lake_at(str(tmp_path / "lake"), stable=kind == "stable")
    interrupted(lake, dying)
    MEANWHILE[meanwhile](by_path(lake, DEBIT))
    expected = AFTERWARD.get(meanwhile, OLD)
    assert rows(lake.open(CREDIT)) == with_one(OLD, 1, 130)
    assert rows(lake.open(DEBIT)) == there(lake, DEBIT) == with_one(with_one(expected, 1, 70), 7, 0)
    assert is_clean(lake)


def test_the_branch_of_a_transaction_is_not_deleted_by_others(lake: DirectoryNamespace, dying: Callable[[], None]) -> None:
    interrupted(lake, dying)
    table = Dataset.open(by_path(lake, DEBIT))
    [branch] = table.branches.list()
    with pytest.raises(RefConflictError, match="belongs to a transaction"):
        table.branches.delete(branch)
    assert rows(lake.open(DEBIT)) == with_one(with_one(OLD, 1, 70), 7, 0)
    assert is_clean(lake)


def test_the_record_of_a_transaction_outlives_what_pylance_does_to_the_namespace(
    dying: Callable[[], None], lake: DirectoryNamespace
) -> None:
    interrupted(lake, dying)
    theirs = lance.namespace.DirectoryNamespace(root=lake.root.uri)
    theirs.create_namespace(CreateNamespaceRequest(id=["theirs"]))
    lake.create_namespace(["ours"])
    assert lake.list_namespaces() == ["ours", "shop", "theirs"]
    assert not lake.describe_namespace()
    assert rows(lake.open(DEBIT)) == with_one(with_one(OLD, 1, 70), 7, 0)
    assert is_clean(lake)


def test_a_committed_transaction_is_not_rolled_back(dying: Callable[[], None], lake: DirectoryNamespace) -> None:
    both = lake.begin_transaction()
    both.open(DEBIT).insert(row(7))
    with pytest.raises(KeyboardInterrupt):
        both.commit()
    dying()
    with pytest.raises(InvalidOperationError, match="is committed"):
        both.roll_back()
    both.commit()
    assert rows(lake.open(DEBIT)) == with_one(OLD, 7, 0)
    assert is_clean(lake)


@pytest.mark.parametrize("earlier", [None, 5])
def test_a_numbered_write_is_refused_so_that_no_other_change_is_skipped_with_it(earlier: int | None, lake: DirectoryNamespace) -> None:
    if earlier is not None:
        lake.write(DEBIT, row(7), "append", txn_app_id="job", txn_version=earlier)
    both = lake.begin_transaction()
    both.open(DEBIT).delete("id = 0")
    both.write(DEBIT, row(8), "append", txn_app_id="job", txn_version=5)
    both.open(CREDIT).delete("id = 0")
    with pytest.raises(UnsupportedFeatureError, match="no numbered writes"):
        both.commit()
    assert rows(lake.open(DEBIT)) == [*OLD, *([(7, 0)] if earlier else [])]
    assert rows(lake.open(CREDIT)) == OLD
    assert is_clean(lake)


def test_a_table_is_renamed_with_the_changes_of_an_interrupted_transaction(dying: Callable[[], None], lake: DirectoryNamespace) -> None:
    interrupted(lake, dying)
    lake.rename_table(DEBIT, ["renamed"])
    assert rows(lake.open(["renamed"])) == with_one(with_one(OLD, 1, 70), 7, 0)
    assert rows(lake.open(CREDIT)) == with_one(OLD, 1, 130)


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        error = StorageError("the store fails")
        error.errno = code
        raise error

    return fail


def test_a_store_that_fails_for_a_moment_leads_no_writer_to_a_branch(
    dying: Callable[[], None], lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(lake, dying)
    with monkeypatch.context() as patch, contextlib.suppress(StorageError):
        patch.setattr(committing, "finish", failing(errno.EIO))
        lake.write(DEBIT, row(8), "append")
        pytest.fail(f"written to {lake.store(DEBIT).uri}")
    lake.write(DEBIT, row(8), "append")
    assert rows(lake.open(DEBIT)) == with_one(with_one(with_one(OLD, 1, 70), 7, 0), 8, 0)


def test_an_account_that_may_only_read_sees_the_table_if_it_has_its_changes(
    dying: Callable[[], None], lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lake.begin_transaction()
    interrupted(lake, dying)
    with monkeypatch.context() as patch:
        patch.setattr(committing, "_land", failing(errno.EACCES))
        assert rows(lake.open(DEBIT)) == with_one(with_one(OLD, 1, 70), 7, 0)
        assert rows(lake.open(CREDIT)) == with_one(OLD, 1, 130)
    with monkeypatch.context() as patch:
        patch.setattr(committing, "change_metadata", failing(errno.EACCES))
        lance.write_dataset(row(20), by_path(lake, DEBIT), mode="append")
        assert rows(lake.open(DEBIT)) == with_one(with_one(with_one(OLD, 1, 70), 7, 0), 20, 0)
        lance.write_dataset(row(21), by_path(lake, DEBIT), mode="append")
        assert (21, 0) in rows(lake.open(DEBIT))
        with pytest.raises(StorageError, match="the store fails"):
            before.open(DEBIT)


def test_a_transaction_begins_while_another_one_ends(lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    other = lake.begin_transaction()
    listed = Store.names

    def names(store: Store, folder: str) -> Sequence[str]:
        found = listed(store, folder)
        if folder == "__transactions":
            monkeypatch.undo()
            other.roll_back()
        return found

    monkeypatch.setattr(Store, "names", names)
    with lake.transaction() as both:
        both.open(DEBIT).delete("id = 0")
    assert rows(lake.open(DEBIT)) == OLD[1:]


def test_a_table_that_is_cleaned_up_after_each_commit_takes_several_statements(lake: DirectoryNamespace) -> None:
    lake.open(DEBIT).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"})
    with lake.transaction() as both:
        for id in range(4):
            both.open(DEBIT).delete(f"id = {id}")
    assert rows(lake.open(DEBIT)) == OLD[4:]
    assert is_clean(lake)


def test_a_cleanup_of_what_the_commit_needs_is_a_conflict(lake: DirectoryNamespace) -> None:
    both = lake.begin_transaction()
    for id in range(3):
        both.open(DEBIT).delete(f"id = {id}")
    both.open(DEBIT).cleanup_old_versions(timedelta(0))
    with pytest.raises(CommitConflictError, match="was removed by a cleanup"):
        both.commit()
    assert rows(lake.open(DEBIT)) == OLD
    assert is_clean(lake)


def test_a_transaction_that_others_may_take_for_abandoned_is_not_committed(
    lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = lake.begin_transaction()
    old.open(DEBIT).delete("id = 0")
    monkeypatch.setattr("lance_spark.namespace.transaction_records.ABANDONED_S", 3600.0)
    with pytest.raises(CommitConflictError, match=r"begun .* ago"):
        old.commit()
    assert rows(lake.open(DEBIT)) == OLD
    assert is_clean(lake)


@pytest.mark.slow
def test_two_processes_commit_transactions_of_the_same_rows(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    lake = lake_at(root, credit=["credit"], stable=True)
    text = (
        "import contextlib\nfrom lance_spark.errors import CommitConflictError\nfrom tests.table.crash import moved\nlanded = 0\n"
        f"while landed < 3:\n  with contextlib.suppress(CommitConflictError):\n    moved({root!r})\n    landed += 1"
    )
    process = subprocess.Popen([sys.executable, "-c", text], cwd=Path(__file__).parents[2])
    landed = 0
    while landed < 3 or process.poll() is None:
        with contextlib.suppress(CommitConflictError):
            moved(root)
            landed += 1
    assert process.returncode == 0
    assert (1, 100 - 30 * (3 + landed)) in rows(lake.open(["debit"]))
    assert (1, 100 + 30 * (3 + landed)) in rows(lake.open(["credit"]))
    assert len(rows(lake.open(["debit"]))) == 6 + 3 + landed


@pytest.mark.parametrize("kind", ["stable", "key"])
def test_a_row_that_was_changed_by_path_right_after_the_commit_stays_as_it_is(kind: str, dying: Callable[[], None], tmp_path: Path) -> None:
    lake = lake_at(str(tmp_path / "lake"), stable=kind == "stable", key=kind == "key")
    interrupted(lake, dying)
    lance.dataset(by_path(lake, DEBIT)).update({"amount": "5"}, "id = 1")
    assert rows(lake.open(CREDIT)) == with_one(OLD, 1, 130)
    assert rows(lake.open(DEBIT)) == there(lake, DEBIT) == with_one(with_one(OLD, 1, 5), 7, 0)
    assert is_clean(lake)


def test_properties_and_columns_of_a_transaction_stay_if_rows_are_appended_by_path_right_after_the_commit(
    dying: Callable[[], None], tmp_path: Path
) -> None:
    lake = lake_at(str(tmp_path / "lake"), key=True)
    lake.open(DEBIT).update_config({"old": "1", "gone": "1", "theirs": "1"})
    both = lake.begin_transaction()
    both.open(DEBIT).update_config({"old": "2", "gone": None, "new": "2"})
    both.open(DEBIT).add_columns({"twice": "amount * 2"})
    with pytest.raises(KeyboardInterrupt):
        both.commit()
    dying()
    lance.write_dataset(row(20), by_path(lake, DEBIT), mode="append")
    lance.dataset(by_path(lake, DEBIT)).update_config({"theirs": "3"})
    found = lake.open(DEBIT)
    config = found.snapshot.manifest.config
    assert {key: config.get(key) for key in ("old", "new", "theirs")} == {"old": "2", "new": "2", "theirs": "3"}
    assert "gone" not in config
    assert sorted((r["id"], r["twice"]) for r in found.to_table().to_pylist() if r["id"] in (1, 20)) == [(1, 200), (20, None)]
    assert is_clean(lake)


def test_without_key_and_row_ids_such_a_row_is_an_error_that_says_what_to_do(dying: Callable[[], None], lake: DirectoryNamespace) -> None:
    interrupted(lake, dying)
    path = by_path(lake, DEBIT)
    lance.dataset(path).update({"amount": "5"}, "id = 1")
    with pytest.raises(CommitConflictError, match=r"is committed, and its changes are in the branch .* Restore the table to version 1"):
        lake.open(CREDIT)
    Dataset.open(path, version=1).restore()
    assert rows(lake.open(DEBIT)) == with_one(with_one(OLD, 1, 70), 7, 0)
    assert rows(lake.open(CREDIT)) == with_one(OLD, 1, 130)


def test_a_transaction_that_landed_is_known_after_its_version_was_removed(
    lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    both = lake.begin_transaction()
    both.open(DEBIT).insert(row(7))
    with monkeypatch.context() as patch:
        patch.setattr("lance_spark.namespace.transaction_records.landed_in", die)
        with pytest.raises(KeyboardInterrupt):
            both.commit()
    path = by_path(lake, DEBIT)
    lance.write_dataset(row(20), path, mode="append")
    MEANWHILE["cleanup"](path)
    assert rows(lake.open(DEBIT)) == sorted([*OLD, (7, 0), (20, 0)])
    assert is_clean(lake)


def test_readers_see_all_of_a_transaction_or_nothing_while_others_commit(tmp_path: Path) -> None:
    lake = lake_at(str(tmp_path / "lake"), stable=True)
    stop, landed = threading.Event(), list[str]()

    def work(name: str) -> None:
        while not stop.is_set():
            with contextlib.suppress(CommitConflictError), lake.transaction() as both:
                both.open(DEBIT).update({"amount": "amount - 1"}, f"id = {name}")
                both.open(CREDIT).update({"amount": "amount + 1"}, f"id = {name}")
            landed.append(name)

    def append() -> None:
        for i in range(4):
            lance.write_dataset(row(100 + i), by_path(lake, DEBIT), mode="append")

    threads = [threading.Thread(target=work, args=(name,)) for name in "01"]
    for thread in threads:
        thread.start()
    append()
    try:
        for _ in range(6):
            with lake.transaction() as seen:
                debit, credit = rows(seen.open(DEBIT)), rows(seen.open(CREDIT))
            assert sum(r[1] for r in debit) + sum(r[1] for r in credit) == 1200, (debit, credit)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(landed) == {"0", "1"}
    assert {100, 101, 102, 103} <= {r[0] for r in rows(lake.open(DEBIT))}
    assert is_clean(lake)


@pytest.mark.parametrize("turn", by_turns([()], turns=27))
def test_a_killed_transaction_is_made_or_not_and_pylance_goes_on_meanwhile(turn: int, tmp_path: Path) -> None:
    template = str(tmp_path / "template")
    lake_at(template, credit=["credit"])
    number = int(programs.run("tests.table.crash", "transaction", template, str(tmp_path), "27", str(turn + 1)))
    assert 27 * number > 100
    seen = set()
    for n in range(number + 1):
        root = str(tmp_path / str(turn + 1 + 27 * n))
        lake = lance_spark.namespace(root)
        lance.write_dataset(row(20), f"{root}/debit.lance", mode="append")
        debit, credit = rows(lake.open(["debit"])), rows(lake.open(["credit"]))
        is_made = (1, 70) in debit
        new = with_one(with_one(OLD, 1, 70), 7, 0) if is_made else OLD
        assert (debit, credit) == (sorted([*new, (20, 0)]), with_one(OLD, 1, 130) if is_made else OLD), root
        seen.add(is_made)
        if n % 4 == 0:
            moved(root)
            assert (1, 40 if is_made else 70) in rows(lake.open(["debit"]))
            assert all(not Dataset.open(f"{root}/{name}.lance").verify().problems for name in ("debit", "credit"))
    assert seen == {True, False}


def test_what_a_dead_writer_has_left_open_is_removed_by_a_later_transaction(
    lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = lake.begin_transaction()
    dead.open(DEBIT).delete("true")
    with lake.transaction():
        pass
    assert list(lake.open(DEBIT).branches.list()) == [f"lance_spark.transaction.{dead.id}"]
    monkeypatch.setattr("lance_spark.namespace.transaction_records.ABANDONED_S", -ABANDONED_S)
    with lake.transaction() as other:
        monkeypatch.undo()
        other.open(CREDIT).delete("id = 1")
    assert rows(lake.open(DEBIT)) == OLD
    assert is_clean(lake)
    with pytest.raises(InvalidOperationError, match="is over"):
        dead.commit()


@pytest.mark.parametrize(
    "change",
    [
        lambda view: view.declare_table(["new"]),
        lambda view: view.write(["new"], row(1)),
        lambda view: view.drop_table(DEBIT),
        lambda view: view.rename_table(DEBIT, ["new"]),
        lambda view: view.register_table(["new"], "debit.lance"),
        lambda view: view.deregister_table(DEBIT),
        lambda view: view.create_namespace(["new"]),
        lambda view: view.drop_namespace(["shop"]),
        lambda view: view.begin_transaction(),
    ],
)
def test_tables_and_namespaces_are_made_and_dropped_outside(change: Callable[[Namespace], object], lake: DirectoryNamespace) -> None:
    with pytest.raises(UnsupportedFeatureError, match="transaction"), lake.transaction() as view:
        change(view)
    assert rows(lake.open(DEBIT)) == OLD
    assert is_clean(lake)


@pytest.mark.parametrize(
    "change",
    [
        lambda table, path: table.tags.create("v1"),
        lambda table, path: table.tags.update("old"),
        lambda table, path: table.create_branch("new"),
        lambda table, path: table.shallow_clone(f"{path}/clone"),
        lambda table, path: table.branches.merge("dev"),
        lambda table, path: table.branches.fast_forward("main", "dev"),
    ],
)
def test_what_would_change_other_branches_at_once_is_refused(
    change: Callable[[Dataset, Path], object], lake: DirectoryNamespace, tmp_path: Path
) -> None:
    lake.open(DEBIT).tags.create("old")
    lake.open(DEBIT).create_branch("dev").delete("id = 1")
    with lake.transaction() as both:
        both.open(DEBIT).delete("id = 0")
        with pytest.raises(UnsupportedFeatureError, match="a transaction contains no"):
            change(both.open(DEBIT), tmp_path)
        assert rows(lake.open(DEBIT)) == OLD
    assert rows(lake.open(DEBIT)) == OLD[1:]
    assert list(lake.open(DEBIT).branches.list()) == ["dev"]
    assert list(lake.open(DEBIT).tags.list()) == ["old"]


def test_other_namespaces_are_refused_by_name(tmp_path: Path) -> None:
    listed = lance_spark.namespace(str(tmp_path), manifest_enabled=False)
    with pytest.raises(UnsupportedFeatureError, match="manifest_enabled"), listed.transaction():
        pass
    service = lance_spark.namespace("http://127.0.0.1:1/")
    with pytest.raises(UnsupportedFeatureError, match="only a directory namespace has transactions"), service.transaction():
        pass
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    lance_spark.create_partitioned_namespace(str(tmp_path / "parts"), schema, ["day"])
    with (
        pytest.raises(UnsupportedFeatureError, match="partitioned namespace"),
        lance_spark.namespace(str(tmp_path / "parts")).transaction(),
    ):
        pass


def test_a_table_with_a_long_name_of_other_letters_takes_part(tmp_path: Path) -> None:
    """Its folder has 216 bytes, and would have 636 in percent signs."""
    long_name = ["表" * 70]
    lake = lake_at(str(tmp_path / "lake"), credit=long_name)
    with lake.transaction() as both:
        both.open(DEBIT).update({"amount": "1"}, "id = 1")
        both.open(long_name).update({"amount": "2"}, "id = 1")
    assert rows(lake.open(DEBIT)) == with_one(OLD, 1, 1)
    assert rows(lake.open(long_name)) == with_one(OLD, 1, 2)
    assert not lake.root.names("__transactions")
    rolled_back = lake.begin_transaction()
    rolled_back.open(long_name).delete("id = 1")
    rolled_back.roll_back()
    assert rows(lake.open(long_name)) == with_one(OLD, 1, 2)
    assert not lake.root.names("__transactions")
