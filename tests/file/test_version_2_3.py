"""Files of storage version 2.3: pylance reads the same rows from ours, which are about as large as its own and use the same encodings."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from tests.layouts.data import marked

ROWS = 3000
RANDOM = np.random.default_rng(1)
SOME = RANDOM.random(ROWS) < 0.2
NUMBERS = np.arange(ROWS)
OVERHEAD = 192
"""Bytes that each of our files has more: checksums, and padding to 64 bytes."""


def texts(least: int, most: int) -> list[str]:
    """Random texts of `least` to `most` letters."""
    return [RANDOM.integers(97, 123, n).astype(np.uint8).tobytes().decode() for n in RANDOM.integers(least, most + 1, ROWS)]


def vectors(dimension: int, different: int) -> pa.Array:
    items = np.repeat(NUMBERS % different, dimension).astype("f4")
    return pa.FixedSizeListArray.from_arrays(pa.array(items), dimension)


LENGTHS = NUMBERS % 5
SHORT, MIXED, MAYBE = texts(4, 9), texts(10, 30), texts(0, 3)
NUMERIC = {
    f"{kind} {dtype}": pa.array(values.astype(dtype), mask=mask)
    for dtype in ("i1", "u2", "i4", "u8", "f4", "f8")
    for kind, values, mask in [
        ("rising", NUMBERS, None),
        ("random", RANDOM.integers(0, 2**62, ROWS), None),
        ("small", RANDOM.integers(0, 50, ROWS), None),
        ("few", RANDOM.choice(RANDOM.integers(0, 2**62, 5), ROWS), None),
        ("runs", NUMBERS // 50, None),
        ("long runs", NUMBERS // 600, NUMBERS % 500 < 70),
        ("constant", np.full(ROWS, 42), None),
        ("constant or null", np.full(ROWS, 42), SOME),
        ("null", NUMBERS, np.ones(ROWS, bool)),
    ]
}
TEXTS = {
    f"{kind} {t}": pa.array(values, pa.string(), mask=mask).cast(t)
    for t in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    for kind, values, mask in [
        ("short", SHORT, None),
        ("short or null", SHORT, SOME),
        ("mixed", MIXED, SOME),
        ("one length", [text[:4] for text in SHORT], None),
        ("maybe empty", MAYBE, None),
        ("empty", [""] * ROWS, None),
        ("equal", ["hello"] * ROWS, None),
        ("repeated", [f"word {i % 7}" for i in range(ROWS)], SOME),
        ("long repeated", [f"{i % 7}" * 500 for i in range(ROWS)], None),
        ("huge", [f"{i}" * 10_000 for i in range(3)] + [None] * (ROWS - 3), None),
    ]
}
NESTED = {
    "lists": pa.array([list(range(n)) for n in LENGTHS]),
    "lists of one value": pa.array([[5] * n for n in LENGTHS]),
    "lists of many lengths": pa.array([[5] * n for n in RANDOM.integers(0, 40, ROWS)]),
    "lists of one value or null": pa.array([[None if n % 2 else 5] * n if i % 9 else None for i, n in enumerate(LENGTHS)]),
    "empty lists": pa.array([[]] * ROWS, pa.list_(pa.int32())),
    "null or empty lists": pa.array([[] if i % 3 else None for i in NUMBERS], pa.list_(pa.int32())),
    "lists of lists": pa.array([[[1] * n, None, []] if n else [] for n in LENGTHS]),
    "null structs": pa.array([{"a": None} if i % 3 else None for i in NUMBERS], pa.struct([("a", pa.int32())])),
    "structs": pa.array([{"a": i, "b": [{"c": 5}] * (i % 3)} if i % 5 else None for i in range(ROWS)]),
    "maps": pa.array([[("k", 5)] * (n % 2) for n in LENGTHS], pa.map_(pa.string(), pa.int32())),
    **{f"vectors {d} of {n}": vectors(d, n) for d in (3, 128) for n in (1, 10, ROWS)},
    "vectors of vectors": pa.FixedSizeListArray.from_arrays(vectors(2, 12), 3),
    "vectors or null": pa.array([[1.5] * 8 if i % 3 else None for i in NUMBERS], pa.list_(pa.float32(), 8)),
    "vectors with nulls": pa.array([[1.5, None] * 4] * ROWS, pa.list_(pa.float32(), 8)),
    "dictionary": pa.array([f"word {i % 7}" for i in NUMBERS]).dictionary_encode(),
    "decimals": pa.array([i % 50 for i in range(ROWS)], pa.decimal128(20, 2)),
    "bytes": pa.array([b"x" * 40] * ROWS, pa.binary(40)),
    "booleans": pa.array(NUMBERS % 3 == 0, mask=SOME),
    "booleans and runs of nulls": pa.array(NUMBERS % 3 == 0, mask=NUMBERS % 1000 < 300),
    "nothing": pa.nulls(ROWS),
    "one null": pa.array([5] * 10 + [None]),
    "one value": pa.array([5] + [None] * 10),
    "some nulls": pa.array([5, 5, None, None, 5, None]),
    "odd positions": pa.array([5, None, None, 5, None, None, None, 5, 5, None]),
    "three texts": pa.array(["a", "bb", None]),
}
COLUMNS = {**NUMERIC, **TEXTS, **NESTED}


def size_of_files(uri: str) -> int:
    return sum(path.stat().st_size for path in Path(uri, "data").iterdir())


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_read_by_pylance_and_about_as_small_as_its_own(name: str, tmp_path: Path) -> None:
    array = COLUMNS[name]
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    table = pa.table({"c": array, "row": np.arange(len(array))})
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    dataset = Dataset.write(ours, table, data_storage_version="2.3")
    lance.write_dataset(table, theirs, data_storage_version="2.3")
    for version in (dataset, lance.dataset(ours)):
        assert version.to_table().to_pydict() == table.to_pydict()
        assert version.take([1, 0, 2], columns=["c"]).to_pydict() == table.select(["c"]).take([1, 0, 2]).to_pydict()
    lance.dataset(ours).validate()
    assert size_of_files(ours) <= 1.05 * size_of_files(theirs) + OVERHEAD


SPARSE = {name: array for name, array in COLUMNS.items() if "null" in name or "list" in name or name.startswith("structs")}


@pytest.mark.parametrize("name", SPARSE)
def test_a_column_of_sparse_structure_is_read_by_pylance(name: str, tmp_path: Path) -> None:
    array = SPARSE[name]
    field = marked(pa.field("c", array.type), {"lance-encoding:structural-encoding": "sparse"})
    table = pa.table([array.cast(field.type) if pa.types.is_nested(array.type) else array], schema=pa.schema([field]))
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    dataset = Dataset.write(ours, table, data_storage_version="2.3")
    lance.write_dataset(table, theirs, data_storage_version="2.3")
    for version in (dataset, lance.dataset(ours)):
        assert version.to_table().to_pydict() == table.to_pydict()
        assert version.take([1, 0, 2], columns=["c"]).to_pydict() == table.take([1, 0, 2]).to_pydict()
    assert size_of_files(ours) <= 1.05 * size_of_files(theirs) + OVERHEAD


def test_versions_without_sparse_structure_refuse_it(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("c", pa.int64(), metadata={"lance-encoding:structural-encoding": "sparse"})])
    for version in ("2.1", "2.2"):
        with pytest.raises(InvalidOptionError, match=r"'c'.*2\.3 is"):
            Dataset.write(str(tmp_path / "t"), pa.table([[1, None]], schema=schema), data_storage_version=version)


def test_a_new_table_in_2_3_logs_that_it_is_unstable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"a": [1]}), data_storage_version="2.3")
    assert [record.levelname for record in caplog.records if "2.3 is unstable" in record.message] == ["WARNING"]
    caplog.clear()
    Dataset.write(uri, pa.table({"a": [2]}), "append")
    assert not caplog.records


def test_every_change_keeps_the_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3, 4], "t": ["a", None, "c", "d"], "l": [[1, 1], [1], [], None]})
    lance.write_dataset(rows, uri, data_storage_version="2.3")
    Dataset.write(uri, pa.table({"id": [5], "t": ["e"], "l": [[1]]}), "append")
    table = Dataset.open(uri).update({"t": "'new'"}, "id = 2").delete("id = 1")
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        pa.table({"id": [5, 6], "t": ["merged"] * 2, "l": [[2]] * 2})
    )
    table = Dataset.open(uri).add_columns({"n": "id + 1"})
    files = [file for fragment in table.snapshot.manifest.fragments for file in fragment.files]
    table.optimize.compact_files()
    table = Dataset.open(uri)
    files += [file for fragment in table.snapshot.manifest.fragments for file in fragment.files]
    assert {str(file.storage_version) for file in files} == {"2.3"}
    expected = [(2, "new", [1], 3), (3, "c", [], 4), (4, "d", None, 5), (5, "merged", [2], 6), (6, "merged", [2], 7)]
    for found in (table.to_table(), lance.dataset(uri).to_table()):
        assert sorted(tuple(row[name] for name in ("id", "t", "l", "n")) for row in found.to_pylist()) == expected
    lance.dataset(uri).validate()
    overwritten = Dataset.write(uri, rows, "overwrite")
    assert overwritten.snapshot.manifest.data_format == lance.dataset(uri).data_storage_version == "2.3"


def test_blobs_and_json_are_read_by_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    blobs = [b"x" * 100, None, b"y" * 200_000, b""]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    documents = pa.array([json.dumps({"a": i}) for i in range(4)], pa.json_())
    table = pa.table(
        [range(4), pa.array(blobs, pa.large_binary()), documents], schema=pa.schema([("id", pa.int64()), field, ("j", pa.json_())])
    )
    ours = Dataset.write(uri, table, data_storage_version="2.3")
    assert ours.to_table(["b"])["b"].to_pylist() == blobs
    theirs = lance.dataset(uri)
    found = theirs.take_blobs("b", indices=[0, 1, 2, 3])
    assert [None if blob is None else blob.readall() for blob in found] == blobs
    assert [json.loads(text) for text in theirs.to_table(columns=["j"])["j"].to_pylist()] == [{"a": i} for i in range(4)]
