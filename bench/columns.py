"""The columns that `bench.codec` measures: one for each encoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.data import WORDS

SIZE = 48 << 20
"""Approximate size of a column in bytes of Arrow data."""


@dataclass(frozen=True)
class Column:
    """An array and the field metadata that selects its encoding. The target ratio is 1 if it is `common`, otherwise 0.5."""

    name: str
    array: pa.Array
    common: bool = False
    metadata: dict[str, str] | None = None

    @property
    def table(self) -> pa.Table:
        """The array as column "c"."""
        return pa.table([self.array], pa.schema([pa.field("c", self.array.type, metadata=self.metadata)]))


def columns() -> Iterator[Column]:
    """All columns, created one by one."""
    rng = np.random.default_rng(5)
    yield from _numbers(rng)
    yield from _strings(rng)
    yield from _nested(rng)


def _with_nulls(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    mask = np.packbits(rng.random(len(array)) > 0.1, bitorder="little")
    return pa.Array.from_buffers(array.type, len(array), [pa.py_buffer(mask), *array.buffers()[1:]])


def _numbers(rng: np.random.Generator) -> Iterator[Column]:
    n = SIZE // 8
    words = pa.array(rng.integers(-(2**63), 2**63 - 1, n))
    yield Column("flat i64", words, common=True)
    yield Column("flat f64", pa.array(rng.random(n)), common=True)
    yield Column("flat i32", pa.array(rng.integers(-(2**31), 2**31 - 1, 2 * n, np.int32)), common=True)
    yield Column("flat i64, nulls", _with_nulls(words, rng), common=True)
    packed = pa.array(rng.integers(0, 5000, 2 * n, np.int32))
    yield Column("bit-packed i32", packed, common=True)
    yield Column("bit-packed i32, nulls", _with_nulls(packed, rng), common=True)
    yield Column("bit-packed i64", pa.array(np.cumsum(rng.integers(0, 9, n))), common=True)
    yield Column("timestamps", pa.array(np.cumsum(rng.integers(0, 10**6, n)) + 1_700_000_000_000_000, pa.timestamp("us")), common=True)
    yield Column("decimals", pa.array(np.arange(n) % 100_000, pa.int64()).cast(pa.decimal128(19)).cast(pa.decimal128(20, 2)))
    yield Column("runs i32", pa.array(np.repeat(rng.integers(0, 1000, n // 10, np.int32), 20)))
    yield Column("bools", pa.array(rng.random(8 * n) < 0.5))
    yield Column(
        "byte planes, zstd", pa.array(rng.normal(100, 1, n)), metadata={"lance-encoding:bss": "on", "lance-encoding:compression": "zstd"}
    )


def _text(rng: np.random.Generator, rows: int, words: int) -> list[str]:
    return [" ".join(WORDS[i]) for i in rng.integers(0, len(WORDS), (rows, words))]


def _strings(rng: np.random.Generator) -> Iterator[Column]:
    few = pa.array([f"one of the few values that there are, number {i}" for i in range(200)])
    yield Column("dictionary strings", few.take(pa.array(rng.integers(0, 200, SIZE // 50))), common=True)
    numbers = pa.array(rng.integers(0, 2**50, SIZE // 20)).cast(pa.string())
    yield Column("plain strings", numbers, common=True, metadata={"lance-encoding:compression": "none"})
    text = pa.array(_text(rng, SIZE // 64, 12))
    yield Column("FSST strings", text, common=True)
    yield Column("FSST strings, nulls", _with_nulls(text, rng), common=True)
    yield Column("zstd strings", text, metadata={"lance-encoding:compression": "zstd"})
    yield Column("lz4 strings", text, metadata={"lance-encoding:compression": "lz4"})
    noise = rng.bytes(SIZE)
    yield Column("binary of 100 KB", pa.array([noise[i : i + 100_000] for i in range(0, SIZE, 100_000)], pa.large_binary()))


def _nested(rng: np.random.Generator) -> Iterator[Column]:
    items = rng.integers(0, 10**6, SIZE // 4, np.int32)
    offsets = np.append(np.sort(rng.integers(0, len(items), len(items) // 5).astype(np.int32)), np.int32(len(items)))
    offsets[0] = 0
    yield Column("lists of i32", pa.ListArray.from_arrays(offsets, items), common=True)
    text = pa.array(_text(rng, SIZE // 24, 4))
    offsets = np.append(np.arange(0, len(text), 5, dtype=np.int32), np.int32(len(text)))
    yield Column("lists of strings", pa.ListArray.from_arrays(offsets, text), common=True)
    n = SIZE // 16
    fields = [pa.array(rng.random(n)), pa.array(rng.integers(0, 1000, n))]
    yield Column("struct", pa.StructArray.from_arrays(fields, ["a", "b"], mask=pa.array(rng.random(n) < 0.1)))
    vectors = pa.array(rng.standard_normal(SIZE // 4 // 384 * 384, np.float32))
    yield Column("vectors of 384 f32", pa.FixedSizeListArray.from_arrays(vectors, 384), common=True)
    yield Column("vectors of 8 f32", pa.FixedSizeListArray.from_arrays(vectors, 8), common=True)
