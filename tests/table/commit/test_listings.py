"""Costs of commits to tables with many versions: how often the versions are listed and what is parsed of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import TableNotFoundError
from lance_spark.metadata.manifest import serialise
from lance_spark.metadata.numbered_writes import NumberedWrites
from lance_spark.storage.local import LocalFiles
from lance_spark.table.commit import misplaced_versions
from lance_spark.table.versions import history
from lance_spark.table.versions.history import COMMIT_MESSAGE as MESSAGE
from lance_spark.table.versions.history import Head, transaction_heads
from lance_spark.table.versions.snapshot import VERSIONS, list_versions, manifest_path

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders with versions that are listed from now on."""
    found: list[str] = []
    names = LocalFiles.names

    def spy(files: LocalFiles, folder: str) -> Sequence[str]:
        found.append(folder)
        return names(files, folder)

    monkeypatch.setattr(LocalFiles, "names", spy)
    return found


def test_an_append_lists_the_versions_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    monkeypatch.setattr(misplaced_versions, "PAUSE_S", 3600.0)  # a busy machine may need longer for the append
    found = listings(monkeypatch)
    assert Dataset.write(uri, ROWS, "append").version == 2
    assert [folder for folder in found if folder.endswith(VERSIONS)] == [f"{uri}/{VERSIONS}"]


def test_a_slow_append_lists_the_versions_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    monkeypatch.setattr(misplaced_versions, "PAUSE_S", 0.0)
    found = listings(monkeypatch)
    Dataset.write(uri, ROWS, "append")
    assert len([folder for folder in found if folder.endswith(VERSIONS)]) > 1


def test_an_append_follows_versions_that_others_commit_meanwhile(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = Dataset.write(uri, ROWS)

    def batches() -> pa.RecordBatchReader:
        def rows() -> Iterator[pa.RecordBatch]:
            table.delete("a = 1")
            yield from ROWS.to_batches()

        return pa.RecordBatchReader.from_batches(ROWS.schema, rows())

    appended = Dataset.write(uri, batches(), "append")
    assert (appended.version, appended.scan().to_table()["a"].to_pylist()) == (3, [2, 1, 2])


def test_an_append_to_a_table_that_is_dropped_meanwhile_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    monkeypatch.setattr(misplaced_versions, "PAUSE_S", 3600.0)

    def batches() -> Iterator[pa.RecordBatch]:
        shutil.rmtree(uri)
        yield from ROWS.to_batches()

    with pytest.raises(TableNotFoundError, match="was removed after version 1"):
        Dataset.write(uri, pa.RecordBatchReader.from_batches(ROWS.schema, batches()), "append")
    with pytest.raises(TableNotFoundError):
        Dataset.open(uri)


def test_heads_have_the_properties_and_the_restored_version_of_each_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS, txn_app_id="job", txn_version=5)
    Dataset.write(uri, ROWS, "append", commit_message="x")
    store = Dataset.open(uri, version=1).restore().snapshot.store
    heads = list(transaction_heads(store, list_versions(store)))
    assert [(h.version, h.restored) for h in heads] == [(3, 1), (2, None), (1, None)]
    assert [h.properties for h in heads] == [{}, {MESSAGE: "x"}, {"txnAppId": "job", "txnVersion": "5"}]
    assert [h.numbered for h in heads] == [NumberedWrites(version, 0, {"job": "5"}) for version in (3, 2, 1)]
    snapshot = Dataset.open(uri, version=2).snapshot
    # Old writers have the transaction in its own file only, or none at all.
    for name, properties in ((snapshot.manifest.transaction_file, {MESSAGE: "x"}), ("", {})):
        old = replace(snapshot.manifest, transaction=None, transaction_file=name, numbered=None)
        store.put(manifest_path(2), serialise(old))
        assert list(transaction_heads(store, list_versions(store)))[1] == Head(2, properties, None, None)
    paths = list_versions(store)
    store.delete(manifest_path(2))
    assert [head.version for head in transaction_heads(store, paths)] == [3, 1]


def test_heads_of_remote_stores_are_read_side_by_side_in_the_same_order(tmp_path: Path) -> None:
    uri = "memory://heads/t"
    for i in range(9):
        Dataset.write(uri, ROWS, "append", txn_app_id="job", txn_version=i)
    store = Dataset.open(uri).snapshot.store
    alone = list(transaction_heads(store, list_versions(store)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "_LOCAL", ())
        assert list(transaction_heads(store, list_versions(store))) == alone
    assert [head.properties["txnVersion"] for head in alone] == [str(i) for i in reversed(range(9))]
