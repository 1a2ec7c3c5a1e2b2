"""Stable row ids of a fragment, and the versions that made or last changed its rows: serialised sequences <-> arrays.

Implements the row id and lineage page of the table specification. In a range with a bitmap the least significant bit comes first,
whatever the page says; that is what is written.
"""

from __future__ import annotations

import numpy as np

from lance_spark._proto import rowids_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import ExternalFile
from lance_spark.metadata.locations import Locations

_MAX_U64 = 2**64 - 1
_LITTLE = {"u16_array": ("offsets", "<u2"), "u32_array": ("offsets", "<u4"), "u64_array": ("values", "<u8")}


def load_sequence(sequence: bytes | ExternalFile, locations: Locations) -> bytes:
    """A serialised sequence, read from its file if it is not inline."""
    if isinstance(sequence, bytes):
        return sequence
    store, path = locations.root_file(sequence.path)
    return bytes(store.read_ranges(path, [ByteRange(sequence.offset, sequence.offset + sequence.size)])[0])


def parse_row_ids(data: bytes, count: int) -> np.ndarray:
    """The row ids (uint64) of the `count` rows of a fragment, deleted ones included."""
    parts, left = [], count
    for segment in _row_ids(data).segments:
        parts.append(_segment(segment, left))
        left -= len(parts[-1])
    if left:
        raise CorruptFileError(f"there are {count - left} row ids for {count} rows")
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def parse_versions(data: bytes, count: int) -> np.ndarray:
    """The version (uint64) that each of the `count` rows of a fragment was made or last changed in."""
    message = parse_message(pb.RowDatasetVersionSequence, data, "the row versions")
    lengths, left = [], count
    for run in message.runs:
        lengths.append(len(_segment(run.span, left)))
        left -= lengths[-1]
    if left:
        raise CorruptFileError(f"there are versions for {count - left} of {count} rows")
    return np.repeat(np.array([run.version for run in message.runs], dtype=np.uint64), lengths)


def _segment(segment: pb.U64Segment, most: int) -> np.ndarray:
    """The values of a segment, of which there may be `most`."""
    kind = segment.WhichOneof("segment")
    if kind is None:
        return np.empty(0, dtype=np.uint64)
    part = getattr(segment, kind)
    if kind in ("sorted_array", "array"):
        return _array(part, most)
    extent = part.end - part.start
    # Before memory is taken for the range: what may be missing of it is known from the size of what is here.
    holes = _array(part.holes, extent) if kind == "range_with_holes" else np.empty(0, dtype=np.uint64)
    if kind == "range_with_bitmap" and len(part.bitmap) != (extent + 7) // 8:
        raise CorruptFileError(f"the bitmap of {extent} values has {len(part.bitmap)} bytes")
    if extent < 0 or (kind != "range_with_bitmap" and extent - len(holes) > most):
        raise CorruptFileError(f"the range {part.start} to {part.end} of a sequence does not fit {most} rows")
    if len(holes) and (holes.min() < part.start or holes.max() >= part.end):
        raise CorruptFileError("a range has a hole outside of itself")
    values = np.arange(extent, dtype=np.uint64) + np.uint64(part.start)
    if kind == "range_with_bitmap":
        values = values[np.unpackbits(np.frombuffer(part.bitmap, dtype=np.uint8), bitorder="little", count=extent).view(bool)]
    elif kind == "range_with_holes":
        values = np.delete(values, (holes - np.uint64(part.start)).astype(np.int64))
    if len(values) > most:
        raise CorruptFileError(f"a segment of {len(values)} values does not fit {most} rows")
    return values


def _array(array: pb.EncodedU64Array, most: int) -> np.ndarray:
    kind = array.WhichOneof("array")
    if kind is None:
        return np.empty(0, dtype=np.uint64)
    part = getattr(array, kind)
    name, dtype = _LITTLE[kind]
    data = getattr(part, name)
    width = np.dtype(dtype).itemsize
    if len(data) % width or len(data) // width > most:
        raise CorruptFileError(f"an array of {len(data)} bytes, {width} a value, does not fit {most} rows")
    values = np.frombuffer(data, dtype=dtype).astype(np.uint64)
    return values + np.uint64(part.base) if kind != "u64_array" else values


def row_id_count(data: bytes) -> int:
    """How many row ids a serialised sequence has; counted, not expanded."""
    return sum(_count(segment) for segment in _row_ids(data).segments)


def row_id_bounds(data: bytes) -> tuple[int, int] | None:
    """Two numbers that all row ids of a serialised sequence lie between, both inclusive; None if there are none."""
    bounds = []
    for segment in _row_ids(data).segments:
        kind = segment.WhichOneof("segment")
        if kind in ("sorted_array", "array"):
            values = _array(getattr(segment, kind), _count(segment))
            bounds += [int(values.min()), int(values.max())] if len(values) else []
        elif kind is not None and _count(segment):
            bounds += [getattr(segment, kind).start, getattr(segment, kind).end - 1]
    return (min(bounds), max(bounds)) if bounds else None


def _row_ids(data: bytes) -> pb.RowIdSequence:
    return parse_message(pb.RowIdSequence, data, "the row ids")


def _count(segment: pb.U64Segment) -> int:
    kind = segment.WhichOneof("segment")
    if kind is None:
        return 0
    part = getattr(segment, kind)
    if kind in ("sorted_array", "array"):
        return _length(part)
    if kind == "range_with_bitmap":
        return int(np.unpackbits(np.frombuffer(part.bitmap, dtype=np.uint8)).sum())
    return int(part.end - part.start) - (_length(part.holes) if kind == "range_with_holes" else 0)


def _length(array: pb.EncodedU64Array) -> int:
    kind = array.WhichOneof("array")
    if kind is None:
        return 0
    name, dtype = _LITTLE[kind]
    return len(getattr(getattr(array, kind), name)) // np.dtype(dtype).itemsize


def serialise_row_ids(ids: np.ndarray) -> bytes:
    """The sequence of `ids` (uint64), as one segment of the form that takes the least room."""
    message = pb.RowIdSequence()
    if len(ids):
        _fill(message.segments.add(), ids)
    return message.SerializeToString()


def serialise_versions(versions: np.ndarray) -> bytes:
    """The sequence of the versions (uint64) of a fragment's rows, in runs."""
    message = pb.RowDatasetVersionSequence()
    starts = np.flatnonzero(np.concatenate([[True], versions[1:] != versions[:-1]])) if len(versions) else np.empty(0, np.int64)
    for start, stop, version in zip(starts.tolist(), [*starts[1:].tolist(), len(versions)], versions[starts].tolist()):
        _add_run(message, start, stop, version)
    return message.SerializeToString()


def serialise_version(version: int, count: int) -> bytes:
    """The sequence of `count` rows of the same version."""
    message = pb.RowDatasetVersionSequence()
    _add_run(message, 0, count, version)
    return message.SerializeToString()


def _add_run(message: pb.RowDatasetVersionSequence, start: int, stop: int, version: int) -> None:
    run = message.runs.add()
    run.span.range.start, run.span.range.end, run.version = start, stop, version


def _fill(segment: pb.U64Segment, ids: np.ndarray) -> None:
    low, high = int(ids.min()), int(ids.max())
    extent = high - low + 1
    ascending = bool((ids[1:] > ids[:-1]).all())
    if not ascending:
        _encode(ids, segment.array)
    elif high == _MAX_U64:
        # The end of a range is exclusive.
        _encode(ids, segment.sorted_array)
    elif extent == len(ids):
        segment.range.start, segment.range.end = low, high + 1
    else:
        # As pylance estimates: 4 bytes a hole, a bit a value, 2 bytes a value; of equal ones the first.
        sizes = [4 * (extent - len(ids)), (extent + 7) // 8, 2 * len(ids)]
        smallest = sizes.index(min(sizes))
        if smallest == 2:
            _encode(ids, segment.sorted_array)
            return
        present = np.zeros(extent, dtype=bool)
        present[(ids - np.uint64(low)).astype(np.int64)] = True
        if smallest == 0:
            segment.range_with_holes.start, segment.range_with_holes.end = low, high + 1
            _encode(np.flatnonzero(~present).astype(np.uint64) + np.uint64(low), segment.range_with_holes.holes)
        else:
            segment.range_with_bitmap.start, segment.range_with_bitmap.end = low, high + 1
            segment.range_with_bitmap.bitmap = np.packbits(present, bitorder="little").tobytes()


def _encode(values: np.ndarray, array: pb.EncodedU64Array) -> None:
    low, high = int(values.min()), int(values.max())
    if high - low < 2**32:
        width, part = ("<u2", array.u16_array) if high - low < 2**16 else ("<u4", array.u32_array)
        part.base, part.offsets = low, (values - np.uint64(low)).astype(width).tobytes()
    else:
        array.u64_array.values = values.astype("<u8").tobytes()
