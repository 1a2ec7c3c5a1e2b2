"""Merging a write-ahead log into its table, while pylance's writers and mergers go on."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests import write_ahead_logs as logs


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return logs.make(str(tmp_path / "t.lance"))


def rows(uri: str, **options: str) -> list[str]:
    return sorted(map(str, Dataset.open(uri, **options).to_table().to_pylist()))  # type: ignore[arg-type]


def delete(uri: str, shard: str, *ids: int) -> None:
    with lance.dataset(uri).mem_wal_writer(shard) as writer:
        writer.delete(pa.table({"id": pa.array(ids, pa.int64())}))


def test_each_generation_is_one_commit_and_no_read_changes(uri: str) -> None:
    shard = logs.flushed(uri, 2, 3, 4)
    delete(uri, shard, 1, 3, 77)
    logs.flushed(uri, 3, 5, shard=shard)
    other = logs.flushed(uri, 9)
    before = rows(uri)
    table = Dataset.open(uri).merge_mem_wal(commit_message="log")
    assert table.version == 2 + 4
    assert [version.message for version in table.history(4)] == ["log"] * 4
    assert rows(uri) == rows(uri, mem_wal="base") == before
    assert sorted(map(str, lance.dataset(uri).to_table().to_pylist())) == before
    lance.dataset(uri).validate()
    details = lance.dataset(uri).mem_wal_index_details()
    assert details is not None
    assert table.merge_mem_wal().version == table.version, "nothing is left"
    logs.flushed(uri, 10, shard=other)
    logs.merge(uri, other, 2)
    assert Dataset.open(uri).merge_mem_wal().count_rows() == len(before) + 1, "pylance merged the rest"


def test_entries_stay_in_the_log_and_their_writer_goes_on(uri: str) -> None:
    shard = logs.flushed(uri, 3)
    writer = logs.unflushed(uri, 4, shard=shard)
    Dataset.open(uri).merge_mem_wal()
    assert Dataset.open(uri, mem_wal="base").count_rows() == 3
    assert Dataset.open(uri).count_rows() == 4
    writer.put(logs.rows(5))
    writer.close()
    assert Dataset.open(uri).merge_mem_wal().count_rows() == 5
    assert Dataset.open(uri, mem_wal="base").count_rows() == 5


def test_rows_without_a_primary_key_are_appended_once(tmp_path: Path) -> None:
    uri, batch = str(tmp_path / "t.lance"), pa.table({"x": [1, 2]})
    table = lance.write_dataset(batch, uri)
    table.initialize_mem_wal()
    for _ in range(2):
        with table.mem_wal_writer(str(uuid.uuid4())) as writer:
            writer.put(batch)
    Dataset.open(uri).merge_mem_wal()
    Dataset.open(uri).merge_mem_wal()
    assert sorted(lance.dataset(uri).to_table()["x"].to_pylist()) == [1, 1, 1, 2, 2, 2]
    lance.dataset(uri).validate()


def test_a_merge_with_stable_row_ids_and_an_index_keeps_both(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = lance.write_dataset(logs.rows(*range(50)), uri, enable_stable_row_ids=True)
    table.create_scalar_index("w", "BTREE")
    lance.dataset(uri).initialize_mem_wal()
    ids = dict(zip(*(Dataset.open(uri).to_table(["id", "_rowid"])[name].to_pylist() for name in ("id", "_rowid"))))
    shard = logs.flushed(uri, 7, 60)
    delete(uri, shard, 8)
    merged = Dataset.open(uri).merge_mem_wal()
    after = dict(zip(*(merged.to_table(["id", "_rowid"])[name].to_pylist() for name in ("id", "_rowid"))))
    assert {key: after[key] for key in ids if key != 8} == {key: ids[key] for key in ids if key != 8}
    assert sorted(merged.to_table(filter="w IN (7, 8, 60)")["id"].to_pylist()) == [7, 60]
    assert sorted(lance.dataset(uri).to_table(filter="w IN (7, 8, 60)")["id"].to_pylist()) == [7, 60]
    lance.dataset(uri).validate()


def test_ours_and_pylance_merge_and_write_at_the_same_time(uri: str) -> None:
    shards = [str(uuid.uuid4()) for _ in range(3)]
    count = 4

    def write(number: int) -> None:
        for step in range(count):
            logs.flushed(uri, 100 * number + step, 100 * number + 99, shard=shards[number - 1])

    def merge(_: int) -> None:
        for _ in range(count):
            Dataset.open(uri).merge_mem_wal()

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda job: job[0](job[1]), [*((write, i) for i in (1, 2, 3)), (merge, 0), (merge, 1)]))
    Dataset.open(uri).merge_mem_wal()
    expected = sorted([1, 2, *(100 * n + s for n in (1, 2, 3) for s in [*range(count), 99])])
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == expected
    assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == expected
    lance.dataset(uri).validate()
