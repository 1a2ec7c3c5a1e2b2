"""Columns that are read together have the values that each has if it is read alone, and errors name the column."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file import open_data_file
from lance_spark.layouts import read_alike
from lance_spark.reading.steps import Column, Page
from lance_spark.schema.schema import Field
from lance_spark.storage.store import Store
from tests.layouts.pages import flat

KINDS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int64(): lambda r: r.randrange(1 << r.choice([3, 20, 50])),
    pa.float32(): lambda r: float(r.randrange(1 << 20)),
    pa.string(): lambda r: str(r.random())[: r.randrange(20)],
    pa.large_binary(): lambda r: r.randbytes(r.randrange(40)),
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.timestamp("us"): lambda r: r.randrange(1 << 40),
    pa.list_(pa.float32(), 3): lambda r: [float(r.randrange(9))] * 3,
    pa.list_(pa.int8()): lambda r: [1] * r.randrange(3),
    pa.dictionary(pa.int8(), pa.string()): lambda r: r.choice(["a", "b"]),
}


def rows_of(count: int, columns: int = 5) -> pa.Table:
    """Several columns of each type, without and with nulls."""
    chance, found = random.Random(count), {}
    for t, value in KINDS.items():
        for i in range(2 * columns):
            share = chance.choice([0.02, 0.6]) if i >= columns else 0
            found[f"{t} {i}"] = pa.array([None if chance.random() < share else value(chance) for _ in range(count)], t)
    return pa.table(found)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("count", [1, 3, 100, 700])
def test_columns_read_together_have_their_values(tmp_path: Path, count: int, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, together, decoded = rows_of(count), list[int](), read_alike._Group._decoded

    def counting(group: Any, words: Any, chunks: Any) -> list[pa.Array]:
        together.append(len(words))
        return decoded(group, words, chunks)

    monkeypatch.setattr(read_alike._Group, "_decoded", counting)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    Dataset.write(ours, rows, data_storage_version=version)
    lance.write_dataset(rows, theirs, data_storage_version=version)
    for uri in (ours, theirs):
        ds = Dataset.open(uri)
        for wanted in (range(count), sorted(random.Random(1).sample(range(count), min(count, 5)))):
            found = ds.scan().to_table() if isinstance(wanted, range) else ds.take(wanted)
            found.validate(full=True)
            assert found.equals(rows.take(pa.array(wanted)))
        assert pa.Table.from_batches(ds.scan(batch_size=30).to_batches()).equals(rows)
    assert together or (count, version) == (1, "2.2"), "constant values have other pages"


@pytest.mark.parametrize("buffer", [0, 1])
def test_the_error_of_a_damaged_page_names_its_column(tmp_path: Path, buffer: int) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({f"c{i}": pa.array([f"{i} {j}" for j in range(99)]) for i in range(9)})
    lance.write_dataset(rows, uri)
    (path,) = (tmp_path / "t/data").iterdir()
    reader = open_data_file(Store(uri), f"data/{path.name}")
    (page,) = reader._columns(reader.schema.fields, {7: 7})[7].pages
    data = bytearray(path.read_bytes())
    data[page.buffers[buffer].start : page.buffers[buffer].start + 6] = b"\xff" * 6
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="column 'c7'"):
        Dataset.open(uri).scan().to_table()
    left = [f"c{i}" for i in range(9) if i != 7]
    assert Dataset.open(uri).scan(columns=left).to_table().equals(rows.select(left))


def test_the_error_of_a_false_number_of_levels_names_its_column(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({f"c{i}": pa.array([None if j % 2 else i * j for j in range(8)], pa.int64()) for i in range(9)})
    lance.write_dataset(rows, uri)
    (path,) = (tmp_path / "t/data").iterdir()
    (page,) = (
        open_data_file(Store(uri), f"data/{path.name}")
        ._columns(open_data_file(Store(uri), f"data/{path.name}").schema.fields, {7: 7})[7]
        .pages
    )
    data = bytearray(path.read_bytes())
    data[page.buffers[1].start : page.buffers[1].start + 2] = b"\x07\x00"
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="column 'c7'"):
        Dataset.open(uri).scan().to_table()


@pytest.mark.parametrize(("kind", "message"), [("lance.encodings21.PageLayout", b"\xff"), ("a.kind.of.later", b"")])
def test_pages_with_an_invalid_or_unknown_layout_are_read_alone(kind: str, message: bytes) -> None:
    page = Page(0, 3, (ByteRange(0, 2), ByteRange(2, 10)), kind, message)
    fields = [Field(f"c{i}", i, "int64") for i in range(9)]
    columns = {i: Column((page,), (), "", b"") for i in range(9)}
    assert not read_alike.open_alike(fields, columns, range(3), 3, lambda field: pytest.fail("no column is opened"))


def test_pages_of_zipped_values_are_read_alone() -> None:
    layout = pb.PageLayout(
        full_zip_layout=pb.FullZipLayout(
            bits_per_value=8, num_items=3, num_visible_items=3, value_compression=flat(8), layers=[pb.REPDEF_ALL_VALID_ITEM]
        )
    )
    page = Page(0, 3, (ByteRange(0, 3), ByteRange(3, 9)), "lance.encodings21.PageLayout", layout.SerializeToString())
    fields = [Field(f"c{i}", i, "int8") for i in range(9)]
    columns = {i: Column((page,), (), "", b"") for i in range(9)}
    assert not read_alike.open_alike(fields, columns, range(3), 3, lambda field: pytest.fail("no column is opened"))


def mini_blocks(items: int) -> Page:
    """A page of 16 bits a value with words of one chunk."""
    layout = pb.PageLayout(
        mini_block_layout=pb.MiniBlockLayout(value_compression=flat(16), layers=[pb.REPDEF_ALL_VALID_ITEM], num_buffers=1, num_items=items)
    )
    return Page(0, items, (), "lance.encodings21.PageLayout", layout.SerializeToString())


def values(*numbers: int) -> list[np.ndarray]:
    """The words and the chunks of such a page with a chunk of at most four numbers."""
    chunk = np.array([0, 2 * len(numbers), *[0] * 2, *numbers, *[0] * (4 - len(numbers))], "<u2")
    return [np.array([(chunk.nbytes // 8 - 1) << 4], "<u2").view(np.uint8), chunk.view(np.uint8)]


def test_pages_that_are_alike_have_their_values_one_after_the_other() -> None:
    path = (Field("a", 0, "uint16"),)
    pages = [(mini_blocks(2), values(1, 2)), (mini_blocks(3), values(3, 4, 5))]
    (alike,) = {read_alike.likeness(*page) for page in pages}
    assert alike is not None
    found = read_alike.decode_alike(path, alike, pages)
    assert found is not None
    assert found.to_pylist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("words", [b"", b"\x10"])
def test_pages_without_a_whole_chunk_word_are_read_alone(words: bytes) -> None:
    pages = [(mini_blocks(2), values(1, 2)), (mini_blocks(2), [np.frombuffer(words, np.uint8), values(1, 2)[1]])]
    alike = read_alike.likeness(*pages[0])
    assert alike is not None
    assert read_alike.decode_alike((Field("a", 0, "uint16"),), alike, pages) is None


def test_pages_with_a_long_layout_are_read_alone() -> None:
    page = mini_blocks(2)
    assert read_alike.likeness(replace(page, encoding=page.encoding * 1000), values(1, 2)) is None
