"""Mutations of bytes and of protobuf messages, all drawn from one random.Random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

NUMBERS = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 1023, 1024, 1025, 4096, 32767, 32768, 65535, 65536)
HUGE = (2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)

TEXTS = (
    *("", "\0", "x", "true", "-1", "0", "1", "9" * 5000, "²", "x" * 5000, "../x", "/etc/passwd", "s3://a:b@bucket", "\u202e", "`", "a.b"),
    *("{", "[" * 5000, "none", "zstd", "fsst", "fullzip", "miniblock", "1e999", "nan", "14days", "9" * 400 + "days", "0s"),
    *("lance.json", "lance.blob.v2", "arrow.uuid", "arrow.fixed_shape_tensor", "arrow.json", "lance.bfloat16", "main", "struct", "null"),
    *(
        "int8",
        "int64",
        "string",
        "list",
        "map",
        "timestamp:us:Nowhere/Land",
        "decimal:128:38:99",
        "dict:string:int8:false",
        "2.0",
        "2.2",
        "0.1",
    ),
)
KEYS = (
    *(f"lance-encoding:{name}" for name in ("compression", "compression-level", "structural-encoding", "rle-threshold", "bss", "blob")),
    *("lance-encoding:packed", "packed", "lance-encoding:dict-divisor", "lance-encoding:minichunk-size"),
    *("ARROW:extension:name", "ARROW:extension:metadata", "lance-schema:unenforced-primary-key:position", "txnAppId", "txnVersion"),
    *(f"lance.auto_cleanup.{name}" for name in ("interval", "older_than", "retain_versions")),
)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to four changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(_CHANGES)(out, rng)
    return bytes(out)


def overwrite(data: bytearray, rng: random.Random) -> None:
    """Change some bytes of `data`, not its length."""
    if data:
        rng.choice(_OVERWRITES)(data, rng)


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put_number(data: bytearray, rng: random.Random) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data))
    at -= at % width if rng.random() < 0.7 else 0
    old = int.from_bytes(data[at : at + width], "little")
    new = rng.choice((old + rng.choice((-8, -1, 1, 8)), rng.choice(NUMBERS), rng.choice(HUGE), old << 1, old >> 1, ~old))
    data[at : at + width] = (new % (1 << 8 * width)).to_bytes(width, "little")[: len(data) - at]


def _swap(data: bytearray, rng: random.Random) -> None:
    size = rng.randint(1, max(1, len(data) // 4))
    a, b = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def _fill(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    size = min(len(data) - start, rng.choice((1, 4, 16, 64, 4096)))
    data[start : start + size] = bytes([rng.choice((0, 1, 127, 128, 255))]) * size


_OVERWRITES: tuple[Callable[[bytearray, random.Random], None], ...] = (_flip_bit, _put_number, _put_number, _put_number, _swap, _fill)


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _cut_out(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice((1, 8, 64))]


def _insert(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.choice((rng.randbytes(rng.choice((1, 8))), bytes(data[start : start + 64]), bytes(64)))


_CHANGES = (overwrite, overwrite, overwrite, overwrite, overwrite, _truncate, _cut_out, _insert)


def mutate_message(message: Message, rng: random.Random) -> None:
    """Change one to three fields of `message` or of the messages below it."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        nodes = list(walk(message))
        # Also fields that are not set, or the fuzzer would only ever see the encodings that the seeds have.
        node = rng.choice(nodes)
        fields: list[Any] = list(node.DESCRIPTOR.fields)
        _mutate_field(node, rng.choice(fields) if fields else None, nodes, rng)


def walk(message: Message) -> Iterator[Message]:
    """The message and all that it contains."""
    yield message
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE or cast(Descriptor, field.message_type).GetOptions().map_entry:
            continue
        for child in value if field.is_repeated else [value]:
            yield from walk(child)


def _mutate_field(node: Message, field: FieldDescriptor | None, nodes: list[Message], rng: random.Random) -> None:
    set_fields = [f for f, _ in node.ListFields()]
    if set_fields and rng.random() < 0.7:
        field = rng.choice(set_fields)
    if field is None:
        return
    if field.message_type and field.message_type.GetOptions().map_entry:
        _mutate_map(getattr(node, field.name), field.message_type, rng)
    elif field.is_repeated:
        _mutate_repeated(getattr(node, field.name), field, nodes, rng)
    elif field.type != FieldDescriptor.TYPE_MESSAGE:
        setattr(node, field.name, _scalar(field, getattr(node, field.name), rng))
    elif rng.random() < 0.2:
        node.ClearField(field.name)
    else:
        # Another message of the same type, perhaps one that contains this very place: so trees grow.
        others = [n.SerializeToString() for n in nodes if n.DESCRIPTOR is field.message_type]
        getattr(node, field.name).SetInParent()
        if others:
            _replace(getattr(node, field.name), rng.choice(others))


def _mutate_map(entries: Any, entry: Descriptor, rng: random.Random) -> None:
    """Change, add or remove an entry, with keys that mean something to readers."""
    key_type, value_type = entry.fields_by_name["key"], entry.fields_by_name["value"]
    if value_type.type == FieldDescriptor.TYPE_MESSAGE:
        return
    known = sorted(entries)
    if known and rng.random() < 0.3:
        del entries[rng.choice(known)]
        return
    key = rng.choice(known) if known and rng.random() < 0.5 else rng.choice(KEYS)
    if key_type.cpp_type != FieldDescriptor.CPPTYPE_STRING:
        key = _scalar(key_type, known[0] if known else 0, rng)
    text = rng.choice(TEXTS)
    entries[key] = text.encode() if value_type.type == FieldDescriptor.TYPE_BYTES else text


def _replace(message: Message, data: bytes) -> None:
    message.Clear()
    message.MergeFromString(data)


def _mutate_repeated(values: Any, field: FieldDescriptor, nodes: list[Message], rng: random.Random) -> None:
    if len(values) and rng.random() < 0.3:
        del values[rng.randrange(len(values))]
    elif len(values) > 1 and rng.random() < 0.5:
        order = list(values)
        a, b = rng.randrange(len(order)), rng.randrange(len(order))
        order[a], order[b] = order[b], order[a]
        del values[:]
        values.extend(order)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        # Serialised first: protobuf crashes when it copies a message into a part of itself.
        others = [n.SerializeToString() for n in nodes if n.DESCRIPTOR is field.message_type]
        if others:
            _replace(values.add(), rng.choice(others))
    elif len(values) and rng.random() < 0.8:
        i = rng.randrange(len(values))
        values[i] = _scalar(field, values[i], rng)
    else:
        values.append(_scalar(field, field.default_value or _ZERO.get(field.cpp_type, 0), rng))


_ZERO: dict[int, object] = {FieldDescriptor.CPPTYPE_STRING: "", FieldDescriptor.CPPTYPE_BOOL: False}
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def _scalar(field: FieldDescriptor, old: Any, rng: random.Random) -> object:
    if field.cpp_type in _RANGES:
        low, high = _RANGES[field.cpp_type]
        new = rng.choice((old + rng.choice((-1, 1, 8)), rng.choice(NUMBERS), rng.choice(HUGE), old * 2, old // 2, -old))
        return min(high, max(low, new))
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(cast(EnumDescriptor, field.enum_type).values).number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return mutate_bytes(old or bytes(8), rng)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if rng.random() < 0.4:
            return rng.choice(TEXTS)
        return mutate_bytes((old or "x").encode(), rng).decode(errors="replace")
    return rng.random()


def mutate_serialised(kind: type[Message], data: bytes, rng: random.Random) -> bytes:
    """The bytes of a message of type `kind`, changed as a message, or as bytes if they are none."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        return mutate_bytes(data, rng)
    mutate_message(message, rng)
    return message.SerializeToString()
