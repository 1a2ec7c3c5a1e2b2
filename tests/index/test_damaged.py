"""Damaged, missing and untrustworthy index files: the filter finds the rows that a scan finds, and a warning says why."""

from __future__ import annotations

import logging
import random
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.index.files import IndexFiles
from lance_spark.index.row_sets import parse_row_addresses, parse_treemap
from lance_spark.metadata.fragment import IndexMetadata

FILTERS = ("k = 7", "k IS NULL", "k > 15", "s = 'v3'", "s IN ('v1', 'v2')", "k = 7 AND s = 'v3'")
ROWS = 900
Change = Callable[[IndexMetadata], IndexMetadata]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three fragments with a BTREE on k and a BITMAP on s."""
    path = tmp_path_factory.mktemp("damaged") / "t.lance"
    rows = pa.table({"k": [None if i % 9 == 0 else i % 20 for i in range(ROWS)], "s": [f"v{i % 6}" for i in range(ROWS)]})
    lance.write_dataset(rows, path, max_rows_per_file=300)
    lance.dataset(path).create_scalar_index("k", "BTREE")
    lance.dataset(path).create_scalar_index("s", "BITMAP")
    return path


def copied(indexed: Path, to: Path, change: Change) -> tuple[Dataset, list[Path]]:
    """A copy of the table whose segments have new names, so that nothing is known of them, and their files."""
    shutil.copytree(indexed, to)
    table = Dataset.open(to)
    segments, files = [], []
    for segment in table.snapshot.manifest.indexes:
        renamed = replace(segment, uuid=uuid.uuid4().bytes)
        folder = to / "_indices" / str(uuid.UUID(bytes=renamed.uuid))
        (to / "_indices" / str(uuid.UUID(bytes=segment.uuid))).rename(folder)
        files += sorted(folder.iterdir())
        segments.append(change(renamed))
    manifest = replace(table.snapshot.manifest, indexes=tuple(segments))
    return Dataset(replace(table.snapshot, manifest=manifest)), files


def same_rows(table: Dataset) -> None:
    """Check that all filters find the same rows with and without the indexes."""
    for text in FILTERS:
        plain = table.scan(filter=text, use_scalar_index=False).to_table()
        assert table.scan(filter=text).to_table() == plain, text
        assert table.count_rows(text) == plain.num_rows, text


def without_sizes(segment: IndexMetadata) -> IndexMetadata:
    return replace(segment, files=())


def test_a_segment_without_recorded_files_and_version_is_used(indexed: Path, tmp_path: Path) -> None:
    table, _ = copied(indexed, tmp_path / "t.lance", lambda s: replace(s, files=(), index_version=None, created_at=None))
    same_rows(table)
    assert "k_idx (BTREE), s_idx (BITMAP)" in table.scan(filter="k = 7 AND s = 'v3'").explain()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: replace(s, fragment_bitmap=b""), "it does not say which fragments it covers"),
        (lambda s: replace(s, index_version=9), "its version is 9"),
        (lambda s: replace(s, dataset_version=99), "it was built from version 99"),
        (lambda s: replace(s, base_id=4), "base path 4"),
        (lambda s: replace(s, fields=(1 - s.fields[0],)), "expected"),
        (lambda s: replace(s, fragment_bitmap=b"\x00garbage"), "is not a roaring bitmap"),
        (lambda s: replace(s, files=tuple(replace(f, size=f.size + 1) for f in s.files)), "bytes, found"),
    ],
)
def test_a_segment_that_cannot_be_right_is_unused_with_a_warning(
    indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Change, reason: str
) -> None:
    table, _ = copied(indexed, tmp_path / "t.lance", change)
    with caplog.at_level(logging.WARNING):
        same_rows(table)
    assert reason in caplog.text
    assert "indexes: none" in table.scan(filter="k = 7").explain()


def test_a_missing_file_leaves_the_segment_unused(indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, files = copied(indexed, tmp_path / "t.lance", lambda s: s)
    for file in files:
        file.unlink()
    same_rows(table)
    assert "page_data.lance" in caplog.text
    assert "bitmap_page_lookup.lance" in caplog.text


def test_files_of_another_index_are_refused(indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lookup file of fewer pages, and data with too few rows."""
    lance.write_dataset(pa.table({"k": range(30)}), tmp_path / "other.lance").create_scalar_index("k", "BTREE")
    table, files = copied(indexed, tmp_path / "t.lance", without_sizes)
    for file in files:
        for other in (tmp_path / "other.lance" / "_indices").rglob(file.name):
            shutil.copy(other, file)
    same_rows(table)
    assert "expected at least 900 rows, found 30" in caplog.text


def test_damaged_files_give_the_rows_of_a_scan_or_an_error_of_ours(indexed: Path, tmp_path: Path) -> None:
    """Flipped, lost and added bytes: never a crash, and never an error that is not ours. There are no checksums to tell wrong rows."""
    rng = random.Random(5)
    for number in range(24):
        table, files = copied(indexed, tmp_path / f"{number}.lance", without_sizes)
        file = rng.choice(files)
        data = bytearray(file.read_bytes())
        if number % 4 == 0:
            data = data[: rng.randrange(len(data))]
        elif number % 4 == 1:
            data += bytes(rng.randrange(1, 40))
        else:
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data)
        for text in FILTERS:
            try:
                table.scan(filter=text).to_table()
                table.scan(filter=text).explain()
            except LanceError:
                pass


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff" * 40, b"\x01\0\0\0\x07\0\0\0\xff\xff\xff\x7f", b"\x02\0\0\0" + b"\0" * 16])
def test_hostile_sets_of_rows_are_refused(data: bytes) -> None:
    with pytest.raises(LanceError):
        parse_row_addresses(data, {}, "a set")
    with pytest.raises(LanceError):
        parse_treemap(data, "a set")


def test_rows_outside_of_the_fragments_are_not_read(indexed: Path, tmp_path: Path) -> None:
    """A segment that says that it covers fragments that do not exist."""
    table, _ = copied(indexed, tmp_path / "t.lance", lambda s: replace(s, fragment_bitmap=BitMap([0, 2, 3, 70]).serialize()))
    same_rows(table)
    assert "of 600, in 2 of 2 fragments" in table.scan(filter="s = 'v3'").explain()


def test_numbers_in_metadata_are_checked(indexed: Path) -> None:
    table = Dataset.open(indexed)
    segment = table.snapshot.manifest.indexes[0]
    store, folder = table.snapshot.locations.index_folder(segment)
    file = IndexFiles(store, folder, table.snapshot.manifest.schema.fields[0], {}).open("page_lookup.lance")
    with pytest.raises(LanceError, match="expected a number in the metadata 'range_partitioned'"):
        file.number("range_partitioned")
    with pytest.raises(LanceError, match="global buffer 4096 does not exist"):
        file.buffer("batch_size")
