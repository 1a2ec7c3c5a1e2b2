"""Logs that several writers have written, some of which were killed: the rows that pylance finds when it opens the shards.

Rows are merged by pylance and ours, and tables are compacted, in turn with the writers. Nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import CompactedSsTable
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.table.versions.write_ahead_log import shards_of
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
    dataset.initialize_mem_wal(**list(SHARDING.values())[seed % len(SHARDING)])
    for step in range(4):
        arguments = [uri, str(choice.randrange(writer.SHARDS)), str(seed * 10 + step), choice.choice(["kill", "close"])]
        subprocess.run(
            [sys.executable, "-m", "tests.table.mem_wal.writer", *arguments], check=arguments[-1] == "close", capture_output=True
        )
        between = choice.random()
        if between < 0.25:
            Dataset.open(uri).merge_mem_wal()
        elif between < 0.5:
            merge_one(uri, key)
        elif between < 0.6:
            Dataset.open(uri).optimize.compact_files()
    return key


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


def of_writers(uri: str, key: str) -> tuple[Rows, pa.Table]:
    """The rows that the writers of all shards find together when they open them in a copy of the table; opening flushes the log."""
    copy = f"{uri}.copy"
    shutil.copytree(uri, copy)
    table = lance.dataset(copy).to_table()
    base, tables = counted(table), [table]
    new, gone = Rows(), Rows()
    for number in range(writer.SHARDS):
        with lance.dataset(copy).mem_wal_writer(writer.shard_name(number)) as opened:
            tables.append(opened.lsm_scanner().to_table().select(writer.schema(key).names))
        found = counted(tables[-1])
        new, gone = new + (found - base), gone + (base - found)
    return base - gone + new, pa.concat_tables([t.cast(tables[0].schema) for t in tables])


def check(uri: str, seed: int) -> Rows:
    key = written(uri, seed)
    expected, all_rows = of_writers(uri, key)
    table = Dataset.open(uri)
    assert counted(table.to_table()) == expected
    assert table.count_rows() == expected.total()
    known = {str(row): row for row in all_rows.to_pylist()}
    rows = [known[text] for text in expected.elements()]
    for condition, holds in CONDITIONS.items():
        wanted = Counter(str({"v": row["v"], "id": row["id"]}) for row in rows if holds(row))
        assert counted(table.to_table(["v", "id"], condition)) == wanted, condition
        assert table.count_rows(condition) == wanted.total(), condition
    copy = f"{uri}.copy"
    assert counted(Dataset.open(copy).to_table()) == expected
    Dataset.open(copy).merge_mem_wal()
    assert counted(lance.dataset(copy).to_table()) == expected
    assert Dataset.open(copy).verify().problems == ()
    lance.dataset(copy).validate()
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
def test_reads_and_merges_find_what_the_writers_find(seed: int, tmp_path: Path) -> None:
    check(str(tmp_path / "t.lance"), seed)


def test_spark_finds_what_the_writers_find(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    expected = check(uri, 4)
    frame = spark.read.format("lance").load(uri)
    assert frame.count() == expected.total()
    plain = Dataset.open(uri).to_table(["v", "w"]).to_pylist()
    assert Counter(map(str, (row.asDict() for row in frame.select("v", "w").collect()))) == Counter(map(str, plain))
    assert frame.where("w > 400").count() == Dataset.open(uri).count_rows("w > 400")
