"""Dictionary as a compressive encoding: indices into distinct numbers. Spec: "Dictionary"; seen in 2.3 only.

Block: u64 size of the indices, u64 size of the items, both encoded as blocks. The dictionary of a mini-block page is different: it is
stored once per page and belongs to the layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.encodings import out_of_line_bitpacking
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


@dataclass(frozen=True)
class Dictionary(Encoding):
    """`num_items` values, encoded by `items`, and for each value the number of its item, encoded by `indices`."""

    indices: Encoding
    items: Encoding
    num_items: int

    def decode_block(self, data: Bytes, count: int) -> FixedWidth:
        """The values of a block."""
        sizes = [int(size) for size in data[:16].view("<u8")] if len(data) >= 16 else []
        if not sizes or 16 + sum(sizes) > len(data):
            raise CorruptFileError(f"a dictionary block declares parts of {sizes} bytes but has {len(data)} bytes")
        end = 16 + sizes[0]
        indices = self.indices.decode_block(data[16:end], count)
        items = self.items.decode_block(data[end : end + sizes[1]], self.num_items)
        if not isinstance(indices, FixedWidth) or not isinstance(items, FixedWidth) or indices.bits not in _WORDS or items.bits % 8:
            raise UnsupportedFeatureError("only dictionaries of numbers are supported in blocks")
        numbers = indices.view(_WORDS[indices.bits])
        if len(numbers) and numbers.max() >= items.count:
            raise CorruptFileError(f"dictionary index {numbers.max()} is out of bounds: the dictionary has {items.count} items")
        values = items.data.reshape(items.count, items.bits // 8)[numbers]
        return FixedWidth(items.bits, values.reshape(-1), count)


def encode_block(indices: np.ndarray, items: Encoding, item_data: np.ndarray, num_items: int) -> tuple[Dictionary, np.ndarray]:
    """`indices` (uint32) packed, and the encoded `items` that they refer to."""
    encoding, packed = out_of_line_bitpacking.encode_block(FixedWidth(32, indices.view(np.uint8), len(indices)))
    head = np.array([len(packed), len(item_data)], "<u8").view(np.uint8)
    return Dictionary(encoding, items, num_items), np.concatenate([head, packed, item_data])


_WORDS: dict[int, type[np.unsignedinteger]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
