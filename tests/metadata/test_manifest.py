"""Manifests round-trip without loss, and invalid bytes raise errors that name the file."""

import dataclasses
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_spark.metadata.manifest import (
    BasePath,
    DataFile,
    DeletionFile,
    ExternalFile,
    Fragment,
    IndexFile,
    IndexMetadata,
    Manifest,
    WriterVersion,
    check_writable,
    parse,
    parse_timestamp,
    serialise,
)
from lance_spark.schema.schema import from_arrow
from lance_spark.table.versions.snapshot import manifest_path

pytestmark = pytest.mark.spec("table.md", "Manifest")

SCHEMA = from_arrow(pa.schema([pa.field("id", pa.int64()), pa.field("s", pa.struct([("x", pa.string())]))], {"k": "v"}))

FILE = DataFile("c.lance", (0,))

FULL = Manifest(
    version=7,
    schema=SCHEMA,
    fragments=(
        Fragment(
            3,
            (DataFile("a.lance", (0, 2), (0, 1), (2, 1), 100, 4), DataFile("b.lance", (-2,), (0,), (2, 1))),
            10,
            DeletionFile(True, 6, 99, 4, 4),
            row_ids=b"ids",
            created_at=ExternalFile("v.bin", 5, 6),
            updated_at=b"updated",
        ),
        Fragment(4, (FILE,), 0, DeletionFile(False, 1, 1, None)),
    ),
    timestamp=1_700_000_000_123_456_789,
    reader_flags=1 | 2 | 16,
    writer_flags=1 | 2 | 8 | 16,
    max_fragment_id=4,
    next_row_id=20,
    data_format="2.1",
    config={"lance.x": "1"},
    table_metadata={"owner": "me"},
    base_paths=(BasePath(4, "/elsewhere", True, "v1"),),
    branch="feature/x",
    tag="t",
    writer=WriterVersion("lance", "1.2.3", "rc.1", None),
    transaction_file="6-u.txn",
    transaction=b"txn",
    indexes=(IndexMetadata(b"u" * 16, "i", (0,), 5, b"bits", "/kind", b"details", 1, 2, 4, (IndexFile("index.idx", 9),), (2,)),),
)


def message_of(data: bytes) -> pb.Manifest:
    (position,) = struct.unpack_from("<Q", data, len(data) - 16)
    (size,) = struct.unpack_from("<I", data, position)
    return pb.Manifest.FromString(data[position + 4 : position + 4 + size])


def file_of(message: bytes, before: bytes = b"") -> bytes:
    return before + struct.pack("<I", len(message)) + message + struct.pack("<QHH4s", len(before), 0, 2, b"LANC")


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field, as a newer writer would add."""
    return bytes([number << 3 & 0x7F | 2 | 0x80, number >> 4, len(content)]) + content


@pytest.mark.parametrize("manifest", [FULL, Manifest(version=1, schema=SCHEMA, data_format="2.0")], ids=["full", "empty"])
def test_a_manifest_round_trips(manifest: Any) -> None:
    assert parse(serialise(manifest), "m") == manifest


def test_pylance_reads_a_table_whose_manifest_was_rewritten(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    data = pa.table({"id": range(10), "s": [{"x": str(i)} for i in range(10)]})
    lance.write_dataset(data, uri)
    lance.dataset(uri).delete("id = 3")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    path = tmp_path / "t.lance" / manifest_path(3)
    again = dataclasses.replace(parse(path.read_bytes(), "m"), version=4)
    (tmp_path / "t.lance" / manifest_path(4)).write_bytes(serialise(again))
    seen = lance.dataset(uri)
    assert seen.version == 4
    assert seen.to_table() == data.filter(pa.compute.field("id") != 3)
    assert [i.name for i in seen.describe_indices()] == ["id_idx"]


def places(message: Any, fragment: Any) -> Any:
    """Messages of all levels."""
    below = [fragment, fragment.files[0], fragment.deletion_file, fragment.external_created_at_versions]
    return [message, *below, message.base_paths[0], message.fields[0]]


def test_unknown_fields_survive_a_rewrite_at_every_level() -> None:
    message = message_of(serialise(dataclasses.replace(FULL, transaction=None, indexes=())))
    fragment = pb.DataFragment.FromString(message.fragments[0])
    for i, place in enumerate(places(message, fragment)):
        place.MergeFromString(field(100 + i, b"new"))
    message.fragments[0] = fragment.SerializeToString()
    parsed = parse(file_of(message.SerializeToString()), "m")
    for manifest in (parsed, dataclasses.replace(parsed, fragments=tuple(parsed.fragments))):
        again = message_of(serialise(manifest))
        for i, place in enumerate(places(again, pb.DataFragment.FromString(again.fragments[0]))):
            assert field(100 + i, b"new") in place.SerializeToString(), type(place)


def test_positions_in_the_old_file_are_not_copied() -> None:
    message = pb.Manifest(version=1, version_aux_data=5)
    before = struct.pack("<I", 3) + b"txn"
    message.old_transaction_section = 0
    manifest = parse(file_of(message.SerializeToString(), before), "m")
    assert manifest.transaction == b"txn"
    again = message_of(serialise(dataclasses.replace(manifest, transaction=None)))
    assert not again.version_aux_data
    assert not again.HasField("old_transaction_section")
    assert not again.HasField("transaction_section")
    assert not again.HasField("index_section")


def test_dictionaries_of_old_tables_keep_their_position() -> None:
    f = dataclasses.replace(SCHEMA.fields[0], dictionary=(2, 3))
    manifest = dataclasses.replace(FULL, schema=dataclasses.replace(SCHEMA, fields=(f,)), dictionaries=b"0123456789")
    data = serialise(manifest)
    assert data[:10] == b"0123456789"
    assert parse(data, "m") == manifest


@pytest.mark.parametrize("flag", [64, 512, 1 << 40])
def test_unknown_reader_flags_refuse_reading(flag: Any) -> None:
    data = serialise(dataclasses.replace(FULL, reader_flags=flag | 1))
    with pytest.raises(UnsupportedFeatureError, match=rf"the/manifest.*{flag}"):
        parse(data, "the/manifest")


@pytest.mark.parametrize("flag", [256, 1024, 16384])
def test_a_table_with_half_of_a_pair_of_flags_is_corrupt(flag: int) -> None:
    for half in (dataclasses.replace(FULL, reader_flags=flag | 1), dataclasses.replace(FULL, writer_flags=flag | 1)):
        with pytest.raises(CorruptFileError, match=rf"is corrupt.*{flag}"):
            parse(serialise(half), "m")


@pytest.mark.parametrize("flag", [64, 512, 4096])
def test_unknown_writer_flags_refuse_writing_only(flag: Any) -> None:
    manifest = parse(serialise(dataclasses.replace(FULL, writer_flags=flag | 1)), "m")
    with pytest.raises(UnsupportedFeatureError, match=f"my table.*{flag}"):
        check_writable(manifest, "my table")
    check_writable(FULL, "my table")


@pytest.mark.parametrize(
    ("files", "flags", "expected"),
    [([], 0, "0.1"), ([], 4, "2.0"), ([(0, 0)], 0, "0.1"), ([(0, 2)], 0, "0.1"), ([(0, 3)], 0, "2.0"), ([(0, 3), (2, 1)], 0, "2.1")],
)
def test_an_unnamed_data_format_is_that_of_the_files(files: Any, flags: Any, expected: Any) -> None:
    message = pb.Manifest(version=1, writer_feature_flags=flags)
    for i, (major, minor) in enumerate(files):
        file = pb.DataFile(path="x", file_major_version=major, file_minor_version=minor)
        message.fragments.append(pb.DataFragment(id=i, files=[file]).SerializeToString())
    assert parse(file_of(message.SerializeToString()), "m").data_format == expected


def test_rows_are_unknown_when_a_writer_left_them_out() -> None:
    assert dataclasses.replace(FULL, fragments=FULL.fragments[:1]).num_rows == 6
    assert FULL.num_rows is None


def read_all(manifest: Manifest) -> None:
    """Fragments are parsed only on access."""
    assert manifest.num_rows is None or manifest.num_rows >= 0
    assert len(tuple(manifest.fragments)) == len(manifest.fragments)


def corrupt(**changes: Any) -> bytes:
    return serialise(dataclasses.replace(FULL, **changes))


GOOD = serialise(FULL)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "16 bytes"),
        (b"x" * 40, "at the end of a manifest"),
        (GOOD[:-16] + struct.pack("<QHH4s", len(GOOD), 0, 2, b"LANC"), "manifest starts at"),
        (GOOD[:-16] + struct.pack("<QHH4s", 2**64 - 1, 0, 2, b"LANC"), "manifest starts at"),
        (file_of(b"\xff\xff"), "not a valid message"),
        (file_of(pb.Manifest(version=1, fragments=[b"\xff"]).SerializeToString()), "fragment.*not a valid message"),
        (file_of(pb.Manifest(index_section=2**63).SerializeToString()), "index section"),
        (file_of(pb.Manifest(transaction_section=10**6).SerializeToString()), "transaction"),
        (corrupt(fragments=(Fragment(2**32, (FILE,), 1),)), "32 bits"),
        (corrupt(fragments=(Fragment(1, (), 1),)), "no data files"),
        (corrupt(fragments=(Fragment(1, (DataFile("x", (1, 2), (0,)),), 1),)), "column indices"),
    ],
)
def test_invalid_bytes_are_refused(data: Any, message: Any) -> None:
    with pytest.raises(CorruptFileError, match=message) as e:
        read_all(parse(data, "the/file"))
    assert str(e.value).startswith("the/file: ")


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_change_of_a_byte_gives_a_manifest_or_a_lance_error(at: Any, value: Any) -> None:
    data = bytearray(GOOD)
    data[at] = value
    try:
        read_all(parse(bytes(data), "m"))
        parse_timestamp(bytes(data), "m")
    except LanceError:
        pass


def test_the_timestamp_can_be_parsed_alone() -> None:
    assert parse_timestamp(GOOD, "m") == FULL.timestamp


def test_opening_a_table_does_not_load_the_decoders() -> None:
    code = "import sys, lance_spark.dataset, lance_spark.table.commit.commit; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
