"""InlineBitpacking: blocks of 1024 values, each packed to the width in its first word. Spec: "Bitpacking"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings.fastlanes import (
    BLOCK,
    block_words,
    chunk_widths,
    chunk_words,
    pack_blocks,
    pick_values,
    unpack_blocks,
    word_type,
)
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class InlineBitpacking(Encoding):
    """Values of `uncompressed_bits_per_value` (8, 16, 32 or 64) bits; at most 1024 of them in a chunk or block."""

    uncompressed_bits_per_value: int

    def __post_init__(self) -> None:
        word_type(self.uncompressed_bits_per_value)

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values, unpacked chunk by chunk."""
        words, starts, widths = self._packed(chunks)
        stops = np.cumsum(chunks.counts)
        total = int(chunks.counts.sum())
        values = unpack_blocks(words, starts, widths, stops - chunks.counts, total)
        return FixedWidth(self.uncompressed_bits_per_value, values[:total].view(np.uint8), total)

    decode_blocks = decode_chunks

    def pick_values(self, chunks: Chunks, chunk_of: np.ndarray, at: np.ndarray) -> FixedWidth:
        """The values at positions `at` of the chunks `chunk_of`."""
        words, starts = chunk_words(chunks, self.uncompressed_bits_per_value)
        values = pick_values(words, starts, chunks.sizes[0], chunks.counts, chunk_of, at)
        if values is None:
            self._packed(chunks)  # raises the error
        assert values is not None
        return FixedWidth(self.uncompressed_bits_per_value, values.view(np.uint8), len(at))

    def _packed(self, chunks: Chunks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The chunks as words, the word at which the packed values of each start, and their widths in bits."""
        bits = self.uncompressed_bits_per_value
        self._refuse(chunks, chunks.counts > BLOCK, "expected at most 1024 values")
        self._refuse(chunks, chunks.sizes[0] < bits // 8, "too short for its bit width")
        words, starts = chunk_words(chunks, bits)
        widths = words[starts]
        self._refuse(chunks, widths > bits, "the packed width exceeds the width of the values")
        widths = widths.astype(np.int64)
        self._refuse(chunks, chunks.sizes[0] < (1 + block_words(bits, widths)) * (bits // 8), "too short for its packed width")
        return words, starts + 1, widths

    def _refuse(self, chunks: Chunks, wrong: np.ndarray, why: str) -> None:
        if np.count_nonzero(wrong):
            i = int(wrong.argmax())
            what = f"chunk {i} of {len(wrong)} ({chunks.counts[i]} values, {chunks.sizes[0, i]} bytes)"
            raise CorruptFileError(f"{what} of bit-packed {self.uncompressed_bits_per_value}-bit values: {why}")


def encode_chunks(block: FixedWidth, counts: np.ndarray) -> EncodedChunks:
    """`counts` (at most 1024) values in each chunk, each chunk packed to the width of its largest value."""
    values = block.view(word_type(block.bits))
    widths = chunk_widths(block, counts)
    stops = np.cumsum(1 + block_words(block.bits, widths))
    starts = np.concatenate([np.zeros(1, np.int64), stops])
    words = empty(starts[-1], values.dtype)
    words[starts[:-1]] = widths
    pack_blocks(values, np.cumsum(counts) - counts, counts, widths, starts[:-1] + 1, words)
    buffer = EncodedBuffer(words.view(np.uint8), starts * (block.bits // 8))
    return EncodedChunks(InlineBitpacking(block.bits), counts, (buffer,))


encode_blocks = encode_chunks


def encode_block(block: FixedWidth) -> tuple[InlineBitpacking, Bytes]:
    """At most 1024 values as one block."""
    chunks = encode_chunks(block, np.array([block.count], np.int64))
    return InlineBitpacking(block.bits), chunks.buffers[0].data
