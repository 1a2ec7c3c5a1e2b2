"""Stable row ids of a fragment, and the versions that created or last updated its rows: serialised sequences <-> arrays.

Implements the row id and lineage page of the table specification. Contrary to that page, the bitmap of a range starts with the least
significant bit, as writers do it. A few bytes can represent any number of rows, so sequences are kept serialised, and only requested
values take memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lance_spark._proto import rowids_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import Fragment, LineageSequence, SpilledColumn
from lance_spark.metadata.locations import Locations
from lance_spark.reading.steps import Rows

_MAX_U64 = 2**64 - 1
_LITTLE = {"u16_array": ("offsets", "<u2"), "u32_array": ("offsets", "<u4"), "u64_array": ("values", "<u8")}


def load_sequence(sequence: LineageSequence, locations: Locations) -> bytes:
    """Return a serialised sequence, reading it from its file if it is not inline."""
    if isinstance(sequence, bytes):
        return sequence
    if isinstance(sequence, SpilledColumn):
        return locations.read_spilled(sequence, locations)
    store, path = locations.root_file(sequence.path)
    return bytes(store.read_ranges(path, [ByteRange(sequence.offset, sequence.offset + sequence.size)])[0])


def row_ids_of(fragment: Fragment, locations: Locations) -> RowIds:
    """The row ids of the fragment's rows, including deleted ones; they stay in memory. Raises CorruptFileError if there are none."""
    sequence = fragment.row_ids
    if sequence is None:
        raise CorruptFileError(f"fragment {fragment.id} has no row ids, but the table has stable row ids: the manifest is corrupt")
    rows = fragment.physical_rows

    def parsed() -> RowIds:
        return parse_row_ids(load_sequence(sequence, locations), rows)

    return locations.kept.get(("row ids", sequence, rows), parsed, lambda ids: ids.nbytes)


@dataclass(frozen=True)
class Segment:
    """`count` values: either `values`, or the numbers from `start` except `holes` (ascending, uint64)."""

    count: int
    start: int
    holes: np.ndarray
    values: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes once values were looked up."""
        return self.holes.nbytes if self.values is None else 3 * self.values.nbytes

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds of the values. The segment must not be empty."""
        if self.values is not None:
            return int(self.values.min()), int(self.values.max())
        return self.start, self.start + self.count + len(self.holes) - 1

    @cached_property
    def _before_holes(self) -> np.ndarray:
        """The number of values before each hole."""
        return (self.holes - np.uint64(self.start)).astype(np.int64) - np.arange(len(self.holes))

    @cached_property
    def _in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the values in ascending order, and the values in this order."""
        assert self.values is not None
        order = np.argsort(self.values)
        return order, self.values[order]

    def at(self, numbers: np.ndarray) -> np.ndarray:
        """The values at these positions."""
        if self.values is not None:
            chosen: np.ndarray = self.values[numbers]
            return chosen
        passed: np.ndarray = numbers + np.searchsorted(self._before_holes, numbers, side="right")
        return passed.astype(np.uint64) + np.uint64(self.start)

    def find(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up ascending values. Returns the indices of those that exist, and their positions in the segment."""
        if self.values is not None:
            order, ordered = self._in_order
            at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
            which = np.flatnonzero(ordered[at] == wanted)
            return which, order[at[which]]
        low, high = (np.uint64(bound) for bound in self.bounds)
        which = np.flatnonzero((wanted >= low) & (wanted <= high) & ~np.isin(wanted, self.holes))
        return which, (wanted[which] - low).astype(np.int64) - np.searchsorted(self.holes, wanted[which])


@dataclass(frozen=True)
class RowIds:
    """The row ids of the `count` rows of a fragment, including deleted ones."""

    segments: Sequence[Segment]
    count: int

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(s.nbytes for s in self.segments)

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([s.count for s in self.segments], dtype=np.int64)

    def at(self, rows: Rows) -> np.ndarray:
        """The ids (uint64) of these rows."""
        numbers = _numbers(rows)
        ids = np.empty(len(numbers), dtype=np.uint64)
        cuts = [0, *np.searchsorted(numbers, self._ends).tolist()]
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[i], cuts[i + 1])
            before = self._ends[i - 1] if i else 0
            ids[part] = self.segments[i].at(numbers[part] - before)
        return ids

    def find(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up ascending ids. Returns the indices of those that exist, and their rows."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for segment, end in zip(self.segments, self._ends.tolist()):
            if not len(wanted) or not segment.count:
                continue
            least, most = segment.bounds
            if least <= wanted[-1] and wanted[0] <= most:
                which, numbers = segment.find(wanted)
                found.append((which, numbers + (end - segment.count)))
        return np.concatenate([which for which, _ in found]), np.concatenate([rows for _, rows in found])


@dataclass(frozen=True)
class RowVersions:
    """The version that created or last updated each of the `count` rows, in runs: run i ends before row `ends[i]`."""

    ends: np.ndarray
    versions: np.ndarray
    count: int

    def at(self, rows: Rows) -> np.ndarray:
        """The versions (uint64) of these rows."""
        return self.versions[np.searchsorted(self.ends, _numbers(rows), side="right")]


def _numbers(rows: Rows) -> np.ndarray:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def all_values(sequence: RowIds | RowVersions) -> np.ndarray:
    """The values (uint64) of all rows of the fragment. Raises CorruptFileError for too many rows."""
    check_bytes(8 * sequence.count, "the row ids or versions of a fragment")
    return sequence.at(range(sequence.count))


def parse_row_ids(data: bytes, count: int) -> RowIds:
    """The row ids of the `count` rows of a fragment, including deleted ones."""
    segments = _segments(data)
    if (found := sum(s.count for s in segments)) != count:
        raise CorruptFileError(f"found {found} row ids; expected {count}, one per row")
    return RowIds(segments, count)


def parse_versions(data: bytes, count: int) -> RowVersions:
    """The version that created or last updated each of the `count` rows of a fragment."""
    message = parse_message(pb.RowDatasetVersionSequence, data, "the row versions")
    lengths = [_segment(run.span).count for run in message.runs]
    if sum(lengths) != count:
        raise CorruptFileError(f"found versions for {sum(lengths)} rows; expected {count}")
    return RowVersions(np.cumsum(lengths, dtype=np.int64), np.array([run.version for run in message.runs], dtype=np.uint64), count)


def row_id_count(data: bytes) -> int:
    """The number of row ids in a serialised sequence."""
    return sum(s.count for s in _segments(data))


def _segments(data: bytes) -> list[Segment]:
    return [_segment(s) for s in parse_message(pb.RowIdSequence, data, "the row ids").segments]


def _segment(segment: pb.U64Segment) -> Segment:
    kind, nothing = segment.WhichOneof("segment"), np.empty(0, dtype=np.uint64)
    if kind is None:
        return Segment(0, 0, nothing)
    part = getattr(segment, kind)
    if kind in ("sorted_array", "array"):
        values = _array(part)
        return Segment(len(values), 0, nothing, values)
    extent = part.end - part.start
    if extent < 0:
        raise CorruptFileError(f"a range of a sequence ends at {part.end}, before its start {part.start}")
    if kind == "range_with_bitmap":
        if len(part.bitmap) != (extent + 7) // 8:
            raise CorruptFileError(f"a bitmap of {extent} values has {len(part.bitmap)} bytes; expected {(extent + 7) // 8}")
        bits = np.unpackbits(np.frombuffer(part.bitmap, dtype=np.uint8), bitorder="little", count=extent)
        values = np.flatnonzero(bits).astype(np.uint64) + np.uint64(part.start)
        return Segment(len(values), 0, nothing, values)
    holes = _array(part.holes) if kind == "range_with_holes" else nothing
    are_outside = len(holes) and (holes[0] < part.start or holes[-1] >= part.end)
    if are_outside or (holes[1:] <= holes[:-1]).any():
        raise CorruptFileError("the holes of a range are not ascending or are outside of the range")
    return Segment(extent - len(holes), part.start, holes)


def _array(array: pb.EncodedU64Array) -> np.ndarray:
    kind = array.WhichOneof("array")
    if kind is None:
        return np.empty(0, dtype=np.uint64)
    part = getattr(array, kind)
    name, dtype = _LITTLE[kind]
    data = getattr(part, name)
    if len(data) % np.dtype(dtype).itemsize:
        raise CorruptFileError(f"an array of a sequence has {len(data)} bytes; expected a multiple of {np.dtype(dtype).itemsize}")
    values = np.frombuffer(data, dtype=dtype).astype(np.uint64)
    if kind == "u64_array":
        return values
    if len(values) and int(values.max()) + part.base > _MAX_U64:
        raise CorruptFileError(f"the values of a sequence do not fit 64 bits: base {part.base} plus {values.max()}")
    return values + np.uint64(part.base)


def serialise_row_ids(ids: np.ndarray) -> bytes:
    """Serialise `ids` (uint64) as one segment in its smallest encoding."""
    message = pb.RowIdSequence()
    if len(ids):
        _fill(message.segments.add(), ids)
    return message.SerializeToString()


def with_row_id_range(data: bytes, start: int, count: int) -> bytes:
    """Append `count` ids from `start` to the sequence `data` (b"": empty). Raises CorruptFileError if ids exceed 64 bits."""
    if not count:
        return data
    if start + count > _MAX_U64:
        raise CorruptFileError(f"{count} row ids from {start} do not fit 64 bits")
    if data:
        known = row_id_count(data)
        check_bytes(8 * (known + count), "the row ids of a fragment")
        added = np.arange(count, dtype=np.uint64) + np.uint64(start)
        return serialise_row_ids(np.concatenate([all_values(parse_row_ids(data, known)), added]))
    message = pb.RowIdSequence()
    part = message.segments.add().range
    part.start, part.end = start, start + count
    return message.SerializeToString()


def serialise_versions(versions: np.ndarray) -> bytes:
    """Serialise the versions (uint64) of a fragment's rows, as runs."""
    message = pb.RowDatasetVersionSequence()
    is_first = np.append(True, versions[1:] != versions[:-1])[: len(versions)]
    starts = np.flatnonzero(is_first)
    stops = [*starts[1:].tolist(), len(versions)]
    for start, stop, version in zip(starts.tolist(), stops, versions[starts].tolist()):
        _add_run(message, start, stop, version)
    return message.SerializeToString()


def serialise_version(version: int, count: int) -> bytes:
    """Serialise one version for `count` rows."""
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
        # Size estimates as in pylance: 4 bytes per hole, 1 bit per value of the range, 2 bytes per id. On a tie, the first wins.
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
