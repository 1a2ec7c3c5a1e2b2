"""Protobuf messages from untrusted bytes.

The protobuf library treats a field with a wrong wire type as unknown, so one flipped bit could silently drop the deletions of a table. Like
other readers, `parse_message` rejects such bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.errors import CorruptFileError

T = TypeVar("T", bound=Message)


def parse_message(kind: type[T], data: bytes | Bytes, what: str) -> T:
    """The message in `data`; `what` names it in errors. Raises CorruptFileError if it is invalid or a field has the wrong wire type."""
    try:
        message = kind.FromString(bytes(data))
        if discard_unknown_fields(message):
            message = kind.FromString(bytes(data))
            _check_wire_types(message, what)
    except DecodeError as e:
        raise CorruptFileError(f"{what}: not a valid message: {e}") from e
    return message


def discard_unknown_fields(message: Message) -> bool:
    """Remove unknown fields from `message` and the messages below it; whether there were any."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != size


def _check_wire_types(message: Message, what: str) -> None:
    fields = message.DESCRIPTOR.fields_by_number
    unknown_fields = UnknownFieldSet(message)
    for unknown in (unknown_fields[i] for i in range(len(unknown_fields))):
        if unknown.field_number in fields:
            name = f"{message.DESCRIPTOR.name}.{fields[unknown.field_number].name}"
            raise CorruptFileError(f"{what}: the field {name} has the wire type {unknown.wire_type}, which does not match its type")
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for child in _children(field, value):
                _check_wire_types(child, what)


def _children(field: FieldDescriptor, value: Any) -> Iterable[Message]:
    if isinstance(value, Message):
        return (value,)
    assert field.message_type is not None
    if not field.message_type.GetOptions().map_entry:
        return cast(Iterable[Message], value)
    # An invalid entry of a map is an unknown field of the message that has the map.
    return [v for v in value.values() if isinstance(v, Message)]
