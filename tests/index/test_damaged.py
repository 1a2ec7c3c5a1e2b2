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
from hypothesis import settings
from lance.indices import IndexConfig
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.index.files import IndexFiles
from lance_spark.index.row_sets import parse_row_addresses, parse_treemap
from lance_spark.metadata.fragment import IndexMetadata

FILTERS = (
    *("k = 7", "k IS NULL", "k > 15", "s = 'v3'", "s IN ('v1', 'v2')", "k = 7 AND s = 'v3'"),
    *("z < 10", "z IS NULL", "contains(t, 'word 3')", "b = 3", "b IS NULL", "array_contains(l, 'x3')", "l IS NULL", "z = 4 AND b = 4"),
    *("contains(f, '3')", "contains(f, 'w') AND k = 7"),
)
KINDS = {"k": "BTREE", "s": "BITMAP", "z": "ZONEMAP", "t": "NGRAM", "b": "BLOOMFILTER", "l": "LABEL_LIST", "f": "FM"}
ROWS = 900
Change = Callable[[IndexMetadata], IndexMetadata]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three fragments with an index of each kind."""
    path = tmp_path_factory.mktemp("damaged") / "t.lance"
    columns = {
        "k": pa.array([None if i % 9 == 0 else i % 20 for i in range(ROWS)]),
        "s": pa.array([f"v{i % 6}" for i in range(ROWS)]),
        "z": pa.array([None if i % 50 == 0 else i / 9 for i in range(ROWS)]),
        "t": pa.array([None if i % 30 == 0 else f"some word {i % 40}" for i in range(ROWS)]),
        "b": pa.array([None if i > 850 else i // 9 for i in range(ROWS)], pa.int32()),
        "f": pa.array([None if i % 40 == 0 else f"w{i % 90}" for i in range(ROWS)]),
        "l": pa.array([None if i % 70 == 0 else [f"x{i % 8}", f"x{i % 3}"] for i in range(ROWS)]),
    }
    lance.write_dataset(pa.table(columns), path, max_rows_per_file=300)
    for column, kind in KINDS.items():
        lance.dataset(path).create_scalar_index(column, IndexConfig("fm", {}) if kind == "FM" else kind)
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
    assert "z_idx (ZONEMAP), b_idx (BLOOMFILTER)" in table.scan(filter="z = 4 AND b = 4").explain()
    assert "t_idx (NGRAM), l_idx (LABEL_LIST)" in table.scan(filter="contains(t, 'word 3') AND array_contains(l, 'x3')").explain()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: replace(s, fragment_bitmap=b""), "it does not say which fragments it covers"),
        (lambda s: replace(s, index_version=9), "its version is 9"),
        (lambda s: replace(s, dataset_version=99), "it was built from version 99"),
        (lambda s: replace(s, base_id=4), "base path 4"),
        (lambda s: replace(s, fields=((s.fields[0] + 1) % len(KINDS),)), "expected"),
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
    assert all("indexes: none" in table.scan(filter=text).explain() for text in FILTERS)


def test_nonsense_in_the_list_of_segments_never_gives_other_rows(indexed: Path, tmp_path: Path) -> None:
    """Random entries of segments: repeated, of other columns, fragments, versions and files, and several of them at once."""
    rng = random.Random(11)
    for number in range(300 if settings().max_examples > 100 else 6):
        table, _ = copied(indexed, tmp_path / f"{number}.lance", lambda s: s)
        segments = list(table.snapshot.manifest.indexes)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(segments))
            segments.append(rng.choice(NONSENSE)(segments[at], rng.choice(segments)))
            if rng.random() < 0.7:
                del segments[at]
        rng.shuffle(segments)
        manifest = replace(table.snapshot.manifest, indexes=tuple(segments))
        same_rows(Dataset(replace(table.snapshot, manifest=manifest)))


Swap = Callable[[IndexMetadata, IndexMetadata], IndexMetadata]
NONSENSE: tuple[Swap, ...] = (
    lambda s, _: s,
    lambda s, o: replace(s, name=o.name),
    lambda s, o: replace(s, uuid=o.uuid),
    lambda s, o: replace(s, uuid=o.uuid, files=()),
    lambda s, o: replace(s, details_type=o.details_type),
    lambda s, o: replace(s, details_type=o.details_type, files=o.files),
    lambda s, o: replace(s, details=o.details),
    lambda s, _: replace(s, details_type="/lance.table.UnheardOfIndexDetails"),
    lambda s, _: replace(s, details_type=""),
    lambda s, _: replace(s, fields=()),
    lambda s, _: replace(s, fields=(s.fields[0], 0)),
    lambda s, _: replace(s, fields=(4000,)),
    lambda s, _: replace(s, fields=(-1,)),
    lambda s, _: replace(s, fragment_bitmap=BitMap(range(1 << 32)).serialize()),
    lambda s, _: replace(s, fragment_bitmap=BitMap().serialize()),
    lambda s, _: replace(s, fragment_bitmap=BitMap([1]).serialize()),
    lambda s, _: replace(s, index_version=(1 << 31) - 1),
    lambda s, _: replace(s, dataset_version=0),
    lambda s, _: replace(s, dataset_version=(1 << 64) - 1),
    lambda s, _: replace(s, base_id=7),
    lambda s, _: replace(s, uuid=bytes(16)),
    lambda s, _: replace(s, files=tuple(replace(f, path="../" + f.path) for f in s.files)),
    lambda s, _: replace(s, files=tuple(replace(f, size=(1 << 63) - 1) for f in s.files)),
    lambda s, _: replace(s, name="__lance_frag_reuse"),
)


def test_a_missing_file_leaves_the_segment_unused(indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, files = copied(indexed, tmp_path / "t.lance", lambda s: s)
    for file in files:
        file.unlink()
    same_rows(table)
    for name in ("page_data", "bitmap_page_lookup", "zonemap", "bloomfilter", "ngram_postings"):
        assert f"{name}.lance" in caplog.text


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
    for number in range(36):
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
        for text in rng.sample(FILTERS, 5):
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
