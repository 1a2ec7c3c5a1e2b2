"""The manifest: one version of a table as a frozen value, and the bytes of a manifest file.

Implements the Manifest message, the layout of manifest files and the feature flags of the table specification. A manifest file contains
the dictionaries of 0.1 tables, the index section, the transaction, a checksum (our extension), the manifest message, and a tail of 16
bytes: the manifest's position (u64), two version numbers (u16), "LANC". A message follows its length (u32). Fields 4, 6, 21 and 23 of
the manifest message are positions in the file, so they are never copied to another file; all other unknown fields are.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.crc32c import available
from lance_spark.buffers.messages import parse_message
from lance_spark.buffers.wire import Unusual, run
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.checksum import CHECKSUM_SIZE, verify_checksum, with_checksum
from lance_spark.metadata.fragment import (
    BasePath,
    DataFile,
    DeletionFile,
    ExternalFile,
    Fragment,
    IndexFile,
    IndexMetadata,
    Reading,
    read_base_path,
    read_index,
    write_base_path,
    write_index,
)
from lance_spark.metadata.lazy_fragments import Fragments
from lance_spark.metadata.numbered_writes import NumberedWrites, read_numbered_writes, write_numbered_writes
from lance_spark.schema.field_messages import parse_fields, serialise_fields
from lance_spark.schema.schema import Schema

__all__ = [
    "BasePath",
    "DataFile",
    "DeletionFile",
    "ExternalFile",
    "Fragment",
    "IndexFile",
    "IndexMetadata",
    "Manifest",
    "WriterVersion",
    "check_writable",
    "describe",
    "parse",
    "serialise",
]

TAIL = struct.Struct("<QHH4s")
MAGIC = b"LANC"
LENGTH = struct.Struct("<I")

_FIELDS, _FRAGMENTS = (pb.Manifest.DESCRIPTOR.fields_by_name[name].number for name in ("fields", "fragments"))

_SMALL = 1 << 18
"""The protobuf library passes over the fragments of a message of so many bytes in less time than it takes to find them."""

DELETION_FILES = 1
STABLE_ROW_IDS = 2
V2_FORMAT = 4
TABLE_CONFIG = 8
BASE_PATHS = 16
NO_TRANSACTION_FILES = 32
OVERLAYS = 64
COVERING_COLUMNS = 128
MIXED_FILE_VERSIONS = 256
REUSE_TRANSITIONS = 1024
SPILLED_LINEAGE = 2048
MANAGED_BLOBS = 16384
_FLAG_NAMES = {OVERLAYS: "data overlays", NO_TRANSACTION_FILES: "no transaction files", COVERING_COLUMNS: "covering index columns"}
_FLAG_NAMES |= {MIXED_FILE_VERSIONS: "files of different versions", REUSE_TRANSITIONS: "transitions of the fragment reuse index"}
_FLAG_NAMES |= {SPILLED_LINEAGE: "row lineage in data files", MANAGED_BLOBS: "managed blobs"}

PAIRED = MIXED_FILE_VERSIONS | REUSE_TRANSITIONS | MANAGED_BLOBS
"""Flags that readers and writers both have. They say what a table may have, and stay once they are set."""

# A reuse index with transitions has contents that are not known, so that no index is looked up through it. Flags that are not `PAIRED`
# follow from what a version has: ours have transaction files, and row lineage in the manifest.
READABLE = DELETION_FILES | STABLE_ROW_IDS | V2_FORMAT | TABLE_CONFIG | BASE_PATHS | NO_TRANSACTION_FILES | PAIRED
READABLE |= COVERING_COLUMNS | SPILLED_LINEAGE
WRITABLE = READABLE

OVERLAYS_VARIABLE = "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES"
"""The environment variable, of any value, with which pylance reads tables with overlays, whose format is unstable."""

T = TypeVar("T", bound=Message)


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """The library that wrote a manifest."""

    library: str
    version: str
    prerelease: str | None = None
    build_metadata: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a table.

    `timestamp` is in nanoseconds since 1970, UTC. `data_format` is the storage version, such as "2.1"; if the writer left it out, it is
    derived from the files. `transaction` is the serialised inline transaction. `dictionaries` are the bytes before all messages, which
    `Field.dictionary` of a 0.1 table refers to by position in the manifest file. `numbered` is None in manifests of other writers.
    `unknown`, `unknown_of_format` and `unknown_of_indexes` are the unknown fields of the message, of its storage format and of the index
    section.
    """

    version: int
    schema: Schema
    fragments: Sequence[Fragment] = ()
    timestamp: int = 0
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    next_row_id: int = 0
    data_format: str = ""
    file_format: str = "lance"
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    tag: str = ""
    writer: WriterVersion | None = None
    transaction_file: str = ""
    transaction: bytes | None = None
    indexes: tuple[IndexMetadata, ...] = ()
    dictionaries: bytes = b""
    unknown: bytes = b""
    numbered: NumberedWrites | None = None
    unknown_of_format: bytes = b""
    unknown_of_indexes: bytes = b""

    @property
    def has_stable_row_ids(self) -> bool:
        """True if rows keep their ids when they move."""
        return bool(self.reader_flags & STABLE_ROW_IDS)

    @property
    def lazy_fragments(self) -> Fragments:
        """The fragments as `Fragments`, which gives ids and counts without parsing each fragment."""
        return self.fragments if isinstance(self.fragments, Fragments) else Fragments(self.fragments)

    @property
    def num_rows(self) -> int | None:
        """The number of live rows; None if a writer left out a required number."""
        rows = self.lazy_fragments.live_rows
        return None if (rows < 0).any() else int(rows.sum())


def describe(flags: int) -> str:
    """Describe feature flags, such as "64 (data overlays), 512"."""
    bits = [1 << i for i in range(64) if flags >> i & 1]
    return ", ".join(f"{b} ({_FLAG_NAMES[b]})" if b in _FLAG_NAMES else str(b) for b in bits)


def check_writable(manifest: Manifest, table: str) -> None:
    """Raise UnsupportedFeatureError if the table has writer feature flags that we do not support."""
    if unknown := manifest.writer_flags & ~WRITABLE:
        raise UnsupportedFeatureError(
            f"{table}, version {manifest.version}, has writer feature flags that are not supported: {describe(unknown)}"
            + ("; compact it with pylance, which leaves no overlays" if unknown == OVERLAYS else "")
        )


def overlaid_fragments(manifest: Manifest) -> tuple[Fragment, ...]:
    """The fragments that have overlays."""
    return tuple(f for f in manifest.fragments if f.overlays) if manifest.reader_flags & OVERLAYS else ()


def parse(data: bytes, name: str, version: int | None = None) -> Manifest:
    """Parse a manifest file. `name` is the file, for errors; `version` is the version in its name.

    Raises CorruptFileError for invalid content and UnsupportedFeatureError for unsupported reader feature flags.
    """
    try:
        end, message, fragments = _locate(data, version)
        if half := (message.reader_feature_flags ^ message.writer_feature_flags) & PAIRED:
            what = "only the reader or the writer feature flag of pairs"
            raise CorruptFileError(f"version {message.version} is corrupt: it has {what}: {describe(half)}")
        readable = READABLE | OVERLAYS if OVERLAYS_VARIABLE in os.environ else READABLE
        if unknown := message.reader_feature_flags & ~readable:
            what = f"version {message.version} has reader feature flags that are not supported: {describe(unknown)}"
            advice = f"; they are unstable, and read if the environment variable {OVERLAYS_VARIABLE} is set" if unknown == OVERLAYS else ""
            raise UnsupportedFeatureError(what + advice)
        return _read(data, end, message, fragments, name)
    except (CorruptFileError, UnsupportedFeatureError) as e:
        raise type(e)(f"{name}: {e}") from e


def parse_timestamp(data: bytes, name: str, version: int | None = None) -> int:
    """Parse only the timestamp (nanoseconds) of a manifest file: much faster than `parse` for tables with many fragments."""
    try:
        return _nanoseconds(_locate(data, version, reads_fragments=False)[1])
    except CorruptFileError as e:
        raise CorruptFileError(f"{name}: {e}") from e


def parse_highest_field_id(data: bytes, name: str) -> int:
    """Only the highest field id of a manifest file, -1 if it has no fields."""
    try:
        return max((f.id for f in _locate(data, None, reads_fragments=False)[1].fields), default=-1)
    except CorruptFileError as e:
        raise CorruptFileError(f"{name}: {e}") from e


def parse_transaction(data: bytes, name: str, version: int | None = None) -> tuple[bytes | None, str, NumberedWrites | None]:
    """Only `Manifest.transaction`, `transaction_file` and `numbered` of a manifest file."""
    try:
        _, message, _ = _locate(data, version, reads_fragments=False)
        return _transaction(data, message)[0], message.transaction_file, read_numbered_writes(message)
    except CorruptFileError as e:
        raise CorruptFileError(f"{name}: {e}") from e


def _transaction(data: bytes, message: pb.Manifest) -> tuple[bytes | None, int]:
    """The transaction in a manifest file and its position; None if there is none."""
    for section in ("transaction_section", "old_transaction_section"):
        if message.HasField(section):
            position: int = getattr(message, section)
            return _block_bytes(data, position, "transaction"), position
    return None, len(data)


def _nanoseconds(message: pb.Manifest) -> int:
    return message.timestamp.seconds * 1_000_000_000 + message.timestamp.nanos


def _locate(data: bytes, version: int | None, reads_fragments: bool = True) -> tuple[int, pb.Manifest, np.ndarray]:
    """The position of the manifest message (of its length), the message without its fragments, and where in `data` each of these is.

    Unless `reads_fragments`, the message may have them. Its version must be `version` unless that is None.
    """
    if len(data) < TAIL.size:
        raise CorruptFileError(f"expected a manifest file with a tail of {TAIL.size} bytes, found {len(data)} bytes")
    position, _major, _minor, magic = TAIL.unpack_from(data, len(data) - TAIL.size)
    if magic != MAGIC:
        raise CorruptFileError(f"expected {MAGIC!r} at the end of a manifest file, found {magic!r}")
    verify_checksum(data, position - CHECKSUM_SIZE)
    start, stop = _span(data, position, "manifest")
    content = np.frombuffer(data, np.uint8)[:stop]
    try:
        if not reads_fragments and stop - start <= _SMALL:
            raise Unusual
        first = run(content, start, _FIELDS)[1]
        fragments, last = run(content, first, _FRAGMENTS)
    except Unusual:
        fragments, first, last = np.empty((0, 2), np.int64), stop, stop
    rest = data[start:first] + data[last:stop]
    message = parse_message(pb.Manifest, rest, f"the manifest at {position}")
    if stop != len(data) - TAIL.size:
        raise CorruptFileError(f"the manifest message at {position} does not end at the file's tail")
    if version not in (None, message.version):
        raise CorruptFileError(f"the manifest has version {message.version}, expected {version} as in its file name")
    return position, message, fragments


def _span(data: bytes, position: int, what: str) -> tuple[int, int]:
    """Where a message is that follows its length at `position`: start and end."""
    end = len(data) - TAIL.size
    if position + LENGTH.size > end:
        raise CorruptFileError(f"the {what} starts at {position}, but the file's messages end at {end}")
    (size,) = LENGTH.unpack_from(data, position)
    start = position + LENGTH.size
    if start + size > end:
        raise CorruptFileError(f"the {what} at {position} has {size} bytes, but the file's messages end at {end}")
    return start, start + size


def _block_bytes(data: bytes, position: int, what: str) -> bytes:
    """The bytes of a message that follows its length at `position`."""
    start, stop = _span(data, position, what)
    return data[start:stop]


def _block(data: bytes, position: int, kind: type[T], what: str) -> T:
    return parse_message(kind, _block_bytes(data, position, what), f"the {what} at {position}")


def _read(data: bytes, end: int, message: pb.Manifest, spans: np.ndarray, name: str) -> Manifest:
    reading = Reading()
    starts = [end]
    indexes: tuple[IndexMetadata, ...] = ()
    unknown_of_indexes = b""
    if message.HasField("index_section"):
        section = _block(data, message.index_section, pb.IndexSection, "index section")
        indexes = tuple(read_index(i, Reading()) for i in section.indices)
        unknown_of_indexes = reading.rest(section)
        starts.append(message.index_section)
    transaction, transaction_at = _transaction(data, message)
    starts.append(transaction_at)
    content = data
    if message.fragments:
        # They are not all where writers write them.
        messages = [*(data[start:stop] for start, stop in spans.tolist()), *message.fragments]
        content = pb.Manifest(fragments=messages).SerializeToString()
        spans, _ = run(np.frombuffer(content, np.uint8), 0, _FRAGMENTS)
        message.ClearField("fragments")
    fragments = Fragments.of_messages(np.frombuffer(content, np.uint8), spans, name)
    if not message.HasField("writer_version"):
        fragments = Fragments([_without_counts(f) for f in fragments], name)
    schema = parse_fields(message.fields, message.schema_metadata)
    writer = message.writer_version
    return Manifest(
        version=message.version,
        schema=schema,
        fragments=fragments,
        timestamp=_nanoseconds(message),
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=message.max_fragment_id if message.HasField("max_fragment_id") else None,
        next_row_id=message.next_row_id,
        data_format=message.data_format.version or _format_of_files(message, fragments),
        file_format=message.data_format.file_format or "lance",
        config=dict(message.config),
        table_metadata=dict(message.table_metadata),
        base_paths=tuple(read_base_path(b, reading) for b in message.base_paths),
        branch=message.branch if message.HasField("branch") else None,
        tag=message.tag,
        writer=_read_writer(writer) if message.HasField("writer_version") else None,
        transaction_file=message.transaction_file,
        transaction=transaction,
        indexes=indexes,
        dictionaries=data[: min(starts)] if any(f.dictionary for f in schema.walk()) else b"",
        unknown=reading.rest(message),
        numbered=read_numbered_writes(message),
        unknown_of_format=reading.rest(message.data_format),
        unknown_of_indexes=unknown_of_indexes,
    )


def _without_counts(fragment: Fragment) -> Fragment:
    """The fragment without its row counts: writers that record no version of themselves counted deleted rows incorrectly."""
    deletion = None if fragment.deletion is None else replace(fragment.deletion, num_deleted=None)
    return replace(fragment, physical_rows=0, deletion=deletion)


def _read_writer(message: pb.Manifest.WriterVersion) -> WriterVersion:
    return WriterVersion(
        message.library,
        message.version,
        message.prerelease if message.HasField("prerelease") else None,
        message.build_metadata if message.HasField("build_metadata") else None,
    )


def _format_of_files(message: pb.Manifest, fragments: Iterable[Fragment]) -> str:
    """The storage version of a table whose manifest does not record it."""
    newest = max((file.storage_version for f in fragments for file in f.files), default=None)
    if newest is None:
        return "2.0" if (message.reader_feature_flags | message.writer_feature_flags) & V2_FORMAT else "0.1"
    return str(newest)


def serialise(manifest: Manifest) -> bytes:
    """Serialise a manifest file, the inverse of `parse`."""
    fields = pb.Manifest(fields=serialise_fields(manifest.schema))
    message = pb.Manifest()
    message.MergeFromString(manifest.unknown)
    message.schema_metadata.update({k.decode(): v for k, v in manifest.schema.metadata.items()})
    for base in manifest.base_paths:
        write_base_path(base, message.base_paths.add())
    message.version = manifest.version
    message.timestamp.seconds, message.timestamp.nanos = divmod(manifest.timestamp, 1_000_000_000)
    message.reader_feature_flags, message.writer_feature_flags = manifest.reader_flags, manifest.writer_flags
    if manifest.max_fragment_id is not None:
        message.max_fragment_id = manifest.max_fragment_id
    message.next_row_id = manifest.next_row_id
    message.data_format.MergeFromString(manifest.unknown_of_format)
    message.data_format.file_format, message.data_format.version = manifest.file_format, manifest.data_format
    message.config.update(manifest.config)
    message.table_metadata.update(manifest.table_metadata)
    if manifest.branch is not None:
        message.branch = manifest.branch
    message.tag = manifest.tag
    message.transaction_file = manifest.transaction_file
    if manifest.writer is not None:
        message.writer_version.library, message.writer_version.version = manifest.writer.library, manifest.writer.version
        for name in ("prerelease", "build_metadata"):
            if (value := getattr(manifest.writer, name)) is not None:
                setattr(message.writer_version, name, value)

    if manifest.numbered is not None:
        write_numbered_writes(manifest.numbered, message)

    out = bytearray(manifest.dictionaries)

    def put(content: bytes) -> int:
        position = len(out)
        out.extend(LENGTH.pack(len(content)) + content)
        return position

    if manifest.indexes or manifest.unknown_of_indexes:
        section = pb.IndexSection()
        section.MergeFromString(manifest.unknown_of_indexes)
        for index in manifest.indexes:
            write_index(index, section.indices.add())
        message.index_section = put(section.SerializeToString())
    if manifest.transaction is not None:
        message.transaction_section = put(manifest.transaction)
    # A manifest may be large: its fragments are copied once.
    content = (fields.SerializeToString(), *manifest.lazy_fragments.pieces(), message.SerializeToString())
    position = len(out) + (CHECKSUM_SIZE if available() else 0)
    length = LENGTH.pack(sum(map(len, content)))
    return with_checksum(bytes(out), length, *content, TAIL.pack(position, 0, 2, MAGIC))
