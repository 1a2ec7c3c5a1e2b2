"""Damage to a file that we wrote is found when the damaged bytes are read; files without checksums are read without verification."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from lance_spark.buffers.crc32c import MAGIC, crc32c
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.checksums import _TRAILER, BLOCK
from lance_spark.file.data_file import open_data_file
from lance_spark.file.footer import FOOTER
from lance_spark.file.source import open_sources
from lance_spark.storage.store import Store
from tests.file.damage import VERSIONS, Written, changed, every_type, flipped
from tests.sample import examples

TRIES = 10 * settings().max_examples
"""Damaged files in each test that counts: a thousand, in the full profile ten thousand."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """Tables with every type, encoding and location of values, in every version."""
    folder = tmp_path_factory.mktemp("written")
    return [Written(f"{folder}/{v} {name}", table, v) for v in VERSIONS for name, table in every_type(v).items()]


def data_file(table: Written) -> Path:
    (path,) = (p for p in table.paths if p.suffix == ".lance")
    return path


def parts(path: Path) -> dict[str, tuple[int, int]]:
    """The byte classes of a data file: where each part of it begins and ends."""
    data = path.read_bytes()
    size = len(data)
    first_column, columns_at, buffers_at, num_buffers, *_ = FOOTER.unpack(data[-FOOTER.size :])
    fixed = size - FOOTER.size - _TRAILER.size
    _, start, stop, *_ = _TRAILER.unpack(data[fixed : fixed + _TRAILER.size])
    return {
        "pages": (0, start),
        "checksum table": (start, stop),
        "descriptor": (stop, first_column),
        "column metadata": (first_column, columns_at),
        "column metadata offsets": (columns_at, buffers_at),
        "global buffer offsets": (buffers_at, buffers_at + 16 * num_buffers),
        "trailer": (buffers_at + 16 * num_buffers, size - FOOTER.size),
        "footer": (size - FOOTER.size, size),
    }


PARTS = ["pages", "checksum table", "descriptor", "column metadata", "column metadata offsets", "global buffer offsets"]


@pytest.mark.parametrize("part", [*PARTS, "trailer", "footer"])
def test_every_flipped_bit_is_an_error_whatever_it_belongs_to(part: str, written: list[Written]) -> None:
    rng = random.Random(part)
    for table in written:
        path = data_file(table)
        start, stop = parts(path)[part]
        for bit in rng.sample(range(8 * start, 8 * stop), min(8 * (stop - start), examples(20))):
            with changed(path, bit // 8, flipped(path, bit)):
                assert table.read() == "error", f"{path}: bit {bit}"
        assert table.read() == "same"


def test_every_flipped_bit_of_a_sidecar_is_an_error(written: list[Written]) -> None:
    rng = random.Random(0)
    sidecars = [(table, path) for table in written for path in table.paths if path.suffix == ".blob"]
    assert len(sidecars) == 3
    for table, path in sidecars:
        for bit in rng.sample(range(8 * path.stat().st_size), 50):
            with changed(path, bit // 8, flipped(path, bit)):
                assert table.read() == "error", f"{path}: bit {bit}"


def damaged(table: Written, rng: random.Random) -> Iterator[tuple[Path, int, bytes]]:
    """Random changes of one of the table's files: the file, the position and the new bytes."""
    path = rng.choices(table.paths, [p.stat().st_size for p in table.paths])[0]
    data = path.read_bytes()
    way = rng.choice(("flip", "flip", "overwrite", "fill", "swap", "end"))
    if way == "flip":
        bit = rng.randrange(8 * len(data))
        yield path, bit // 8, flipped(path, bit)
    elif way == "swap":
        size = rng.choice((1, 8, 64, 512, 4096))
        a, b = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
        if abs(a - b) >= size:
            yield path, a, data[b : b + size]
            yield path, b, data[a : a + size]
    else:
        size = rng.choice((1, 2, 4, 8, 16, 64, 512))
        at = max(0, len(data) - size - rng.randrange(200)) if way == "end" else rng.randrange(len(data))
        yield path, at, (bytes(size) if way == "fill" else rng.randbytes(size))[: len(data) - at]


def test_fewer_than_one_in_a_thousand_damages_gives_wrong_rows(written: list[Written]) -> None:
    rng = random.Random(1)
    outcomes: Counter[str] = Counter()
    for _ in range(TRIES):
        table = rng.choice(written)
        originals = {path: path.read_bytes() for path in table.paths}
        for path, at, content in damaged(table, rng):
            with path.open("r+b") as f:
                os.pwrite(f.fileno(), content, at)
        is_changed = any(path.read_bytes() != data for path, data in originals.items())
        outcome = table.read()
        outcomes[outcome] += is_changed
        for path, data in originals.items():
            path.write_bytes(data)
    assert outcomes["wrong"] < outcomes.total() / 1000
    assert outcomes["error"] > 0.99 * outcomes.total()


def test_without_checking_about_half_of_all_flips_give_wrong_rows(written: list[Written]) -> None:
    """Shows that the test above can fail."""
    rng = random.Random(2)
    tables = [table for table in written if table.rows.num_columns < 10]
    outcomes: Counter[str] = Counter()
    for _ in range(TRIES // 10):
        table = rng.choice(tables)
        path = data_file(table)
        bit = rng.randrange(8 * path.stat().st_size)
        with changed(path, bit // 8, flipped(path, bit)):
            outcomes[table.read(verify_checksums=False)] += 1
    assert outcomes["wrong"] > 0.3 * outcomes.total()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_file_is_an_error_wherever_it_ends(version: str, tmp_path: Path) -> None:
    table = Written(str(tmp_path / "t"), every_type(version)["nulls"], version)
    path = data_file(table)
    data = path.read_bytes()
    for size in [*range(0, len(data), 97), *range(len(data) - 100, len(data))]:
        path.write_bytes(data[:size])
        with pytest.raises(LanceError):
            list(open_data_file(Store(table.uri), f"data/{path.name}").read((), {}, range(1), 1))


@pytest.fixture(scope="module", params=VERSIONS)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A table of several pages of many blocks each."""
    rng = np.random.default_rng(0)
    n = 20_000
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 128, dtype=np.float32)), 128)
    text = pa.array([f"row {i} of {n} {'x' * (i % 300)}" for i in range(n)])
    return Written(str(tmp_path_factory.mktemp("large") / "t"), pa.table({"i": np.arange(n), "v": vectors, "s": text}), request.param)


def test_damage_is_found_where_it_is_read_and_rows_elsewhere_stay_readable(large: Written) -> None:
    path = data_file(large)
    dataset, rng = Dataset.open(large.uri), random.Random(3)
    for _ in range(examples(16)):
        bit = rng.randrange(8 * parts(path)["pages"][1])
        with changed(path, bit // 8, flipped(path, bit)):
            good = failed = 0
            for row in rng.sample(range(large.rows.num_rows), 30):
                for name in large.rows.column_names:
                    try:
                        assert dataset.take([row], [name])[name].to_pylist() == large.rows[name].slice(row, 1).to_pylist()
                        good += 1
                    except CorruptFileError:
                        failed += 1
            assert good
            assert large.read() != "wrong"  # a scan does not need the index of rows that a lookup needs


def test_an_error_says_which_page_of_which_column_which_bytes_and_what_to_do(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"a": range(9000), "b": [f"text {i}" for i in range(9000)]}))
    (path,) = Path(uri, "data").iterdir()
    store, columns = Store(uri), {0: 0, 1: 1}
    reader = open_data_file(store, f"data/{path.name}")
    (page,) = reader._columns(reader.schema.fields, columns)[1].pages
    at = page.buffers[-1].stop - 1
    with changed(path, at, b"?"), pytest.raises(CorruptFileError) as e:
        Dataset.open(uri).scan().to_table()
    block = at // BLOCK * BLOCK
    for text in (f"data/{path.name}: page 0 of column 'b'", f"bytes {block} to ", "verify_checksums=False"):
        assert text in str(e.value)
    assert len(set(re.findall(r"0x[0-9a-f]{8}\b", str(e.value)))) == 2


def test_damaged_rows_are_read_without_verification(large: Written) -> None:
    path = data_file(large)
    with changed(path, 5000, b"\x00\x01"):
        assert large.read() == "error"
        assert large.read(verify_checksums=False) != "error"
        report = Dataset.open(large.uri, verify_checksums=False).verify()
    assert [(p.path, p.kind) for p in report.problems] == [(f"data/{path.name}", "corrupt")]
    assert "bytes 0 to 16384" in str(report)


def test_verifying_finds_damage_that_no_column_reads(large: Written) -> None:
    """Padding between the buffers of pages."""
    path = data_file(large)
    at = path.read_bytes().index(b"HHHH")
    with changed(path, at, b"h"):
        assert not Dataset.open(large.uri).verify().ok
    assert Dataset.open(large.uri).verify().ok


def test_a_point_lookup_reads_a_block_or_two_for_each_value(large: Written) -> None:
    rows = random.Random(4).sample(range(large.rows.num_rows), 50)
    counted = []
    for checks in (True, False):
        dataset = Dataset.open(large.uri, verify_checksums=checks)
        before = dataset.snapshot.store.counters.bytes_read, dataset.snapshot.store.counters.requests
        assert dataset.take(rows, ["v"]).equals(large.rows.select(["v"]).take(rows))
        after = dataset.snapshot.store.counters
        counted.append((after.bytes_read - before[0], after.requests - before[1]))
    (checked_bytes, checked_requests), (plain_bytes, plain_requests) = counted
    assert checked_requests <= plain_requests
    assert checked_bytes <= plain_bytes + 2 * BLOCK * (len(rows) + 1)


def test_a_scan_reads_hardly_more_than_without_checking(large: Written) -> None:
    read = []
    for checks in (True, False):
        dataset = Dataset.open(large.uri, verify_checksums=checks)
        before = dataset.snapshot.store.counters.bytes_read
        assert dataset.scan().to_table().num_rows == large.rows.num_rows
        read.append(dataset.snapshot.store.counters.bytes_read - before)
    assert read[0] < 1.02 * read[1]


def test_other_readers_ignore_checksums(written: list[Written]) -> None:
    for table in written:
        rows = lance.dataset(table.uri).scanner(blob_handling="all_binary").to_table()
        assert (rows.num_rows, rows.column_names) == (table.rows.num_rows, table.rows.column_names)
        if "leaves" not in table.uri:  # which have values that are not equal to themselves
            assert rows.to_pylist() == table.rows.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["reencode", "force_binary_copy"])
def test_rewriting_a_file_leaves_no_stale_checksum(mode: str, version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"i": range(4000), "s": [f"text {i}" for i in range(4000)]})
    Dataset.write(uri, table, data_storage_version=version, max_rows_per_file=1000)
    theirs = lance.dataset(uri)
    lance.write_dataset(table, uri, mode="append")
    if mode == "reencode":
        theirs = lance.dataset(uri)
        theirs.delete("i % 1000 = 7")
    lance.dataset(uri).optimize.compact_files(compaction_mode=mode)
    dataset = Dataset.open(uri)
    assert dataset.verify().ok
    assert dataset.scan().to_table().equals(lance.dataset(uri).to_table())
    store = dataset.snapshot.store
    files = [f"data/{file.path}" for fragment in dataset.snapshot.manifest.fragments for file in fragment.files]
    assert [source.checksums for source in open_sources(store, files)] == [None] * len(files)


@pytest.mark.parametrize("seed", range(200))
def test_a_hostile_trailer_raises_our_error(seed: int, tmp_path: Path) -> None:
    """A trailer with a valid checksum and invalid numbers."""
    table = Written(str(tmp_path / "t"), every_type("2.2")["blobs"], "2.2")
    path, rng = data_file(table), random.Random(seed)
    data = path.read_bytes()
    fixed = len(data) - FOOTER.size - _TRAILER.size
    numbers = list(_TRAILER.unpack(data[fixed : fixed + _TRAILER.size]))
    which = rng.randrange(1, 6)
    limit = 2**64 if which < 3 else 2**32
    numbers[which] = rng.choice([0, 1, numbers[which] + 1, numbers[which] - 1, numbers[which] * 2, limit - 1, limit // 2, 1 << 14]) % limit
    sums_at = max(0, fixed - 4 * numbers[4])
    head = data[sums_at:fixed] + _TRAILER.pack(*numbers)[:-4]
    checksum = crc32c(data[-FOOTER.size :], crc32c(head)).to_bytes(4, "little")
    path.write_bytes(data[:sums_at] + head + checksum + data[-FOOTER.size :])
    assert table.read() in ("error", "same")


def test_a_damaged_magic_number_still_says_that_there_are_checksums(tmp_path: Path) -> None:
    table = Written(str(tmp_path / "t"), every_type("2.1")["packed"], "2.1")
    path = data_file(table)
    at = path.read_bytes().rindex(MAGIC)
    for content in (b"?", b"LANC", b"\0\0\0\0"):
        with changed(path, at, content):
            assert table.read() == "error"


def test_a_lost_trailer_is_detected(written: list[Written]) -> None:
    for table in written:
        path = data_file(table)
        start, stop = parts(path)["trailer"]
        with changed(path, start, bytes(stop - start)):
            assert table.read() == "error"
            assert table.read(verify_checksums=False) == "same"
            (problem,) = Dataset.open(table.uri).verify().problems
            assert "no trailer" in problem.message


def test_checksums_survive_a_deep_clone(tmp_path: Path) -> None:
    table = Written(str(tmp_path / "t"), every_type("2.2")["nulls"], "2.2")
    clone = Dataset.open(table.uri).deep_clone(str(tmp_path / "clone"))
    shutil.rmtree(table.uri)
    (path,) = Path(clone.uri, "data").iterdir()
    assert clone.scan().to_table().equals(table.rows)
    with changed(path, 100, flipped(path, 800)), pytest.raises(CorruptFileError):
        clone.scan().to_table()
