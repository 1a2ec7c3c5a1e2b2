"""A few rows that an index found in each of many fragments are read together. Nobody sees it: all is as if each fragment is read alone."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file import together as files_together
from lance_spark.file import writer
from lance_spark.storage.store import Store
from lance_spark.table.scan import together
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from tests.table.scan.read_alone import alone, plain

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "small": pa.int16(),
    "float": pa.float64(),
    "text": pa.string(),
    "word": pa.string(),
    "bytes": pa.large_binary(),
    "flag": pa.bool_(),
    "same": pa.string(),
    "none": pa.int16(),
    "time": pa.timestamp("us"),
    "list": pa.list_(pa.int32()),
    "struct": pa.struct({"x": pa.int64(), "y": pa.string()}),
    "vector": pa.list_(pa.float32(), 4),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}
ROWS = 2500


def rows_of(part: int, rows: int = ROWS) -> pa.Table:
    """Rows of a fragment: those of every third have no nulls, so that their pages are encoded in another way."""
    chance = random.Random(part)
    share = 0.1 if part % 3 else 0.0
    ids = [part + 7 * i for i in range(rows)]
    chance.shuffle(ids)
    values: dict[str, list[Any]] = {
        "small": [chance.randrange(1000) for _ in ids],
        "float": [chance.random() for _ in ids],
        "text": [f"text {chance.randrange(1 << 30)} and some words that repeat" for _ in ids],
        "word": [chance.choice(["red", "green", "blue"]) for _ in ids],
        "bytes": [chance.randbytes(chance.randrange(30)) for _ in ids],
        "flag": [chance.random() < 0.5 for _ in ids],
        "same": ["the same" for _ in ids],
        "none": [None for _ in ids],
        "time": [chance.randrange(1 << 40) for _ in ids],
        "list": [[i % 7] * (i % 3) for i in ids],
        "struct": [{"x": i, "y": "y" * (i % 5)} for i in ids],
        "vector": [[float(i % 9)] * 4 for i in ids],
        "dictionary": [chance.choice(["a", "b"]) for _ in ids],
    }
    arrays = [pa.array([None if chance.random() < share else v for v in values[name]], TYPES[name]) for name in values]
    return pa.Table.from_arrays([pa.array(ids), *arrays], schema=pa.schema(TYPES))


def many(uri: str, by: str, version: str, count: int = 7, **options: Any) -> Dataset:
    """A table of `count` fragments with a BTREE of `id`, whose values are in each of seven in turn."""
    for part in range(count):
        if by == "ours":
            Dataset.write(uri, rows_of(part), "append" if part else "create", data_storage_version=version, **options)
        else:
            lance.write_dataset(rows_of(part), uri, mode="append" if part else "create", data_storage_version=version, **options)
    return Dataset.open(uri).create_scalar_index("id", "BTREE")


@pytest.fixture
def read_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files of each time that rows of several were read together."""
    read, files_read = files_together.read_few, list[int]()

    def counting(files: Any, *arguments: Any) -> Any:
        arrays = read(files, *arguments)
        files_read.append(0 if arrays is None else len(files))
        return arrays

    monkeypatch.setattr(files_together, "read_few", counting)
    return files_read


SOME = "id IN (" + ", ".join(str(i) for i in [*range(150), *range(1000, 17_000, 211)]) + ")"
"""A condition that rows of every fragment satisfy."""


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("by", ["ours", "pylance"])
def test_rows_are_those_of_each_fragment_in_order(
    tmp_path: Path, by: str, version: str, monkeypatch: pytest.MonkeyPatch, read_together: list[int]
) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, by, version).delete("id % 7 = 3 AND small < 700")
    expected = lance.dataset(uri).to_table(filter=SOME, with_row_address=True)
    found = Dataset.open(uri).scan(filter=SOME, with_row_address=True).to_table()
    assert expected.num_rows > 50
    assert plain(found).equals(plain(expected))
    assert read_together == [7]
    for columns in (["text", "_rowoffset", "id"], ["struct.y", "_rowid"], ["same", "word"], ["none", "_fragid"], ["_metadata", "flag"]):
        for condition in (SOME, "id IN (3, 103, 205, 306)", f"{SOME} AND flag", f"{SOME} AND text LIKE '%1%'", "id = -1"):
            scan: dict[str, Any] = {"columns": columns, "filter": condition}
            assert Dataset.open(uri).scan(**scan).to_table().equals(alone(uri, monkeypatch, **scan)), scan


def test_fragments_of_a_store_that_takes_long_are_read_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_together: list[int]
) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.2")
    expected = Dataset.open(uri).scan(filter=SOME).to_table()
    monkeypatch.setattr(Store, "is_remote", True)
    ds, threads = Dataset.open(uri), set[str]()
    read = Store.read_ranges

    def noting(store: Store, path: str, ranges: Any) -> Any:
        if path.startswith("data/"):
            threads.add(threading.current_thread().name)
        return read(store, path, ranges)

    monkeypatch.setattr(Store, "read_ranges", noting)
    assert ds.scan(filter=SOME).to_table().equals(expected)
    assert read_together == [7, 7]
    assert threading.main_thread().name not in threads


def test_rows_of_which_an_index_is_not_sure_are_read_together(tmp_path: Path, read_together: list[int]) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "pylance", "2.1").create_scalar_index("text", "NGRAM")
    condition = "contains(text, 'text 123') OR contains(text, '4567')"
    found = Dataset.open(uri).scan(["id", "text"], filter=condition).to_table()
    assert found.equals(lance.dataset(uri).to_table(["id", "text"], filter=condition))
    assert found.num_rows > 20
    assert read_together == [7]


def test_fragments_with_other_columns_are_read_with_those_like_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_together: list[int]
) -> None:
    uri = str(tmp_path / "t.lance")
    ds = many(uri, "ours", "2.1", 3, enable_stable_row_ids=True).add_columns({"twice": "2 * id", "struct2": "struct"})
    for part in (3, 4):
        ds = Dataset.write(uri, rows_of(part), "append")
    ds = ds.optimize.optimize_indices().update({"small": "7"}, where="id < 1000 AND small > 500")
    ds = ds.optimize.optimize_indices()
    columns = ["id", "twice", "struct2", "small", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    read_together.clear()
    found = ds.scan(columns=columns, filter=SOME).to_table()
    assert read_together == [3, 3, 2]  # the first ones have two files each
    assert found.equals(alone(uri, monkeypatch, columns=columns, filter=SOME))
    theirs = ["id", "twice", "struct2", "small"]
    by_id = [("id", "ascending")]
    assert found.select(theirs).sort_by(by_id).equals(lance.dataset(uri).to_table(columns=theirs, filter=SOME).sort_by(by_id))


def test_the_structure_of_a_struct_without_its_child_in_old_files_is_read(tmp_path: Path) -> None:
    uri, t = str(tmp_path / "t.lance"), pa.struct({"a": pa.int64()})
    for part in range(3):
        rows = pa.table({"id": range(part, 9000, 3), "s": pa.array([None if i % 2 else {"a": i} for i in range(3000)], t)})
        Dataset.write(uri, rows, "append" if part else "create")
    ds = Dataset.open(uri).create_scalar_index("id", "BTREE").add_columns(pa.schema({"s": pa.struct({"b": pa.int32()})}))
    condition = "id IN (0, 1, 2, 3, 4, 5)"
    found = ds.scan(columns=["id", "s.b"], filter=condition).to_table()
    assert found["s"].to_pylist() == [{"b": None}, None, {"b": None}, None, {"b": None}, None]


def test_several_pages_of_a_column_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_together: list[int]) -> None:
    uri = str(tmp_path / "t.lance")
    monkeypatch.setattr(writer, "PAGE_BYTES", 8000)
    monkeypatch.setattr(files_together, "_PAGE_BYTES", 8000)
    many(uri, "ours", "2.1", 4)
    condition = f"{SOME} OR id IN ({', '.join(map(str, range(10_000, 10_400)))})"
    found = Dataset.open(uri).scan(filter=condition).to_table()
    assert read_together == [4]
    assert plain(found).equals(plain(lance.dataset(uri).to_table(filter=condition)))


def test_batches_have_at_most_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1")
    batches = list(Dataset.open(uri).scan(columns=["id"], filter=SOME, batch_size=20).to_batches())
    assert max(batch.num_rows for batch in batches) <= 20
    assert pa.Table.from_batches(batches).equals(lance.dataset(uri).to_table(columns=["id"], filter=SOME))


def test_rows_that_may_be_large_are_read_in_fewer_fragments_at_once(tmp_path: Path, read_together: list[int]) -> None:
    uri = str(tmp_path / "t.lance")
    for part in range(3):
        # They are stored in few bytes.
        rows = pa.table({"id": range(part, 60, 3), "text": ["x" * 400_000 + str(i) for i in range(20)]})
        Dataset.write(uri, rows, "append" if part else "create")
    ds = Dataset.open(uri).create_scalar_index("id", "BTREE")
    condition = f"id IN ({', '.join(map(str, range(24)))})"
    assert ds.scan(filter=condition).to_table().equals(lance.dataset(uri).to_table(filter=condition))
    assert read_together == [0, 2]


def test_blobs_are_read_fragment_by_fragment(tmp_path: Path, read_together: list[int]) -> None:
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    for part in range(3):
        Dataset.write(uri, pa.table([range(part, 300, 3), [bytes([part]) * i for i in range(100)]], schema), "append" if part else "create")
    ds = Dataset.open(uri).create_scalar_index("id", "BTREE")
    found = ds.scan(filter="id IN (3, 4, 5, 100)").to_table()
    assert found.to_pydict() == {"id": [3, 4, 100, 5], "b": [b"\0", b"\1", b"\1" * 33, b"\2"]}
    assert not read_together


@pytest.mark.parametrize("at", [1000, -60])
def test_a_damaged_file_is_named(tmp_path: Path, at: int) -> None:
    uri = str(tmp_path / "t.lance")
    ds = many(uri, "ours", "2.1")
    (file,) = ds.snapshot.manifest.fragments[3].files
    path = Path(uri) / "data" / file.path
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=file.path):
        ds.scan(filter=SOME).to_table()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    ds = many(uri, "ours", "2.1")
    (file,) = ds.snapshot.manifest.fragments[3].files
    (Path(uri) / "data" / file.path).unlink()
    with pytest.raises(CorruptFileError, match=f"the data file .*/data/{file.path} is missing"):
        ds.scan(filter=SOME).to_table()


@pytest.mark.parametrize("by", ["ours", "pylance"])
def test_damage_that_no_checksum_finds_has_the_same_effect_as_on_one_fragment(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, chance = str(tmp_path / "t.lance"), random.Random(7)
    for part in range(4):
        rows = rows_of(part, 300).select(["id", "float", "text", "word", "flag", "small", "vector", "list"])
        if by == "ours":
            Dataset.write(uri, rows, "append" if part else "create", data_storage_version="2.1")
        else:
            lance.write_dataset(rows, uri, mode="append" if part else "create", data_storage_version="2.1")
    Dataset.open(uri).create_scalar_index("id", "BTREE")
    (file,) = Dataset.open(uri).snapshot.manifest.fragments[2].files
    path = Path(uri) / "data" / file.path
    sound = path.read_bytes()

    def found() -> pa.Table | str:
        try:
            return Dataset.open(uri, verify_checksums=False).scan(filter=SOME).to_table()
        except LanceError as e:
            return str(e)

    # The first two bytes are the word of the first chunk of `id`: this bit adds 16 KB to its size, more than the page has.
    bits = [(1, 7), *((chance.randrange(len(sound)), chance.randrange(8)) for _ in range(60))]
    for place, bit in bits:
        data = bytearray(sound)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        read = found()
        with monkeypatch.context() as patch:
            patch.setattr(together, "_MOST", 1)
            assert read == found()


def test_pages_and_bytes_are_counted_as_for_each_fragment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    many(uri, "ours", "2.1")

    def counts() -> tuple[int, ...]:
        cost, snapshot = Cost(), Dataset.open(uri).snapshot
        plan = ScanPlan(columns=("id", "text", "list", "struct"))
        for task in plan_tasks(snapshot, ScanPlan(plan.columns, plan.condition(snapshot, SOME))):
            list(task.read(cost))
        return cost.rows, cost.pages, cost.bytes, cost.counts.pages_read, cost.counts.bytes_read

    read = counts()
    monkeypatch.setattr(together, "_MOST", 1)
    assert read == counts()
    assert read[0] == np.isin(np.concatenate([rows_of(part)["id"].to_numpy() for part in range(7)]), _numbers()).sum()


def _numbers() -> list[int]:
    return [int(number) for number in SOME[len("id IN (") : -1].split(",")]
