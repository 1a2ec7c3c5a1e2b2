"""A committed version is never reported as failed and keeps all its files, whatever fails after the commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, CommitStateUnknownError, CorruptFileError, StorageError
from lance_spark.metadata.operations import Append
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import manifest_path
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions
from tests.table.commit.test_commit import TroubledStore, remote, remote_append

__all__ = ["remote"]

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})

HOSTILE_REFS = {
    "a name that leaves the folder": (b"..%2Fx.json", b"{}"),
    "a name that is not UTF-8": (b"\xff\xfe.json", b"{}"),
    "deep JSON": (b"deep.json", b"[" * 200_000),
    "a number beyond all times": (b"late.json", b'{"version": 1, "manifestSize": 1, "createdAt": 1e400}'),
    "no JSON": (b"none.json", b"\xff"),
}


def cleaned_by_its_writers(uri: str) -> Dataset:
    table = Dataset.write(uri, ROWS)
    return table.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"})


def add_ref(uri: str, kind: str, name: bytes, content: bytes) -> None:
    folder = os.fsencode(f"{uri}/_refs/{kind}")
    os.makedirs(folder, exist_ok=True)
    Path(os.fsdecode(folder + b"/" + name)).write_bytes(content)


def whole(uri: str) -> lance.LanceDataset:
    """Read the table with pylance. Its latest version must have its transaction file."""
    table = lance.dataset(uri)
    table.validate()
    name = Dataset.open(uri).snapshot.manifest.transaction_file
    assert Path(uri, "_transactions", name).is_file()
    return table


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["tags", "branches", "clones"])
@pytest.mark.parametrize("ref", HOSTILE_REFS)
def test_unreadable_refs_do_not_fail_commits_with_automatic_cleanup(tmp_path: Path, ref: str, kind: str) -> None:
    uri = str(tmp_path / "t")
    cleaned_by_its_writers(uri)
    add_ref(uri, kind, *HOSTILE_REFS[ref])
    assert Dataset.write(uri, ROWS, "append").version == 3
    assert Dataset.open(uri).delete("a = 1").version == 4
    assert whole(uri).to_table()["a"].to_pylist() == [2, 2]


class UndeletableStore(Store):
    """A store that cannot delete, and raises an unexpected error."""

    __slots__ = ()

    def delete(self, path: str) -> bool:
        raise ValueError(f"deleting {path}")


def test_a_commit_succeeds_if_an_old_transaction_file_cannot_be_deleted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = Dataset.write(uri, pa.table({"a": list(range(10))}))
    table.delete("a = 1")
    stuck = Dataset(replace(table.snapshot, store=UndeletableStore(uri)))
    assert stuck.delete("a = 2").version == 3
    assert whole(uri).count_rows() == 8


def test_errors_of_the_clean_up_do_not_hide_the_first_error(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    late = write.write_fragments(write.begin_write(uri, ROWS.schema, "append"), ROWS.to_batches())
    Dataset.write(uri, ROWS, "overwrite")
    with pytest.raises(CommitConflictError, match="Overwrite of version 2"):
        commit(UndeletableStore(uri), Transaction(1, Append(late)))


def test_files_are_kept_if_their_references_are_unknown(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    target = write.begin_write(uri, ROWS.schema, "append")
    fragments = write.write_fragments(target, ROWS.to_batches())
    write.commit_write(target, fragments)
    Path(uri, manifest_path(3)).write_bytes(b"no manifest")
    write.discard(target, fragments)
    write.discard_job(target)
    Path(uri, manifest_path(3)).unlink()
    assert whole(uri).count_rows() == 4


def test_a_repeated_write_succeeds_if_its_files_cannot_be_deleted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS, txn_app_id="job", txn_version=1)
    target = write.begin_write(uri, ROWS.schema, "append", WriteOptions(txn_app_id="job", txn_version=1))
    stuck = replace(target, store=UndeletableStore(uri))
    assert write.commit_write(stuck, write.write_fragments(target, ROWS.to_batches())).version == 1
    assert whole(uri).count_rows() == 2


def test_an_unreadable_manifest_of_another_writer_leaves_the_state_known(remote: tuple[str, dict[str, str]]) -> None:
    """The bytes are not ours, so another writer was first. The table is broken, and our files may be deleted."""
    uri, options = remote

    def overtaken(number: int, put: Callable[[], None]) -> None:
        Store(uri, options).put(manifest_path(2), b"no manifest")
        raise FileExistsError

    with pytest.raises(CorruptFileError):
        commit(TroubledStore(uri, overtaken, options), Transaction(1, remote_append(uri, options)))


class DeafStore(Store):
    """A store that loses the response to the put of a manifest, and then raises an unexpected error when it is read."""

    __slots__ = ()

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        super().put_if_absent(path, data, sync_name)
        raise StorageError("connection cut")

    def read(self, path: str) -> bytes:
        if path == manifest_path(2):
            raise RuntimeError("the event loop is closed")
        return super().read(path)


def test_any_error_of_the_check_leaves_the_state_unknown_and_keeps_the_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    target = write.begin_write(uri, ROWS.schema, "append")
    with pytest.raises(CommitStateUnknownError, match="connection cut"):
        write.commit_write(replace(target, store=DeafStore(uri)), write.write_fragments(target, ROWS.to_batches()))
    assert whole(uri).count_rows() == 4


def test_a_table_with_dots_in_its_path_is_committed_through_a_manifest_store(tmp_path: Path) -> None:
    uri, options = str(tmp_path / "a..b"), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"}
    for version in (1, 2):
        assert Dataset.write(uri, ROWS, "append", storage_options=options).version == version
    assert whole(uri).count_rows() == 4
