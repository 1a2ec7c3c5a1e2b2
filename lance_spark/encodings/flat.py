"""Flat: fixed-width values back to back, little endian; 1-bit values as a bitmap, least significant bit first. Spec: "Flat".

Also joins the buffers of many chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.memory import empty, zeros
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, copy, copy_ranges


@dataclass(frozen=True)
class Flat(Encoding):
    """Values of `bits_per_value` bits: 1 or a multiple of 8; below OutOfLineBitpacking, any packed width, also 0."""

    bits_per_value: int

    def __post_init__(self) -> None:
        # Layouts and columns keep widths as 32-bit numbers.
        if self.bits_per_value >= 2**32:
            raise CorruptFileError(f"values have {self.bits_per_value} bits, expected at most {2**32 - 1}")

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values, zero-copy if there are no gaps between the buffers of `chunks`."""
        self._check_width()
        total = int(chunks.counts.sum())
        sizes = bytes_for(chunks.counts, self.bits_per_value)
        check_sizes(chunks, sizes)
        if self.bits_per_value == 1:
            return FixedWidth(1, gather_bits(chunks.data, chunks.starts[0] * 8, chunks.counts), total)
        data, starts = gather(chunks, sizes)
        first = int(starts[0]) if len(starts) else 0
        return FixedWidth(self.bits_per_value, data[first : first + total * self.bits_per_value // 8], total)

    decode_blocks = decode_chunks

    def pick_values(self, chunks: Chunks, chunk_of: np.ndarray, at: np.ndarray) -> FixedWidth:
        """The values at positions `at` of the chunks `chunk_of`."""
        self._check_width()
        check_sizes(chunks, bytes_for(chunks.counts, self.bits_per_value))
        starts = chunks.starts[0][chunk_of]
        if self.bits_per_value == 1:
            bits = gather_bits(chunks.data, starts * 8 + at, np.ones_like(at))
            return FixedWidth(1, bits, len(at))
        size = self.bits_per_value // 8
        data, _ = copy_together(chunks.data, starts + at * size, np.full(len(at), size, np.int64))
        return FixedWidth(self.bits_per_value, data, len(at))

    def decode_values(self, values: Block) -> FixedWidth:
        """`values` as they are."""
        self._check_width()
        if not isinstance(values, FixedWidth) or values.bits != self.bits_per_value:
            raise CorruptFileError(f"expected values of {self.bits_per_value} bits, found another width")
        return values

    def count_chunks(self, chunks: Chunks) -> np.ndarray:
        """The number of values in each chunk, from the size of its buffer."""
        self._check_width()
        size = self.bits_per_value // 8
        if self.bits_per_value == 1 or (chunks.sizes[0] % size).any():
            raise CorruptFileError(f"the size of a buffer is not a whole number of {self.bits_per_value}-bit values")
        counts: np.ndarray = chunks.sizes[0] // size
        return counts

    def _check_width(self) -> None:
        if self.bits_per_value < 1:
            raise CorruptFileError(f"flat values have {self.bits_per_value} bits, expected at least 1")
        if self.bits_per_value != 1 and self.bits_per_value % 8:
            raise UnsupportedFeatureError(f"flat values of {self.bits_per_value} bits are not supported")


def encode_chunks(block: FixedWidth, counts: np.ndarray) -> EncodedChunks:
    """`counts` values in each chunk, uncompressed."""
    sizes = bytes_for(counts, block.bits)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if block.bits == 1 and (counts[:-1] % 8).any():
        data = np.zeros(bounds[-1], np.uint8)
        _copy_bits(block.data, np.cumsum(counts) - counts, bounds[:-1] * 8, counts, data)
    else:
        data = block.data
    return EncodedChunks(Flat(block.bits), counts, (EncodedBuffer(data, bounds),))


encode_blocks = encode_chunks


def encode_block(block: FixedWidth) -> tuple[Flat, Bytes]:
    """The values of one block, uncompressed."""
    return Flat(block.bits), block.data[: int(bytes_for(np.int64(block.count), block.bits))]


def encode_values(block: FixedWidth) -> tuple[Flat, FixedWidth]:
    """Uncompressed values."""
    return Flat(block.bits), block


def bytes_for(counts: np.ndarray | np.int64, bits: int) -> np.ndarray:
    """The size in bytes of `counts` values of `bits` bits. Absurd counts give huge sizes without overflow."""
    limit = np.int64(2**62 // max(bits, 1))
    return (np.minimum(counts, limit) * bits + 7) // 8


def check_sizes(chunks: Chunks, sizes: np.ndarray) -> None:
    """Raise CorruptFileError if a first buffer of `chunks` is shorter than `sizes`."""
    short = chunks.sizes[0] < sizes
    if short.any():
        i = int(short.argmax())
        what = f"chunk {i} of {len(short)} holds {chunks.counts[i]} values"
        raise CorruptFileError(f"{what}: expected a buffer of {sizes[i]} bytes, found {chunks.sizes[0, i]}")


def gather(chunks: Chunks, sizes: np.ndarray) -> tuple[Bytes, np.ndarray]:
    """The first `sizes` bytes of each chunk's first buffer, without gaps in one array, and the start of each in it.

    `sizes` must not exceed the buffers. The array is `chunks.data` itself if that has no gaps.
    """
    starts = chunks.starts[0]
    if (starts[1:] == starts[:-1] + sizes[:-1]).all():
        return chunks.data, starts
    return copy_together(chunks.data, starts, sizes)


def copy_together(data: Bytes, starts: np.ndarray, sizes: np.ndarray) -> tuple[Bytes, np.ndarray]:
    """A new, aligned array of the `sizes[i]` bytes from `starts[i]`, for all i, and the start of each in it."""
    out = empty(sizes.sum())
    copy_ranges(data, starts, sizes, out)
    return out, np.cumsum(sizes) - sizes


def gather_bits(data: Bytes, starts: np.ndarray, counts: np.ndarray) -> Bytes:
    """One bitmap of the `counts[i]` bits from bit `starts[i]` of `data`, for all i. All must be within `data`."""
    stops = np.cumsum(counts)
    out = zeros((int(counts.sum()) + 7) // 8)
    _copy_bits(data, starts, stops - counts, counts, out)
    return out


@kernel
def _copy_bits(data: np.ndarray, starts: np.ndarray, targets: np.ndarray, counts: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(starts)):
        source, target = starts[i], targets[i]
        left = counts[i]
        if not (source | target) & 7:
            full_bytes = U(left >> 3)
            copy(data, U(source >> 3), out, U(target >> 3), full_bytes)
            source += left & ~7
            target += left & ~7
            left &= 7
        while left > 0:
            taken = min(left, 8)
            shift = source & 7
            byte = data[source >> 3] >> shift
            if shift + taken > 8:
                byte |= data[(source >> 3) + 1] << (8 - shift)
            byte &= (1 << taken) - 1
            shift = target & 7
            out[target >> 3] |= np.uint8((byte << shift) & 255)
            if shift + taken > 8:
                out[(target >> 3) + 1] |= np.uint8(byte >> (8 - shift))
            source += taken
            target += taken
            left -= taken
