"""The bloom filter of the keys of an SSTable: that of pylance."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import LsmPointLookupPlanner, ShardSnapshot

from lance_spark import Dataset
from lance_spark.arrow.sip_hash import sip_hashes
from lance_spark.table.mem_wal_writing.key_filter import key_filter

SHARD = "00000000-0000-0000-0000-000000000007"
KEYS: dict[str, pa.Table] = {
    "int64": pa.table({"id": pa.array([0, -1, 5, 2**62], pa.int64())}),
    "int32": pa.table({"id": pa.array([0, -1, 5, 2**30], pa.int32())}),
    "string": pa.table({"id": ["", "a", "é" * 20, "eight888", "x" * 300]}),
    "binary": pa.table({"id": [b"", b"\x00", b"a" * 17]}),
    "two": pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "bb"]}),
    "uint32": pa.table({"id": pa.array([1, 2], pa.uint32())}),
}


def marked(keys: pa.Table) -> pa.Table:
    """The keys as the primary key of a table."""
    fields = []
    for place, field in enumerate(keys.schema, 1):
        position = {"lance-schema:unenforced-primary-key:position": str(place)}
        fields.append(field.with_nullable(False).with_metadata({"lance-schema:unenforced-primary-key": "true", **position}))
    return keys.cast(pa.schema(fields))


def sstable(uri: Path, rows: pa.Table, library: str) -> Path:
    """The SSTable that a writer makes of these rows."""
    lance.write_dataset(rows.slice(0, 0), str(uri)).initialize_mem_wal()
    table: Any = Dataset.open(str(uri)) if library == "ours" else lance.dataset(str(uri))
    with table.mem_wal_writer(SHARD) as writer:
        writer.put(rows)
    [folder] = Path(uri, "_mem_wal", SHARD).glob("*_gen_1")
    return folder


def test_the_hash_of_nothing_is_that_of_rust() -> None:
    """What Rust's `DefaultHasher` returns when nothing was hashed."""
    assert sip_hashes(pa.array([b""], pa.binary())).tolist() == [15130871412783076140]


def calls_to_hash(key: bytes) -> int:
    """How many calls of Python it takes."""
    keys, calls = pa.array([b"another", key]), []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls.append(frame)

    sip_hashes(keys)  # compiles
    sys.setprofile(count)
    try:
        sip_hashes(keys)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_no_step_of_python_is_taken_for_each_word_of_a_long_key() -> None:
    assert calls_to_hash(bytes(1 << 12)) == calls_to_hash(bytes(8))


@pytest.mark.parametrize("name", KEYS)
def test_the_filter_is_that_of_pylance(name: str, tmp_path: Path) -> None:
    rows = marked(KEYS[name])
    theirs = (sstable(tmp_path / "theirs.lance", rows, "pylance") / "bloom_filter.bin").read_bytes()
    ours = (sstable(tmp_path / "ours.lance", rows, "ours") / "bloom_filter.bin").read_bytes()
    assert ours == key_filter(KEYS[name])
    if name == "uint32":
        assert ours == b"\xff" * 32, "pylance does not hash such values, so that one hash stands for all"
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", KEYS)
def test_pylance_finds_each_key(name: str, tmp_path: Path) -> None:
    rows = marked(KEYS[name])
    folder = sstable(tmp_path / "t.lance", rows, "ours")
    shard = ShardSnapshot(SHARD).with_sstable(1, folder.name).with_current_generation(2)
    planner = LsmPointLookupPlanner(lance.dataset(str(tmp_path / "t.lance")), [shard])
    for place in range(rows.num_rows):
        key = pa.array([rows.column(0)[place].as_py()], rows.schema.field(0).type)
        if rows.num_columns == 1:
            assert planner.plan_lookup(key).to_table().num_rows == 1, key
