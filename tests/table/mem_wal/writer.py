"""A writer of a shard in a process of its own: `python -m tests.table.mem_wal.writer URI SHARD SEED END`.

It puts and deletes random rows of its shard, then closes the log or, with END=kill, kills itself, so that rows stay in the log.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import uuid

import lance
import pyarrow as pa

KEY = {"lance-schema:unenforced-primary-key": "true"}
SECOND = {**KEY, "lance-schema:unenforced-primary-key:position": "2"}
VALUES = [
    pa.field("v", pa.string()),
    pa.field("w", pa.int32()),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("struct", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    pa.field("vector", pa.list_(pa.float32(), 2)),
]
SHARDS = 3
KEYS = 45


def schema(key: str) -> pa.Schema:
    """The schema of a table whose primary key is of int64, of strings, or of both ("two")."""
    first = pa.field("id", pa.string() if key == "string" else pa.int64(), nullable=False, metadata=KEY)
    return pa.schema([first, *([pa.field("part", pa.string(), nullable=False, metadata=SECOND)] if key == "two" else []), *VALUES])


def rows(key: str, ids: list[int], tag: int) -> pa.Table:
    """Rows with values that tell `tag`; some values are null."""

    def some(i: int, value: object) -> object:
        return None if (i + tag) % 5 == 0 else value

    columns: dict[str, list[object]] = {
        "id": [f"k{i}é" if key == "string" else i for i in ids],
        "part": [str(i % 3) for i in ids],
        "v": [some(i, f"{tag}-{i}") for i in ids],
        "w": [some(i, (tag * 7 + i) % 1000) for i in ids],
        "list": [some(i, [i, None, tag]) for i in ids],
        "struct": [some(i, {"a": tag, "b": str(i)}) for i in ids],
        "vector": [some(i, [float(tag), float(i)]) for i in ids],
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema(key)}, schema=schema(key))


def shard_name(number: int) -> str:
    """The name of a shard."""
    return str(uuid.UUID(int=number + 1))


def main(uri: str, number: str, seed: str, end: str) -> None:
    """Write. The keys of shard n are those that are n modulo `SHARDS`."""
    choice, dataset = random.Random(int(seed)), lance.dataset(uri)
    key = "two" if "part" in dataset.schema.names else "string" if dataset.schema.field("id").type == pa.string() else "int64"
    own = [i for i in range(KEYS) if i % SHARDS == int(number)]
    sizes = {"max_memtable_rows": 7} if int(number) == 0 else {}  # the same for all writers of a shard, who replay its log
    writer = dataset.mem_wal_writer(shard_name(int(number)), max_wal_flush_interval_ms=choice.choice([1, 50]), **sizes)
    for step in range(choice.randint(0, 8)):
        ids = [choice.choice(own) for _ in range(choice.randint(1, 6))]
        if choice.random() < 0.3:
            writer.delete(rows(key, sorted(set(ids)), 1).select([name for name in schema(key).names if name in ("id", "part")]))
        else:
            writer.put(rows(key, ids, int(seed) * 10 + step))
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
