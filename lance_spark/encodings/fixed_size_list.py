"""FixedSizeList: the items of all lists as one sequence, with an optional validity bitmap. Spec: "Fixed Size List".

Mini-block chunk: the validity bitmap of the items, if any, is the first buffer; `values` takes the others. Full zip: each list is one
value: the bitmaps of all nested layers, outermost first and each padded to whole bytes, then the items. Block: the items, or the same as in
full zip if items may be null.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedSizeList, FixedWidth
from lance_spark.encodings import flat
from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


@dataclass(frozen=True)
class FixedSizeListEncoding(Encoding):
    """Lists of `items_per_value` items; `has_validity` says whether a bitmap over the items is stored."""

    items_per_value: int
    has_validity: bool
    values: Encoding

    def __post_init__(self) -> None:
        # Dimensions are int32 in Arrow.
        if not 1 <= self.items_per_value < 2**31:
            raise CorruptFileError(f"fixed-size lists have {self.items_per_value} items, expected 1 to {2**31 - 1}")

    @property
    def num_buffers(self) -> int:
        """The bitmap, if there is one, and the buffers of the items."""
        return self.has_validity + self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> FixedSizeList:
        """The lists of all chunks, their items concatenated."""
        inner = replace(chunks, counts=self._count_items(chunks.counts))
        validity = Flat(1).decode_chunks(inner.select(0, 1)).data if self.has_validity else None
        items = self.values.decode_chunks(inner.select(int(self.has_validity), self.num_buffers))
        return FixedSizeList(items, self.items_per_value, validity)

    def decode_blocks(self, chunks: Chunks) -> FixedSizeList:
        """The lists of blocks: items only, or list by list as in full zip if items may be null."""
        if self.any_validity:
            return self.decode_values(Flat(8 * self.row_bytes()).decode_blocks(chunks))
        return FixedSizeList(
            self.values.decode_blocks(replace(chunks, counts=self._count_items(chunks.counts))), self.items_per_value, None
        )

    @property
    def any_validity(self) -> bool:
        """Whether this layer or one below has a validity bitmap."""
        return self.has_validity or (isinstance(self.values, FixedSizeListEncoding) and self.values.any_validity)

    def row_bytes(self, lists: int = 1) -> int:
        """The size in bytes of a full-zip value with `lists` lists of this layer."""
        dimension = lists * self.items_per_value
        validity = (dimension + 7) // 8 if self.has_validity else 0
        if isinstance(self.values, FixedSizeListEncoding):
            return validity + self.values.row_bytes(dimension)
        if not isinstance(self.values, Flat):
            raise UnsupportedFeatureError(
                f"{type(self.values).__name__} is not supported for items of fixed-size lists that are stored one by one"
            )
        return validity + (dimension * self.values.bits_per_value + 7) // 8

    def decode_values(self, values: Block) -> FixedSizeList:
        """The lists, from values that were stored one by one."""
        if not isinstance(values, FixedWidth) or values.bits % 8:
            raise CorruptFileError("expected fixed-size lists of a fixed number of bytes each, found values of variable width")
        return self._split_rows(values.data.reshape(values.count, values.bits // 8), 0, 1)

    def _split_rows(self, rows: np.ndarray, at: int, lists: int) -> FixedSizeList:
        """The lists of this layer. Each of `rows` has `lists` of them, with their bitmap at byte `at`."""
        dimension = lists * self.items_per_value
        count, size = rows.shape
        validity = None
        if self.has_validity:
            starts = np.arange(count) * size + at
            at += (dimension + 7) // 8
            if at > size:
                raise CorruptFileError(f"fixed-size lists of {size} bytes are too short for the validity bitmap of {dimension} items")
            validity = flat.gather_bits(rows.ravel(), starts * 8, np.full(count, dimension))
        if isinstance(self.values, FixedSizeListEncoding):
            return FixedSizeList(self.values._split_rows(rows, at, dimension), self.items_per_value, validity)
        if not isinstance(self.values, Flat):
            raise UnsupportedFeatureError(
                f"{type(self.values).__name__} is not supported for items of fixed-size lists that are stored one by one"
            )
        bits = self.values.bits_per_value
        if size - at != (dimension * bits + 7) // 8:
            raise CorruptFileError(
                f"fixed-size lists of {size} bytes, {at} of them validity, are too short for {dimension} items of {bits} bits"
            )
        starts = (np.arange(count) * size + at)[None]
        sizes = np.full((1, count), size - at)
        chunks = Chunks(rows.ravel(), starts, sizes, np.full(count, dimension))
        return FixedSizeList(self.values.decode_chunks(chunks), self.items_per_value, validity)

    def _count_items(self, counts: np.ndarray) -> np.ndarray:
        # No file has 2**62 items, so the decoder of the items will raise the error.
        items: np.ndarray = np.minimum(counts, 2**62 // self.items_per_value) * self.items_per_value
        return items


def encode_chunks(block: FixedSizeList, counts: np.ndarray) -> EncodedChunks:
    """`counts` lists in each chunk, the items flat."""
    inner = counts * block.dimension
    items = _encode_items(block.items, inner)
    validity: tuple[EncodedBuffer, ...] = ()
    if block.validity is not None:
        validity = flat.encode_chunks(FixedWidth(1, block.validity, block.items.count), inner).buffers
    node = FixedSizeListEncoding(block.dimension, bool(validity), items.encoding)
    return EncodedChunks(node, counts, validity + items.buffers)


def _encode_items(items: Block, counts: np.ndarray) -> EncodedChunks:
    if isinstance(items, FixedSizeList):
        return encode_chunks(items, counts)
    if isinstance(items, FixedWidth):
        return flat.encode_chunks(items, counts)
    raise UnsupportedFeatureError("fixed-size lists of variable-width items are not supported")


def encode_values(block: FixedSizeList) -> tuple[FixedSizeListEncoding, FixedWidth]:
    """Each list encoded as one value."""
    count = block.count
    chunks = encode_chunks(block, np.ones(count, np.int64))
    # With one list per chunk, the buffers of a chunk in order are the list's bytes.
    parts = [b.data.reshape(count, -1) if count else np.empty((0, 0), np.uint8) for b in chunks.buffers]
    rows = np.concatenate(parts, axis=1)
    assert isinstance(chunks.encoding, FixedSizeListEncoding)
    return chunks.encoding, FixedWidth(8 * chunks.encoding.row_bytes(), rows.ravel(), count)
