"""The fragments, files, base paths and indexes of a manifest: frozen values and their protobuf messages.

Implements the messages DataFragment, DataFile, DeletionFile, ExternalFile, BasePath and IndexMetadata of the table specification.
Every value keeps unknown protobuf fields (`unknown`), so that rewriting a manifest preserves the fields of newer writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from google.protobuf.message import Message

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.details_file import DetailsFile
from lance_spark.schema.storage_version import V0_1, StorageVersion

TOMBSTONE = -2
"""The field id of a column whose values have moved to another file of the fragment."""

TAIL = 64 << 10
"""Bytes that are read from the end of a data file when it is opened: all metadata of most files, or a whole small file."""

_UNSAID = (0, 0)
_V2_0 = frozenset({(0, 3), (2, 0)})


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a fragment.

    `fields` are the field ids of its columns, or `TOMBSTONE`. `column_indices[i]` is the column of `fields[i]`, -1 for none; files of
    storage version 0.1 have no column indices. `size` is in bytes, None if the writer did not record it.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...] = ()
    version: tuple[int, int] = (0, 0)
    size: int | None = None
    base_id: int | None = None
    unknown: bytes = b""

    @property
    def is_legacy(self) -> bool:
        """True for storage version 0.1."""
        return self.storage_version == V0_1

    @property
    def storage_version(self) -> StorageVersion:
        """The storage version, derived from the numbers in `version`."""
        return StorageVersion.of_file(self.version)

    def check_version(self, found: tuple[int, int]) -> None:
        """Raise CorruptFileError if the version `found` in the file's footer contradicts the manifest.

        Old writers did not record versions, and 2.0 has two spellings.
        """
        if self.version not in (_UNSAID, found) and not {self.version, found} <= _V2_0:
            versions = "version {}.{} in its footer, but {}.{} in the manifest".format(*found, *self.version)
            raise CorruptFileError(f"data file {self.path} has {versions}")

    @property
    def columns(self) -> dict[int, int]:
        """The column index of each field that has a column in the file, by field id."""
        return {i: column for i, column in zip(self.fields, self.column_indices) if i != TOMBSTONE and column >= 0}


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The deletion vector of a fragment with `num_deleted` rows (None if the writer did not record the number)."""

    is_bitmap: bool
    read_version: int
    id: int
    num_deleted: int | None
    base_id: int | None = None
    unknown: bytes = b""

    def path(self, fragment_id: int) -> str:
        """The file's path below the table's root or its base path."""
        return f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{'bin' if self.is_bitmap else 'arrow'}"


@dataclass(frozen=True, slots=True)
class HeldDeletions(DeletionFile):
    """Deleted rows that are in no file, but only in memory: their `offsets`, ascending, as bytes of uint32."""

    offsets: bytes = b""

    @classmethod
    def of(cls, offsets: np.ndarray) -> HeldDeletions:
        """Hold these ascending offsets."""
        return cls(False, 0, 0, len(offsets), offsets=offsets.astype(np.uint32).tobytes())


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A range of a file with data that is too large for the manifest; `path` is relative to the table's root."""

    path: str
    offset: int
    size: int
    unknown: bytes = b""


@dataclass(frozen=True, slots=True)
class SpilledColumn:
    """A hidden column of a data file with a value (uint64) for each of the fragment's `rows`: they are too large for the manifest."""

    file: DataFile
    field_id: int
    rows: int


LineageSequence: TypeAlias = bytes | ExternalFile | SpilledColumn
"""Row ids or row versions of a fragment: serialised (see `metadata.row_ids`), or where they are."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A set of rows: data files with different columns of the same `physical_rows` rows, and a deletion file.

    `physical_rows` includes deleted rows. `overlays` are kept unparsed (see `metadata.overlays`).
    """

    id: int
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion: DeletionFile | None = None
    row_ids: LineageSequence | None = None
    created_at: LineageSequence | None = None
    updated_at: LineageSequence | None = None
    overlays: tuple[bytes, ...] = ()
    unknown: bytes = b""

    @property
    def sources(self) -> tuple[object, ...]:
        """What has the values of its rows, deleted ones included. While these are the same, no value of a row has changed."""
        return self.files, self.overlays


@dataclass(frozen=True, slots=True)
class LogFragment(Fragment):
    """Rows of a write-ahead log that are read as those of a table: they have no row ids and versions, and no place in the table.

    `has_addresses`: a search numbers its rows by addresses, which mean nothing outside of it.
    """

    has_addresses: bool = False


_SEQUENCES: Mapping[str, tuple[str, int, str]] = {
    "row_ids": ("row_id_sequence", -3, "spilled_row_ids"),
    "created_at_versions": ("created_at_version_sequence", -4, "spilled_created_at_versions"),
    "last_updated_at_versions": ("last_updated_at_version_sequence", -5, "spilled_last_updated_at_versions"),
}
"""The names of a sequence in the message of a fragment, and the field of its hidden column."""


@dataclass(frozen=True, slots=True)
class BasePath:
    """A further location of the table's files: the root of a table, or a plain folder if `is_dataset_root` is False."""

    id: int
    path: str
    is_dataset_root: bool
    name: str | None = None
    unknown: bytes = b""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index. `path` is relative to the index's folder; `size` is in bytes."""

    path: str
    size: int
    unknown: bytes = b""


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """A segment of an index.

    `fields` are the ids of the indexed columns. `fragment_bitmap` is the portable roaring bitmap of the covered fragments (empty: not
    recorded). `details` is a message of the type `details_type` (a type URL). `created_at` is in milliseconds since 1970. `details_file` is
    where a file has the details, as `details` say.
    """

    uuid: bytes
    name: str
    fields: tuple[int, ...]
    dataset_version: int
    fragment_bitmap: bytes = b""
    details_type: str = ""
    details: bytes = b""
    index_version: int | None = None
    created_at: int | None = None
    base_id: int | None = None
    files: tuple[IndexFile, ...] = ()
    covering_fields: tuple[int, ...] = ()
    unknown: bytes = b""
    details_file: DetailsFile | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Reading:
    """Options of converting messages to values. `unknown`: look for unknown fields, which is slow. Equal id lists are shared."""

    unknown: bool = True
    _shared: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def ids(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """The shared tuple that equals `values`."""
        return self._shared.setdefault(values, values)

    def rest(self, message: Message) -> bytes:
        """The unknown fields of `message`, serialised."""
        return unknown_fields(message) if self.unknown else b""


def unknown_fields(message: Message) -> bytes:
    """The unknown fields of `message` (not those of nested messages), serialised."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name in message.DESCRIPTOR.fields_by_name:
        copy.ClearField(name)
    return copy.SerializeToString()


def read_data_file(message: pb.DataFile, reading: Reading) -> DataFile:
    """Convert a DataFile message. Raises CorruptFileError if it is invalid."""
    fields, columns = reading.ids(tuple(message.fields)), reading.ids(tuple(message.column_indices))
    if columns and len(columns) != len(fields):
        raise CorruptFileError(f"data file {message.path!r} has {len(columns)} column indices, expected {len(fields)}, one per field")
    return DataFile(
        message.path,
        fields,
        columns,
        (message.file_major_version, message.file_minor_version),
        message.file_size_bytes or None,
        message.base_id if message.HasField("base_id") else None,
        reading.rest(message),
    )


def write_data_file(file: DataFile, message: pb.DataFile) -> None:
    """Fill an empty DataFile message."""
    message.MergeFromString(file.unknown)
    message.path = file.path
    message.fields.extend(file.fields)
    message.column_indices.extend(file.column_indices)
    message.file_major_version, message.file_minor_version = file.version
    message.file_size_bytes = file.size or 0
    if file.base_id is not None:
        message.base_id = file.base_id


def read_deletion_file(message: pb.DeletionFile, reading: Reading) -> DeletionFile:
    """Convert a DeletionFile message. Raises CorruptFileError if it is invalid."""
    if message.file_type not in (pb.DeletionFile.ARROW_ARRAY, pb.DeletionFile.BITMAP):
        raise CorruptFileError(f"deletion file {message.id} has the unknown type {message.file_type}")
    if message.num_deleted_rows > 2**32:
        raise CorruptFileError(f"deletion file {message.id} has {message.num_deleted_rows} rows, expected at most 2^32")
    return DeletionFile(
        message.file_type == pb.DeletionFile.BITMAP,
        message.read_version,
        message.id,
        message.num_deleted_rows or None,
        message.base_id if message.HasField("base_id") else None,
        reading.rest(message),
    )


def write_deletion_file(file: DeletionFile, message: pb.DeletionFile) -> None:
    """Fill an empty DeletionFile message."""
    message.MergeFromString(file.unknown)
    message.file_type = pb.DeletionFile.BITMAP if file.is_bitmap else pb.DeletionFile.ARROW_ARRAY
    message.read_version, message.id, message.num_deleted_rows = file.read_version, file.id, file.num_deleted or 0
    if file.base_id is not None:
        message.base_id = file.base_id
    message.SetInParent()


def _sequence(message: pb.DataFragment, name: str, files: tuple[DataFile, ...], reading: Reading) -> LineageSequence | None:
    oneof, field_id, spilled = _SEQUENCES[name]
    if message.HasField(spilled):
        having = [file for file in files if field_id in file.fields]
        if len(having) != 1:
            what = f"{len(having)} columns {field_id} with ids or versions of its rows"
            raise CorruptFileError(f"fragment {message.id} has {what}, expected 1")
        return SpilledColumn(having[0], field_id, message.physical_rows)
    which = message.WhichOneof(oneof)
    if which is None:
        return None
    value = getattr(message, which)
    return value if isinstance(value, bytes) else ExternalFile(value.path, value.offset, value.size, reading.rest(value))


def read_fragment(message: pb.DataFragment, reading: Reading) -> Fragment:
    """Convert a DataFragment message. Raises CorruptFileError if it is invalid."""
    if message.id >= 2**32:
        raise CorruptFileError(f"fragment id {message.id} does not fit 32 bits")
    if message.physical_rows > 2**32:
        raise CorruptFileError(f"fragment {message.id} has {message.physical_rows} rows, expected at most 2^32")
    files = tuple([read_data_file(f, reading) for f in message.files])
    # Some writers of 0.1 files duplicated ids. In later versions, the valid column would be ambiguous.
    ids = [i for f in files if not f.is_legacy for i in f.fields if i >= 0] if len(files) > 1 else []
    if len(ids) != len(set(ids)):
        raise CorruptFileError(f"a column of fragment {message.id} is duplicated in its data files, which have the field ids {sorted(ids)}")
    return Fragment(
        message.id,
        files,
        message.physical_rows,
        read_deletion_file(message.deletion_file, reading) if message.HasField("deletion_file") else None,
        _sequence(message, "row_ids", files, reading),
        _sequence(message, "created_at_versions", files, reading),
        _sequence(message, "last_updated_at_versions", files, reading),
        tuple(message.overlays),
        reading.rest(message),
    )


def write_fragment(fragment: Fragment, message: pb.DataFragment) -> None:
    """Fill an empty DataFragment message."""
    message.MergeFromString(fragment.unknown)
    message.id, message.physical_rows = fragment.id, fragment.physical_rows
    for file in fragment.files:
        write_data_file(file, message.files.add())
    if fragment.deletion is not None:
        write_deletion_file(fragment.deletion, message.deletion_file)
    for name, sequence in (
        ("row_ids", fragment.row_ids),
        ("created_at_versions", fragment.created_at),
        ("last_updated_at_versions", fragment.updated_at),
    ):
        if isinstance(sequence, ExternalFile):
            external = getattr(message, f"external_{name}")
            external.MergeFromString(sequence.unknown)
            external.path, external.offset, external.size = sequence.path, sequence.offset, sequence.size
        elif isinstance(sequence, SpilledColumn):
            getattr(message, _SEQUENCES[name][2]).SetInParent()
        elif sequence is not None:
            setattr(message, f"inline_{name}", sequence)
    message.overlays.extend(fragment.overlays)


def read_base_path(message: pb.BasePath, reading: Reading) -> BasePath:
    """Convert a BasePath message."""
    name = message.name if message.HasField("name") else None
    return BasePath(message.id, message.path, message.is_dataset_root, name, reading.rest(message))


def write_base_path(base: BasePath, message: pb.BasePath) -> None:
    """Fill an empty BasePath message."""
    message.MergeFromString(base.unknown)
    message.id, message.path, message.is_dataset_root = base.id, base.path, base.is_dataset_root
    if base.name is not None:
        message.name = base.name


def read_index(message: pb.IndexMetadata, reading: Reading) -> IndexMetadata:
    """Convert an IndexMetadata message. Raises CorruptFileError if it is invalid."""
    if len(message.uuid.uuid) != 16:
        raise CorruptFileError(f"index {message.name!r} has a uuid of {len(message.uuid.uuid)} bytes; expected 16")
    return IndexMetadata(
        message.uuid.uuid,
        message.name,
        tuple(message.fields),
        message.dataset_version,
        message.fragment_bitmap,
        message.index_details.type_url,
        message.index_details.value,
        message.index_version if message.HasField("index_version") else None,
        message.created_at if message.HasField("created_at") else None,
        message.base_id if message.HasField("base_id") else None,
        tuple(IndexFile(f.path, f.size_bytes, reading.rest(f)) for f in message.files),
        tuple(message.covering_fields),
        reading.rest(message),
    )


def write_index(index: IndexMetadata, message: pb.IndexMetadata) -> None:
    """Fill an empty IndexMetadata message."""
    message.MergeFromString(index.unknown)
    message.uuid.uuid, message.name, message.dataset_version = index.uuid, index.name, index.dataset_version
    message.fields.extend(index.fields)
    message.fragment_bitmap = index.fragment_bitmap
    if index.details_type:
        message.index_details.type_url, message.index_details.value = index.details_type, index.details
    for name in ("index_version", "created_at", "base_id"):
        if (value := getattr(index, name)) is not None:
            setattr(message, name, value)
    for file in index.files:
        entry = message.files.add()
        entry.MergeFromString(file.unknown)
        entry.path, entry.size_bytes = file.path, file.size
    message.covering_fields.extend(index.covering_fields)
