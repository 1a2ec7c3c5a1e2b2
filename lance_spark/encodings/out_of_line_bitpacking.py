"""OutOfLineBitpacking: blocks of 1024 values packed to one width, which is in the message. Spec: "Bitpacking".

The values after the last full block are one more block, padded, or plain words, whichever is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings.fastlanes import BLOCK, block_words, chunk_widths, chunk_words, pack_blocks, unpack_block, word_type
from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel


@dataclass(frozen=True)
class OutOfLineBitpacking(Encoding):
    """Values of `uncompressed_bits_per_value` (8, 16, 32 or 64) bits; `values` is Flat of the packed width.

    The width is 0 if all values are 0; full blocks then take no bytes.
    """

    uncompressed_bits_per_value: int
    values: Encoding

    def __post_init__(self) -> None:
        word_type(self.uncompressed_bits_per_value)
        if not isinstance(self.values, Flat):
            raise UnsupportedFeatureError(f"bit-packed values encoded by {type(self.values).__name__} are not supported")
        if self.values.bits_per_value > self.uncompressed_bits_per_value:
            raise CorruptFileError(
                f"{self.uncompressed_bits_per_value}-bit values are packed to {self.values.bits_per_value} bits, more than they have"
            )

    @property
    def width(self) -> int:
        """The bits of a packed value."""
        assert isinstance(self.values, Flat)
        return self.values.bits_per_value

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values of each chunk's sequence of blocks."""
        bits, width = self.uncompressed_bits_per_value, self.width
        step = int(block_words(bits, width))
        sizes = chunks.sizes[0] // (bits // 8)
        i = _find_short(sizes, chunks.counts, step)
        if i >= 0:
            what = f"chunk {i} of {len(sizes)} holds {chunks.counts[i]} values, bit-packed from {bits} to {width} bits"
            raise CorruptFileError(f"{what}, too many for its buffer of {chunks.sizes[0, i]} bytes")
        words, starts = chunk_words(chunks, bits)
        check_bytes(float(chunks.counts.sum(dtype=np.float64)) * bits / 8, "bit-packed values")
        total = int(chunks.counts.sum())
        out = empty(total + BLOCK, words.dtype)
        _unpack_chunks(words, starts, sizes, chunks.counts, width, step, out)
        return FixedWidth(bits, out[:total].view(np.uint8), total)

    decode_blocks = decode_chunks


def encode_chunks(block: FixedWidth, counts: np.ndarray) -> EncodedChunks:
    """`counts` values in each chunk, all packed to the width of the block's largest value (at least one bit)."""
    bits = block.bits
    values = block.view(word_type(bits))
    width = max(1, int(chunk_widths(block, np.array([block.count])).max(initial=0)))
    step = int(block_words(bits, width))
    full, rest = counts // BLOCK, counts % BLOCK
    plain = rest <= step
    blocks = full + ~plain
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(blocks * step + rest * plain)])
    words = empty(bounds[-1], values.dtype)
    first_value = np.cumsum(counts) - counts
    number = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    at = np.repeat(first_value, blocks) + number * BLOCK
    lengths = np.minimum(np.repeat(counts, blocks) - number * BLOCK, BLOCK)
    starts = np.repeat(bounds[:-1], blocks) + number * step
    pack_blocks(values, at, lengths, np.full(len(at), width), starts, words)
    first_plain, plain_starts = first_value + full * BLOCK, bounds[1:] - rest
    _copy_rests(values, first_plain[plain], plain_starts[plain], rest[plain], words)
    buffer = EncodedBuffer(words.view(np.uint8), bounds * (bits // 8))
    return EncodedChunks(OutOfLineBitpacking(bits, Flat(width)), counts, (buffer,))


encode_blocks = encode_chunks


def encode_block(block: FixedWidth) -> tuple[Encoding, Bytes]:
    """The values of one block."""
    chunks = encode_chunks(block, np.array([block.count]))
    return chunks.encoding, chunks.buffers[0].data


@kernel
def _find_short(sizes: np.ndarray, counts: np.ndarray, step: int) -> int:
    """The first chunk whose `sizes[c]` words are too few for `counts[c]` values in blocks of `step` words, or -1."""
    for c in range(len(sizes)):
        full, rest = counts[c] // BLOCK, counts[c] % BLOCK
        # Compare in words first, since the product with an absurd count could overflow.
        if step > 0 and full > sizes[c]:
            return c
        left = sizes[c] - full * step
        if left < 0 or (rest > 0 and left != rest and left < step):
            return c
    return -1


@kernel
def _unpack_chunks(
    words: np.ndarray, starts: np.ndarray, sizes: np.ndarray, counts: np.ndarray, width: int, step: int, out: np.ndarray
) -> None:
    """Unpack all chunks in order: a padded block writes past its values, where the next chunk begins."""
    at = 0
    for c in range(len(starts)):
        full, rest = counts[c] // BLOCK, counts[c] % BLOCK
        plain = sizes[c] - full * step == rest
        for block in range(full + (rest > 0 and not plain)):
            unpack_block(words, starts[c] + block * step, width, at + block * BLOCK, out)
        if plain:
            for k in range(rest):
                out[at + full * BLOCK + k] = words[starts[c] + full * step + k]
        at += counts[c]


@kernel
def _copy_rests(source: np.ndarray, starts: np.ndarray, targets: np.ndarray, counts: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(starts)):
        for k in range(counts[i]):
            out[targets[i] + k] = source[starts[i] + k]
