"""Small files with every type in every storage version, damage to them, and the outcome of reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.errors import LanceError
from tests.arrays import LEAVES, STRINGS, ArrayMaker

VERSIONS = ["2.0", "2.1", "2.2"]
ROWS = 300

Outcome = Literal["same", "error", "wrong"]


def _nested(version: str) -> dict[str, pa.DataType]:
    types = {"list": pa.list_(pa.int32()), "strings": pa.list_(pa.string()), "struct": pa.struct([("x", pa.int16()), ("y", pa.string())])}
    return types if version < "2.2" else {**types, "map": pa.map_(pa.int32(), pa.string())}


def every_type(version: str) -> dict[str, pa.Table]:
    """Tables that together cover every type, encoding and location of values, small enough to be damaged at every byte."""
    columns: dict[str, pa.Array] = {}
    for i, t in enumerate([t for t in [*LEAVES, *STRINGS] if not (version == "2.0" and pa.types.is_dictionary(t))]):
        columns[f"{t} {i}"] = ArrayMaker(i, 0, 2, 20).array(t, ROWS)
    nulls = {f"{t}": ArrayMaker(7, 0.3, i % 3).array(t, ROWS) for i, t in enumerate([pa.int64(), pa.bool_(), pa.string(), pa.float32()])}
    nested = {name: ArrayMaker(3, 0 if version == "2.0" else 0.2, 2).array(t, ROWS) for name, t in _nested(version).items()}
    return {"leaves": pa.table(columns), "nulls": pa.table(nulls), "nested": pa.table(nested), **_chosen(version), "blobs": _blobs()}


def _chosen(version: str) -> dict[str, pa.Table]:
    """Settings of field metadata: compression, layouts, packed structs."""
    rng = np.random.default_rng(4)
    words = pa.array([f"https://example.com/{i % 40}/{'path' * (i % 5)}" for i in range(4 * ROWS)])
    numbers, runs = pa.array(rng.integers(0, 1000, 4 * ROWS)), pa.array(np.repeat(np.arange(24), ROWS // 6))
    ways = [("zstd", words, {"compression": "zstd"}), ("lz4", numbers, {"compression": "lz4"}), ("fsst", words, {"compression": "fsst"})]
    if version != "2.0":
        ways += [("zip", words, {"structural-encoding": "fullzip"}), ("runs", runs, {"rle-threshold": "1.0"})]
        ways += [("bss", pa.array(rng.random(4 * ROWS)), {"compression": "zstd", "bss": "on"})]
    fields = [pa.field(name, a.type, metadata={f"lance-encoding:{k}": v for k, v in how.items()}) for name, a, how in ways]
    packed = pa.StructArray.from_arrays([pa.array(rng.integers(0, 9, 50)), pa.array(rng.random(50))], ["x", "y"])
    schema = pa.schema([pa.field("packed", packed.type, metadata={"lance-encoding:packed": "true"})])
    encoded = pa.table([a for _, a, _ in ways], schema=pa.schema(fields))
    return {"encoded": encoded, "packed": pa.table([packed], schema=schema)}


def _blobs() -> pa.Table:
    """Values in the data file, in a shared sidecar and in sidecars of their own (in 2.2)."""
    limits = {"lance-encoding:blob-inline-size-threshold": "500", "lance-encoding:blob-dedicated-size-threshold": "20000"}
    rng = np.random.default_rng(9)
    values = [rng.bytes(size) for size in (3, 400, 0, 600, 5000, 19_000, 25_000, 70_000)] + [None]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true", **limits})
    return pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))


class Written:
    """A table of one data file, its files, and the rows that it should have."""

    def __init__(self, uri: str, table: pa.Table, version: str) -> None:
        Dataset.write(uri, table, data_storage_version=version)
        self.uri = uri
        self.paths = sorted(p for p in Path(uri, "data").rglob("*") if p.is_file())
        self.rows = Dataset.open(uri).scan().to_table()

    def read(self, verify_checksums: bool = True) -> Outcome:
        """The outcome of reading all rows."""
        try:
            rows = Dataset.open(self.uri, verify_checksums=verify_checksums).scan().to_table()
        except LanceError:
            return "error"
        return "same" if rows.equals(self.rows) or _serialised(rows) == _serialised(self.rows) else "wrong"


def _serialised(rows: pa.Table) -> bytes:
    """A comparable form of values such as NaN."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return bytes(sink.getvalue())


@contextmanager
def changed(path: Path, at: int, content: bytes) -> Iterator[None]:
    """Replace bytes of the file at one position within the block."""
    with path.open("r+b") as f:
        before = os.pread(f.fileno(), len(content), at)
        os.pwrite(f.fileno(), content, at)
        try:
            yield
        finally:
            os.pwrite(f.fileno(), before, at)


def flipped(path: Path, bit: int) -> bytes:
    """The byte that contains bit number `bit` of the file, with that bit flipped."""
    with path.open("rb") as f:
        return bytes([os.pread(f.fileno(), 1, bit // 8)[0] ^ 1 << bit % 8])
