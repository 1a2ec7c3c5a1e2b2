"""The contents of a file without its values: pages, their sizes, and their encodings with the names of the specification."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_spark._proto import encodings_v2_0_pb2 as pb20
from lance_spark.errors import LanceError
from lance_spark.file.contents import Contents
from lance_spark.file.data_file import open_data_file
from lance_spark.file.page_encoding import page_encoding
from lance_spark.reading.steps import Column, Page
from lance_spark.storage.store import Store
from tests.layouts.data import written_by_pylance

VERSIONS = ["legacy", "2.0", "2.1", "2.2", "2.3"]
ROWS = pa.table(
    {
        "i": pa.array(range(3000), pa.int32()),
        "b": pa.array([i % 3 == 0 for i in range(3000)]),
        "s": [f"text {i * 7919 % 10007}" for i in range(3000)],
        "l": pa.array([list(range(i % 4)) for i in range(3000)], pa.list_(pa.int64())),
        "d": pa.array([f"group {i % 3}" for i in range(3000)]).dictionary_encode(),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12_000, dtype="f4")), 4),
    }
)


def size(contents: Contents, *numbers: int) -> int:
    return sum(page.size for number in numbers for page in contents.pages[number])


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_and_metadata_do_not_exceed_the_file_and_hold_all_rows(version: str, tmp_path: Path) -> None:
    reader, _ = written_by_pylance(ROWS, tmp_path / "t.lance", version)
    contents = reader.contents()
    total = size(contents, *contents.pages) + contents.metadata_size
    assert 0.7 * reader.counts.bytes < total <= reader.counts.bytes
    assert sum(page.num_rows for page in contents.pages[0]) == 3000
    assert not [page for pages in contents.pages.values() for page in pages if "unknown" in page.encoding]


def test_a_legacy_file_has_plain_values_offsets_and_dictionaries(tmp_path: Path) -> None:
    reader, _ = written_by_pylance(ROWS, tmp_path / "t.lance", "legacy")
    contents = reader.contents()
    ids = {f.name: f.id for f in reader.schema.walk()}
    batches = len(contents.pages[ids["i"]])
    assert size(contents, ids["i"]) == 12_000
    assert size(contents, ids["v"]) == 48_000
    assert size(contents, ids["s"]) == sum(len(s) for s in ROWS["s"].to_pylist()) + 8 * (3000 + batches)
    assert size(contents, ids["l"]) == 4 * (3000 + batches)
    encodings = {name: {page.encoding for page in contents.pages[ids[name]]} for name in ("i", "s", "l", "d")}
    assert encodings["i"] == {"plain"}
    assert encodings["s"] == {"var-binary"}
    assert encodings["l"] == {"plain offsets"}
    assert encodings["d"] == {"plain indices", "var-binary dictionary"}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_sizes_of_metadata_are_those_that_pylance_counts(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, data_storage_version=version)
    (path,) = Path(uri, "data").iterdir()
    expected = LanceFileReader(str(path)).metadata()
    contents = open_data_file(Store(uri), f"data/{path.name}").contents()
    tables = 16 * (len(expected.columns) + len(expected.global_buffers)) + 40
    # pylance's number of bytes of column metadata has the offset table in it.
    assert contents.metadata_size <= expected.num_column_metadata_bytes + expected.num_global_buffer_bytes + tables
    assert contents.metadata_size >= expected.num_column_metadata_bytes + expected.num_global_buffer_bytes
    assert [len(pages) for pages in contents.pages.values()] == [len(column.pages) for column in expected.columns]


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_anywhere_in_the_metadata_is_one_of_our_errors(version: str, tmp_path: Path) -> None:
    written_by_pylance(ROWS.slice(0, 50), tmp_path / "t.lance", version)
    (path,) = (tmp_path / "t.lance" / "data").iterdir()
    data = bytearray(path.read_bytes())
    start, rng, read = max(0, len(data) - 4000), random.Random(0), 0
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(start, len(data))] = rng.randrange(256)
        path.write_bytes(broken)
        try:
            contents = open_data_file(Store(str(path.parent)), path.name).contents()
        except LanceError:
            continue
        assert all(page.size >= 0 for pages in contents.pages.values() for page in pages)
        read += 1
    assert 0 < read < 300


def test_an_encoding_that_cannot_be_read_is_named_as_far_as_it_can_be() -> None:
    column = Column((), (), "", b"")
    struct = pb20.ArrayEncoding(struct=pb20.SimpleStruct()).SerializeToString()
    assert page_encoding(Page(0, 1, (), "lance.encodings.ArrayEncoding", struct), column) == "struct"
    assert page_encoding(Page(0, 1, (), "lance.encodings.ArrayEncoding", b"\xff"), column) == "unknown encoding"
    assert page_encoding(Page(0, 1, (), "lance.encodings.ArrayEncoding", b""), column) == "unknown encoding"
    assert page_encoding(Page(0, 1, (), "lance.encodings21.PageLayout", b"\xff"), column) == "unknown encoding"
    assert page_encoding(Page(0, 1, (), "lance.encodings99.PageLayout", b""), column) == "unknown encoding"
