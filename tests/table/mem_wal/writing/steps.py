"""What a writer puts and deletes, step by step, and the rows of the table after each step."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import LsmScanner, ShardSnapshot

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from tests.write_ahead_logs import SCHEMA, rows

SHARD = str(uuid.UUID(int=7))
Step = tuple[str, list[int], str]
"""put or delete, the keys, and the value of new rows."""
STEPS: list[Step] = [
    ("put", [1, 3, 1], "a"),
    ("put", [4], "b"),
    ("delete", [3, 9], ""),
    ("put", [2], "c"),
    ("put", [3, 5], "d"),
    ("delete", [4], ""),
    ("put", [6], "e"),
]
SMALL = {"max_memtable_rows": 4}
"""A generation is flushed after a few steps."""
Values = dict[int, str]
BEGIN: Values = {1: "1", 2: "2"}


def values(ids: list[int], value: str) -> pa.Table:
    """Rows with these keys."""
    return pa.table({"id": ids, "v": [value] * len(ids), "w": ids}, schema=SCHEMA)


def made(uri: str) -> str:
    """A table with the keys of `BEGIN`, and a log."""
    lance.write_dataset(rows(*BEGIN), uri)
    Dataset.open(uri).initialize_mem_wal()
    return uri


def run(writer: Any, step: Step) -> None:
    """Do a step, by our writer or pylance's."""
    kind, ids, value = step
    if kind == "put":
        writer.put(values(ids, value))
    else:
        writer.delete(pa.table({"id": ids}))


def after(steps: list[Step], begin: Values = BEGIN) -> Values:
    """The rows after some steps."""
    known = dict(begin)
    for kind, ids, value in steps:
        for i in ids:
            if kind == "put":
                known[i] = value
            else:
                known.pop(i, None)
    return known


def shown(table: pa.Table) -> Values:
    """The rows that were read, each key once."""
    pairs = list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert len(dict(pairs)) == len(pairs), "a key is there twice"
    return dict(pairs)


def ours(uri: str) -> Values:
    """What we read."""
    return shown(Dataset.open(uri).to_table())


def of_sstables(uri: str, shard: str = SHARD) -> Values:
    """What pylance's scanner reads of the table and of the SSTables."""
    folder = Path(uri, "_mem_wal", shard)
    state = pb.ShardManifest.FromString(max(folder.glob("manifest/*.binpb"), key=lambda path: path.stem[::-1]).read_bytes())
    snapshot = ShardSnapshot(shard).with_current_generation(state.current_generation)
    for table in state.sstables:
        snapshot = snapshot.with_sstable(table.generation, table.path)
    return shown(LsmScanner.from_snapshots(lance.dataset(uri), [snapshot]).to_table())


def of_pylance(uri: str, shard: str = SHARD) -> Values:
    """What pylance's writer finds when it takes the shard over, which ends ours."""
    with lance.dataset(uri).mem_wal_writer(shard) as writer:
        return shown(writer.lsm_scanner().to_table())


def write_steps(uri: str, acknowledged: str | None = None) -> None:
    """Do all steps by our writer. The file `acknowledged` gets a byte for each step that is done."""
    with Dataset.open(uri).mem_wal_writer(SHARD, **SMALL) as writer:
        for step in STEPS:
            run(writer, step)
            if acknowledged is not None:
                with open(acknowledged, "ab") as file:
                    file.write(b".")
