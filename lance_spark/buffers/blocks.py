"""Data blocks, the decoded form of compressive encodings (Arrow's buffers without types and nulls), and the encoded form of mini-block
chunks. Spec: file_encoding.md, "Compressive encodings" and "Mini-block page layout".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.errors import UnsupportedFeatureError


@dataclass(frozen=True)
class FixedWidth:
    """`count` values of `bits` bits each.

    `data` is uint8. For 1 bit it is a bitmap, least significant bit first, of at least ceil(count / 8) bytes; otherwise `bits`
    is a multiple of 8 and `data` holds exactly `count * bits // 8` bytes, little endian.
    """

    bits: int
    data: np.ndarray
    count: int

    def view(self, dtype: np.dtype | type) -> np.ndarray:
        """The values as a numpy array; `dtype` must be `bits` wide."""
        return self.data.view(dtype)


@dataclass(frozen=True)
class VariableWidth:
    """Byte strings: value i is `data[offsets[i]:offsets[i + 1]]`.

    `offsets` is int32 or int64, has count + 1 entries, starts at 0 and never decreases; `data` is uint8.
    """

    offsets: np.ndarray
    data: np.ndarray

    @property
    def count(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class FixedSizeList:
    """`count` lists of `dimension` items each, the items one after the other in `items`.

    `validity` is None, or a bitmap (least significant bit first) over the items of this list layer: count * dimension bits.
    """

    items: Block
    dimension: int
    validity: np.ndarray | None

    @property
    def count(self) -> int:
        return self.items.count // self.dimension


@dataclass(frozen=True)
class PackedStruct:
    """A struct stored as one value: its children, all with the same count."""

    children: tuple[Block, ...]

    @property
    def count(self) -> int:
        return self.children[0].count


Block = FixedWidth | VariableWidth | FixedSizeList | PackedStruct


@dataclass(frozen=True)
class Chunks:
    """The value buffers of consecutive mini-block chunks, all within `data`.

    Buffer b of chunk c is the `sizes[b, c]` bytes of `data` from `starts[b, c]`; both are int64 [num_buffers, num_chunks], and the caller
    has checked that every buffer is within `data`. `counts` (int64, not negative) is the number of values in each chunk.
    """

    data: Bytes
    starts: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_block(cls, data: Bytes, count: int) -> Chunks:
        """One buffer as one chunk."""
        start, size = np.zeros((1, 1), np.int64), np.full((1, 1), len(data), np.int64)
        return cls(data, start, size, np.array([count], np.int64))

    def select(self, first: int, stop: int, counts: np.ndarray | None = None) -> Chunks:
        """Buffers `first` to `stop` (exclusive) of every chunk, with `counts` values (None: unchanged)."""
        counts = self.counts if counts is None else counts
        return Chunks(self.data, self.starts[first:stop], self.sizes[first:stop], counts)


class Encoding:
    """A node of the tree of compressive encodings of a page. Every encoding is a frozen dataclass that overrides the contexts it supports.

    There are three contexts. Mini-block: all given chunks of a page at once, `num_buffers` buffers each. Block: one buffer whose number of
    values is stored elsewhere (levels, dictionaries); `decode_blocks` takes several, since each chunk has a block of levels. Full zip:
    values compressed one by one, which the layout has already separated.
    """

    @property
    def num_buffers(self) -> int:
        """The number of value buffers in a mini-block chunk."""
        return 1

    def decode_chunks(self, chunks: Chunks) -> Block:
        """The values of all chunks, one chunk after the other."""
        raise self._refusal("mini-block chunks")

    def pick_values(self, chunks: Chunks, chunk_of: np.ndarray, at: np.ndarray) -> Block | None:
        """Single values of mini-block chunks: those at positions `at`, each within the chunk numbered `chunk_of`.

        None if this takes as long as to decode all values.
        """
        return None

    def decode_blocks(self, chunks: Chunks) -> Block:
        """The values of several blocks, concatenated; each is the only buffer of its chunk."""
        raise self._refusal("blocks")

    def decode_block(self, data: Bytes, count: int) -> Block:
        """The `count` values of one block."""
        return self.decode_blocks(Chunks.of_block(data, count))

    def decode_values(self, values: Block) -> Block:
        """The values decoded from `values`, which were compressed one by one."""
        raise self._refusal("single values")

    def _refusal(self, context: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"encoding {type(self).__name__} is not supported for {context}")


@dataclass(frozen=True)
class EncodedBuffer:
    """One value buffer of every chunk: that of chunk c is `data[bounds[c]:bounds[c + 1]]`; `data` is uint8, `bounds` int64."""

    data: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class EncodedChunks:
    """Values encoded as mini-block chunks: `counts` of them (int64) in each chunk, powers of two except in the last."""

    encoding: Encoding
    counts: np.ndarray
    buffers: tuple[EncodedBuffer, ...]


def split_evenly(count: int, per_chunk: int) -> np.ndarray:
    """The number of values in each chunk if `count` values are cut into chunks of `per_chunk`; the last chunk has the rest."""
    counts = np.full(-(-count // per_chunk), per_chunk, np.int64)
    if count % per_chunk:
        counts[-1] = count % per_chunk
    return counts
