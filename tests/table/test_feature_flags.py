"""Tables with feature flags of newer writers: pylance and ours read and change them in turn, and the flags stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Reading, SpilledColumn, read_fragment
from lance_spark.metadata.locations import Locations, managed_blob
from lance_spark.metadata.manifest import LENGTH, TAIL
from lance_spark.metadata.row_ids import load_sequence

pytestmark = [pytest.mark.spec("table.md", "Versioning"), pytest.mark.spec("format-document.md", "Feature Flags")]

ROWS = pa.table({"id": [1, 2, 3, 4], "s": ["a", "b", "c", "d"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS, uri, max_rows_per_file=2)
    return uri


def set_flags(uri: str, reader: int, writer: int) -> None:
    """Set the feature flags in the manifest of the only version."""
    (path,) = Path(uri, "_versions").glob("*.manifest")
    data = path.read_bytes()
    position, *numbers = TAIL.unpack(data[-TAIL.size :])
    (size,) = LENGTH.unpack_from(data, position)
    message = pb.Manifest.FromString(data[position + LENGTH.size : position + LENGTH.size + size])
    message.reader_feature_flags, message.writer_feature_flags = reader, writer
    changed = message.SerializeToString()
    path.write_bytes(data[:position] + LENGTH.pack(len(changed)) + changed + TAIL.pack(position, *numbers))


@pytest.mark.parametrize("flag", [256, 1024, 16384])
def test_flags_of_both_stay_through_changes_of_both(flag: int, uri: str) -> None:
    set_flags(uri, flag, flag)
    table = Dataset.open(uri)
    table.create_scalar_index("id", "BTREE")
    Dataset.write(uri, ROWS.slice(0, 1), "append")
    lance.write_dataset(ROWS.slice(1, 1), uri, mode="append")
    Dataset.open(uri).delete("id = 4").update({"s": "'x'"}, "id = 3")
    Dataset.open(uri).optimize.compact_files()
    lance.dataset(uri).delete("id = 1")
    found = Dataset.open(uri)
    assert (found.snapshot.manifest.reader_flags & flag, found.snapshot.manifest.writer_flags & flag) == (flag, flag)
    assert sorted(found.to_table()["s"].to_pylist()) == sorted(lance.dataset(uri).to_table()["s"].to_pylist()) == ["b", "b", "x"]
    assert found.to_table(filter="id = 2").num_rows == lance.dataset(uri).to_table(filter="id = 2").num_rows == 2
    lance.dataset(uri).validate()


@pytest.mark.parametrize("flag", [256, 1024, 16384])
@pytest.mark.parametrize("is_reader", [True, False], ids=["reader", "writer"])
def test_half_of_a_pair_is_refused_by_both(flag: int, is_reader: bool, uri: str) -> None:
    set_flags(uri, flag * is_reader, flag * (not is_reader))
    with pytest.raises(ValueError, match="corrupt"):
        lance.dataset(uri)
    with pytest.raises(CorruptFileError, match=str(flag)):
        Dataset.open(uri)


@pytest.mark.parametrize("flag", [64, 512, 4096, 8192])
def test_others_are_refused_by_name(flag: int, uri: str) -> None:
    set_flags(uri, flag, flag)
    with pytest.raises(UnsupportedFeatureError, match=str(flag)):
        Dataset.open(uri)


BITS = [1 << i for i in range(18)]
STABLE_ROW_IDS = 2


def does(folder: Path, flags: int, by_pylance: bool) -> str:
    """What a library does with a table whose manifest has these flags for readers and writers."""
    uri = str(folder / f"{flags}-{by_pylance}.lance")
    # Row ids come with their flag, else pylance looks for them in vain.
    lance.write_dataset(ROWS, uri, max_rows_per_file=2, enable_stable_row_ids=bool(flags & STABLE_ROW_IDS))
    set_flags(uri, flags, flags)
    try:
        found = lance.dataset(uri).to_table() if by_pylance else Dataset.open(uri).to_table()
    except (ValueError, OSError, UnsupportedFeatureError):
        return "refuses"
    assert found.equals(ROWS)
    try:
        lance.write_dataset(ROWS, uri, mode="append") if by_pylance else Dataset.write(uri, ROWS, "append")
    except (ValueError, OSError, UnsupportedFeatureError):
        return "reads"
    assert lance.dataset(uri).count_rows() == Dataset.open(uri).count_rows() == 8
    lance.dataset(uri).validate()
    return "reads and writes"


@pytest.mark.parametrize("flag", BITS)
def test_a_flag_and_all_pairs_with_it_are_accepted_or_refused_as_by_pylance(flag: int, tmp_path: Path) -> None:
    pairs = [flag | other for other in BITS if other >= flag]
    assert {p: does(tmp_path, p, False) for p in pairs} == {p: does(tmp_path, p, True) for p in pairs}


ACCEPTED = [1, 2, 4, 8, 16, 32, 128, 256, 1024, 2048, 16384]


def verbs(flags: int, uri: str) -> None:
    """All verbs on a table with these flags, which pylance finds valid after each of them."""
    lance.write_dataset(ROWS, uri, max_rows_per_file=2, enable_stable_row_ids=bool(flags & STABLE_ROW_IDS))
    set_flags(uri, flags, flags)
    for name in sorted(CHANGES, key="dropped column".__eq__):  # others need the column
        CHANGES[name](Dataset.open(uri))
        lance.dataset(uri).validate()
        found, stays = Dataset.open(uri), flags & (2 | 256 | 1024 | 16384)
        assert found.snapshot.manifest.reader_flags & found.snapshot.manifest.writer_flags & stays == stays
        assert sorted(map(str, found.to_table().to_pylist())) == sorted(map(str, lance.dataset(uri).to_table().to_pylist()))


@pytest.mark.parametrize("flags", [*ACCEPTED, sum(ACCEPTED)])
def test_tables_are_valid_after_each_verb(flags: int, tmp_path: Path) -> None:
    verbs(flags, str(tmp_path / "t.lance"))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [a | b for a, b in itertools.combinations(ACCEPTED, 2)])
def test_tables_with_two_flags_are_valid_after_each_verb(flags: int, tmp_path: Path) -> None:
    verbs(flags, str(tmp_path / "t.lance"))


@pytest.mark.parametrize("flag", [32, 128, 2048, 32 | 128 | 2048 | 16384])
def test_flags_that_follow_from_what_a_table_has_are_as_pylance_sets_them(flag: int, uri: str) -> None:
    set_flags(uri, flag, flag)
    assert Dataset.open(uri).to_table().equals(ROWS)
    found = Dataset.write(uri, ROWS, "append").snapshot.manifest
    assert (found.reader_flags, found.writer_flags) == (flag & 16384, flag & 16384)
    lance.dataset(uri).delete("id = 2")
    assert Dataset.open(uri).delete("id = 1").count_rows() == lance.dataset(uri).count_rows() == 4
    lance.dataset(uri).validate()


LINEAGE = ["id", "s", "_row_created_at_version", "_row_last_updated_at_version"]


def spilled(uri: str) -> Dataset:
    """A table whose row ids and versions are in hidden columns of data files, in one that has nothing else, too."""
    dataset = lance.write_dataset(ROWS, uri, max_rows_per_file=2, enable_stable_row_ids=True)
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
    lance.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).update({"s": "'new'"}, "id = 2")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update({"s": "'newer'"}, "id = 3")
    table = Dataset.open(uri)
    assert table.snapshot.manifest.reader_flags & table.snapshot.manifest.writer_flags & 2048
    return table


def lineage(table: Any) -> list[str]:
    return sorted(map(str, table.scan(columns=LINEAGE, with_row_id=True).to_table().select([*LINEAGE, "_rowid"]).to_pylist()))


def theirs(uri: str) -> list[str]:
    return sorted(map(str, lance.dataset(uri).to_table(columns=LINEAGE, with_row_id=True).select([*LINEAGE, "_rowid"]).to_pylist()))


CHANGES: dict[str, Callable[[Dataset], Any]] = {
    "append": lambda t: Dataset.write(t.uri, ROWS, "append"),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"s": "'z'"}, "id = 2 OR id = 4"),
    "merge": lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(ROWS.slice(1, 1)),
    "new column": lambda t: t.add_columns({"n": "id + 1"}),
    "dropped column": lambda t: t.drop_columns(["id"]),
    "compaction": lambda t: t.optimize.compact_files(),
    "index": lambda t: t.create_scalar_index("id", "BTREE"),
    "restored": lambda t: t.checkout_version(t.version - 2).restore(),
    "cleanup": lambda t: t.cleanup_old_versions(timedelta(0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_row_lineage_in_data_files_is_read_and_kept(change: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = spilled(uri)
    assert lineage(table) == theirs(uri)
    assert table.verify().problems == ()
    CHANGES[change](table)
    if change == "dropped column":
        left = ["s", "_row_created_at_version"]
        ours = Dataset.open(uri).scan(columns=left, with_row_id=True).to_table().select([*left, "_rowid"])
        assert ours.equals(lance.dataset(uri).to_table(columns=left, with_row_id=True).select([*left, "_rowid"]))
    else:
        assert lineage(Dataset.open(uri)) == theirs(uri)
    lance.dataset(uri).validate()


def test_hidden_columns_are_not_read_before_they_are_needed(tmp_path: Path) -> None:
    table = spilled(str(tmp_path / "t.lance"))
    columns = [f.row_ids for f in table.snapshot.manifest.fragments if isinstance(f.row_ids, SpilledColumn)]
    assert columns
    assert table.to_table().num_rows == table.count_rows("id > 0") == 8
    kept = table.snapshot.locations.kept
    unread = object()
    assert all(kept.get(("spilled", column), lambda: unread, lambda _: 0) is unread for column in columns)


def test_hidden_columns_that_are_missing_are_errors(tmp_path: Path) -> None:
    message = pb.DataFragment(id=1, physical_rows=3, spilled_row_ids=pb.SpilledSequence())
    with pytest.raises(CorruptFileError, match="0 columns -3"):
        read_fragment(message, Reading())
    table = spilled(str(tmp_path / "t.lance"))
    column = next(f.row_ids for f in table.snapshot.manifest.fragments if isinstance(f.row_ids, SpilledColumn))
    with pytest.raises(CorruptFileError, match="column -3 has"):
        load_sequence(replace(column, rows=column.rows + 1), table.snapshot.locations)
    with pytest.raises(UnsupportedFeatureError, match="cannot be read here"):
        load_sequence(column, Locations(table.snapshot.store))


def test_changes_are_found_when_row_ids_move_into_the_manifest(tmp_path: Path) -> None:
    table = spilled(str(tmp_path / "t.lance"))
    changed = table.update({"s": "'last'"}, "id = 4")
    assert not changed.snapshot.manifest.reader_flags & 2048
    found = changed.changes(table.version, changed.version).to_table()
    assert sorted(set(found["id"].to_pylist())) == [4]
    assert found.num_rows == 2 * 2


BLOBS = [b"x" * 100, b"y" * 200_000, b"z" * 5_000_000, None, b""]


def managed(uri: str) -> Dataset:
    """A table whose large blobs are in files of their own in a folder of the table."""
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")], metadata={"lance.blob.managed": "true"})
    rows = pa.table([pa.array(range(5)), lance.blob_array(BLOBS)], schema=schema)
    lance.write_dataset(rows, uri, data_storage_version="2.2")
    table = Dataset.open(uri)
    assert table.snapshot.manifest.reader_flags == 16384
    assert len([*Path(uri, "_blobs").iterdir()]) == 2
    return table


def blobs_of_pylance(uri: str) -> list[bytes | None]:
    dataset: Any = lance.dataset(uri)
    found = dataset.take_blobs("blob", indices=list(range(dataset.count_rows())))
    return [None if blob is None else blob.readall() for blob in found]


def test_managed_blobs_are_read_and_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = managed(uri)
    assert table.to_table(["blob"])["blob"].to_pylist() == BLOBS
    found = table.take_blobs("blob", indices=[1, 2])
    assert found[1] is not None
    found[1].seek(4_999_999)
    assert [blob.read() for blob in found if blob is not None] == [BLOBS[1], b"z"]
    assert table.verify().problems == ()
    Dataset.write(uri, table.to_table(), "append")
    Dataset.open(uri).delete("id = 0")
    assert Dataset.open(uri).to_table(["blob"])["blob"].to_pylist() == BLOBS[1:] * 2
    assert blobs_of_pylance(uri) == Dataset.open(uri).to_table(["blob"])["blob"].to_pylist()
    # pylance leaves the blobs beside the data files that it has replaced.
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert sorted(map(str, Dataset.open(uri).to_table(["blob"])["blob"].to_pylist())) == sorted(map(str, BLOBS[1:] * 2))
    Dataset.open(uri).optimize.compact_files()
    assert sorted(map(str, blobs_of_pylance(uri))) == sorted(map(str, BLOBS[1:] * 2))
    lance.dataset(uri).validate()


def test_managed_blobs_are_in_clones(tmp_path: Path) -> None:
    table = managed(str(tmp_path / "t.lance"))
    Dataset.write(table.uri, table.to_table(), "append")
    lance.dataset(table.uri).optimize.compact_files()
    table = Dataset.open(table.uri)
    for kind in ("deep", "shallow"):
        clone = str(tmp_path / f"{kind}.lance")
        getattr(table, f"{kind}_clone")(clone)
        assert Dataset.open(clone).to_table(["blob"])["blob"].to_pylist() == BLOBS * 2
        assert blobs_of_pylance(clone) == BLOBS * 2


def test_a_managed_blob_elsewhere_is_refused() -> None:
    for path in ("data/x.lance", "_blobs/../data/x.blob", "/etc/x.blob", "x.blob"):
        with pytest.raises(CorruptFileError):
            managed_blob(path)
