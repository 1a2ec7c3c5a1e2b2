"""What a lookup reads, counted by the store: the pages that the index names, and the rows in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset

ROWS = 400_000
TAIL = 64 << 10
"""What is read of the end of a file at first, which has its metadata."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one fragment in random order, with a BTREE index of 98 pages."""
    path = tmp_path_factory.mktemp("bytes") / "t.lance"
    rng = np.random.default_rng(3)
    lance.write_dataset(pa.table({"id": rng.permutation(ROWS), "v": rng.random(ROWS)}), path)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    return path


def bytes_read(path: Path, read: Callable[[Dataset], object]) -> int:
    """The bytes that a call reads after the table was opened."""
    table = Dataset.open(path)
    counters = table.snapshot.store.counters
    before = counters.bytes_read
    read(table)
    return counters.bytes_read - before


def test_a_lookup_reads_a_page_of_the_index_and_the_row(path: Path) -> None:
    (folder,) = (path / "_indices").iterdir()
    page = (folder / "page_data.lance").stat().st_size * 4096 / ROWS
    lookup = (folder / "page_lookup.lance").stat().st_size
    named = page + lookup
    first = bytes_read(path, lambda table: table.count_rows("id = 77"))
    assert lookup < first <= TAIL + 2 * named, "the first lookup also reads the end of the index's file"
    # The pages stay in memory, so only the row is read: the end of its file, and one chunk of each column.
    again = bytes_read(path, lambda table: table.scan(filter="id = 77").to_table())
    assert again <= TAIL + 2 * named
    scanned = bytes_read(path, lambda table: table.scan(filter="id = 77", use_scalar_index=False).to_table())
    assert scanned > 10 * again


def test_an_open_table_reads_the_metadata_of_its_files_once(path: Path) -> None:
    ids = (1, 200_000, ROWS - 1)
    Dataset.open(path).count_rows(f"id IN {ids}")  # the pages of the index are in memory then
    table = Dataset.open(path)
    counters = table.snapshot.store.counters
    rows, read = [], []
    for i in ids:
        before = counters.bytes_read
        rows += table.scan(filter=f"id = {i}").to_table()["id"].to_pylist()
        read.append(counters.bytes_read - before)
    (data,) = (path / "data").iterdir()
    assert rows == list(ids)
    assert read[0] > TAIL
    assert max(read[1:]) <= 2 * 1024 * data.stat().st_size / ROWS, "a chunk of each column"


def test_a_list_of_ids_reads_their_pages_of_the_index_and_the_chunks_of_the_rows(path: Path) -> None:
    copy = path.with_name("copy.lance")  # of which nothing is in memory
    shutil.copytree(path, copy)
    ids = range(100, ROWS, ROWS // 20)
    (folder,), (data,) = (copy / "_indices").iterdir(), (copy / "data").iterdir()
    pages = (folder / "page_data.lance").stat().st_size * 4096 / ROWS * len(ids)
    chunks = data.stat().st_size * 1024 / ROWS * len(ids)
    condition = f"id IN ({', '.join(map(str, ids))})"
    first = bytes_read(copy, lambda table: table.scan(filter=condition).to_table())
    assert first <= 3 * TAIL + 2 * (pages + (folder / "page_lookup.lance").stat().st_size + chunks)
    again = bytes_read(copy, lambda table: table.scan(filter=condition).to_table())
    assert chunks / 2 < again <= TAIL + 2 * chunks, "the pages of the index are in memory"


def test_rows_are_counted_from_the_index_alone(path: Path) -> None:
    for file in (path / "data").iterdir():
        file.rename(file.with_suffix(".moved"))
    try:
        assert Dataset.open(path).count_rows("id BETWEEN 1000 AND 2000") == 1001
        assert Dataset.open(path).count_rows("id < 0") == 0
    finally:
        for file in (path / "data").iterdir():
            file.rename(file.with_suffix(".lance"))


def test_an_index_that_leaves_most_rows_is_not_used(path: Path) -> None:
    table = Dataset.open(path)
    assert "indexes: none" in table.scan(filter="id >= 100000").explain()
    assert "id_idx (BTREE)" in table.scan(filter="id >= 300000").explain()
    assert table.count_rows("id >= 100000") == 300_000
