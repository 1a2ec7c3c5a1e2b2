"""Mutations of a table's files that keep what is around the change valid, so that readers get as far as it."""

from __future__ import annotations

import random
import struct

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from fuzz.metadata import mutate_json, mutate_manifest, mutate_transaction
from fuzz.mutate import mutate_bytes, mutate_message, mutate_serialised, overwrite
from lance_spark._proto import (
    encodings_v2_0_pb2,
    encodings_v2_1_early_pb2,
    encodings_v2_1_pb2,
    encodings_v2_3_pb2,
    file2_pb2,
)
from lance_spark.file.footer import FOOTER, MAGIC

_ENCODINGS: dict[str, type[Message]] = {
    "lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
    "lance.encodings.PageLayout": encodings_v2_1_early_pb2.PageLayout,
    "lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
    "lance.encodings23.PlanarLayout": encodings_v2_3_pb2.PlanarLayout,
}
_PAIR = struct.Struct("<QQ")


def mutate(path: str, data: bytes, rng: random.Random) -> bytes:
    """The file `path` of a table, changed."""
    if rng.random() < 0.15:
        return mutate_bytes(data, rng)
    if path.endswith(".lance"):
        return _mutate_data_file(data, rng)
    if path.endswith(".manifest"):
        return mutate_manifest(data, rng)
    if path.endswith(".txn"):
        return mutate_transaction(data, rng)
    return mutate_json(data, rng) if path.endswith(".json") else mutate_bytes(data, rng)


def _mutate_data_file(data: bytes, rng: random.Random) -> bytes:
    if len(data) < FOOTER.size or data[-4:] != MAGIC:
        return mutate_bytes(data, rng)
    _, columns_at, buffers_at, num_buffers, num_columns, major, minor, _ = FOOTER.unpack(data[-FOOTER.size :])
    torn = columns_at + 16 * num_columns > len(data) or buffers_at + 16 * num_buffers + FOOTER.size != len(data)
    if (major, minor) in ((0, 1), (0, 2)) or not num_columns or torn:
        # A legacy file: its numbers are at the end, its values before them. Or one whose footer was changed before.
        out = bytearray(data)
        start = rng.randrange(len(out))
        part = out[start : start + 64]
        overwrite(part, rng)
        out[start : start + 64] = part
        return bytes(out)
    places = [_PAIR.unpack_from(data, columns_at + 16 * i) for i in range(num_columns)]
    chosen = rng.randrange(num_columns)
    try:
        columns = [file2_pb2.ColumnMetadata.FromString(data[at : at + size]) for at, size in places]
    except DecodeError:
        return mutate_bytes(data, rng)
    out = bytearray(data[:buffers_at])
    if rng.random() < 0.5:
        _mutate_buffers(out, columns[chosen], rng)
    else:
        _mutate_column(columns[chosen], columns, rng)
    return _put_together(out, columns, data[buffers_at : buffers_at + 16 * num_buffers], (major, minor))


def _mutate_buffers(out: bytearray, column: file2_pb2.ColumnMetadata, rng: random.Random) -> None:
    pairs = [pair for page in column.pages for pair in zip(page.buffer_offsets, page.buffer_sizes)]
    pairs = [(at, size) for at, size in pairs if size and at < len(out)]
    for _ in range(rng.choice((1, 1, 2, 4)) if pairs else 0):
        at, size = rng.choice(pairs)
        # The beginning holds the counts and sizes.
        size = min(size, rng.choice((16, 64, size)))
        part = out[at : at + size]
        overwrite(part, rng)
        out[at : at + size] = part


def _mutate_column(column: file2_pb2.ColumnMetadata, columns: list[file2_pb2.ColumnMetadata], rng: random.Random) -> None:
    if rng.random() < 0.15 or not column.pages:
        mutate_message(column, rng)
        return
    page = rng.choice(column.pages)
    if rng.random() < 0.1:
        others = [p for c in columns for p in c.pages]
        other = rng.choice(others)
        if rng.random() < 0.5:
            page.encoding.CopyFrom(other.encoding)
        else:
            page.CopyFrom(other)
        return
    try:
        wrapped = AnyMessage.FromString(page.encoding.direct.encoding)
    except DecodeError:
        mutate_message(page, rng)
        return
    kind = _ENCODINGS.get(wrapped.type_url.rsplit("/", 1)[-1])
    wrapped.value = mutate_serialised(kind, wrapped.value, rng) if kind else mutate_bytes(wrapped.value, rng)
    page.encoding.direct.encoding = wrapped.SerializeToString()


def _put_together(data: bytes | bytearray, columns: list[file2_pb2.ColumnMetadata], buffers: bytes, version: tuple[int, int]) -> bytes:
    """A file of the same pages with metadata anew behind them."""
    out = bytearray(data)
    first, places = len(out), []
    for column in columns:
        message = column.SerializeToString()
        places.append(_PAIR.pack(len(out), len(message)))
        out += message
    columns_at = len(out)
    out += b"".join(places)
    buffers_at = len(out)
    out += buffers + FOOTER.pack(first, columns_at, buffers_at, len(buffers) // 16, len(columns), *version, MAGIC)
    return bytes(out)
