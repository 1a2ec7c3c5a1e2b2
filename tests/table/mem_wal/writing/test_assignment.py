"""Batches whose rows are divided between shards, and put once by the number of the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOperationError, InvalidOptionError, SchemaMismatchError, WriterFencedError
from lance_spark.table.mem_wal_writing import assignment
from lance_spark.table.mem_wal_writing.assignment import put_batch
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD
from tests.write_ahead_logs import rows

SHARDING: dict[str, dict[str, Any]] = {
    "bucket": {"bucket_column": "id", "num_buckets": 3},
    "identity": {"identity_column": "w"},
    "unsharded": {"unsharded": True},
    "by hand": {},
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(1, 2), uri)
    return uri


def put(uri: str, given: pa.Table, number: int, shard: str | None = None, deleted: str | None = None, app: str = "app") -> int:
    return put_batch(Dataset.open(uri).snapshot, shard, given, deleted, app, number)


def of_another_process() -> None:
    """What a process keeps open is not there in the next one."""
    for _, writer in assignment._WRITERS.values():
        writer.leave()
    assignment._WRITERS.clear()


@pytest.mark.parametrize("sharding", SHARDING)
def test_each_batch_is_put_once_into_the_shards_of_its_rows(sharding: str, uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(**SHARDING[sharding], max_memtable_rows=40)
    shard = SHARD if sharding == "by hand" else None
    known = dict(steps.BEGIN)
    for number in range(8):
        ids = [*range(number, number + 20)]
        given = steps.values(ids, str(number)).set_column(2, "w", pa.array([i % 3 for i in ids], pa.int32()))
        given = given.append_column("gone", pa.array([i % 5 == number % 5 for i in ids]))
        assert put(uri, given, number, shard, "gone") == 20
        known |= {i: str(number) for i in ids if i % 5 != number % 5}
        known = {i: v for i, v in known.items() if i not in ids or i % 5 != number % 5}
        assert steps.ours(uri) == known
        if number % 3 == 1:
            of_another_process()
        for again in range(number + 1):
            assert put(uri, given, again, shard, "gone") == 0
    assert steps.ours(uri) == known
    of_another_process()
    for folder in Path(uri, "_mem_wal").iterdir():
        Dataset.open(uri).mem_wal_writer(folder.name).close()
    Dataset.open(uri).merge_mem_wal()
    assert steps.shown(lance.dataset(uri).to_table()) == known


def test_a_shard_of_pylance_with_the_values_of_rows_gets_them(uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(bucket_column="id", num_buckets=1)
    put(uri, steps.values([5], "x"), 0)
    [own] = Path(uri, "_mem_wal").iterdir()
    of_another_process()
    own.rename(own.with_name(SHARD))  # as if another client had named it
    put(uri, steps.values([6], "y"), 1)
    assert [folder.name for folder in Path(uri, "_mem_wal").iterdir()] == [SHARD]


def test_equal_keys_of_other_types_are_in_one_shard(uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(bucket_column="id", num_buckets=7)
    for number, (name, t) in enumerate((("id", pa.int64()), ("ID", pa.int32()), ("Id", pa.uint8()))):
        given = pa.table({name: pa.array([*range(30)], t), "v": [str(number)] * 30})
        assert put(uri, given, number) == 30
        assert steps.ours(uri) == dict.fromkeys(range(30), str(number))
    with pytest.raises(SchemaMismatchError, match="'id'"):
        put(uri, pa.table({"v": ["x"]}), 9)


def test_a_batch_that_was_put_in_part_is_completed(uri: str) -> None:
    """Of shards that lack it, each gets it; a larger one than an entry is complete when its last entry is there."""
    Dataset.open(uri).initialize_mem_wal(bucket_column="id", num_buckets=3, max_memtable_rows=4)
    given = steps.values([*range(30)], "x")
    table = Dataset.open(uri).snapshot
    own = [*assignment.Assignment.of(table, None).divided(given.to_batches()[0])]
    assert len(own) == 3
    place, first = own[0]
    assignment.put_once(table, place, pa.table(first), None, "app", 0)
    assert put(uri, given, 0) == 30 - first.num_rows
    assert steps.ours(uri) == dict.fromkeys(range(30), "x")
    state = Dataset.open(uri).mem_wal_writer(place.name)
    entries = sorted(Path(uri, "_mem_wal", place.name, "wal").glob("*.arrow"), key=lambda path: path.stem[::-1])
    noted = [b"lance_spark.numbers" in path.read_bytes() for path in entries]
    assert noted.count(True) == 1, "only the last entry of the batch"
    state.close()


def test_another_process_takes_a_shard_over_and_back(uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal()
    put(uri, steps.values([5], "x"), 0, SHARD)
    with Dataset.open(uri).mem_wal_writer(SHARD) as other:
        other.put(steps.values([6], "other"))
        assert put(uri, steps.values([7], "y"), 1, SHARD) == 1
        with pytest.raises(WriterFencedError):
            other.put(steps.values([8], "late"))
        with pytest.raises(WriterFencedError):
            other.close()
        other._closed = True
    assert steps.ours(uri) == {**steps.BEGIN, 5: "x", 6: "other", 7: "y"}


def test_what_does_not_fit_is_refused(uri: str) -> None:
    given = steps.values([5], "x")
    with pytest.raises(InvalidOperationError, match="initialize_mem_wal"):
        put(uri, given, 0)
    plain = f"{uri}.plain"
    Dataset.write(plain, pa.table({"id": [1]})).initialize_mem_wal(unsharded=True)
    with pytest.raises(InvalidOperationError, match="primary key"):
        put(plain, pa.table({"id": [1], "gone": [True]}), 0, deleted="gone")
    with pytest.raises(SchemaMismatchError, match="booleans"):
        put(plain, pa.table({"id": [1], "gone": [1]}), 0, deleted="gone")
    Dataset.open(uri).initialize_mem_wal(unsharded=True)
    with pytest.raises(InvalidOptionError, match="name none"):
        put(uri, given, 0, SHARD)
    assert steps.ours(uri) == steps.BEGIN
