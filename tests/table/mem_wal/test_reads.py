"""Reads of a table with a write-ahead log: the rows that pylance's scanner of the log returns, with columns, filters and limits."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import LsmScanner, ShardSnapshot

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError, InvalidOptionError, LanceError, MissingFileError, UnsupportedFeatureError
from lance_spark.table.versions.snapshot import MemWal
from tests import write_ahead_logs as logs
from tests.sample import others_slow


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return logs.make(str(tmp_path / "t.lance"))


def new_shard() -> str:
    return str(uuid.uuid4())


def row(key: int, text: str) -> pa.Table:
    return pa.table({"id": [key], "v": [text], "w": [key]}, schema=logs.SCHEMA)


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def expected(uri: str, filter: str | None = None, columns: list[str] | None = None) -> list[str]:
    """The rows that pylance finds in the table and in the SSTables of all shards."""
    shards = []
    for folder in Path(uri, "_mem_wal").iterdir():
        shard = ShardSnapshot(folder.name)
        tables = sorted((int(path.name.rpartition("_")[2]), path.name) for path in folder.glob("*_gen_*"))
        for generation, name in tables:
            shard = shard.with_sstable(generation, name)
        shards.append(shard.with_current_generation(len(tables) + 1))
    scanner = LsmScanner.from_snapshots(lance.dataset(uri), shards)
    if filter is not None:
        scanner = scanner.filter(filter)
    return found(scanner.to_table() if columns is None else scanner.project(columns).to_table().select(columns))


def found(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("seed", others_slow(range(4), [0, 1]))
def test_random_writes_of_several_writers_are_read_as_pylance_reads_them(uri: str, seed: int) -> None:
    choice = random.Random(seed)
    shards = {new_shard(): range(start, 40, 2) for start in (0, 1)}
    for step in range(8):
        shard, own = choice.choice(list(shards.items()))
        with lance.dataset(uri).mem_wal_writer(shard) as writer:
            for _ in range(choice.randint(1, 4)):
                ids = choice.sample(own, 3)
                if choice.random() < 0.3:
                    writer.delete(keys(*ids))
                else:
                    writer.put(pa.table({"id": ids, "v": [f"{step}"] * 3, "w": ids}, schema=logs.SCHEMA))
        if choice.random() < 0.2:
            lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(row(step, "base"))
    table = Dataset.open(uri)
    assert found(table.to_table()) == expected(uri)
    assert table.count_rows() == len(expected(uri))
    assert found(table.to_table(["v"], "w > 9")) == expected(uri, "w > 9", ["v"])
    assert table.count_rows("v = '3' AND id < 20") == len(expected(uri, "v = '3' AND id < 20"))


def test_entries_that_are_not_flushed_are_read_as_their_writer_reads_them(uri: str) -> None:
    shard = logs.flushed(uri, 3, 4)
    writer = lance.dataset(uri).mem_wal_writer(shard)
    writer.put(row(5, "first"))
    writer.delete(keys(5, 3))
    writer.put(row(6, "y"))
    writer.put(row(6, "z"))
    writer.put(row(2, "new"))
    assert found(Dataset.open(uri).to_table()) == found(writer.lsm_scanner().to_table())
    assert Dataset.open(uri).to_table(filter="v = 'z'")["id"].to_pylist() == [6]
    assert Dataset.open(uri).to_table(filter="v = 'y'").num_rows == 0
    writer.close()
    assert found(Dataset.open(uri).to_table()) == expected(uri)


def test_the_log_of_a_killed_writer_is_read_and_a_new_writer_takes_over(uri: str) -> None:
    shard = new_shard()
    first = lance.dataset(uri).mem_wal_writer(shard)
    first.put(row(5, "first"))
    second = lance.dataset(uri).mem_wal_writer(shard)
    with pytest.raises(OSError, match="fenced"):
        first.put(row(6, "late"))
    second.put(row(7, "second"))
    assert found(Dataset.open(uri).to_table()) == found(second.lsm_scanner().to_table())


def test_limits_count_rows_of_the_table_and_of_the_log(uri: str) -> None:
    logs.flushed(uri, 2, 3, 4)
    writer = logs.unflushed(uri, 5, 6)
    table = Dataset.open(uri)
    assert [table.head(n).num_rows for n in (0, 1, 4, 6, 9)] == [0, 1, 4, 6, 6]
    assert table.scan(limit=2, offset=3).to_table().num_rows == 2
    assert table.scan(filter="id > 2", limit=3).to_table().num_rows == 3
    assert table.scan(columns=[]).to_table().num_rows == 6
    writer.close()


SCHEMAS: dict[str, Callable[[Any], object]] = {
    "renamed": lambda table: table.alter_columns({"path": "v", "name": "u"}),
    "dropped": lambda table: table.drop_columns(["w"]),
    "new": lambda table: table.add_columns(pa.field("z", pa.int32())),
    "dropped and new under the same name": lambda table: (table.drop_columns(["w"]), table.add_columns(pa.field("w", pa.string()))),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_of_the_log_have_the_present_columns_of_the_table(name: str, uri: str) -> None:
    shard = logs.flushed(uri, 2, 3)
    logs.unflushed(uri, 4, shard=shard)
    SCHEMAS[name](lance.dataset(uri))
    writer = lance.dataset(uri).mem_wal_writer(shard)
    assert found(Dataset.open(uri).to_table()) == found(writer.lsm_scanner().to_table())
    writer.close()
    assert found(Dataset.open(uri).to_table()) == expected(uri)


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uint64": (pa.uint64(), [2**63 + 5, 1, 2**63 + 6]),
    "int8": (pa.int8(), [-1, 2, 3]),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["a", "b", ""]),
    "large binary": (pa.large_binary(), [b"a", b"\0", b""]),
}


@pytest.mark.parametrize("name", TYPES)
def test_primary_keys_may_have_any_type_of_pylance(name: str, tmp_path: Path) -> None:
    uri, (kind, values) = str(tmp_path / "t.lance"), TYPES[name]
    schema = pa.schema([logs.SCHEMA.field(0).with_type(kind), pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]))])
    first = pa.table({"id": values, "s": [{"x": i, "y": ["q"]} for i in range(len(values))]}, schema=schema)
    table = lance.write_dataset(first, uri)
    table.initialize_mem_wal(bucket_column="id" if name in ("int8", "text") else None, num_buckets=2 if name in ("int8", "text") else None)
    with table.mem_wal_writer(new_shard()) as writer:
        writer.put(pa.table({"id": values[:1], "s": [{"x": 9, "y": None}]}, schema=schema))
    writer = table.mem_wal_writer(new_shard())
    writer.put(pa.table({"id": values[1:2], "s": [None]}, schema=schema))
    rows = dict(zip(*Dataset.open(uri).to_table().to_pydict().values()))
    assert rows == {**{v: {"x": i, "y": ["q"]} for i, v in enumerate(values)}, values[0]: {"x": 9, "y": None}, values[1]: None}
    assert Dataset.open(uri).to_table(["s.x"], "s.x = 9").to_pydict() == {"s": [{"x": 9}]}
    writer.close()


def test_keys_of_two_columns_are_compared_together(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    parts = [{"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": str(i)} for i in (1, 2)]
    key = [pa.field(name, pa.int64(), nullable=False, metadata=part) for name, part in zip("ab", parts)]
    schema = pa.schema([*key, pa.field("v", pa.string())])
    table = lance.write_dataset(pa.table({"a": [1, 1, 2], "b": [1, 2, 1], "v": ["x", "y", "z"]}, schema=schema), uri)
    table.initialize_mem_wal(unsharded=True)
    with table.mem_wal_writer(new_shard()) as writer:
        writer.put(pa.table({"a": [1, 3], "b": [2, 3], "v": ["new", "w"]}, schema=schema))
        writer.delete(pa.table({"a": pa.array([2], pa.int64()), "b": pa.array([1], pa.int64())}))
    assert found(Dataset.open(uri).to_table(["v"])) == found(pa.table({"v": ["x", "new", "w"]})) == expected(uri, columns=["v"])


def test_without_a_primary_key_all_rows_are_read(tmp_path: Path) -> None:
    uri, rows = str(tmp_path / "t.lance"), pa.table({"x": [1, 2]})
    table = lance.write_dataset(rows, uri)
    table.initialize_mem_wal()
    with table.mem_wal_writer(new_shard()) as writer:
        writer.put(rows)
    writer = table.mem_wal_writer(new_shard())
    writer.put(rows)
    assert sorted(Dataset.open(uri).to_table()["x"].to_pylist()) == [1, 1, 1, 2, 2, 2]
    assert Dataset.open(uri).count_rows() == 6
    assert Dataset.open(uri).scan(columns=[]).to_table().num_rows == 6
    writer.close()


def test_older_versions_have_the_rows_of_the_log_that_are_not_in_them(uri: str) -> None:
    shard = logs.flushed(uri, 2, 3)
    logs.merge(uri, shard, 1)
    Dataset.open(uri).delete("id = 3")
    assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == [1, 2]
    assert sorted(Dataset.open(uri, version=3).to_table()["id"].to_pylist()) == [1, 2, 3]
    assert sorted(Dataset.open(uri, version=2).to_table()["id"].to_pylist()) == [1, 2, 3], "before the merge"
    assert sorted(Dataset.open(uri, version=1).to_table()["id"].to_pylist()) == [1, 2], "before the log"


def test_a_generation_that_was_merged_does_not_undo_later_changes_of_its_rows(uri: str) -> None:
    """The shard's manifest still names it, and `ShardWriter.lsm_scanner` of pylance 14.0.2 returns its rows as they were."""
    shard = logs.flushed(uri, 2, 3, 4)
    logs.flushed(uri, 5, shard=shard)
    logs.merge(uri, shard, 1)
    Dataset.open(uri).update({"v": "'new'"}, "id = 3")
    Dataset.open(uri).delete("id = 4")
    table, rows = Dataset.open(uri), {1: "1", 2: "2", 3: "new", 5: "5"}
    assert dict(zip(*table.to_table(["id", "v"]).to_pydict().values())) == rows
    assert table.count_rows() == len(rows)
    assert logs.all_rows(uri, shard) == [1, 2, 3, 4, 5], "pylance's writer finds the deleted row"
    table.merge_mem_wal()
    assert dict(zip(*lance.dataset(uri).to_table(["id", "v"]).to_pydict().values())) == rows


def test_entries_that_a_writer_put_while_it_began_an_sstable_are_not_read_again(uri: str) -> None:
    shard = logs.flushed(uri, 3)
    logs.flushed(uri, 4, shard=shard)
    latest = max(Path(uri, "_mem_wal", shard, "manifest").glob("*.binpb"), key=lambda path: path.stem[::-1])
    manifest = pb.ShardManifest.FromString(latest.read_bytes())
    # As pylance notes it if the last entry is written while the SSTable begins.
    manifest.replay_after_wal_entry_position -= 1
    latest.write_bytes(manifest.SerializeToString())
    Dataset.open(uri).merge_mem_wal()
    lance.dataset(uri).delete("id = 4")
    assert Dataset.open(uri).to_table(["id"]).to_pydict() == {"id": [1, 2, 3]}
    logs.flushed(uri, shard=shard)
    assert len([*Path(uri, "_mem_wal", shard).glob("*_gen_*")]) == 2, "pylance's writer does not replay the entry"
    with logs.unflushed(uri, 4, shard=shard):
        assert sorted(Dataset.open(uri).to_table(["id"])["id"].to_pylist()) == [1, 2, 3, 4]


def test_rows_of_the_log_have_no_ids_addresses_and_versions(uri: str) -> None:
    """As in pylance's scanner of the log, which returns null addresses."""
    shard = logs.flushed(uri, 2, 3)
    writer = lance.dataset(uri).mem_wal_writer(shard)
    writer.put(row(4, "new"))
    table = Dataset.open(uri)
    columns = ["id", "_rowaddr", "_rowid", "_row_created_at_version"]
    of_log = [(i, None, None, None) for i in (2, 3, 4)]
    assert [tuple(r.values()) for r in table.to_table(columns).to_pylist()] == [(1, 0, 0, 1), *of_log]
    addresses = writer.lsm_scanner().with_row_address().to_table()
    assert dict(zip(addresses["id"].to_pylist(), addresses["_rowaddr"].to_pylist())) == {1: 0, 2: None, 3: None, 4: None}
    assert table.to_table(["id"], "_rowaddr < 5")["id"].to_pylist() == [1]
    assert table.to_table(["id"], "_rowid IS NULL")["id"].to_pylist() == [2, 3, 4]
    assert table.scan(with_row_id=True).to_table()["_rowid"].to_pylist() == [0, None, None, None]
    assert table.take([3, 0], columns=["_rowaddr", "v"]).to_pylist() == [{"_rowaddr": None, "v": "new"}, {"_rowaddr": 0, "v": "1"}]
    assert table.take_rows([0])["id"].to_pylist() == [1]
    with pytest.raises(IndexError, match="do not exist"):
        table.take_rows([1])  # the log has a newer row of this key
    writer.close()


@pytest.mark.parametrize("column", ["_rowoffset", "_fragid", "_metadata"])
def test_rows_of_the_log_have_no_place_in_the_table(column: str, uri: str) -> None:
    logs.flushed(uri, 3)
    table = Dataset.open(uri)
    reads: list[Callable[[list[str]], object]] = [
        table.to_table,
        lambda names: table.take([0], names),
        lambda names: table.sample(1, names),
    ]
    for read in reads:
        with pytest.raises(UnsupportedFeatureError, match=rf"have no {column}.*mem_wal=base"):
            read(["id", column])
    assert Dataset.open(uri, mem_wal="base").to_table(["id", column]).num_rows == 2


def test_explain_tells_what_is_read_of_the_log(uri: str) -> None:
    shard = logs.flushed(uri, 3, 4)
    writer = logs.unflushed(uri, 5, shard=shard)
    writer.delete(keys(4, 1))
    explained = Dataset.open(uri).scan().explain()
    assert "scanned: 2 rows in 1 fragments" in explained
    assert "write-ahead log: 2 rows in 1 SSTable, and 2 log files, of 1 shard" in explained
    assert f"shard {shard}, generation 1: 2 rows\n" in explained
    assert f"shard {shard}, entries: 1 row, 2 deletions" in explained
    assert "write-ahead log" not in Dataset.open(uri, mem_wal="base").scan().explain()
    writer.close()


def entries(uri: str, shard: str) -> list[Path]:
    """The entries of a shard, in their order."""
    return sorted(Path(uri, "_mem_wal", shard, "wal").glob("*.arrow"), key=lambda path: path.stem[::-1])


def test_a_damaged_or_missing_entry_is_an_error_that_names_it(uri: str) -> None:
    shard = new_shard()
    writer = logs.unflushed(uri, 5, shard=shard)
    writer.put(logs.rows(6))
    first, second = entries(uri, shard)
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptFileError, match=second.name):
        Dataset.open(uri).to_table()
    second.write_bytes(whole)
    first.unlink()
    with pytest.raises(CorruptFileError, match=f"{first.name}.*missing"):
        Dataset.open(uri).to_table()
    assert Dataset.open(uri, mem_wal="base").count_rows() == 2


def test_only_new_entries_are_read(uri: str) -> None:
    """So that a read takes as long after many of them, and one request more than if there is nothing new."""
    shard = new_shard()
    logs.unflushed(uri, 5, shard=shard)
    writer = Dataset.open(uri).mem_wal_writer(shard)

    def requests_of_a_read(newest: int, mem_wal: MemWal = "merged") -> int:
        table = Dataset.open(uri, mem_wal=mem_wal)
        assert table.to_table(["v"])["v"].to_pylist()[-1] == str(newest)
        return table.snapshot.store.counters.requests

    requests_of_a_read(5)
    unchanged = requests_of_a_read(5)
    assert (
        unchanged == requests_of_a_read(2, "base") + 6
    )  # the shards; the states of this one, its last, and none after it; its entries, and none after them
    for newest in range(10, 40):
        writer.put(logs.rows(newest))
        assert requests_of_a_read(newest) == unchanged + 1


def test_any_changed_bytes_of_an_entry_are_an_error_or_other_values(uri: str) -> None:
    """Names, values and bounds of texts may be any bytes, which neither crash nor pass for valid rows."""
    shard = new_shard()
    logs.unflushed(uri, 5, 6, shard=shard)
    (entry,) = entries(uri, shard)
    whole, errors = entry.read_bytes(), 0
    for place in range(0, len(whole), 7):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        # Entries that were read stay in memory, and those of another place are others.
        shutil.copytree(uri, f"{uri}-{place}")
        try:
            Dataset.open(f"{uri}-{place}").to_table().validate(full=True)
        except LanceError as e:
            errors += entry.name in str(e)
    assert errors > 20


def test_an_sstable_that_was_removed_is_an_error(uri: str) -> None:
    shard = logs.flushed(uri, 5)
    (folder,) = Path(uri, "_mem_wal", shard).glob("*_gen_1")
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(MissingFileError, match="_gen_1"):
        Dataset.open(uri).to_table()


def test_an_unknown_word_is_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="merged, base"):
        Dataset.open(uri, mem_wal="both")  # type: ignore[arg-type]


def test_a_table_that_was_made_anew_has_its_own_rows(tmp_path: Path) -> None:
    """The shard has the same name and its entry the same position as those of the table that was there before."""
    uri, shard = str(tmp_path / "t.lance"), new_shard()
    for ids, put in (([1, 2], [1, 3]), ([1, 2, 3, 4], [2, 4])):
        shutil.rmtree(uri, ignore_errors=True)
        lance.write_dataset(logs.rows(*ids), uri).initialize_mem_wal()
        logs.unflushed(uri, *put, shard=shard)
        everything = sorted({*ids, *put})
        assert sorted(Dataset.open(uri).to_table()["id"].to_pylist()) == everything
        assert sorted(Dataset.open(uri).take([*range(len(everything))])["id"].to_pylist()) == everything
