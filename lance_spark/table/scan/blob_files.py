"""Blobs as files: opened by row and read in ranges, wherever their bytes are stored."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.file.data_file import open_blobs
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.row_address import RowAddress
from lance_spark.schema.blobs import BlobKind
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.take import take, take_by_row_id
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.file.source import Source


class BlobFile(io.RawIOBase):
    """One blob as a seekable, read-only file. Each read fetches only its own range; nothing is cached."""

    def __init__(self, fetch: Callable[[ByteRange], Bytes], start: int, size: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._start = start
        self._size = size
        self._at = 0

    def size(self) -> int:
        """The size of the blob in bytes."""
        return self._size

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` from the start, from the current position (`whence` 1) or from the end (2)."""
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence must be 0, 1 or 2, not {whence}")
        at = offset + (0, self._at, self._size)[whence]
        if at < 0:
            raise ValueError(f"position {at} is before the start of the blob")
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`; returns the number of bytes read."""
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """All remaining bytes, in one read of the store."""
        return bytes(self._read(self._size))

    def _read(self, count: int) -> memoryview:
        if self.closed:
            raise ValueError("the blob is closed")
        first = min(self._at, self._size)
        wanted = ByteRange(self._start + first, self._start + min(first + count, self._size))
        if wanted.start == wanted.stop:
            return memoryview(b"")
        data = self._fetch(wanted)
        self._at += len(data)
        return memoryview(data)  # type: ignore[arg-type]  # numpy has no type for its buffers


def take_blobs(
    snapshot: Snapshot,
    column: str,
    ids: Sequence[int] | None,
    addresses: Sequence[int] | None,
    indices: Sequence[int] | None,
) -> list[BlobFile | None]:
    """The blobs of `column` in some rows, see `Dataset.take_blobs`."""
    given = [rows for rows in (ids, addresses, indices) if rows is not None]
    if len(given) != 1:
        raise ValueError("give exactly one of ids, addresses and indices")
    steps = snapshot.manifest.schema.resolve(column)
    if not steps[-1].is_blob:
        raise SchemaMismatchError(f"column {column!r} is not a blob column")
    plan = ScanPlan((quoted(f.name for f in steps), "_rowaddr"), blob_handling="descriptor")
    if indices is not None:
        rows = take(snapshot, indices, plan)
    else:
        rows = take_by_row_id(snapshot, given[0], plan, are_addresses=addresses is not None)
    descriptors: pa.ChunkedArray = rows[steps[0].name]
    for step in steps[1:]:
        descriptors = pc.struct_field(descriptors, [descriptors.type.get_field_index(step.name)])
    fragments, source = {fragment.id: fragment for fragment in reversed(snapshot.manifest.fragments)}, cache(partial(_source, snapshot))
    found: list[BlobFile | None] = []
    for place, address in zip(descriptors.to_pylist(), rows["_rowaddr"].to_pylist()):
        if place is None:
            found.append(None)
            continue
        fragment = fragments[RowAddress(address).fragment_id]
        found.append(_open(snapshot, source, _file(fragment, steps[-1]), place))
    return found


def _file(fragment: Fragment, field: Field) -> DataFile:
    file = next((f for f in fragment.files if field.id in f.fields), None)
    assert file is not None, "a descriptor must come from a data file"
    return file


def _source(snapshot: Snapshot, file: DataFile) -> Source:
    return open_blobs(*snapshot.locations.data_file(file), snapshot.verify_checksums)


def _open(snapshot: Snapshot, source: Callable[[DataFile], Source], file: DataFile, place: Mapping[str, Any]) -> BlobFile:
    """The blob in `file` with this descriptor. `source` opens a data file when its first blob is read, once for all its blobs."""
    start, size, kind = place["position"], place["size"], place.get("kind", BlobKind.INLINE)
    if kind > BlobKind.MANAGED:
        raise UnsupportedFeatureError(f"{file.path}: reading blobs of kind {kind} is not supported")
    if kind == BlobKind.EXTERNAL:
        store, path = snapshot.locations.external_blob(place["blob_uri"], place["blob_id"])
        size = size or store.size(path) - start
    if start < 0 or size < 0:
        raise CorruptFileError(f"{file.path}: invalid blob position {start} or size {size}; expected 0 or more")

    def fetch(wanted: ByteRange) -> Bytes:
        if kind == BlobKind.EXTERNAL:
            return store.read_ranges(path, [wanted])[0]
        return source(file).read_blob(wanted, kind, place.get("blob_id", 0), place.get("blob_uri", ""))

    return BlobFile(fetch, start, size)
