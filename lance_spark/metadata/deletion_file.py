"""Deletion files: the offsets of a fragment's deleted rows.

Implements the deletion files of the table specification: `.arrow` is an Arrow file with one batch and the column `row_id` (uint32,
in any order); `.bin` is a portable 32-bit roaring bitmap.
"""

from __future__ import annotations

import io
import secrets

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.arrow_file import decoded_bytes
from lance_spark.metadata.bitmaps import bitmap_of, offsets_of, read_bitmap
from lance_spark.metadata.checksum import CHECKSUM_SIZE, verify_checksum, with_checksum
from lance_spark.metadata.fragment import DeletionFile, Fragment, HeldDeletions
from lance_spark.metadata.locations import Locations
from lance_spark.storage.store import Store

_PAD = bytes(4)
"""Padding after the checksum in an Arrow file, whose parts are aligned to 8 bytes."""

BITMAP_FROM = 5000
"""At this many deletions or more, a bitmap is written, as in pylance."""

_VALUE_BYTES, _PADDING = 16, 4096
"""Upper bounds of the memory per row number (with its validity), and of the padding of a file's buffers, in bytes."""


def read_deletions(fragment: Fragment, locations: Locations) -> np.ndarray:
    """The offsets of the fragment's deleted rows (uint32, ascending), which stay in memory.

    Raises CorruptFileError if the file is invalid or has another number of deleted rows than the manifest.
    """
    deletion = fragment.deletion
    if deletion is None:
        return np.empty(0, dtype=np.uint32)
    if isinstance(deletion, HeldDeletions):
        return np.frombuffer(deletion.offsets, np.uint32)
    key = "deletions", fragment.id, deletion, fragment.physical_rows
    return locations.kept.get(key, lambda: _read_deletions(fragment, deletion, locations), lambda offsets: offsets.nbytes)


def _read_deletions(fragment: Fragment, deletion: DeletionFile, locations: Locations) -> np.ndarray:
    store, path = locations.deletion_file(fragment)
    data = store.read(path)
    try:
        if locations.verify_checksums:
            verify_checksum(data, _checksum_at(data, deletion.is_bitmap))
        expected = deletion.num_deleted
        most = expected if expected is not None else fragment.physical_rows or 2**32
        offsets = parse_bitmap(data, most) if deletion.is_bitmap else parse_arrow(data, most)
        if expected not in (None, len(offsets)):
            raise CorruptFileError(f"it has {len(offsets)} deleted rows, expected {expected} as in the manifest")
        if len(offsets) and fragment.physical_rows and offsets[-1] >= fragment.physical_rows:
            raise CorruptFileError(f"it deletes row {offsets[-1]}, but the fragment has only {fragment.physical_rows} rows")
    except CorruptFileError as e:
        raise CorruptFileError(f"{store.uri}/{path}: {e}") from e
    offsets.flags.writeable = False
    return offsets


def live_offsets(fragment: Fragment, locations: Locations) -> BitMap:
    """The offsets of the fragment's rows that are not deleted. Raises CorruptFileError, see `read_deletions`."""
    return BitMap(range(fragment.physical_rows)) - bitmap_of(read_deletions(fragment, locations))


def parse_arrow(data: bytes, most: int = 2**32) -> np.ndarray:
    """The offsets in an Arrow deletion file, ascending. Raises CorruptFileError if it needs more memory than `most` offsets can."""
    size = decoded_bytes(data)
    check_bytes(size, "deleted rows")
    if size > _VALUE_BYTES * most + _PADDING:
        raise CorruptFileError(f"it has {size} bytes of row numbers, too many for {most} deleted rows")
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        shown = str(table.schema)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise CorruptFileError(f"it is not an Arrow file: {e}") from e
    if table.num_columns != 1 or not pa.types.is_integer(table.schema.field(0).type) or table.column(0).null_count:
        raise CorruptFileError(f"expected one integer column without nulls, found {shown}")
    values = table.column(0).to_numpy()
    offsets = np.unique(values).astype(np.uint32)
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= 2**32):
        raise CorruptFileError("found row numbers that do not fit 32 bits")
    return offsets


def parse_bitmap(data: bytes, most: int = 2**32) -> np.ndarray:
    """The offsets in a portable roaring bitmap, ascending. Raises CorruptFileError for more than `most` of them."""
    bitmap = read_bitmap(data, "the deletion file")
    check_bytes(4 * len(bitmap), "deleted rows")
    if len(bitmap) > most:
        raise CorruptFileError(f"it has {len(bitmap)} deleted rows, expected at most {most}")
    return offsets_of(bitmap)


def write_deletions(store: Store, fragment_id: int, read_version: int, offsets: np.ndarray, sync_name: bool = True) -> DeletionFile:
    """Write a new deletion file for ascending `offsets`, at least one. No version refers to it yet. For `sync_name`, see `Store.create`."""
    is_bitmap, data = serialise_deletions(offsets)
    file = DeletionFile(is_bitmap, read_version, secrets.randbits(64), len(offsets))
    with store.create(file.path(fragment_id), sync_name) as out:
        out.write(data)
    return file


def serialise_deletions(offsets: np.ndarray) -> tuple[bool, bytes]:
    """The content of a deletion file for ascending `offsets`, and whether it is a bitmap."""
    if len(offsets) >= BITMAP_FROM:
        bitmap = bitmap_of(offsets)
        bitmap.run_optimize()
        return True, with_checksum(bytes(bitmap.serialize()), b"")
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    out = io.BytesIO()
    with pa.ipc.new_file(out, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(offsets, pa.uint32())], schema=schema))
    data = out.getvalue()
    footer = len(data) - _arrow_footer_size(data)
    return False, with_checksum(data[:footer], _PAD + data[footer:])


def _checksum_at(data: bytes, is_bitmap: bool) -> int:
    """The position of the checksum of a deletion file, if it has one: at the end of a bitmap, before the footer of an Arrow file."""
    return len(data) - CHECKSUM_SIZE - (0 if is_bitmap else len(_PAD) + _arrow_footer_size(data))


def _arrow_footer_size(data: bytes) -> int:
    """The end of an Arrow file: the footer, its size (i32), "ARROW1"."""
    return int.from_bytes(data[-10:-6], "little") + 10
