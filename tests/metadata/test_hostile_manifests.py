"""Manifests are untrusted: paths outside of the table are refused, and all numbers are checked."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError, MissingFileError, UnsupportedFeatureError
from lance_spark.metadata.deletion_file import serialise_deletions
from lance_spark.metadata.manifest import BasePath, DeletionFile, ExternalFile, Fragment, IndexMetadata, Manifest, serialise
from lance_spark.metadata.row_ids import serialise_version, with_row_id_range
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import list_versions, open_snapshot

ROWS = pa.table({"a": pa.array(range(10), pa.int64())})
Change = Callable[[Manifest], Manifest]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table, and beside it another one with a file that must not be read."""
    for name in ("t", "other"):
        lance.write_dataset(ROWS, str(tmp_path / name))
        lance.dataset(str(tmp_path / name)).delete("a = 3")
    os.link(next((tmp_path / "other/data").iterdir()), tmp_path / "secret.lance")
    return str(tmp_path / "t")


def fragments(change: Callable[[Fragment], Fragment]) -> Change:
    return lambda manifest: replace(manifest, fragments=tuple(change(f) for f in manifest.fragments))


def file(**changes: object) -> Change:
    return fragments(lambda f: replace(f, files=(replace(f.files[0], **changes),)))  # type: ignore[arg-type]


def deletion(**changes: object) -> Change:
    def change(f: Fragment) -> Fragment:
        assert f.deletion is not None
        return replace(f, deletion=replace(f.deletion, **changes))  # type: ignore[arg-type]

    return fragments(change)


def base(path: str, is_root: bool = True, name: str = "secret.lance") -> Change:
    def change(manifest: Manifest) -> Manifest:
        return replace(file(path=name, base_id=1)(manifest), base_paths=(BasePath(1, path, is_root),))

    return change


def spoilt(uri: str, change: Change) -> Dataset:
    snapshot = open_snapshot(Store(uri))
    Store(uri).put(snapshot.path, serialise(change(snapshot.manifest)))
    return Dataset.open(uri)


def refused(dataset: Dataset, error: type[LanceError], words: str) -> None:
    """Reading, counting with a filter and taking raise the error, and `verify` reports it."""
    for read in (lambda: dataset.scan().to_table(), lambda: dataset.count_rows("a > 1"), lambda: dataset.take([1])):
        with pytest.raises(error, match=words):
            read()
    assert not dataset.verify().ok


def unusable(dataset: Dataset, words: str) -> None:
    """All operations on the rows fail, including append and count."""
    uses = (lambda: dataset.scan().to_table(), dataset.count_rows, lambda: Dataset.write(dataset.uri, ROWS, "append"))
    for use in (*uses, lambda: dataset.delete("a = 1"), lambda: dataset.take([1])):
        with pytest.raises(CorruptFileError, match=words):
            use()
    assert Dataset.open(dataset.uri).version == dataset.version


OUTSIDE = ("../../secret.lance", "x/../../../secret.lance", "{parent}/secret.lance", "file://{parent}/secret.lance", "s3://bucket/x", "")


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_of_data_files_stay_in_the_table(uri: str, path: str) -> None:
    refused(spoilt(uri, file(path=path.format(parent=Path(uri).parent))), CorruptFileError, "outside of the table")


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("{parent}/x/../", CorruptFileError, "not absolute"),
        ("../", CorruptFileError, "not absolute"),
        ("other", CorruptFileError, "not absolute"),
        ("s3://bucket/x", UnsupportedFeatureError, "another store"),
        ("memory://x", UnsupportedFeatureError, "another store"),
        ("ftp://host/x", UnsupportedFeatureError, "ftp"),
    ],
)
def test_base_paths_are_absolute_and_in_the_tables_store(uri: str, path: str, error: type[LanceError], words: str) -> None:
    refused(spoilt(uri, base(path.format(parent=Path(uri).parent), is_root=False)), error, words)


def test_missing_and_circular_base_paths_are_errors(uri: str) -> None:
    """A base path is a folder and not another manifest, so there are no cycles."""
    refused(spoilt(uri, lambda m: replace(file(base_id=1)(m), base_paths=())), CorruptFileError, "not registered")
    own = spoilt(uri, lambda m: replace(file(base_id=1)(m), base_paths=(BasePath(1, uri, True), BasePath(2, f"{uri}/tree/x", True))))
    assert own.count_rows("a >= 0") == 9


@pytest.mark.parametrize("size", [1, 2**40, 2**63])
def test_wrong_file_sizes_are_refused(uri: str, size: int) -> None:
    refused(spoilt(uri, file(size=size)), CorruptFileError, "bytes")


@pytest.mark.parametrize("rows", [9, 11, 2**31, 2**32])
def test_wrong_row_counts_are_refused(uri: str, rows: int) -> None:
    dataset = spoilt(uri, fragments(lambda f: replace(f, physical_rows=rows, deletion=None)))
    refused(dataset, CorruptFileError, "rows")


@pytest.mark.parametrize("change", [{"id": 2**32}, {"physical_rows": 2**33}, {"physical_rows": 2**63}])
def test_numbers_beyond_row_addresses_are_refused(uri: str, change: dict[str, int]) -> None:
    unusable(spoilt(uri, fragments(lambda f: replace(f, **change))), "fragment")  # type: ignore[arg-type]


@pytest.mark.parametrize("deleted", [2**32 + 1, 2**63, 2**64 - 1])
def test_impossible_numbers_of_deleted_rows_are_refused(uri: str, deleted: int) -> None:
    dataset = spoilt(uri, deletion(num_deleted=deleted))
    unusable(dataset, "rows, expected at most")
    fragments_first = Dataset.open(uri)
    with pytest.raises(CorruptFileError, match="rows, expected at most"):
        list(fragments_first.snapshot.manifest.fragments)


@pytest.mark.parametrize("columns", [(-5,), (1000,), (2**31 - 1,)])
def test_missing_columns_are_refused(uri: str, columns: tuple[int, ...]) -> None:
    dataset = spoilt(uri, file(column_indices=columns))
    if columns[0] < 0:
        assert dataset.scan().to_table()["a"].null_count == 9  # a column in no file is null
    else:
        refused(dataset, CorruptFileError, "column")


def test_deletion_files_of_other_tables_are_refused(uri: str, tmp_path: Path) -> None:
    store, other = Store(uri), Store(str(tmp_path / "other"))
    theirs = open_snapshot(other).manifest.fragments[0].deletion
    assert theirs is not None
    refused(spoilt(uri, lambda m: fragments(lambda f: replace(f, deletion=theirs))(m)), MissingFileError, "_deletions")
    _, rows = serialise_deletions(np.array([3, 99], np.uint32))
    store.put(DeletionFile(False, 1, 7, 2).path(0), rows)
    refused(spoilt(uri, deletion(read_version=1, id=7, is_bitmap=False, num_deleted=2)), CorruptFileError, "row 99")
    refused(spoilt(uri, deletion(num_deleted=5)), CorruptFileError, "5")
    in_other_store = BasePath(4, "s3://bucket/other", True)
    foreign = spoilt(uri, lambda m: replace(deletion(base_id=4)(m), base_paths=(in_other_store,)))
    refused(foreign, UnsupportedFeatureError, "another store")


@pytest.mark.parametrize("path", ["../secret.lance", "/etc/passwd", "s3://bucket/x"])
def test_row_ids_are_read_from_the_table_only(uri: str, path: str) -> None:
    def change(manifest: Manifest) -> Manifest:
        ids = ExternalFile(path, 0, 10)
        return replace(fragments(lambda f: replace(f, row_ids=ids))(manifest), reader_flags=manifest.reader_flags | 2)

    with pytest.raises(CorruptFileError, match="outside of the table"):
        spoilt(uri, change).scan(["_rowid"], with_row_id=True).to_table()


@pytest.mark.parametrize("position", [0, 16, 2**31, 2**63, 2**64 - 1])
def test_positions_beyond_the_file_are_refused(uri: str, position: int) -> None:
    store, path = Store(uri), open_snapshot(Store(uri)).path
    data = store.read(path)
    store.put(path, data[:-16] + position.to_bytes(8, "little") + data[-8:])
    with pytest.raises(CorruptFileError, match="manifest"):
        Dataset.open(uri)


def test_cleaning_up_never_deletes_outside_the_table(uri: str, tmp_path: Path) -> None:
    spoilt(uri, base(str(tmp_path), is_root=False))
    before = sorted(str(p) for p in tmp_path.rglob("*") if not p.is_relative_to(uri))
    Dataset.write(uri, ROWS, "overwrite").cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert sorted(str(p) for p in tmp_path.rglob("*") if not p.is_relative_to(uri)) == before


@pytest.mark.parametrize(
    "unknown", [b"\x18\x01", b"\x1d" + bytes(4), b"\x0a\x01x", b"\x21" + bytes(8)], ids=["deletion", "deletion32", "id", "rows"]
)
def test_fields_of_the_wrong_wire_type_are_not_ignored(uri: str, unknown: bytes) -> None:
    """Protobuf treats them as unknown fields of a newer writer, so a deleted row would reappear."""
    unusable(spoilt(uri, fragments(lambda f: replace(f, deletion=None, unknown=unknown))), "wire type")


def test_fragments_without_data_files_are_refused(uri: str) -> None:
    dataset = spoilt(uri, fragments(lambda f: replace(f, files=(), deletion=None)))
    unusable(dataset, "no data files")
    with pytest.raises(CorruptFileError, match="no data files"):
        dataset.take_rows([1])
    with pytest.raises((OSError, ValueError), match="does not contain any data"):
        lance.dataset(uri).to_table()
    assert Dataset.open(uri, version=1).restore().count_rows() == 10


@pytest.mark.parametrize("naming", ["V1", "V2"])
def test_a_manifest_of_another_version_than_its_name_says_is_refused(tmp_path: Path, naming: str) -> None:
    uri = str(tmp_path / naming)
    for _ in range(3):
        lance.write_dataset(ROWS, uri, mode="append", enable_v2_manifest_paths=naming == "V2")
    store = Store(uri)
    versions = list_versions(store)
    store.put(versions[3], store.read(versions[2]))
    before = files(uri)
    uses = (lambda: Dataset.open(uri), lambda: Dataset.write(uri, ROWS, "append"), lambda: Dataset.open(uri, version=2).versions())
    for use in (*uses, lambda: Dataset.open(uri, version=2).delete("a = 1"), lambda: Dataset.open(uri, version=2).restore()):
        with pytest.raises(CorruptFileError, match=f"{versions[3]}: the manifest has version 2, expected 3"):
            use()
    assert files(uri) == before


def test_detached_versions_are_not_in_the_history(uri: str) -> None:
    store, detached = Store(uri), 2**63 + 5
    latest = Dataset.open(uri)
    content = serialise(replace(latest.snapshot.manifest, version=detached))
    store.put(f"_versions/d{detached}.manifest", content)
    assert [v.version for v in latest.versions()] == [1, 2]
    assert Dataset.write(uri, ROWS, "append").version == 3
    store.put("_versions/18446744073709551000.manifest", content)
    with pytest.raises(CorruptFileError, match="expected 615"):
        Dataset.open(uri)


def files(uri: str) -> dict[str, bytes]:
    """All files of a table."""
    return {str(p): p.read_bytes() for p in Path(uri).rglob("*") if p.is_file()}


@contextmanager
def little_memory() -> Iterator[None]:
    """Limit the process to half a gigabyte of additional memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 29), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


MANY = 2**32 - 5


def stable(uri: str, **changes: Any) -> Dataset:
    """The table with stable row ids, and other fragments."""

    def with_flags(m: Manifest) -> Manifest:
        return replace(m, reader_flags=m.reader_flags | 2, writer_flags=m.writer_flags | 2)

    return spoilt(uri, lambda m: with_flags(fragments(lambda f: replace(f, **changes))(m)))


def reads(dataset: Dataset) -> list[Callable[[], object]]:
    def first(columns: list[str]) -> pa.RecordBatch:
        return next(dataset.scan(columns).to_batches())

    return [
        lambda: dataset.scan().to_table(),
        lambda: dataset.count_rows("a > 1"),
        lambda: dataset.take([1, 2**31]),
        lambda: dataset.take_rows([1, 2**31]),
        lambda: dataset.delete("a = 1"),
        lambda: first(["_rowaddr"]),
        lambda: first(["_rowid", "_row_created_at_version", "_row_last_updated_at_version", "a"]),
    ]


@pytest.mark.parametrize("deleted", ["few", "half"])
def test_fictitious_rows_take_no_memory(uri: str, deleted: str) -> None:
    for read in reads(Dataset.open(uri))[:2]:
        read()  # compiles what it needs
    if deleted == "half":
        bitmap = BitMap()
        bitmap.add_range(7, 2**31)
        file = DeletionFile(True, 1, 7, len(bitmap))
        Store(uri).put(file.path(0), bitmap.serialize())
        dataset = spoilt(uri, fragments(lambda f: replace(f, physical_rows=MANY, deletion=file)))
    else:
        dataset = spoilt(uri, fragments(lambda f: replace(f, physical_rows=MANY)))
    for read in reads(dataset):
        with little_memory(), pytest.raises(CorruptFileError, match=f"rows.*{MANY}|deleted rows"):
            read()
    assert not dataset.verify().ok
    assert Dataset.open(uri).version == dataset.version


def test_row_ids_and_versions_of_fictitious_rows_take_no_memory(uri: str) -> None:
    versions = serialise_version(1, MANY)
    dataset = stable(
        uri, physical_rows=MANY, row_ids=with_row_id_range(b"", 0, MANY), created_at=versions, updated_at=versions, deletion=None
    )
    with little_memory():
        for read in reads(dataset):
            with pytest.raises(CorruptFileError, match=f"rows.*{MANY}"):
                read()
    ids = stable(uri, physical_rows=10, row_ids=with_row_id_range(b"", 0, 2**60), deletion=None)
    for read in (lambda: ids.take_rows([5]), lambda: next(ids.scan(["_rowid"]).to_batches())):
        with little_memory(), pytest.raises(CorruptFileError, match=f"found {2**60} row ids; expected 10"):
            read()


@pytest.mark.parametrize("uuid", [b"", b"short", bytes(17)])
def test_an_invalid_index_uuid_is_refused(uri: str, uuid: bytes) -> None:
    index = IndexMetadata(uuid, "by_a", (0,), 1)
    with pytest.raises(CorruptFileError, match=f"index 'by_a' has a uuid of {len(uuid)} bytes; expected 16"):
        spoilt(uri, lambda manifest: replace(manifest, indexes=(index,)))


def test_a_data_file_of_another_version_than_the_manifest_says_is_refused(uri: str) -> None:
    refused(spoilt(uri, file(version=(1, 2))), CorruptFileError, r"version 2\.\d in its footer, but 1\.2 in the manifest")
    assert spoilt(uri, file(version=(0, 0))).count_rows("a >= 0") == 9  # old writers do not say it


@pytest.mark.parametrize("timestamp", [253_402_300_800 * 10**9, 2**62 * 10**9, -(2**40) * 10**9])
def test_times_outside_the_calendar_are_refused_on_access(uri: str, timestamp: int) -> None:
    dataset = spoilt(uri, lambda m: replace(m, timestamp=timestamp))
    assert dataset.count_rows("a >= 0") == 9
    for use in (dataset.versions, dataset.history, lambda: Dataset.open(uri, timestamp="2100-01-01")):
        with pytest.raises(CorruptFileError, match="outside the years 1 to 9999"):
            use()
    assert Dataset.write(uri, ROWS, "append").count_rows() == 19


def test_times_before_1970_are_supported(uri: str) -> None:
    dataset = spoilt(uri, lambda m: replace(m, timestamp=-1_500_000_001))
    assert dataset.versions()[-1].timestamp == datetime(1969, 12, 31, 23, 59, 58, 499999, tzinfo=UTC)


@pytest.mark.parametrize("bitmap", [b"x", b"\xff" * 40, b"\x3a\x30\0\0\1\0\0\0"], ids=repr)
def test_invalid_index_bitmaps_are_refused_on_access(uri: str, bitmap: bytes) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")

    def change(manifest: Manifest) -> Manifest:
        return replace(manifest, indexes=tuple(replace(i, fragment_bitmap=bitmap) for i in manifest.indexes))

    dataset = spoilt(uri, change)
    assert dataset.count_rows("a >= 0") == 9
    before = files(uri)
    with pytest.raises(CorruptFileError, match="fragment bitmap of index 'a_idx' is not a roaring bitmap"):
        dataset.delete("a = 1")
    assert files(uri).keys() - before.keys() <= {p for p in files(uri) if "/_versions/" not in p}
    assert Dataset.open(uri).version == dataset.version


def test_an_index_of_all_possible_fragments_is_fast(uri: str) -> None:
    """A few bytes of a bitmap represent 2^32 fragments."""
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    everything = BitMap().flip(0, 2**32).serialize()
    dataset = spoilt(uri, lambda m: replace(m, indexes=tuple(replace(i, fragment_bitmap=everything) for i in m.indexes)))
    with little_memory():
        assert dataset.delete("a = 1").count_rows() == 8
