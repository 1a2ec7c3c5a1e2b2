"""Damage to our manifests and deletion files raises an error; files of other writers, without checksums, are read as before."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.metadata.checksum import verify_checksum, with_checksum
from lance_spark.metadata.manifest import parse
from tests.file.damage import changed, flipped

TRIES = 5 * settings().max_examples


def test_any_flipped_bit_of_a_file_with_a_checksum_is_found() -> None:
    data = with_checksum(b"before", b"after")
    verify_checksum(data, 6)
    for bit in range(8 * len(data)):
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError, match="0x"):
            verify_checksum(bytes(spoilt), 6)


@pytest.mark.parametrize("position", [-1, 0, 3, 100])
def test_files_without_checksums_are_not_verified(position: int) -> None:
    verify_checksum(b"some other content", position)


def table(tmp_path: Path, deleted: int) -> str:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"i": range(30_000)}), max_rows_per_file=20_000)
    Dataset.open(uri).delete(f"i % 10 = 3 AND i < {10 * deleted}")
    return uri


def latest(uri: str) -> Path:
    return Path(uri, Dataset.open(uri).snapshot.path)


def outcome(uri: str, expected: pa.Table) -> str:
    try:
        return "same" if Dataset.open(uri).scan().to_table().equals(expected) else "wrong"
    except LanceError:
        return "error"


@pytest.mark.parametrize("deleted", [100, 2900], ids=["arrow", "bitmap and arrow"])
def test_flipped_bits_of_manifests_and_deletion_files_give_no_wrong_rows(deleted: int, tmp_path: Path) -> None:
    uri = table(tmp_path, deleted)
    expected = Dataset.open(uri).scan().to_table()
    assert expected.num_rows == 30_000 - deleted
    rng = random.Random(deleted)
    files = [latest(uri), *Path(uri, "_deletions").iterdir()]
    for path in files:
        content = path.read_bytes()
        found = []
        for bit in rng.sample(range(8 * len(content)), min(8 * len(content), TRIES)):
            with changed(path, bit // 8, flipped(path, bit)):
                found.append(outcome(uri, expected))
        assert "wrong" not in found, path
        assert found.count("error") > 0.99 * len(found), path
    assert outcome(uri, expected) == "same"


def test_a_damaged_deletion_file_is_read_without_verification(tmp_path: Path) -> None:
    uri = table(tmp_path, 100)
    (path,) = Path(uri, "_deletions").iterdir()
    at = path.read_bytes().index((993).to_bytes(4, "little"))
    with changed(path, at, (994).to_bytes(4, "little")):
        with pytest.raises(CorruptFileError, match=rf"{path.name}.*CRC-32C"):
            Dataset.open(uri).scan().to_table()
        rows = Dataset.open(uri, verify_checksums=False).scan(filter="i > 990 AND i < 996").to_table()
        assert rows["i"].to_pylist() == [991, 992, 993, 995]
        (problem,) = Dataset.open(uri, verify_checksums=False).verify().problems
        assert problem.kind == "corrupt"
        assert "CRC-32C" in problem.message


def test_other_versions_stay_readable_beside_a_damaged_manifest(tmp_path: Path) -> None:
    uri = table(tmp_path, 100)
    with changed(latest(uri), 30, b"\xff\xff"):
        with pytest.raises(CorruptFileError, match=r"manifest.*restore it from a copy"):
            Dataset.open(uri)
        assert Dataset.open(uri, version=1).count_rows() == 30_000


def test_versions_of_other_writers_have_no_stale_checksums(tmp_path: Path) -> None:
    uri = table(tmp_path, 2900)
    theirs = lance.dataset(uri)
    assert theirs.count_rows() == 27_100
    theirs.update_config({"lance.auto_cleanup.interval": "1000"})
    lance.write_dataset(pa.table({"i": range(5)}), uri, mode="append")
    theirs = lance.dataset(uri)
    theirs.delete("i = 17")
    ours = Dataset.open(uri).delete("i = 18")
    assert ours.scan().to_table().equals(lance.dataset(uri).to_table())
    assert ours.count_rows() == 27_103
    assert ours.verify().ok
    marked = [
        b"LCRC-32C" in Path(uri, entry).read_bytes()
        for entry in sorted(f"_versions/{p.name}" for p in Path(uri, "_versions").glob("*.manifest"))
    ]
    assert marked == [True, False, False, False, True, True]  # newest first


def test_a_manifest_that_does_not_end_where_the_tail_begins_is_refused(tmp_path: Path) -> None:
    """As pylance does, so that no wrong position of it goes unnoticed."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"i": [1]}), uri)
    (path,) = Path(uri, "_versions").glob("*.manifest")
    data = path.read_bytes()
    with pytest.raises(CorruptFileError, match="tail"):
        parse(data[:-16] + b"\0" + data[-16:], path.name)
