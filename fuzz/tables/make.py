"""Makes the tables of this folder anew: python fuzz/tables/make.py. Written by pylance, a column for each way to store values."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

ROWS = 300
VERSIONS = ("2.0", "2.1", "2.2", "2.3")
RNG = np.random.default_rng(1)
CHANCE = random.Random(1)


def nulls(values: Sequence[object]) -> list[object]:
    return [None if CHANCE.random() < 0.2 else v for v in values]


def numbers() -> dict[str, tuple[pa.Array, dict[str, str]]]:
    small = RNG.integers(0, 1000, ROWS)
    return {
        "flat": (pa.array(RNG.integers(-(2**62), 2**62, ROWS)), {}),
        "packed": (pa.array(small, pa.int32()), {}),
        "packed_nulls": (pa.array(nulls(small.tolist()), pa.int64()), {}),
        "runs": (pa.array(np.repeat(small[:20], 15), pa.int32()), {"lance-encoding:rle-threshold": "0.9"}),
        "planes": (pa.array(RNG.normal(1, 0.01, ROWS), pa.float64()), {"lance-encoding:bss": "on", "lance-encoding:compression": "zstd"}),
        "bools": (pa.array(nulls((small % 2 == 0).tolist()), pa.bool_()), {}),
        "constant": (pa.array(nulls([7] * ROWS), pa.int64()), {}),
        "nothing": (pa.nulls(ROWS, pa.int16()), {}),
        "decimal": (pa.array(small.tolist(), pa.decimal128(20)), {}),
        "words": (pa.array((small % 5 * 10**15).tolist(), pa.int64()), {"lance-encoding:dict-divisor": "2"}),
    }


def strings() -> dict[str, tuple[pa.Array, dict[str, str]]]:
    words = [f"word {i % 17} of {i}" for i in range(ROWS)]
    return {
        "plain": (pa.array(nulls(words)), {"lance-encoding:compression": "none"}),
        "fsst": (pa.array(words), {"lance-encoding:compression": "fsst"}),
        "zstd": (pa.array(words, pa.binary()), {"lance-encoding:compression": "zstd"}),
        "lz4": (pa.array(words, pa.large_string()), {"lance-encoding:compression": "lz4"}),
        "dictionary": (pa.array(nulls([f"one of few values {i % 5}" for i in range(ROWS)])), {"lance-encoding:dict-divisor": "2"}),
        "arrow_dictionary": (pa.array(nulls([f"item {i % 9}" for i in range(ROWS)])).dictionary_encode(), {}),
        "wide": (
            pa.array(nulls([bytes([i % 251]) * (i % 40) for i in range(ROWS)]), pa.binary()),
            {"lance-encoding:structural-encoding": "fullzip"},
        ),
        "wide_zstd": (
            pa.array([w.encode() * 3 for w in words], pa.binary()),
            {"lance-encoding:structural-encoding": "fullzip", "lance-encoding:compression": "zstd"},
        ),
    }


def nested() -> dict[str, tuple[pa.Array, dict[str, str]]]:
    lists = [[CHANCE.randrange(50) for _ in range(CHANCE.randrange(4))] for _ in range(ROWS)]
    vectors = RNG.normal(0, 1, (ROWS, 4)).astype(np.float32)
    structs = [{"a": i, "b": None if i % 7 == 0 else f"s{i % 3}"} for i in range(ROWS)]
    return {
        "lists": (pa.array(nulls(lists), pa.list_(pa.int32())), {}),
        "string_lists": (pa.array(nulls([[f"x{i}" for i in v] for v in lists]), pa.list_(pa.string())), {}),
        "deep": (pa.array(nulls([[lists[i], None] for i in range(ROWS)]), pa.list_(pa.list_(pa.int16()))), {}),
        "struct": (pa.array(nulls(structs), pa.struct([("a", pa.int64()), ("b", pa.string())])), {}),
        "vector": (pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4), {}),
        "zipped_vector": (pa.FixedSizeListArray.from_arrays(pa.array(np.tile(vectors[:40], 24).ravel()), 96)[:30], {}),
        "zipped_list": (pa.array(nulls(lists), pa.list_(pa.int32())), {"lance-encoding:structural-encoding": "fullzip"}),
        "packed_struct": (
            pa.array([{"x": i, "y": i % 3} for i in range(ROWS)], pa.struct([("x", pa.int32()), ("y", pa.int16())])),
            {"packed": "true"},
        ),
        "blob": (pa.array([bytes([i % 251]) * (i % 30) for i in range(ROWS)], pa.large_binary()), {"lance-encoding:blob": "true"}),
    }


def write(name: str, version: str, columns: dict[str, tuple[pa.Array, dict[str, str]]]) -> None:
    path = Path(__file__).parent / f"{name}_{version}.lance"
    shutil.rmtree(path, ignore_errors=True)
    schema = pa.schema([pa.field(c, array.type, metadata=metadata) for c, (array, metadata) in columns.items()])
    table = pa.table([array for array, _ in columns.values()], schema)
    lance.write_dataset(table, path, data_storage_version=version)
    shutil.rmtree(path / "_transactions")


def history(version: str, stable_row_ids: bool) -> None:
    """A table of many versions with deletions, an index, a tag, a branch and a clone that are noted but not here, and config."""
    path = Path(__file__).parent / f"history_{version}.lance"
    shutil.rmtree(path, ignore_errors=True)
    words = pa.array(nulls([f"word {i % 7}" for i in range(40)]))
    rows = pa.table({"id": pa.array(range(40), pa.int64()), "word": words, "points": pa.array([[i] * (i % 3) for i in range(40)])})
    table = lance.write_dataset(
        rows, path, data_storage_version=version, max_rows_per_file=15, enable_stable_row_ids=stable_row_ids, enable_v2_manifest_paths=True
    )
    table.delete("id % 5 = 1")
    table.update({"word": "'new'"}, where="id in (3, 20)")
    table.create_scalar_index("id", "BTREE")
    table = lance.write_dataset(rows.slice(0, 3), path, mode="append")
    table.add_columns({"twice": "id * 2"})
    table.update_config({"some": "config", "lance.auto_cleanup.interval": "1000", "lance.auto_cleanup.older_than": "14days"})
    table.tags.create("first", 1)
    table.create_branch("dev")
    shutil.rmtree(path / "tree")  # its manifest has the absolute path of the table
    clone = {"uri": "/nowhere/clone.lance", "version": 2, "branch": None}
    (path / "_refs" / "clones").mkdir()
    (path / "_refs" / "clones" / "6e1f6c0a-3a0f-4c8e-9a64-0d1c3a4b5c6d.json").write_text(json.dumps(clone))


def main() -> None:
    history("2.0", stable_row_ids=False)
    history("2.2", stable_row_ids=True)
    for version in VERSIONS:
        for make in (numbers, strings, nested):
            columns = make()
            if version == "2.0":
                columns.pop("struct", None)  # which cannot be null there
            vectors = {c: columns.pop(c) for c in list(columns) if c == "zipped_vector"}  # there are fewer of them
            write(make.__name__, version, columns)
            if vectors:
                write("vectors", version, vectors)


if __name__ == "__main__":
    main()
