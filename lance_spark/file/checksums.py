"""Checksums of a data file and its blob files, which find damage that decoding does not. docs/checksums.md has the byte layout.

A file is cut into blocks of a fixed size; the checksum table has the CRC-32C of each. The table is before the metadata, and a trailer
between the last offset table and the footer has the checksums of table and metadata, and of itself and the footer. Nothing else in the file
refers to either, so other readers ignore them and rewriting a file drops them.
"""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes, coalesce, cut
from lance_spark.buffers.crc32c import MAGIC, available, crc32c, crc32c_of_blocks, is_magic
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.footer import FOOTER, Footer
from lance_spark.layouts.read_blob import ExternalRange, SidecarRange
from lance_spark.reading.steps import Steps
from lance_spark.storage.waiting import waiting

BLOCK = 16 << 10
"""Size in bytes of the blocks in files that we write."""

ALIGNMENT = 64
"""Positions of the buffers of pages and of global buffers are multiples of this."""

_PAD = b"H"

_TRAILER = struct.Struct("<8sQQIIII")
"""Magic; start and end of the table; bytes of a block; number of blocks from the table to the trailer; of sidecars; CRC-32C of the end."""

_ENTRY = struct.Struct("<QQ")
_SUM = 4
_BLOCK_SIZES = (1 << 10, 1 << 20)
"""The minimum and the maximum block size in files that are read; all sizes are powers of two."""

_MAX_READ = 32 << 20
"""Maximum size in bytes of a read that covers separate requests."""

_SCATTERED = 2
"""Blocks are not kept if they have more than this many times the requested bytes."""

_ADVICE = "Restore it from a copy, or read it as it is with verify_checksums=False"


class ChecksumError(CorruptFileError):
    """A checksum mismatch. `where` is the range of the block, `blob_id` the id of the sidecar, 0 for the data file."""

    def __init__(self, message: str, where: ByteRange, blob_id: int) -> None:
        super().__init__(message)
        self.where = where
        self.blob_id = blob_id


class Output(Protocol):
    """An output of bytes, in order."""

    def write(self, data: bytes | memoryview, /) -> object: ...


class SummedOutput:
    """Passes bytes to an output and keeps the checksums of their blocks."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._sums = array("I")
        self._open, self._filled = 0, 0
        self._waiting = bytearray()
        self.size = 0

    def put(self, data: bytes | memoryview) -> tuple[int, int]:
        """Write `data`, at the latest with `flush`: small pieces wait for others. Return its position and size."""
        at, size = self.size, len(data)
        self.size = at + size
        if size < BLOCK:
            self._waiting += data
            if len(self._waiting) >= BLOCK:
                self.flush()
        else:
            self.flush()
            self._write(data)
        return at, size

    def put_aligned(self, data: bytes | memoryview) -> tuple[int, int]:
        """`put` at a multiple of `ALIGNMENT`."""
        self.pad(-self.size % ALIGNMENT)
        return self.put(data)

    def pad(self, size: int) -> None:
        """Write `size` bytes of padding, fewer than `BLOCK`."""
        self._waiting += _PAD * size
        self.size += size

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, bytearray()
            self._write(memoryview(waiting))

    def _write(self, data: bytes | memoryview) -> None:
        with waiting():
            self._out.write(data)
        if not available():
            return
        rest = memoryview(data)
        if self._filled:
            head, rest = rest[: BLOCK - self._filled], rest[BLOCK - self._filled :]
            self._open, self._filled = crc32c(head, self._open), self._filled + len(head)
            if self._filled < BLOCK:
                return
            self._sums.append(self._open)
        whole = len(rest) - len(rest) % BLOCK
        if whole:
            self._sums.extend(crc32c_of_blocks([rest[:whole]], BLOCK))
        self._open, self._filled = crc32c(rest[whole:]), len(rest) - whole

    def take_sums(self) -> np.ndarray:
        """The checksums (uint32) of the blocks written since the last call. The last block may be shorter; the next begins here."""
        self.flush()
        if self._filled:
            self._sums.append(self._open)
        sums = np.array(self._sums, "<u4")
        self._sums, self._open, self._filled = array("I"), 0, 0
        return sums


def checksum_table(position: int, sums: np.ndarray, sidecars: Sequence[tuple[int, np.ndarray]]) -> bytes:
    """The table at `position`: `sums` of the blocks before it, and the size and sums of each sidecar, whose ids start at 1."""
    at = position + sums.nbytes + len(sidecars) * _ENTRY.size
    entries = []
    for size, blocks in sidecars:
        entries.append(_ENTRY.pack(at, size))
        at += blocks.nbytes
    return b"".join([sums.tobytes(), *entries, *(blocks.tobytes() for _, blocks in sidecars)])


def checksum_trailer(table: ByteRange, sums: np.ndarray, num_sidecars: int, footer: bytes) -> bytes:
    """The trailer before `footer`; `sums` are those of the blocks from the start of the table to here."""
    head = sums.tobytes() + _TRAILER.pack(MAGIC, *table, BLOCK, len(sums), num_sidecars, 0)[:-_SUM]
    return head + crc32c(footer, crc32c(head)).to_bytes(_SUM, "little")


def read_checksums(size: int) -> Steps[Checksums | None]:
    """The checksums of a file of `size` bytes; None if it has none. Raises ChecksumError if its end is damaged."""
    fixed_at = size - FOOTER.size - _TRAILER.size
    if fixed_at < 0 or not available():
        return None
    (fixed,) = yield [ByteRange(fixed_at, size)]
    magic, start, stop, block, num_blocks, num_sidecars, expected = _TRAILER.unpack(fixed[: _TRAILER.size].tobytes())
    if not is_magic(magic):
        return None
    trailer_at = fixed_at - num_blocks * _SUM
    if trailer_at < 0:
        raise CorruptFileError(f"a checksum trailer of {num_blocks} blocks does not fit a file of {size} bytes")
    (sums,) = yield [ByteRange(trailer_at, fixed_at)]
    found = crc32c(fixed[_TRAILER.size :], crc32c(fixed[: _TRAILER.size - _SUM], crc32c(sums)))
    if found != expected or magic != MAGIC:
        raise _mismatch(ByteRange(trailer_at, size), 0, expected, found)
    if not _BLOCK_SIZES[0] <= block <= _BLOCK_SIZES[1] or block & (block - 1):
        raise UnsupportedFeatureError(
            f"checksums of blocks of {block} bytes are not supported; expected a power of two from {_BLOCK_SIZES[0]} to {_BLOCK_SIZES[1]}"
        )
    needed = _count(start, block) * _SUM + num_sidecars * _ENTRY.size
    if not start + needed <= stop <= trailer_at or _count(trailer_at - start, block) != num_blocks:
        raise CorruptFileError(
            f"the checksum table at bytes {start} to {stop} of {size} does not match {num_blocks} blocks and a trailer at {trailer_at}"
        )
    return Checksums(block, ByteRange(start, stop), trailer_at, np.frombuffer(sums.tobytes(), "<u4"), num_sidecars)


def refuse_lost_trailer(footer: Footer, tail: Bytes) -> None:
    """Raise CorruptFileError if a file, whose end is `tail`, has lost its trailer: it has a checksum table before global buffer 0."""
    if not len(footer.global_buffers) or not available():
        return
    stop = int(footer.global_buffers[0, 0]) - (footer.size - len(tail))
    if tail[max(stop - len(MAGIC), 0) : max(stop, 0)].tobytes() == MAGIC:
        raise CorruptFileError(f"there is a checksum table, but no trailer: the end of the file is damaged. {_ADVICE}")


def _count(size: int, block: int) -> int:
    """The number of blocks in `size` bytes."""
    return -(-size // block)


def _mismatch(where: ByteRange, blob_id: int, expected: int, found: int) -> ChecksumError:
    text = (
        f"bytes {where.start} to {where.stop} were written with the CRC-32C {expected:#010x}, now it is {found:#010x}: "
        f"the file is damaged. {_ADVICE}"
    )
    return ChecksumError(text, where, blob_id)


@dataclass(frozen=True, eq=False)
class _Section:
    """Bytes `start` to `stop` of the data file (blob id 0) or a sidecar, in blocks from `start`.

    `sums_at` is the position of the first block's checksum in the data file; None if the checksums are in the trailer.
    """

    start: int
    stop: int
    sums_at: int | None
    blob_id: int = 0

    def widened(self, wanted: ByteRange, block: int) -> ByteRange:
        """The whole blocks around a range."""
        first, last = (wanted.start - self.start) // block, _count(wanted.stop - self.start, block)
        return ByteRange(self.start + first * block, min(self.start + last * block, self.stop))

    def place(self, where: ByteRange) -> ByteRange:
        """`where`, with the file that it is in."""
        return SidecarRange.of(self.blob_id, *where) if self.blob_id else where


class Checksums:
    """The checksums of one file and its `num_sidecars` sidecars, read when needed, and reads of checked blocks."""

    def __init__(self, block: int, table: ByteRange, trailer_at: int, trailer_sums: np.ndarray, num_sidecars: int) -> None:
        self._block = block
        self._trailer_sums = trailer_sums
        self.num_sidecars = num_sidecars
        self._data = _Section(0, table.start, table.start)
        self._metadata = _Section(table.start, trailer_at, None)
        self._table_size = table.stop - table.start
        self._sidecars: dict[int, _Section] = {}

    @cached_property
    def _table(self) -> np.ndarray:
        """The checksum table as far as it is `_loaded`. The system allocates memory only when it is written to."""
        return np.zeros(self._table_size, np.uint8)

    @cached_property
    def _loaded(self) -> np.ndarray:
        """For each block of the table: whether it has been read."""
        return np.zeros(_count(self._table_size, self._block), bool)

    def are_those_of(self, file: Bytes) -> bool:
        """Whether the bytes of a whole file, which has no sidecars, have these checksums."""
        start, block = self._data.stop, self._block
        sums = np.frombuffer(file, "<u4", _count(start, block), start)
        if crc32c_of_blocks([file[:start]], block) != sums.tolist():
            return False
        return bool(crc32c_of_blocks([file[start : self._metadata.stop]], block) == self._trailer_sums.tolist())

    def read(self, ranges: Sequence[ByteRange]) -> Steps[list[Bytes]]:
        """The bytes of each range, checked unless they are external. Asks for whole blocks. Raises ChecksumError."""
        answers: list[Bytes] = [np.empty(0, np.uint8)] * len(ranges)
        sections: dict[_Section | None, list[int]] = {}
        for i, wanted in enumerate(ranges):
            if wanted.stop > wanted.start or isinstance(wanted, ExternalRange):
                sections.setdefault((yield from self._section_of(wanted)), []).append(i)
        for section, numbers in sections.items():
            own = [ranges[i] for i in numbers]
            found = (yield own) if section is None else (yield from self._checked(section, own))
            for i, part in zip(numbers, found):
                answers[i] = part
        return answers

    def check_all(self) -> Steps[None]:
        """Read and check every byte of the file and of its sidecars."""
        sections = [self._data, self._metadata]
        for blob_id in range(1, self.num_sidecars + 1):
            sections.append((yield from self._sidecar(blob_id)))
        for section in sections:
            for start in range(section.start, section.stop, _MAX_READ):
                yield from self._blocks(section, [ByteRange(start, min(start + _MAX_READ, section.stop))])

    def _section_of(self, wanted: ByteRange) -> Steps[_Section | None]:
        """The section that contains a range; None for ranges without a checksum in the table: external blobs, and the checked end."""
        if isinstance(wanted, ExternalRange):
            return None
        if isinstance(wanted, SidecarRange):
            section = yield from self._sidecar(wanted.blob_id)
        elif wanted.start >= self._metadata.stop:
            return None
        else:
            section = self._data if wanted.start < self._data.stop else self._metadata
        if not section.start <= wanted.start <= wanted.stop <= section.stop:
            raise CorruptFileError(f"bytes {wanted.start} to {wanted.stop} are outside the range {section.start} to {section.stop}")
        return section

    def _sidecar(self, blob_id: int) -> Steps[_Section]:
        if blob_id not in self._sidecars:
            if not 1 <= blob_id <= self.num_sidecars:
                raise CorruptFileError(f"a blob refers to sidecar {blob_id}, but the file has {self.num_sidecars}")
            at = _count(self._data.stop, self._block) * _SUM + (blob_id - 1) * _ENTRY.size
            missing = self._missing(np.arange(at, at + _ENTRY.size))
            self._keep(missing, (yield [self._table_block(i) for i in missing]))
            position, size = _ENTRY.unpack(self._table[at : at + _ENTRY.size].tobytes())
            offset, length = position - self._metadata.start, _count(size, self._block) * _SUM
            if offset % _SUM or not 0 <= offset <= offset + length <= len(self._table):
                raise CorruptFileError(
                    f"the checksums of sidecar {blob_id} ({size} bytes) at position {position} are outside the checksum table"
                )
            self._sidecars[blob_id] = _Section(0, size, position, blob_id)
        return self._sidecars[blob_id]

    def _checked(self, section: _Section, ranges: Sequence[ByteRange]) -> Steps[list[Bytes]]:
        """The bytes of ranges of one section. Scattered ones are copied, `_MAX_READ` bytes of blocks at a time, to release the blocks."""
        blocks = [section.widened(r, self._block) for r in ranges]
        sizes = np.array([b.stop - b.start for b in blocks])
        if sizes.sum() <= _SCATTERED * sum(r.stop - r.start for r in ranges):
            return (yield from self._cut(section, ranges, blocks))
        parts: list[Bytes] = []
        groups = np.flatnonzero(np.diff(np.cumsum(sizes) // _MAX_READ)) + 1
        for start, stop in itertools.pairwise([0, *groups.tolist(), len(ranges)]):
            found = yield from self._cut(section, ranges[start:stop], blocks[start:stop])
            parts += [np.frombuffer(part.tobytes(), np.uint8) for part in found]
        return parts

    def _cut(self, section: _Section, ranges: Sequence[ByteRange], blocks: Sequence[ByteRange]) -> Steps[list[Bytes]]:
        runs = coalesce(blocks, 0, _MAX_READ)
        return cut(ranges, runs, (yield from self._blocks(section, runs)))

    def _blocks(self, section: _Section, runs: Sequence[ByteRange]) -> Steps[Sequence[Bytes]]:
        """The bytes of runs of whole blocks; also reads the part of the table with their checksums, unless it is in memory."""
        starts = [np.arange(r.start - section.start, r.stop - section.start, self._block) for r in runs]
        numbers = np.concatenate(starts) // self._block
        at = 0 if section.sums_at is None else section.sums_at - self._metadata.start
        missing = [] if section.sums_at is None else self._missing(at + numbers * _SUM)
        answers = yield [*(section.place(r) for r in runs), *(self._table_block(i) for i in missing)]
        self._keep(missing, answers[len(runs) :])
        if section.sums_at is None:
            expected = self._trailer_sums[numbers]
        else:
            expected = self._table[at : at + _count(section.stop, self._block) * _SUM].view("<u4")[numbers]
        self._compare(section, numbers, expected, answers[: len(runs)])
        return answers[: len(runs)]

    def _missing(self, offsets: np.ndarray) -> list[int]:
        """The numbers of the table's blocks that contain these offsets and have not been read."""
        blocks = np.unique(offsets // self._block)
        missing: list[int] = blocks[~self._loaded[blocks]].tolist()
        return missing

    def _table_block(self, number: int) -> ByteRange:
        start = self._metadata.start + number * self._block
        return ByteRange(start, min(start + self._block, self._metadata.stop))

    def _keep(self, numbers: Sequence[int], answers: Sequence[Bytes]) -> None:
        """Check blocks of the table and keep them."""
        if len(numbers):
            self._compare(self._metadata, np.array(numbers), self._trailer_sums[numbers], answers)
        for number, answer in zip(numbers, answers):
            part = self._table[number * self._block :][: len(answer)]
            part[:] = answer[: len(part)]
            self._loaded[number] = True

    def _compare(self, section: _Section, numbers: np.ndarray, expected: np.ndarray, answers: Sequence[Bytes]) -> None:
        """Compare the checksums of the blocks with these numbers, concatenated in `answers`, with the expected ones."""
        found = crc32c_of_blocks(answers, self._block)
        if found == expected.tolist():
            return
        for number, right, actual in zip(numbers.tolist(), expected.tolist(), found, strict=True):
            if actual != right:
                first = section.start + number * self._block
                raise _mismatch(ByteRange(first, min(first + self._block, section.stop)), section.blob_id, right, actual)
