"""Logs that several writers have written, some of which were killed: the rows that pylance finds when it opens the shards.

Rows are merged by pylance and ours, and tables are compacted, in turn with the writers. Nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import CompactedSsTable, LsmScanner, ShardSnapshot
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.table.build.index_coverage import MEM_WAL
from lance_spark.table.versions.write_ahead_log import shards_of
from tests.sample import FULL, others_slow
from tests.table.mem_wal import writer

Rows = Counter[str]
SHARDING: dict[str, dict[str, Any]] = {
    "bucket": {"bucket_column": "id", "num_buckets": writer.SHARDS},
    "identity": {"identity_column": "v"},
    "unsharded": {"unsharded": True},
    "by hand": {},
}
CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "w > 400": lambda row: row["w"] is not None and row["w"] > 400,
    "v IS NULL": lambda row: row["v"] is None,
    "struct.a > 50 AND w < 900": lambda row: row["struct"] is not None and row["struct"]["a"] > 50 and (row["w"] or 1000) < 900,
}


def written(uri: str, seed: int) -> str:
    """Make a table with a log by random steps; returns the kind of its primary key."""
    choice = random.Random(seed)
    key = choice.choice(["int64", "string", "two"])
    dataset = lance.write_dataset(
        writer.rows(key, [*range(0, 30, 2)], 0), uri, max_rows_per_file=6, enable_stable_row_ids=choice.random() < 0.3
    )
    if choice.random() < 0.5:
        dataset.create_scalar_index("w", "BTREE")
    if choice.random() < 0.5:
        Dataset.open(uri).create_scalar_index("id", "BTREE")
    dataset.initialize_mem_wal(**list(SHARDING.values())[seed % len(SHARDING)])
    for step in range(4):
        arguments = [uri, str(choice.randrange(writer.SHARDS)), str(seed * 10 + step), choice.choice(["kill", "close"])]
        with subprocess.Popen([sys.executable, "-m", "tests.table.mem_wal.writer", *arguments], stderr=subprocess.PIPE) as process:
            while choice.random() < 0.3:
                between(uri, key, choice)  # while the writer puts rows
            _, errors = process.communicate()
        assert process.returncode == (0 if arguments[-1] == "close" else -signal.SIGKILL), errors.decode()
        between(uri, key, choice)
    if choice.random() < 0.5:
        choice.choice(SCHEMAS)(Dataset.open(uri))
    return key


SCHEMAS: list[Callable[[Dataset], object]] = [
    lambda table: table.alter_columns({"path": "v", "name": "u"}, {"path": "struct.b", "name": "c"}),
    lambda table: table.drop_columns(["list", "struct.a"]),
    lambda table: table.add_columns([pa.field("new", pa.int32()), pa.field("struct", pa.struct([("d", pa.string())]))]),
]


def between(uri: str, key: str, choice: random.Random) -> None:
    """What may happen while the log's writers go on: merges, some of which are killed, and changes of the table."""
    table = Dataset.open(uri)
    match choice.randrange(10):
        case 0 | 1:
            table.merge_mem_wal()
        case 2 | 3:
            merge_one(uri, key)
        case 4:
            merging = f"from lance_spark import Dataset; Dataset.open({uri!r}).merge_mem_wal()"
            with subprocess.Popen([sys.executable, "-c", merging]) as process, suppress(subprocess.TimeoutExpired):
                try:
                    process.wait(choice.uniform(0.5, 2.5))
                finally:
                    process.kill()
        case 5:
            table.optimize.compact_files()
        case 6:
            table.update({"w": "w + 1000"}, f"w % 7 = {choice.randrange(7)}")
        case 7:
            table.delete(f"w % 5 = {choice.randrange(5)}")
        case 8:
            table.optimize.optimize_indices()


def merge_one(uri: str, key: str) -> None:
    """Merge the oldest SSTable that has no deletions, as a job of pylance does."""
    names = writer.schema(key).names
    for shard in shards_of(Dataset.open(uri).snapshot):
        for generation, folder in shard.sstables[:1]:
            rows: Any = lance.dataset(f"{uri}/{shard.folder}/{folder}").to_table()
            if "_tombstone" not in rows.column_names or not any(rows["_tombstone"].to_pylist()):
                done = lance.dataset(uri).merge_insert(names[:2] if key == "two" else names[:1])
                done = done.when_matched_update_all().when_not_matched_insert_all()
                done.mark_sstables_as_compacted([CompactedSsTable(shard.name, generation)]).execute(rows.select(names))
                return


def counted(table: pa.Table) -> Rows:
    return Counter(map(str, table.to_pylist()))


def of_writers(uri: str) -> Rows:
    """The rows that pylance finds in a copy of the table after a writer of each shard has replayed the log and has flushed it.

    Its scanner is given the SSTables that are not merged, as LanceDB does (lancedb#3489). `ShardWriter.lsm_scanner` cannot tell what is
    expected: it reads all SSTables that the shard's manifest names, so that one that was merged undoes later UPDATEs and DELETEs of its
    rows.
    """
    copy = f"{uri}.copy"
    shutil.copytree(uri, copy)
    for number in range(writer.SHARDS):
        lance.dataset(copy).mem_wal_writer(writer.shard_name(number)).close()
    latest = lance.dataset(copy).version
    return of_pylance(copy, latest, merged(copy, latest), {})


def merged(uri: str, version: int) -> dict[str, int]:
    """The last generation of each shard that is merged in a version."""
    indexes = [index for index in Dataset.open(uri, version=version).snapshot.manifest.indexes if index.name == MEM_WAL]
    tables = [table for index in indexes for table in pb.MemWalIndexDetails.FromString(index.details).compacted_sstables]
    return {str(uuid.UUID(bytes=table.shard_id.uuid)): table.generation for table in tables}


def of_pylance(uri: str, version: int, after: dict[str, int], last: dict[str, int]) -> Rows:
    """The rows of a version with the SSTables of each shard after one generation and, if it is given, up to another."""
    shards = []
    for folder in Path(uri, "_mem_wal").iterdir():
        manifest = pb.ShardManifest.FromString(max(folder.glob("manifest/*.binpb"), key=lambda path: path.stem[::-1]).read_bytes())
        shard = ShardSnapshot(folder.name).with_current_generation(len(manifest.sstables) + 1)
        for table in manifest.sstables:
            if after.get(folder.name, 0) < table.generation <= last.get(folder.name, table.generation):
                shard = shard.with_sstable(table.generation, table.path)
        shards.append(shard)
    dataset = lance.dataset(uri, version=version)
    return counted(LsmScanner.from_snapshots(dataset, shards).to_table().select(dataset.schema.names))


def check_merges(uri: str) -> None:
    """A version that merges SSTables has the rows of the version before it with these SSTables."""
    for version in range(2, lance.dataset(uri).version + 1):
        before, now = merged(uri, version - 1), merged(uri, version)
        if before != now:
            last = {writer.shard_name(number): 0 for number in range(writer.SHARDS)} | now
            expected = of_pylance(uri, version - 1, before, last)
            assert counted(lance.dataset(uri, version=version).to_table()) == expected, f"version {version} merges {now} after {before}"


def check(uri: str, seed: int) -> Rows:
    written(uri, seed)
    expected = of_writers(uri)
    table = Dataset.open(uri)
    whole = table.to_table()
    assert counted(whole) == expected
    assert table.count_rows() == expected.total()
    rows = whole.to_pylist()
    for condition, holds in CONDITIONS.items():
        if not {"v", "struct"} <= {*whole.column_names} or ("struct.a" in condition and "a" not in whole.schema.field("struct").type.names):
            continue
        wanted = Counter(str({"v": row["v"], "id": row["id"]}) for row in rows if holds(row))
        assert counted(table.to_table(["v", "id"], condition)) == wanted, condition
        assert table.count_rows(condition) == wanted.total(), condition
    check_places(table, whole)
    copy = f"{uri}.copy"
    assert counted(Dataset.open(copy).to_table()) == expected
    Dataset.open(copy).merge_mem_wal()
    assert counted(lance.dataset(copy).to_table()) == expected
    check_merges(copy)
    assert Dataset.open(copy).verify().problems == ()
    lance.dataset(copy).validate()
    return expected


def check_places(table: Dataset, whole: pa.Table) -> None:
    """Rows by their numbers, and by their vectors, are those of a scan."""
    numbers = [*range(0, whole.num_rows, 3), *range(whole.num_rows)]
    assert table.take(numbers).to_pylist() == whole.take(numbers).to_pylist()
    found = table.to_table(["id"], nearest={"column": "vector", "q": [50.0, 20.0], "k": 12})
    distances = sorted((v[0] - 50) ** 2 + (v[1] - 20) ** 2 for v in whole["vector"].to_pylist() if v is not None)
    assert found["_distance"].to_pylist() == pytest.approx(distances[:12], rel=1e-6)  # float32, which rounds above 2**24


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 60 if FULL else 35))
def test_reads_and_merges_find_what_the_writers_find(seed: int, tmp_path: Path) -> None:
    check(str(tmp_path / "t.lance"), seed)


@pytest.mark.parametrize("seed", others_slow(range(2), [0]))
def test_reads_and_merges_of_some_writers(seed: int, tmp_path: Path) -> None:
    check(str(tmp_path / "t.lance"), seed)


def test_spark_finds_what_the_writers_find(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    expected = check(uri, 4)
    frame = spark.read.format("lance").load(uri)
    assert frame.count() == expected.total()
    columns = frame.columns[:3]  # the second one was renamed meanwhile
    plain = Dataset.open(uri).to_table(columns).to_pylist()
    assert Counter(map(str, (row.asDict() for row in frame.select(columns).collect()))) == Counter(map(str, plain))
    assert frame.where("w > 400").count() == Dataset.open(uri).count_rows("w > 400")
