"""Changes of the table while a writer of its log is open, by either library: what goes on, and what is refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError, WriterFencedError
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD
from tests.write_ahead_logs import rows

NEW = pa.schema([pa.field("new", pa.int32())])
GOES_ON: dict[str, Callable[[Dataset], object]] = {
    "append": lambda table: Dataset.write(table.uri, rows(9), "append"),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"w": "w + 1"}),
    "compaction": lambda table: table.optimize.compact_files(),
    "index": lambda table: table.create_scalar_index("w", "BTREE"),
    "config": lambda table: table.update_config({"a": "b"}),
    "tag": lambda table: table.tags.create("tag", table.version),
    "cleanup": lambda table: table.cleanup_old_versions(timedelta(0), delete_unverified=True),
    "verify": lambda table: table.verify(),
    "clone": lambda table: table.shallow_clone(f"{table.uri}-clone"),
    "deep clone": lambda table: table.deep_clone(f"{table.uri}-clone"),
    "branch": lambda table: table.create_branch("b"),
    "merge of the log": lambda table: table.merge_mem_wal(),
    "a new column of nulls": lambda table: table.add_columns(NEW),
    "a renamed column": lambda table: table.alter_columns({"path": "w", "name": "x"}),
    "a dropped column": lambda table: table.drop_columns(["w"]),
}
REFUSED: dict[str, Callable[[Dataset], object]] = {
    "overwrite": lambda table: Dataset.write(table.uri, rows(9), "overwrite"),
    "restore": lambda table: table.checkout_version(1).restore(),
    "another type": lambda table: table.alter_columns({"path": "w", "data_type": pa.int64()}),
    "a column without nulls": lambda table: table.alter_columns({"path": "v", "nullable": False}),
    "a new column with values": lambda table: table.add_columns({"new": "w + 1"}),
    "another name of the key": lambda table: table.alter_columns({"path": "id", "name": "key"}),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return steps.made(str(tmp_path / "t.lance"))


def opened(uri: str, library: str) -> Any:
    dataset: Any = Dataset.open(uri) if library == "ours" else lance.dataset(uri)
    writer = dataset.mem_wal_writer(SHARD)
    writer.put(steps.values([2, 5], "before"))
    return writer


@pytest.mark.matrix
@pytest.mark.parametrize("library", ["ours", "pylance"])
@pytest.mark.parametrize("change", GOES_ON)
def test_a_writer_goes_on_while_the_table_changes(change: str, library: str, uri: str) -> None:
    writer = opened(uri, library)
    before = Dataset.open(uri, mem_wal="base").to_table()["id"].to_pylist()
    GOES_ON[change](Dataset.open(uri))
    assert steps.ours(uri)[5] == "before"
    writer.put(steps.values([6], "after"))
    writer.delete(pa.table({"id": [5]}))
    kept = {"append": [1, 9], "delete": []}.get(change, [1])
    expected = {i: str(i) for i in kept} | {2: "before", 6: "after"}
    assert steps.ours(uri) == expected
    writer.close()
    assert steps.ours(uri) == steps.of_sstables(uri) == expected
    if "clone" in change or change == "branch":
        other = Dataset.open(f"{uri}-clone") if "clone" in change else Dataset.open(uri, branch="b")
        assert other.to_table()["id"].to_pylist() == before, "its log is its own"
    else:
        Dataset.open(uri).merge_mem_wal()
        assert steps.shown(lance.dataset(uri).to_table()) == expected
    assert Dataset.open(uri).verify().problems == ()


@pytest.mark.parametrize("library", ["ours", "pylance"])
@pytest.mark.parametrize("change", REFUSED)
def test_a_change_that_would_lose_rows_of_the_log_is_refused(change: str, library: str, uri: str) -> None:
    writer = opened(uri, library)
    with pytest.raises(UnsupportedFeatureError, match="write-ahead log"):
        REFUSED[change](Dataset.open(uri))
    writer.put(steps.values([6], "after"))
    writer.close()
    assert steps.ours(uri) == steps.of_sstables(uri) == {1: "1", 2: "before", 5: "before", 6: "after"}


def test_a_writer_of_a_dropped_table_puts_nothing(uri: str) -> None:
    writer = opened(uri, "ours")
    shutil.rmtree(uri)
    with pytest.raises(WriterFencedError, match="dropped"):
        writer.put(steps.values([6], "after"))
    with pytest.raises(WriterFencedError):
        writer.close()
    assert not Path(uri).exists()


def test_merged_rows_are_in_the_feed_of_changes(uri: str) -> None:
    lance.write_dataset(rows(1, 2), f"{uri}.ids", enable_stable_row_ids=True)
    table = Dataset.open(f"{uri}.ids").initialize_mem_wal()
    with table.mem_wal_writer(SHARD) as writer:
        writer.put(steps.values([2, 3], "new"))
        writer.delete(pa.table({"id": [1]}))
    before = Dataset.open(table.uri).version
    assert table.merge_mem_wal().version == before + 1
    feed = Dataset.open(table.uri).changes(before, before + 1).to_table()
    found = {(row["_change_type"], row["id"]) for row in feed.to_pylist()}
    assert {("insert", 3), ("delete", 1)} <= found
    assert {i for kind, i in found if kind.startswith("update")} == {2}
