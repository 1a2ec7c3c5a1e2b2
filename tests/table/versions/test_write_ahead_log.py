"""Which shards of a write-ahead log have rows that are not in the table, and that no commit loses them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.cli.main import main
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.operations import CreateIndex
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.storage.store import Store
from lance_spark.table.versions.write_ahead_log import UnreadShards, unread_shards, warn_of_unread
from tests import write_ahead_logs as logs


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return logs.make(str(tmp_path / "t.lance"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_log_without_rows_has_no_unread_shards(uri: str) -> None:
    assert Dataset.open(uri).count_rows() == 2
    logs.flushed(uri)
    assert Dataset.open(uri).verify().unread == ""


def test_shards_with_rows_in_sstables_and_in_the_log_are_counted(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    logs.flushed(uri, 3, 4)
    logs.flushed(uri)
    writer = logs.unflushed(uri, 5)
    assert Dataset.open(uri).count_rows() == 5
    assert Dataset.open(uri, mem_wal="base").count_rows() == 2
    assert warnings(caplog) == []
    warn_of_unread(Dataset.open(uri).snapshot)
    (warning,) = warnings(caplog)
    assert "in 2 of 3 shards" in warning
    assert uri in warning
    assert Dataset.open(uri, version=1).count_rows() == 2, "before the log"
    writer.close()


def test_rows_that_were_merged_are_read_and_no_longer_counted(uri: str) -> None:
    shard = logs.flushed(uri, 3, 4)
    logs.merge(uri, shard, 1)
    assert sorted(Dataset.open(uri).scan().to_table().column("id").to_pylist()) == [1, 2, 3, 4]
    writer = logs.unflushed(uri, 5, shard=shard)  # after a mark that a new writer took over
    assert unread_shards(Dataset.open(uri).snapshot) == UnreadShards(1, 1, 1)
    assert unread_shards(Dataset.open(uri, version=2).snapshot) == UnreadShards(1, 1, 1), "before the merge"
    writer.close()


def test_marks_of_writers_that_put_nothing_are_not_rows(uri: str) -> None:
    shard = logs.flushed(uri, 3)
    logs.merge(uri, shard, 1)
    for _ in range(3):
        logs.flushed(uri, shard=shard)
    assert unread_shards(Dataset.open(uri).snapshot) == UnreadShards(0, 1, 1)


def test_opening_looks_at_a_few_shards_and_says_so(uri: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.versions.write_ahead_log._SHARDS_AT_OPEN", 1)
    for i in (3, 4):
        logs.flushed(uri, i)
    warn_of_unread(Dataset.open(uri).snapshot)
    (warning,) = warnings(caplog)
    assert "in at least 1 of 2 shards" in warning


def test_a_damaged_log_is_an_error_and_the_table_alone_can_be_read(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    shard = logs.flushed(uri, 3)
    for manifest in Path(uri, "_mem_wal", shard, "manifest").glob("*.binpb"):
        manifest.write_bytes(b"\xff" * 20)
    with pytest.raises(CorruptFileError, match=shard):
        Dataset.open(uri).count_rows()
    assert Dataset.open(uri, mem_wal="base").count_rows() == 2
    warn_of_unread(Dataset.open(uri).snapshot)
    (warning,) = warnings(caplog)
    assert "unknown" in warning
    assert shard in warning
    assert [p.kind for p in Dataset.open(uri).verify().problems] == ["corrupt"]


def test_a_namespace_reads_the_log_too(tmp_path: Path, uri: str) -> None:
    logs.flushed(uri, 3)
    assert DirectoryNamespace(Store(str(tmp_path))).open(("t",)).count_rows() == 3


def test_verify_and_info_tell_of_unread_rows(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    shard = logs.flushed(uri, 3)
    report = Dataset.open(uri).verify()
    assert report.ok
    assert "in 1 of 1 shard" in report.unread
    assert "unread: " in str(report)
    assert report.unread in report._repr_html_()
    assert main(["info", uri]) == 0
    printed = capsys.readouterr().out
    assert "unread: the write-ahead log has rows" in printed
    assert f"unread: shard {shard}, generation 1: 1 row" in printed
    assert main(["info", uri, "--json"]) == 0
    printed = capsys.readouterr().out
    assert '"unread": 1' in printed
    assert json.loads(printed)["write_ahead_log"]["parts"] == [{"shard": shard, "generation": 1, "rows": 1, "deletions": 0}]


LOSSES: dict[str, Callable[[str], object]] = {
    "overwrite": lambda uri: Dataset.write(uri, logs.rows(9), "overwrite"),
    "restore of a version before the log": lambda uri: Dataset.open(uri, version=1).restore(),
    "dropped entry": lambda uri: Dataset.commit(uri, CreateIndex((), Dataset.open(uri).snapshot.manifest.indexes), read_version=2),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("stays", [True, False], ids=["flushed", "unflushed"])
def test_a_change_that_would_lose_rows_is_refused_until_they_are_merged(name: str, stays: bool, uri: str) -> None:
    shard = logs.flushed(uri, 3, 4)
    writer = None if stays else logs.unflushed(uri, 5, shard=shard)
    before = Dataset.open(uri)
    with pytest.raises(UnsupportedFeatureError, match="write-ahead log"):
        LOSSES[name](uri)
    assert Dataset.open(uri).version == before.version
    if writer is not None:
        writer.close()
    assert logs.all_rows(uri, shard) == ([1, 2, 3, 4] if stays else [1, 2, 3, 4, 5])
    for generation in (1,) if stays else (1, 2):
        logs.merge(uri, shard, generation)
    LOSSES[name](uri)


UNFIT: dict[str, Callable[[Any], object]] = {
    "change of a type": lambda table: table.alter_columns({"path": "w", "data_type": pa.int64()}),
    "calculated column": lambda table: table.add_columns({"z": "id + 1"}),
    "column without nulls": lambda table: table.alter_columns({"path": "v", "nullable": False}),
    "renamed key": lambda table: table.alter_columns({"path": "id", "name": "key"}),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_schema_that_rows_of_the_log_would_not_fit_is_refused_as_long_as_there_is_a_log(name: str, uri: str) -> None:
    """As in pylance, also if the log has no rows: an open writer may put some that have the columns that it knows."""
    change = UNFIT[name]
    for ids in ((), (3,)):
        logs.flushed(uri, *ids)
        with pytest.raises(UnsupportedFeatureError, match="write-ahead log"):
            change(Dataset.open(uri))
        with pytest.raises(OSError, match="MemWAL"):
            change(lance.dataset(uri))
    assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["shallow clone", "deep clone", "branch"])
def test_a_clone_has_a_log_of_its_own(kind: str, uri: str) -> None:
    """It has the rows of the table; the generations of its shards begin anew, so that none of them counts as merged."""
    shard = logs.flushed(uri, 3)
    logs.merge(uri, shard, 1)
    logs.flushed(uri, 4, shard=shard)
    table = Dataset.open(uri)
    clone = {
        "shallow clone": lambda: table.shallow_clone(f"{uri}.clone"),
        "deep clone": lambda: table.deep_clone(f"{uri}.clone"),
        "branch": lambda: table.create_branch("side"),
    }[kind]()
    assert sorted(clone.to_table()["id"].to_pylist()) == [1, 2, 3]
    writable = lance.dataset(uri).checkout_version(("side", None)) if kind == "branch" else lance.dataset(clone.uri)
    with writable.mem_wal_writer(shard) as writer:
        writer.put(logs.rows(5))
    again = Dataset.open(uri, branch="side") if kind == "branch" else Dataset.open(clone.uri)
    assert sorted(again.to_table()["id"].to_pylist()) == [1, 2, 3, 5]
    assert sorted(again.merge_mem_wal().to_table()["id"].to_pylist()) == [1, 2, 3, 5]
    assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == [1, 2, 3, 4]


HARMLESS: dict[str, tuple[Callable[[str], object], list[int]]] = {
    "append": (lambda uri: Dataset.write(uri, logs.rows(9), "append"), [1, 2, 3, 4, 9]),
    "delete": (lambda uri: Dataset.open(uri).delete("id = 1"), [2, 3, 4]),
    "delete of all rows": (lambda uri: Dataset.open(uri).delete("true"), [3, 4]),
    "update": (lambda uri: Dataset.open(uri).update({"v": "'x'"}), [1, 2, 3, 4]),
    "dropped column": (lambda uri: Dataset.open(uri).drop_columns(["w"]), [1, 2, 3, 4]),
    "renamed column": (lambda uri: Dataset.open(uri).alter_columns({"path": "v", "name": "u"}), [1, 2, 3, 4]),
    "empty column": (lambda uri: Dataset.open(uri).add_columns(pa.schema([pa.field("z", pa.int32())])), [1, 2, 3, 4]),
    "compaction": (lambda uri: (Dataset.write(uri, logs.rows(9), "append"), Dataset.open(uri).optimize.compact_files()), [1, 2, 3, 4, 9]),
    "merge": (lambda uri: Dataset.open(uri).merge_insert("id").when_not_matched_insert_all().execute(logs.rows(2, 9)), [1, 2, 3, 4, 9]),
    "optimized indexes": (
        lambda uri: (Dataset.open(uri).create_scalar_index("id", "BTREE"), Dataset.open(uri).optimize.optimize_indices()),
        [1, 2, 3, 4],
    ),
    "settings": (lambda uri: Dataset.open(uri).update_config({"a": "b"}), [1, 2, 3, 4]),
    "tag": (lambda uri: Dataset.open(uri).tags.create("t", 2), [1, 2, 3, 4]),
    "restore of a version with the log": (lambda uri: Dataset.open(uri, version=2).restore(), [1, 2, 3, 4]),
    "index": (lambda uri: Dataset.open(uri).create_scalar_index("v", "BTREE"), [1, 2, 3, 4]),
    "cleanup": (lambda uri: Dataset.open(uri).cleanup_old_versions(retain_versions=1, delete_unverified=True), [1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_other_changes_keep_the_rows_for_readers_of_the_log(name: str, uri: str) -> None:
    shard = logs.flushed(uri, 3, 4)
    change, expected = HARMLESS[name]
    change(uri)
    assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == expected
    assert logs.all_rows(uri, shard) == expected
    assert sorted(Dataset.open(uri).merge_mem_wal().to_table()["id"].to_pylist()) == expected
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == expected
    lance.dataset(uri).validate()
