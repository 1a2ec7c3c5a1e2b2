"""Mutations of manifests, transactions and refs that keep what is around the change valid, down to messages within bytes."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message
from pyroaring import BitMap

from fuzz.mutate import HUGE, NUMBERS, mutate_bytes, mutate_serialised
from lance_spark._proto import rowids_pb2, table_pb2, transaction_pb2

_LENGTH = struct.Struct("<I")
_SECTIONS = ("index_section", "transaction_section", "old_transaction_section")
_SEQUENCES: dict[str, type[Message]] = {
    "inline_row_ids": rowids_pb2.RowIdSequence,
    "inline_created_at_versions": rowids_pb2.RowDatasetVersionSequence,
    "inline_last_updated_at_versions": rowids_pb2.RowDatasetVersionSequence,
}


@dataclass
class _Parts:
    """A manifest file in parts: what is before the messages, the messages by their field in the manifest, and the tail."""

    dictionaries: bytes
    sections: dict[str, bytes]
    manifest: table_pb2.Manifest
    tail: bytes


def mutate_manifest(data: bytes, rng: random.Random) -> bytes:
    """A manifest file with one of its messages changed."""
    try:
        parts = _taken_apart(data)
    except (DecodeError, struct.error, OverflowError):
        return mutate_bytes(data, rng)
    chance = rng.random()
    if parts.sections and chance < 0.25:
        name = rng.choice(sorted(parts.sections))
        kind = _mutate_indexes if name == "index_section" else mutate_transaction
        parts.sections[name] = kind(parts.sections[name], rng)
    elif parts.manifest.fragments and chance < 0.65:
        i = rng.randrange(len(parts.manifest.fragments))
        parts.manifest.fragments[i] = _mutate_fragment(parts.manifest.fragments[i], rng)
    return _put_together(parts, rng, whole=chance >= 0.65)


def mutate_transaction(data: bytes, rng: random.Random) -> bytes:
    """A serialised transaction, changed."""
    return _mutate(transaction_pb2.Transaction, data, rng)


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON object with a value changed, added or removed, or something else in its place."""
    if rng.random() < 0.2:
        return rng.choice(_NO_OBJECTS)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    if not isinstance(content, dict) or not content or rng.random() < 0.1:
        return mutate_bytes(data, rng)
    key = rng.choice(sorted(content))
    if rng.random() < 0.15:
        del content[key]
        return json.dumps(content).encode()
    value = rng.choice(_VALUES) if rng.random() < 0.7 else str(rng.choice(NUMBERS + HUGE)).encode()
    content[key] = "VALUE"
    return json.dumps(content).encode().replace(b'"VALUE"', value)


_NO_OBJECTS = (b"", b"[" * 100_000, b'{"a":' * 100_000, b"null", b"\xff\xfe{}", b"[]", b"{}", b"NaN", b"9" * 5000, b" " * 9000)
_VALUES = (
    *(b"null", b"true", b"-1", b"0", b"1", b"1.5", b"1e999", b"NaN", b"9" * 4000, b"18446744073709551615", b"18446744073709551616"),
    *(b'""', b'"main"', b'"dev"', b'"../x"', b'"/etc/passwd"', b'"\\ud800"', b'"\\u0000"', b'"s3://a:b@bucket"', b'"' + b"x" * 5000 + b'"'),
    *(b"[]", b"{}", b"[[1]]", b'{"version_mapping": [[1, "x"]]}', b'{"\\ud800": "x"}', b"[" * 500 + b"]" * 500),
)


def _mutate(kind: type[Message], data: bytes, rng: random.Random) -> bytes:
    return rewired(data, rng) if data and rng.random() < 0.1 else mutate_serialised(kind, data, rng)


def _mutate_fragment(data: bytes, rng: random.Random) -> bytes:
    try:
        fragment = table_pb2.DataFragment.FromString(data)
    except DecodeError:
        return mutate_bytes(data, rng)
    sequences = [name for name in _SEQUENCES if fragment.HasField(name)]
    if not sequences or rng.random() < 0.6:
        return _mutate(table_pb2.DataFragment, data, rng)
    name = rng.choice(sequences)
    setattr(fragment, name, _mutate(_SEQUENCES[name], getattr(fragment, name), rng))
    return fragment.SerializeToString()


def _mutate_indexes(data: bytes, rng: random.Random) -> bytes:
    try:
        section = table_pb2.IndexSection.FromString(data)
    except DecodeError:
        return mutate_bytes(data, rng)
    if not section.indices or rng.random() < 0.6:
        return _mutate(table_pb2.IndexSection, data, rng)
    index = rng.choice(section.indices)
    if rng.random() < 0.5:
        index.fragment_bitmap = rng.choice((mutate_bytes(index.fragment_bitmap or b"\0", rng), *_BITMAPS))
    else:
        index.name = "__lance_frag_reuse"
        index.index_details.value = mutate_serialised(table_pb2.FragmentReuseIndexDetails, index.index_details.value, rng)
    return section.SerializeToString()


_BITMAPS = (BitMap().flip(0, 2**32).serialize(), BitMap([0, 2**32 - 1]).serialize(), BitMap().serialize())


def _taken_apart(data: bytes) -> _Parts:
    def block(position: int) -> bytes:
        start = position + _LENGTH.size
        return data[start : start + _LENGTH.unpack_from(data, position)[0]]

    manifest = table_pb2.Manifest.FromString(block(int.from_bytes(data[-16:-8], "little")))
    positions = {name: getattr(manifest, name) for name in _SECTIONS if manifest.HasField(name)}
    start = min([*positions.values(), int.from_bytes(data[-16:-8], "little")])
    return _Parts(data[:start], {name: block(at) for name, at in positions.items()}, manifest, data[-16:])


def _put_together(parts: _Parts, rng: random.Random, *, whole: bool) -> bytes:
    """The file of these parts; with `whole` its manifest message is changed at last."""
    out = bytearray(parts.dictionaries)
    for name, content in parts.sections.items():
        setattr(parts.manifest, name, len(out))
        out += _LENGTH.pack(len(content)) + content
    message = parts.manifest.SerializeToString()
    message = _mutate(table_pb2.Manifest, message, rng) if whole else message
    position = len(out)
    return bytes(out) + _LENGTH.pack(len(message)) + message + position.to_bytes(8, "little") + parts.tail[8:]


def rewired(data: bytes, rng: random.Random) -> bytes:
    """A serialised message in which one field, at whatever depth, has another wire type."""
    fields = _fields(data)
    if not fields:
        return mutate_bytes(data, rng)
    start, body, end, tag = rng.choice(fields)
    if tag & 7 == 2 and _fields(data[body:end]) and rng.random() < 0.5:
        inner = rewired(data[body:end], rng)
        return data[:start] + _varint(tag) + _varint(len(inner)) + inner + data[end:]
    wire_type = rng.choice([w for w in _CONTENTS if w != tag & 7])
    return data[:start] + _varint(tag & ~7 | wire_type) + _CONTENTS[wire_type] + data[end:]


_CONTENTS = {0: b"\x05", 1: bytes(8), 2: b"\x01x", 5: bytes(4)}


def _fields(data: bytes) -> list[tuple[int, int, int, int]]:
    """Start, start of the content, end and tag of each field; none if `data` is no message."""
    fields, at = [], 0
    try:
        while at < len(data):
            start = at
            tag, at = _number(data, at)
            size = {1: 8, 5: 4}.get(tag & 7, 0)
            body = at
            if tag & 7 == 0:
                _, at = _number(data, at)
            elif tag & 7 == 2:
                size, body = _number(data, at)
                at = body
            elif not size:
                return []
            at += size
            if at > len(data) or not tag >> 3:
                return []
            fields.append((start, body, at, tag))
    except IndexError:
        return []
    return fields


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])
