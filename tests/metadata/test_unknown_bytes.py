"""What a newer writer has put into a manifest, and nobody here understands, is there after each verb, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.table.changes.alter import set_primary_key
from lance_spark.table.versions.snapshot import manifest_path, open_snapshot

pytestmark = [pytest.mark.spec("table.md", "Versioning"), pytest.mark.spec("format-document.md", "Feature Flags")]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "a": ["x", "y", "z"], "s": [{"p": 1, "q": 2}] * 3})
KEPT_INDEX = "kept"


def block(data: bytes, position: int) -> bytes:
    (size,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + size]


def read(path: Path) -> tuple[pb.Manifest, pb.IndexSection]:
    """The messages of the latest manifest."""
    data = (path / open_snapshot(Dataset.open(path).snapshot.store).path).read_bytes()
    message = pb.Manifest.FromString(block(data, struct.unpack_from("<Q", data, len(data) - 16)[0]))
    return message, pb.IndexSection.FromString(block(data, message.index_section))


def put(path: Path, version: int, message: pb.Manifest, section: pb.IndexSection) -> None:
    """Replace a manifest by one of these messages, without its inline transaction."""
    indexes = section.SerializeToString()
    message.ClearField("transaction_section")
    message.index_section = 0
    head = struct.pack("<I", len(indexes)) + indexes
    content = message.SerializeToString()
    tail = struct.pack("<QHH4s", len(head), 0, 2, b"LANC")
    (path / manifest_path(version)).write_bytes(head + struct.pack("<I", len(content)) + content + tail)


def places(message: pb.Manifest, section: pb.IndexSection, fragment: int) -> Iterator[tuple[str, Message]]:
    """The messages of a manifest that outlive a change, by what they are. Of the fragments, only one is not rewritten by each verb."""
    yield "manifest", message
    yield "storage format", message.data_format
    yield "base path", message.base_paths[0]
    yield "index section", section
    for index in section.indices:
        if index.name == KEPT_INDEX:
            yield "index", index
    for field in message.fields:
        if field.name in ("id", "s", "p"):
            yield f"field {field.name}", field
    for data in message.fragments:
        kept = pb.DataFragment.FromString(data)
        if kept.id == fragment:
            yield "fragment", kept
            yield "data file", kept.files[0]
            yield "deletion file", kept.deletion_file


def extra(number: int, content: bytes) -> bytes:
    """An unknown field as bytes: its number and a length-delimited value."""
    tag, out = number << 3 | 2, bytearray()
    for value in (tag, len(content)):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out) + content


def made(path: Path, content: bytes) -> Mapping[str, bytes]:
    """A table of pylance with unknown bytes at each place, and the bytes by the place."""
    lance.write_dataset(ROWS, path, initial_bases=[lance.DatasetBasePath(str(path.parent / "base"), name="b")])
    for _ in range(2):
        lance.write_dataset(ROWS, path, mode="append")
    theirs = lance.dataset(path)
    theirs.create_scalar_index("id", "BTREE", name=KEPT_INDEX)
    theirs.delete("id = 3")
    message, section = read(path)
    for index in section.indices:
        index.index_details.type_url, index.index_details.value = "/lance.index.FutureIndexDetails", content
    fragments = [pb.DataFragment.FromString(data) for data in message.fragments]
    marks = {}
    for number, (name, place) in enumerate(places(message, section, -1)):
        marks[name] = extra(1000 + number, content + name.encode())
        place.MergeFromString(marks[name])
    for name, place in (("fragment", fragments[2]), ("data file", fragments[2].files[0]), ("deletion file", fragments[2].deletion_file)):
        marks[name] = extra(2000, content + name.encode())
        place.MergeFromString(marks[name])
    del message.fragments[:]
    message.fragments.extend(fragment.SerializeToString() for fragment in fragments)
    put(path, message.version, message, section)
    return marks


FIRST = "_rowaddr < 3"
VERBS: Mapping[str, Callable[[Dataset], object]] = {
    "append": lambda t: t.insert(ROWS),
    "delete": lambda t: t.delete(f"{FIRST} AND id = 2"),
    "update": lambda t: t.update({"a": "'new'"}, f"{FIRST} AND id = 2"),
    "merge": lambda t: t.merge_insert("id").when_not_matched_insert_all().execute(ROWS.slice(2)),
    "add a null column": lambda t: t.add_columns(pa.field("n", pa.int32())),
    "add a column": lambda t: t.add_columns({"n": "id + 1"}),
    "drop a column": lambda t: t.drop_columns(["a"]),
    "rename": lambda t: t.alter_columns({"path": "a", "name": "b"}),
    "retype": lambda t: t.alter_columns({"path": "s.q", "data_type": pa.int32()}),
    "reorder": lambda t: t.reorder_columns(["s", "s.q"]),
    "config": lambda t: t.update_config({"owner": "me"}),
    "primary key": lambda t: set_primary_key(t.alter_columns({"path": "a", "nullable": False}).snapshot, ["a"]),
    "index": lambda t: t.create_scalar_index("a", "BTREE"),
    "restore": lambda t: t.restore(),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=2)
@given(content=st.binary(max_size=300))
def test_unknown_bytes_outlive_each_verb(tmp_path_factory: pytest.TempPathFactory, verb: str, content: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "t"
    marks = made(path, content)
    before = Dataset.open(path)
    VERBS[verb](before)
    message, section = read(path)
    assert message.version > before.version
    left: dict[str, Any] = dict(places(message, section, 2))
    assert left.keys() == marks.keys()
    for name, mark in marks.items():
        assert mark in left[name].SerializeToString(), f"{verb} loses what is unknown of the {name}"
    (kept,) = (index for index in section.indices if index.name == KEPT_INDEX)
    assert kept.index_details.value == content
    theirs = lance.dataset(path)
    assert theirs.to_table().num_rows == Dataset.open(path).count_rows()


def test_the_drop_of_the_last_known_index_keeps_the_section(tmp_path: Path) -> None:
    marks = made(tmp_path / "t", b"")
    Dataset.open(tmp_path / "t").drop_index(KEPT_INDEX)
    _, section = read(tmp_path / "t")
    assert (len(section.indices), section.SerializeToString()) == (0, marks["index section"])
