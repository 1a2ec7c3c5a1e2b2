"""Commits: nothing is lost or applied twice, and other readers and writers can use every version."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.metadata.manifest import DataFile, Fragment
from lance_spark.metadata.manifest import serialise as serialise_manifest
from lance_spark.metadata.operations import Append, Overwrite, Unknown, UpdateMemWalState
from lance_spark.metadata.transaction import Transaction, parse, serialise
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import WRITER, TableSettings, build
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.retry import COMMIT_TRIES
from lance_spark.table.versions.snapshot import open_snapshot

pytestmark = pytest.mark.spec("format-document.md", "Committing Datasets")

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "s": ["x", None, "z"]})


def pylance_table(uri: str, **options: Any) -> lance.LanceDataset:
    return lance.write_dataset(TABLE, uri, **options)


def new_fragments(uri: str) -> tuple[Fragment, ...]:
    """Fragments with files in the table's folder that no version refers to."""
    written = lance.fragment.write_fragments(TABLE, uri, mode="append")
    return tuple(Fragment(0, tuple(data_file(f) for f in fragment.files), fragment.physical_rows) for fragment in written)


def data_file(file: lance.fragment.DataFile) -> DataFile:
    version = (file.file_major_version, file.file_minor_version)
    return DataFile(file.path, tuple(file.fields), tuple(file.column_indices), version, file.file_size_bytes)


def _transaction(uri: str, version: int) -> Transaction:
    content = open_snapshot(Store(uri), version=version).manifest.transaction
    assert content is not None
    return parse(content, "test")


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_manifests_match_pylance_for_the_same_transactions(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri, enable_stable_row_ids=stable_row_ids)
    pylance_table(uri, mode="append", max_rows_per_file=2)
    lance.dataset(uri).update_config({"a.key": "v"})
    lance.dataset(uri).delete("a = 1")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    pylance_table(uri, mode="append")
    lance.write_dataset(TABLE.select(["s"]), uri, mode="overwrite")
    lance.write_dataset(TABLE.select(["s"]), uri, mode="append")
    lance.write_dataset(TABLE.select(["s"]), uri, mode="overwrite", data_storage_version="2.1")
    store, previous, compared = Store(uri), None, 0
    for version in range(1, lance.dataset(uri).version + 1):
        theirs = open_snapshot(store, version=version).manifest
        assert theirs.transaction is not None
        transaction = parse(theirs.transaction, "test")
        if isinstance(transaction.operation, Append | Overwrite):
            settings = TableSettings(theirs.data_format, stable_row_ids)
            ours = build(previous, transaction, settings, theirs.timestamp)
            assert replace(ours, transaction=theirs.transaction, numbered=None) == replace(theirs, writer=WRITER)
            assert serialise(transaction) == theirs.transaction == (tmp_path / "t/_transactions" / theirs.transaction_file).read_bytes()
            compared += 1
        previous = theirs
    assert compared == 6


def test_pylance_reads_and_continues_what_we_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    snapshot = commit(Store(uri), Transaction(1, Append(new_fragments(uri)), properties={"job": "7"}))
    assert snapshot.version == 2
    ds = lance.dataset(uri)
    ds.validate()
    assert (ds.version, ds.count_rows()) == (2, 6)
    read = ds.read_transaction(2)
    assert read is not None
    assert read.uuid == _transaction(uri, 2).uuid
    ds.delete("a = 2")
    pylance_table(uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert lance.dataset(uri).to_table().num_rows == 7
    fragments = new_fragments(uri)
    last = commit(Store(uri), Transaction(2, Append(fragments)))
    assert lance.dataset(uri).count_rows() == 10
    assert last.manifest.max_fragment_id == max(f.fragment_id for f in lance.dataset(uri).get_fragments())


def test_a_new_table_has_v2_names(tmp_path: Path) -> None:
    uri, other = str(tmp_path / "t"), str(tmp_path / "other")
    pylance_table(other)
    operation = _transaction(other, 1).operation
    assert isinstance(operation, Overwrite)
    os.makedirs(f"{uri}/data")
    for file in Path(other, "data").iterdir():
        os.link(file, f"{uri}/data/{file.name}")
    commit(Store(uri), Transaction(0, operation), TableSettings("2.2"))
    assert sorted(os.listdir(f"{uri}/_versions")) == ["18446744073709551614.manifest", "latest_version_hint.json"]
    assert lance.dataset(uri).to_table() == TABLE
    with pytest.raises(TableAlreadyExistsError):
        commit(Store(uri), Transaction(0, operation), TableSettings("2.2"))
    assert lance.dataset(uri).version == 1


def test_a_table_keeps_its_naming_scheme(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri, enable_v2_manifest_paths=False)
    commit(Store(uri), Transaction(1, Append(new_fragments(uri))))
    assert {"1.manifest", "2.manifest"} <= set(os.listdir(f"{uri}/_versions"))
    assert lance.dataset(uri).count_rows() == 6


def test_an_append_follows_appends_but_not_an_overwrite(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    late = new_fragments(uri)
    pylance_table(uri, mode="append")
    assert commit(Store(uri), Transaction(1, Append(late))).version == 3
    late = new_fragments(uri)
    pylance_table(uri, mode="overwrite")
    with pytest.raises(CommitConflictError, match=r"Append.*version 3.*Overwrite of version 4") as e:
        commit(Store(uri), Transaction(3, Append(late)))
    assert not e.value.retryable
    assert lance.dataset(uri).count_rows() == 3


def test_an_overwrite_follows_appends_but_not_another_overwrite(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    overwrite = Overwrite(new_fragments(uri), open_snapshot(Store(uri)).manifest.schema)
    pylance_table(uri, mode="append")
    assert commit(Store(uri), Transaction(1, overwrite)).manifest.num_rows == 3
    with pytest.raises(CommitConflictError) as e:
        commit(Store(uri), Transaction(2, overwrite))
    assert e.value.retryable


def test_versions_whose_transaction_is_gone_or_unknown_conflict(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    late = Append(new_fragments(uri))
    store = Store(uri)
    pylance_table(uri, mode="append")
    snapshot = open_snapshot(store)
    store.put(snapshot.path, serialise_manifest(replace(snapshot.manifest, transaction=None, transaction_file="gone.txn")))
    with pytest.raises(CommitConflictError, match="Unknown of version 2"):
        commit(store, Transaction(1, late))
    newer = b"\xf2\x3f\x02\x08\x01"  # field 1022, which no specification has
    store.put(snapshot.path, serialise_manifest(replace(snapshot.manifest, transaction=newer)))
    assert isinstance(_transaction(uri, 2).operation, Unknown)
    with pytest.raises(CommitConflictError, match="Unknown of version 2"):
        commit(store, Transaction(1, late))


def test_an_append_needs_its_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        commit(Store(str(tmp_path / "none")), Transaction(1, Append(())))


class TroubledStore(Store):
    """A real store that passes each put of a manifest to `trouble`, which may call it."""

    __slots__ = ("puts", "trouble")

    def __init__(self, uri: str, trouble: Callable[[int, Callable[[], None]], None], options: dict[str, str] | None = None) -> None:
        super().__init__(uri, options)
        self.trouble = trouble
        self.puts = 0

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        self.puts += 1
        self.trouble(self.puts, lambda: Store.put_if_absent(self, path, data, sync_name))


def test_a_commit_whose_response_was_lost_is_not_applied_twice(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)

    def lost(number: int, put: Callable[[], None]) -> None:
        put()
        raise StorageError("connection cut")

    store = TroubledStore(uri, lost)
    assert commit(store, Transaction(1, Append(new_fragments(uri)))).version == 2
    assert store.puts == 1
    assert lance.dataset(uri).count_rows() == 6


def test_a_client_that_finds_its_own_file_has_committed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)

    def tried_twice_inside(number: int, put: Callable[[], None]) -> None:
        put()
        put()

    assert commit(TroubledStore(uri, tried_twice_inside), Transaction(1, Append(new_fragments(uri)))).version == 2
    assert lance.dataset(uri).version == 2


def test_a_failed_local_put_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)

    def full(number: int, put: Callable[[], None]) -> None:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        commit(TroubledStore(uri, full), Transaction(1, Append(new_fragments(uri))))
    assert lance.dataset(uri).version == 1


@pytest.fixture
def remote(s3_server: str) -> tuple[str, dict[str, str]]:
    """A table of pylance in an object store, where an error after a put proves nothing."""
    options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": s3_server, "allow_http": "true"}
    uri = f"s3://tables/{uuid.uuid4().hex}/t.lance"
    pylance_table(uri, storage_options=options)
    return uri, options


def remote_append(uri: str, options: dict[str, str]) -> Append:
    written = lance.fragment.write_fragments(TABLE, uri, mode="append", storage_options=options)
    return Append(tuple(Fragment(0, tuple(data_file(f) for f in fragment.files), fragment.physical_rows) for fragment in written))


def test_a_put_is_repeated_after_a_lost_response(remote: tuple[str, dict[str, str]]) -> None:
    uri, options = remote

    def cut_before_the_first_and_after_the_second(number: int, put: Callable[[], None]) -> None:
        if number == 2:
            put()
        if number <= 2:
            raise StorageError("connection cut")

    store = TroubledStore(uri, cut_before_the_first_and_after_the_second, options)
    assert commit(store, Transaction(1, remote_append(uri, options))).version == 2
    assert store.puts == 2
    assert lance.dataset(uri, storage_options=options).count_rows() == 6


def test_an_object_store_that_never_responds_leaves_the_state_unknown(remote: tuple[str, dict[str, str]]) -> None:
    uri, options = remote

    def cut(number: int, put: Callable[[], None]) -> None:
        raise StorageError("connection cut")

    transaction = Transaction(1, remote_append(uri, options))
    store = TroubledStore(uri, cut, options)
    with pytest.raises(CommitStateUnknownError, match=transaction.uuid):
        commit(store, transaction)
    assert store.puts == 3


def test_a_refusal_of_an_object_store_is_certain(remote: tuple[str, dict[str, str]]) -> None:
    uri, options = remote

    def refused(number: int, put: Callable[[], None]) -> None:
        error = StorageError("forbidden")
        error.errno = errno.EACCES
        raise error

    store = TroubledStore(uri, refused, options)
    with pytest.raises(StorageError, match="forbidden"):
        commit(store, Transaction(1, remote_append(uri, options)))
    assert store.puts == 1


def test_a_refusal_after_a_lost_response_leaves_the_state_unknown(remote: tuple[str, dict[str, str]]) -> None:
    """The first request is delayed while the second one is refused, and succeeds after the writer has given up."""
    uri, options = remote
    on_its_way: list[Callable[[], None]] = []

    def late_then_refused(number: int, put: Callable[[], None]) -> None:
        on_its_way.append(put)
        error = StorageError("no answer yet" if number == 1 else "forbidden")
        error.errno = errno.ETIMEDOUT if number == 1 else errno.EACCES
        raise error

    with pytest.raises(CommitStateUnknownError, match="forbidden"):
        commit(TroubledStore(uri, late_then_refused, options), Transaction(1, remote_append(uri, options)))
    on_its_way[0]()
    table = lance.dataset(uri, storage_options=options)
    assert table.version == 2
    assert table.to_table().num_rows == 6


def test_writers_that_are_always_overtaken_fail_with_a_retryable_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.commit.retry.PATIENCE_S", 0)
    uri = str(tmp_path / "t")
    pylance_table(uri)

    def overtaken(number: int, put: Callable[[], None]) -> None:
        raise FileExistsError

    store = TroubledStore(uri, overtaken)
    with pytest.raises(CommitConflictError, match="other writers committed first") as e:
        commit(store, Transaction(1, Append(new_fragments(uri))))
    assert e.value.retryable
    assert store.puts == COMMIT_TRIES


def test_the_transaction_file_is_used_if_the_manifest_has_no_transaction(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    late = new_fragments(uri)
    pylance_table(uri, mode="append")
    store, snapshot = Store(uri), open_snapshot(Store(uri))
    store.put(snapshot.path, serialise_manifest(replace(snapshot.manifest, transaction=None)))
    assert commit(store, Transaction(1, Append(late))).version == 3
    store.put(snapshot.path, serialise_manifest(replace(snapshot.manifest, transaction=None, transaction_file="")))
    with pytest.raises(CommitConflictError, match="Unknown of version 2"):
        commit(store, Transaction(1, Append(late)))


def test_a_recreated_table_conflicts(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    with pytest.raises(CommitConflictError, match="version 5 was read") as e:
        commit(Store(uri), Transaction(5, Append(new_fragments(uri))))
    assert not e.value.retryable


def test_a_base_that_is_still_the_latest_is_not_read_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    wide = TABLE
    for i in range(500):
        wide = wide.append_column(f"column {i}", TABLE["a"])
    lance.write_dataset(wide, uri)
    base = open_snapshot(Store(uri))
    store = Store(uri)
    assert commit(store, Transaction(1, Append(new_fragments(uri))), base=base).version == 2
    assert store.counters.bytes_read < Store(uri).size(base.path)  # the version hint


def test_an_operation_that_cannot_be_built_is_refused_by_name(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    with pytest.raises(UnsupportedFeatureError, match="UpdateMemWalState"):
        commit(Store(uri), Transaction(1, UpdateMemWalState()))


def test_an_append_to_a_table_with_doubtful_row_counts_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)
    store, snapshot = Store(uri), open_snapshot(Store(uri))
    store.put(snapshot.path, serialise_manifest(replace(snapshot.manifest, writer=None)))
    with pytest.raises(UnsupportedFeatureError, match="row counts"):
        commit(store, Transaction(1, Append(new_fragments(uri))))
    assert commit(store, Transaction(1, Overwrite(new_fragments(uri), snapshot.manifest.schema))).version == 2


def test_an_unreachable_store_leaves_the_state_unknown(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pylance_table(uri)

    def gone(number: int, put: Callable[[], None]) -> None:
        put()
        shutil.move(uri, uri + ".moved")
        Path(uri).write_text("")
        raise StorageError("connection cut")

    with pytest.raises(CommitStateUnknownError, match="connection cut"):
        commit(TroubledStore(uri, gone), Transaction(1, Append(new_fragments(uri))))
