"""Variable: byte strings as offsets and bytes. Spec: "Variable"; 2.3 also compresses the offsets.

Mini-block, flat offsets: one buffer of n + 1 offsets (u32 or u64, relative to the buffer), then the bytes, padded. Mini-block, other
offsets: a block of offsets relative to the bytes (no buffer for Range and Constant), then a buffer of bytes. Block: the width of the
offsets in bits, the start of the bytes, n + 1 offsets relative to the bytes, the bytes; all numbers as wide as the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth, VariableWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.memory import empty, zeros
from lance_spark.encodings import out_of_line_bitpacking
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.range_ import Range
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U, copy, copy_ranges, load32, load64, store32, store64

CHUNK_BYTES = 4096
"""Maximum size of a mini-block chunk, including offsets, unless it has a single value."""

MAX_CHUNK_VALUES = 4096

_PADDING = ord("H")


@dataclass(frozen=True)
class Variable(Encoding):
    """Byte strings whose offsets are encoded by `offsets`: Flat of 32 or 64 bits, or any encoding of fixed-width values."""

    offsets: Encoding

    def __post_init__(self) -> None:
        if isinstance(self.offsets, Flat) and self.offsets.bits_per_value not in (32, 64):
            raise CorruptFileError(f"offsets have {self.offsets.bits_per_value} bits, expected 32 or 64")

    @property
    def num_buffers(self) -> int:
        """1, or 2 if the offsets have a buffer of their own."""
        return 1 if isinstance(self.offsets, Flat) or not self.offsets.num_buffers else 2

    def decode_chunks(self, chunks: Chunks) -> VariableWidth:
        """The values of all chunks; the offsets are int64 if they are stored as such or do not fit int32."""
        starts, sizes = chunks.starts[-1], chunks.sizes[-1]
        if (chunks.counts >= 2**31).any():  # before arithmetic with counts that wraps around
            raise CorruptFileError(f"a chunk has {chunks.counts.max()} strings, expected fewer than 2**31")
        if isinstance(self.offsets, Flat):
            width = self.offsets.bits_per_value // 8
            heads = (chunks.counts + 1) * width
            short = np.flatnonzero(sizes < heads)
            if len(short):
                c = short[0]
                raise CorruptFileError(f"chunk {c} has {chunks.counts[c]} strings in {sizes[c]} bytes, too few for their offsets")
            return _rebase(chunks.data, starts, width, heads, chunks.data, starts, sizes, chunks.counts)
        coded_chunks = chunks.select(0, self.num_buffers - 1, chunks.counts + 1)
        coded = self.offsets.decode_blocks(coded_chunks) if self.offsets.num_buffers else self.offsets.decode_chunks(coded_chunks)
        width, words = _offset_bytes(coded, int(chunks.counts.sum()) + len(chunks.counts))
        at = np.zeros(len(sizes), np.int64)
        np.cumsum((chunks.counts[:-1] + 1) * width, out=at[1:])
        return _rebase(words, at, width, np.zeros_like(at), chunks.data, starts, sizes, chunks.counts)

    def pick_values(self, chunks: Chunks, chunk_of: np.ndarray, at: np.ndarray) -> VariableWidth | None:
        """The values at positions `at` of the chunks `chunk_of`; None if the offsets are not flat."""
        if not isinstance(self.offsets, Flat):
            return None
        starts, sizes = chunks.starts[-1], chunks.sizes[-1]
        first, offsets = np.empty(len(at), np.int64), zeros(len(at) + 1, np.int64)
        wrong = _find(chunks.data, starts, sizes, chunks.counts, self.offsets.bits_per_value, chunk_of, at, first, offsets)
        if wrong >= 0:
            raise CorruptFileError(
                f"the strings of chunk {wrong} have decreasing offsets, or offsets outside its bytes, or too few bytes for the offsets"
            )
        check_bytes(float(offsets[-1]), "strings")
        data = empty(int(offsets[-1]))
        copy_ranges(chunks.data, first, np.diff(offsets), data)
        return VariableWidth(offsets, data)

    def decode_block(self, data: Bytes, count: int) -> VariableWidth:
        """The values of a block such as a dictionary; headers of older writers are supported too."""
        if not isinstance(self.offsets, Flat):
            raise self._refusal("blocks with compressed offsets")
        head, width, start = _early_header(data, self.offsets.bits_per_value // 8, count) or _block_header(data)
        if head + (count + 1) * width > start or start > len(data):
            raise CorruptFileError(f"a block of {count} strings in {len(data)} bytes has its string bytes at an invalid position, {start}")
        one = np.zeros(1, np.int64)
        return _rebase(data, one + head, width, one, data, one + start, one + (len(data) - start), one + count)

    def decode_values(self, values: Block) -> VariableWidth:
        """The values unchanged: in the full-zip context the layout stores their lengths."""
        if not isinstance(values, VariableWidth):
            raise CorruptFileError("expected values of variable width, found a fixed width")
        return values


@kernel
def _find(
    data: np.ndarray,
    starts: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
    bits: int,
    chunk_of: np.ndarray,
    at: np.ndarray,
    first: np.ndarray,
    offsets: np.ndarray,
) -> np.int64:
    """Store where the bytes of string `at[i]` of chunk `chunk_of[i]` begin in `data`, and where each ends if they follow one another.

    Returns a chunk whose offsets are invalid, or -1. The offsets have 32 or 64 `bits`.
    """
    width, end = np.int64(bits // 8), np.int64(0)
    for i in range(len(at)):
        chunk = chunk_of[i]
        size, count = sizes[chunk], counts[chunk]
        if count >= size or size < (count + 1) * width:
            return np.int64(chunk)
        place = U(starts[chunk] + at[i] * width)
        if width == 4:
            begin, stop = np.int64(load32(data, place)), np.int64(load32(data, place + U(4)))
        else:
            begin, stop = np.int64(load64(data, place)), np.int64(load64(data, place + U(8)))
        if begin < (count + 1) * width or stop < begin or stop > size:
            return np.int64(chunk)
        first[i] = starts[chunk] + begin
        end += stop - begin
        offsets[i + 1] = end
    return np.int64(-1)


def _offset_bytes(coded: Block, count: int) -> tuple[int, Bytes]:
    if not isinstance(coded, FixedWidth) or coded.bits not in (32, 64) or coded.count != count:
        raise CorruptFileError("expected offsets of 32 or 64 bits, one more than strings in each chunk")
    return coded.bits // 8, coded.data


def _early_header(data: Bytes, width: int, count: int) -> tuple[int, int, int] | None:
    """The header of mid-2025 writers of 2.1, or None: it has the number of strings instead of the width of the offsets."""
    words = [int.from_bytes(bytes(data[at : at + width]), "little") for at in (0, width)]
    start = (count + 3) * width
    return (2 * width, width, start) if words == [count, start] else None


def _block_header(data: Bytes) -> tuple[int, int, int]:
    """The size of the header, the width of the offsets in bytes, and the start of the bytes."""
    bits = int(data[0]) if len(data) >= 4 else 0
    width = bits // 8
    # Older writers stored one byte of width, then the number of strings, then the start of the bytes. Three zero bytes after
    # the first can only be the rest of a wider number: a dictionary of 2**24 strings was never written.
    head = 2 * width if not data[1:4].any() else 1 + 2 * width
    if bits not in (32, 64) or len(data) < head:
        raise CorruptFileError(f"a block of strings has an invalid header, {bytes(data[:16])!r}")
    return head, width, int.from_bytes(bytes(data[head - width : head]), "little")


def _rebase(
    words: Bytes, at: np.ndarray, width: int, heads: np.ndarray, data: Bytes, starts: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> VariableWidth:
    """The strings of many chunks as one block.

    The offsets of chunk c are the `counts[c]` + 1 numbers of `width` bytes in `words` from `at[c]`, which the caller has checked to exist.
    They are relative to `starts[c]` in `data`, at least `heads[c]` and at most `sizes[c]`.
    """
    offsets = zeros(int(counts.sum()) + 1, np.int64 if width == 8 else np.int32)
    ranges = np.empty((2, len(counts)), np.int64)
    largest = 2 ** (8 * offsets.itemsize - 1) - 1
    bad = _place_offsets(words, at, width == 8, heads, sizes, counts, offsets, largest, ranges)
    if bad == len(counts):  # pragma: no cover: takes 2 GiB of strings
        offsets = offsets.astype(np.int64)
        bad = _place_offsets(words, at, width == 8, heads, sizes, counts, offsets, 2**63 - 1, ranges)
    if bad >= 0:
        raise CorruptFileError(f"the strings of chunk {bad} have decreasing offsets, or offsets outside its {sizes[bad]} bytes")
    total = int(ranges[1].sum())
    if len(counts) == 1:
        start = int(starts[0] + ranges[0, 0])
        return VariableWidth(offsets, data[start : start + total])
    out = empty(total)
    copy_ranges(data, starts + ranges[0], ranges[1], out)
    return VariableWidth(offsets, out)


@kernel
def _place_offsets(
    words: np.ndarray,
    at: np.ndarray,
    wide: bool,
    heads: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
    out: np.ndarray,
    largest: int,
    ranges: np.ndarray,
) -> int:
    """Write the offsets of all chunks to `out`, from 0, and the start and size of each chunk's bytes to `ranges`.

    Returns the number of the first chunk with invalid offsets, the number of chunks if an offset is above `largest`, else -1.
    """
    place = U(1)
    total = np.int64(0)
    for c in range(len(counts)):
        start = U(at[c])
        count = U(counts[c])
        first = np.int64(load64(words, start) if wide else U(load32(words, start)))
        last = np.int64(load64(words, start + U(8) * count) if wide else U(load32(words, start + U(4) * count)))
        if first < heads[c] or last < first or last > sizes[c]:
            return c
        if last - first > largest - total:
            return len(counts)  # pragma: no cover: takes 2 GiB of strings
        base = total - first
        falls: np.bool_ = np.bool_(False)
        before = first
        # Two loops without branches on the width. Writes before a decrease is found stay in bounds.
        if wide:
            for i in range(count):
                here = np.int64(load64(words, start + U(8) * U(i) + U(8)))
                falls |= here < before
                before = here
                out[place + U(i)] = base + max(first, min(here, last))
        else:
            for i in range(count):
                here = np.int64(load32(words, start + U(4) * U(i) + U(4)))
                falls |= here < before
                before = here
                out[place + U(i)] = base + max(first, min(here, last))
        if falls:
            return c
        ranges[0, c] = first
        ranges[1, c] = last - first
        place += count
        total += last - first
    return -1


def encode_chunks(block: VariableWidth, max_values: int = MAX_CHUNK_VALUES, chunk_bytes: int = CHUNK_BYTES) -> EncodedChunks:
    """`block` in chunks of at most `max_values` values and `chunk_bytes` bytes, with flat offsets as wide as the block's."""
    width = block.offsets.itemsize
    counts = np.empty(block.count, np.int64)
    return encode_counts(block, counts[: _cut(block.offsets, width, max_values, chunk_bytes, counts)].copy())


def encode_counts(block: VariableWidth, counts: np.ndarray) -> EncodedChunks:
    """`encode_chunks` with chunks of these numbers of values."""
    width = block.offsets.itemsize
    firsts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=firsts[1:])
    sizes = (counts + 1) * width + np.diff(block.offsets[firsts].astype(np.int64))
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(-(-sizes // width) * width, out=bounds[1:])
    data = empty(int(bounds[-1]))
    data.fill(_PADDING)
    _fill(block.offsets, block.data, counts, bounds, width == 8, data)
    return EncodedChunks(Variable(Flat(8 * width)), counts, (EncodedBuffer(data, bounds),))


def encode_packed_counts(block: VariableWidth, counts: np.ndarray) -> EncodedChunks:
    """`encode_counts` with offsets that need no bytes if all values are of one length, else with packed lengths (2.3)."""
    width, sizes = block.offsets.itemsize, np.diff(block.offsets)
    firsts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=firsts[1:])
    texts = EncodedBuffer(block.data, block.offsets[firsts].astype(np.int64))
    length = int(sizes[0])
    if (sizes == length).all():
        offsets: Encoding = Range(8 * width, 0, length) if length else Constant(bytes(width))
        return EncodedChunks(Variable(offsets), counts, (texts,))
    lengths = out_of_line_bitpacking.encode_chunks(FixedWidth(8 * width, sizes.view(np.uint8), len(sizes)), counts)
    return EncodedChunks(Variable(Delta(8 * width, 0, lengths.encoding)), counts, (lengths.buffers[0], texts))


@kernel
def _cut(offsets: np.ndarray, width: int, max_values: int, chunk_bytes: int, counts: np.ndarray) -> int:
    """Write the number of values of each chunk to `counts`; returns the number of chunks.

    A chunk is the largest power of two of values that fits, or all the rest if that fits. Only the last may be a single value:
    a chunk stores the logarithm of its count, and readers treat 0 as an error.
    """
    values = len(offsets) - 1
    at = 0
    chunks = 0
    while at < values:
        count = values - at
        if count > max_values or offsets[values] - offsets[at] + (count + 1) * width > chunk_bytes:
            count = min(2, count)
            while (
                2 * count <= min(max_values, values - at) and offsets[at + 2 * count] - offsets[at] + (2 * count + 1) * width <= chunk_bytes
            ):
                count *= 2
        counts[chunks] = count
        chunks += 1
        at += count
    return chunks


@kernel
def _fill(offsets: np.ndarray, source: np.ndarray, counts: np.ndarray, bounds: np.ndarray, wide: bool, out: np.ndarray) -> None:
    value = U(0)
    for c in range(len(counts)):
        at = U(bounds[c])
        count = U(counts[c])
        head = (count + U(1)) * (U(8) if wide else U(4))
        first = U(offsets[value])
        if wide:
            for i in range(count + U(1)):
                store64(out, at + U(8) * U(i), U(offsets[value + U(i)]) - first + head)
        else:
            for i in range(count + U(1)):
                store32(out, at + U(4) * U(i), U32(U(offsets[value + U(i)]) - first + head))
        value += count
        copy(source, first, out, at + head, U(offsets[value]) - first)


def encode_block(block: VariableWidth) -> tuple[Variable, bytes]:
    """`block` as one buffer, with flat offsets as wide as the block's."""
    width = block.offsets.itemsize
    header = np.array([8 * width, (block.count + 3) * width], block.offsets.dtype)
    data = block.data[: block.offsets[-1]].tobytes()
    return Variable(Flat(8 * width)), header.tobytes() + block.offsets.tobytes() + data


def encode_values(block: VariableWidth) -> tuple[Variable, VariableWidth]:
    """`block` unchanged: in the full-zip context the layout stores the lengths of the values, as wide as the block's offsets."""
    return Variable(Flat(8 * block.offsets.itemsize)), block
