"""Messages from untrusted bytes: a field with the wrong wire type is refused, and a field of a newer writer is kept."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from lance_spark._proto import rowids_pb2, table_pb2, transaction_pb2
from lance_spark.buffers.messages import discard_unknown_fields, parse_message
from lance_spark.errors import CorruptFileError

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
CONTENTS = {VARINT: b"\x05", FIXED64: bytes(8), BYTES: b"\x01x", FIXED32: bytes(4)}


def field(number: int, wire_type: int, content: bytes | None = None) -> bytes:
    """One serialised field; its number is below 16, or takes two bytes."""
    tag = number << 3 | wire_type
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return head + (CONTENTS[wire_type] if content is None else content)


def inside(number: int, content: bytes) -> bytes:
    return field(number, BYTES, bytes([len(content)]) + content)


@pytest.mark.parametrize(
    ("kind", "data", "name"),
    [
        (table_pb2.Manifest, field(3, BYTES), "Manifest.version"),
        (table_pb2.Manifest, field(3, FIXED64), "Manifest.version"),
        (table_pb2.Manifest, field(3, FIXED32), "Manifest.version"),
        (table_pb2.Manifest, field(2, VARINT), "Manifest.fragments"),
        (table_pb2.Manifest, field(12, FIXED64), "Manifest.transaction_file"),
        (table_pb2.Manifest, field(3, GROUP, b"") + field(3, END_GROUP, b""), "Manifest.version"),
        (table_pb2.Manifest, inside(1, field(3, BYTES)), "Field.id"),
        (table_pb2.Manifest, inside(16, inside(1, b"key") + field(2, VARINT)), "Manifest.config"),
        (table_pb2.DataFragment, field(3, VARINT), "DataFragment.deletion_file"),
        (table_pb2.DataFragment, inside(3, field(4, FIXED32)), "DeletionFile.num_deleted_rows"),
        (table_pb2.DataFragment, inside(2, field(2, FIXED32)), "DataFile.fields"),
        (rowids_pb2.RowIdSequence, inside(1, field(1, VARINT)), "U64Segment.range"),
        (transaction_pb2.Transaction, inside(110, inside(9, field(1, VARINT) + inside(2, field(2, BYTES)))), "UpdateMap.replace"),
    ],
)
def test_a_field_of_the_wrong_wire_type_is_refused(kind: type[Message], data: bytes, name: str) -> None:
    with pytest.raises(CorruptFileError, match=f"the file: the field {name} has the wire type"):
        parse_message(kind, data, "the file")


def test_fields_of_newer_writers_are_kept() -> None:
    data = field(3, VARINT) + field(99, BYTES) + inside(1, field(15, FIXED32))
    message = parse_message(table_pb2.Manifest, data, "m")
    assert message.version == 5
    assert sorted(message.SerializeToString()) == sorted(data)
    assert discard_unknown_fields(message)
    assert not discard_unknown_fields(message)


def test_numbers_may_be_packed_or_not() -> None:
    for data in (inside(2, b"\x05\x06"), field(2, VARINT, b"\x05") + field(2, VARINT, b"\x06")):
        assert list(parse_message(table_pb2.DataFile, data, "m").fields) == [5, 6]


@pytest.mark.parametrize("data", [b"\xff", field(8, BYTES, b"\x01\xff"), field(3, 6, b""), field(0, VARINT)])
def test_invalid_messages_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="m: not a valid message"):
        parse_message(table_pb2.Manifest, data, "m")
