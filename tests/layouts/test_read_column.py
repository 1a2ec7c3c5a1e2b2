"""Columns of pages that pylance wrote, of random nested data: any rows, in batches of any size."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.layouts.data import marked, random_array, read_rows, types, written_by_pylance

VERSIONS = ["2.1", "2.2", "2.3"]

STRUCTS = pa.struct([("a", pa.int32()), ("b", pa.string())])

LONG = [f"value {i} " * (i % 60 + 30) for i in range(150)]


def check(array: pa.Array, version: str, rng: random.Random, wishes: dict[str, str] | None = None) -> None:
    """All rows, ranges and scattered rows match the written ones."""
    field = marked(pa.field("c", array.type), wishes or {})
    table = pa.table([array.cast(field.type) if wishes else array], schema=pa.schema([field]))
    with tempfile.TemporaryDirectory() as folder:
        reader, columns = written_by_pylance(table, Path(folder) / "t.lance", version)
        count = len(array)
        start = rng.randrange(count)
        scattered = np.array(sorted(rng.sample(range(count), max(1, count // 9))), dtype=np.int64)
        for rows in (range(count), range(start, start + rng.randrange(count - start) + 1), scattered):
            got = read_rows(reader, columns, reader.schema.fields[0], rows, rng.choice([100, 333, 10**6]))
            assert got.type.equals(array.type)
            assert got.to_pylist() == array.take(pa.array(np.asarray(rows, dtype=np.int64))).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_rows_of_nested_columns_are_what_pylance_wrote(version: str, data: st.DataObject) -> None:
    t = data.draw(types(3, maps=version != "2.1"))
    rng = random.Random(data.draw(st.integers(0, 2**30)))
    count = data.draw(st.sampled_from([1, 7, 300, 2500]))
    nulls, variety = data.draw(st.sampled_from([0, 0.1, 0.5, 1.0])), data.draw(st.sampled_from([1, 2, 8, 1001]))
    check(random_array(t, count, rng, nulls, variety), version, rng)


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("structure", ["miniblock", "fullzip", "sparse"])
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**30), compression=st.sampled_from(["zstd", "lz4", "none", "fsst"]), nulls=st.sampled_from([0, 0.3]))
def test_every_layout_and_compression_of_pylance_is_read(version: str, structure: str, seed: int, compression: str, nulls: float) -> None:
    if structure == "sparse" and version != "2.3":
        structure = "miniblock"
    rng = random.Random(seed)
    inner = rng.choice([pa.int32(), pa.float64(), pa.string(), pa.large_binary(), pa.list_(pa.float32(), 3), pa.binary(5)])
    t = rng.choice([inner, pa.list_(inner), pa.struct([("x", pa.list_(pa.struct([("y", inner)])))])])
    array = random_array(t, rng.choice([1, 100, 1500]), rng, nulls, rng.choice([1, 60, 1001]))
    wishes = {"lance-encoding:structural-encoding": structure, "lance-encoding:compression": compression}
    check(array, version, rng, wishes)


OF_STRUCTS = pa.list_(STRUCTS, 3)
IN_A_STRUCT = pa.struct([("x", OF_STRUCTS), ("y", pa.int8())])
OF_LISTS = pa.list_(pa.struct([("l", pa.list_(pa.int32()))]), 2)


@pytest.mark.parametrize("nulls", [0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("version", "t"),
    [(v, t) for v in ("2.2", "2.3") for t in (OF_STRUCTS, IN_A_STRUCT, OF_LISTS)] + [("2.3", pa.list_(OF_STRUCTS))],
)
def test_fixed_size_lists_of_structs_are_rows_though_pages_count_their_items(version: str, nulls: float, t: pa.DataType) -> None:
    rng = random.Random(6)
    check(random_array(t, 2500, rng, nulls, 50), version, rng)


@pytest.mark.parametrize("nulls", [0, 0.2])
@pytest.mark.parametrize("nested", [False, True])
def test_sparse_pages_of_large_values_index_a_dictionary_or_hold_the_valid_ones(nulls: float, nested: bool) -> None:
    rng = random.Random(7)
    for words in (LONG, LONG[:3]):

        def word(words: list[str] = words) -> str | None:
            return None if rng.random() < nulls else rng.choice(words)

        rows: list[Any] = [[word() for _ in range(rng.randrange(4))] if nested else word() for _ in range(2000)]
        array = pa.array(rows, pa.list_(pa.string()) if nested else pa.string())
        check(array, "2.3", rng, {"lance-encoding:structural-encoding": "sparse"})


@pytest.mark.parametrize("version", VERSIONS)
def test_one_row_that_spans_many_chunks_is_found_with_its_neighbours(version: str) -> None:
    rng = random.Random(8)
    lists = [[1, 2], list(range(30_000)), [], None, [7] * 5000, [3]]
    check(pa.array(lists * 2, pa.list_(pa.int64())), version, rng)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_several_pages_are_joined(version: str, tmp_path: Path) -> None:
    table = pa.table({"s": [f"row {i} " * 30 for i in range(100_000)], "i": list(range(100_000))})
    reader, columns = written_by_pylance(table, tmp_path / "t.lance", version)
    scattered = np.arange(5, 100_000, 997)
    for rows in (range(100_000), range(30_000, 80_000), scattered):
        batches = list(reader.read(reader.schema.fields, columns, rows, 7000))
        assert max(len(b[0]) for b in batches) <= 7000
        for i, name in enumerate(table.column_names):
            got = pa.chunked_array([b[i] for b in batches])
            assert got.equals(table[name].take(pa.array(np.asarray(rows))))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pruned_struct_reads_only_the_columns_of_its_children(version: str, tmp_path: Path) -> None:
    array = pa.array([{"a": [{"x": i, "y": str(i)}], "b": i} if i % 5 else None for i in range(1000)])
    reader, columns = written_by_pylance(pa.table({"s": array}), tmp_path / "t.lance", version)
    pruned = reader.schema.keep(lambda leaf: leaf.name == "y")
    got = read_rows(reader, columns, pruned.fields[0], range(1000), 10**6)
    assert got.type == pa.struct([("a", pa.list_(pa.struct([("y", pa.string())])))])
    assert got.to_pylist() == [{"a": [{"y": str(i)}]} if i % 5 else None for i in range(1000)]


@pytest.mark.parametrize("version", VERSIONS)
def test_few_rows_of_a_large_page_are_read_without_the_rest(version: str, tmp_path: Path) -> None:
    values = np.random.default_rng(1).random(500_000)
    reader, columns = written_by_pylance(pa.table({"v": values}), tmp_path / "t.lance", version)
    store = reader._source.store
    before = store.counters.bytes_read
    got = read_rows(reader, columns, reader.schema.fields[0], np.array([10, 250_000, 499_999]), 100)
    assert got.to_pylist() == [values[10], values[250_000], values[499_999]]
    assert store.counters.bytes_read - before < 300_000


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_are_read_as_bytes_from_any_location(version: str, tmp_path: Path) -> None:
    values = [None if i % 7 == 3 else bytes([i]) * (i * i * 50 % 9000) for i in range(60)]
    if version == "2.1":
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
    else:
        thresholds = {"lance-encoding:blob-inline-size-threshold": "1000", "lance-encoding:blob-dedicated-size-threshold": "6000"}
        blobs = lance.blob_array(values)
        table = pa.table([blobs], schema=pa.schema([pa.field("b", blobs.type, metadata=thresholds)]))
    reader, columns = written_by_pylance(table, tmp_path / "t.lance", version)
    field_of_table = next(f for f in reader.schema.fields if f.name == "b")
    for rows in (range(60), range(10, 30), np.array([0, 3, 59])):
        got = read_rows(reader, columns, field_of_table, rows, 16)
        assert got.to_pylist() == [values[i] for i in rows]
