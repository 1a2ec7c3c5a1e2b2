"""ByteStreamSplit: all first bytes of a chunk's values, then all second bytes, and so on. Spec: "Byte Stream Split (BSS)"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth
from lance_spark.buffers.memory import empty
from lance_spark.encodings.fastlanes import word_type
from lance_spark.encodings.flat import Flat, bytes_for
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel


@dataclass(frozen=True)
class ByteStreamSplit(Encoding):
    """`values` encodes the byte planes of a chunk as if they were its values."""

    values: Encoding

    @property
    def num_buffers(self) -> int:
        """The buffers of the planes."""
        return self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values, reassembled from their bytes."""
        planes = self.values.decode_chunks(chunks)
        if not isinstance(planes, FixedWidth) or planes.bits not in (8, 16, 32, 64):
            raise UnsupportedFeatureError("byte stream split is supported for numbers of 8 to 64 bits only")
        values = empty(planes.count, word_type(planes.bits))
        _join(planes.data, np.cumsum(chunks.counts), values)
        return FixedWidth(planes.bits, values.view(np.uint8), planes.count)


def encode_chunks(block: FixedWidth, counts: np.ndarray) -> EncodedChunks:
    """`counts` values (of 8, 16, 32 or 64 bits) in each chunk, as byte planes. Meant to be compressed further."""
    data = empty(len(block.data))
    _split(block.view(word_type(block.bits)), np.cumsum(counts), data)
    bounds = np.concatenate([np.zeros(1, np.int64), bytes_for(np.cumsum(counts), block.bits)])
    return EncodedChunks(ByteStreamSplit(Flat(block.bits)), counts, (EncodedBuffer(data, bounds),))


@kernel
def _join(planes: np.ndarray, stops: np.ndarray, values: np.ndarray) -> None:
    word = values.dtype.type
    size = np.uint64(np.iinfo(values.dtype).bits // 8)
    start = np.uint64(0)
    for chunk in range(len(stops)):
        count = np.uint64(stops[chunk]) - start
        for i in range(count):
            value = word(0)
            for k in range(size):
                value |= word(word(planes[start * size + count * np.uint64(k) + np.uint64(i)]) << word(8 * k))
            values[start + np.uint64(i)] = value
        start += count


@kernel
def _split(values: np.ndarray, stops: np.ndarray, planes: np.ndarray) -> None:
    word = values.dtype.type
    size = np.uint64(np.iinfo(values.dtype).bits // 8)
    start = np.uint64(0)
    for chunk in range(len(stops)):
        count = np.uint64(stops[chunk]) - start
        for k in range(size):
            for i in range(count):
                value = values[start + np.uint64(i)] >> word(8 * k)
                planes[start * size + count * np.uint64(k) + np.uint64(i)] = np.uint8(value & word(255))
        start += count
