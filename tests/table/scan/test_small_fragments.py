"""Fragments of few rows are read together. Nobody sees it: rows, addresses, errors and counts are those of each fragment alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.table.scan import together
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from tests.sample import others_slow
from tests.table.scan.read_alone import alone, plain

TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "f": pa.float32(),
    "s": pa.string(),
    "b": pa.bool_(),
    "same": pa.string(),
    "none": pa.int16(),
    "list": pa.list_(pa.int32()),
    "lists": pa.list_(pa.list_(pa.string())),
    "struct": pa.struct({"x": pa.int64(), "y": pa.string()}),
    "vector": pa.list_(pa.float32(), 4),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}


def row(chance: random.Random) -> dict[str, Any]:
    value = {
        "i": chance.randrange(1 << chance.choice([2, 20, 60])),
        "f": float(chance.randrange(1 << 20)),
        "s": "text " * chance.randrange(5) + str(chance.random()),
        "b": chance.random() < 0.5,
        "list": [chance.randrange(9)] * chance.randrange(3),
        "lists": [[str(chance.random()) for _ in range(chance.randrange(3))] for _ in range(chance.randrange(3))],
        "struct": {"x": chance.randrange(99), "y": "y" * chance.randrange(3)},
        "vector": [float(chance.randrange(9))] * 4,
        "dictionary": chance.choice(["a", "b"]),
    }
    nulls = [name for name in value if chance.random() < 0.1]
    return {**value, **dict.fromkeys(nulls), "same": "the same", "none": None}


def rows_of(seed: int) -> pa.Table:
    """A few rows; some tables have no nulls in them, and other tables have as many rows."""
    chance = random.Random(seed)
    rows = [row(chance) for _ in range(chance.choice([1, 10, chance.randrange(2, 60), 2500]))]
    return pa.Table.from_pylist(rows, pa.schema(TYPES))


def many(uri: str, writer: str, version: str, count: int = 40, **options: Any) -> None:
    """A table of `count` appends of few rows."""
    for i in range(count):
        if writer == "ours":
            Dataset.write(uri, rows_of(i), "append" if i else "create", data_storage_version=version, **options)
        else:
            lance.write_dataset(rows_of(i), uri, mode="append" if i else "create", data_storage_version=version, **options)


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("writer", ["ours", "pylance"])
def test_rows_are_those_of_each_fragment_in_order(tmp_path: Path, writer: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, writer, version)
    Dataset.open(uri).delete("i % 7 = 3 AND _rowaddr > 100000000000")
    expected = lance.dataset(uri).to_table(with_row_address=True)
    found = Dataset.open(uri).scan(with_row_address=True).to_table()
    assert plain(found).equals(plain(expected))
    for columns in (["s", "_rowoffset", "i"], ["struct.y", "_rowid"], ["same"], ["none", "_fragid"], ["_metadata", "b"]):
        for condition in (None, "i % 3 = 1", "s LIKE 'text text%' AND b", "none IS NULL", "i < 0"):
            scan: dict[str, Any] = {"columns": columns, "filter": condition}
            assert Dataset.open(uri).scan(**scan).to_table().equals(alone(uri, monkeypatch, **scan)), scan


def test_fragments_with_more_columns_than_others_are_read_with_those_like_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1", 5, enable_stable_row_ids=True)
    ds = Dataset.open(uri).add_columns({"twice": "2 * i"})
    for _ in range(5):
        ds = Dataset.write(uri, ds.scan(limit=3).to_table(), "append")
    columns = ["i", "twice", "_rowid", "_row_created_at_version"]
    found = ds.scan(columns=columns).to_table()
    assert found.equals(alone(uri, monkeypatch, columns=columns))
    assert found.equals(lance.dataset(uri).to_table(columns=columns))


def test_a_struct_whose_child_is_in_no_old_file_is_null_where_it_was(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for _ in range(5):
        rows = pa.array([{"a": 1}, None, {"a": 2}], pa.struct({"a": pa.int64()}))
        Dataset.write(uri, pa.table({"s": rows}), "append" if Path(uri).exists() else "create")
    ds = Dataset.open(uri).add_columns(pa.schema({"s": pa.struct({"b": pa.int32()})}))
    assert ds.scan(columns=["s.b"]).to_table()["s"].to_pylist() == 5 * [{"b": None}, None, {"b": None}]


def test_batches_have_at_most_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1", 20)
    batches = list(Dataset.open(uri).scan(columns=["i"], batch_size=50).to_batches())
    assert max(batch.num_rows for batch in batches) <= 50
    assert pa.Table.from_batches(batches).equals(lance.dataset(uri).to_table(columns=["i"]))


@pytest.mark.parametrize("at", [100, -60])
def test_a_damaged_file_is_named(tmp_path: Path, at: int) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1", 6)
    ds = Dataset.open(uri)
    (file,) = ds.snapshot.manifest.fragments[3].files
    path = Path(uri) / "data" / file.path
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=file.path):
        ds.scan(columns=["i", "s"]).to_table()
    with pytest.raises(CorruptFileError, match=file.path):
        ds.scan(columns=["s"], filter="i >= 0").to_table()


@pytest.mark.parametrize("writer", others_slow(["ours", "pylance"], ["pylance"]))
def test_damage_that_no_checksum_finds_has_the_same_effect_as_on_one_fragment(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, chance = str(tmp_path / "t.lance"), random.Random(7)
    for i in range(4):
        rows = rows_of(i).slice(0, 20).select(["i", "s", "b", "same", "vector", "list", "lists"])
        if writer == "ours":
            Dataset.write(uri, rows, "append" if i else "create")
        else:
            lance.write_dataset(rows, uri, mode="append" if i else "create", data_storage_version="2.1")
    (file,) = Dataset.open(uri).snapshot.manifest.fragments[2].files
    path = Path(uri) / "data" / file.path
    sound = path.read_bytes()

    def found() -> pa.Table | str:
        try:
            return Dataset.open(uri, verify_checksums=False).scan().to_table()
        except LanceError as e:
            return str(e)

    for _ in range(150):
        data = bytearray(sound)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        read = found()
        with monkeypatch.context() as patch:
            patch.setattr(together, "_MOST", 1)
            assert read == found()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1", 6)
    ds = Dataset.open(uri)
    (file,) = ds.snapshot.manifest.fragments[3].files
    (Path(uri) / "data" / file.path).unlink()
    with pytest.raises(CorruptFileError, match=f"the data file .*/data/{file.path} is missing"):
        ds.scan().to_table()


def test_pages_and_bytes_are_counted_as_for_each_fragment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1", 10)

    def counts() -> tuple[int, ...]:
        cost = Cost()
        for task in plan_tasks(Dataset.open(uri).snapshot, ScanPlan(columns=("i", "s", "list"))):
            list(task.read(cost))
        return cost.rows, cost.pages, cost.bytes, cost.counts.pages_read, cost.counts.bytes_read

    read = counts()
    monkeypatch.setattr(together, "_MOST", 1)
    assert read == counts()
