"""Data blocks: what compressive encodings decode to and encode from. Arrow's buffers without Arrow's types and without nulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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

    `offsets` is int32 or int64, has count + 1 entries, never falls and starts at 0; `data` is uint8.
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
    """A struct stored as one value: its children, all of the same count."""

    children: tuple[Block, ...]

    @property
    def count(self) -> int:
        return self.children[0].count


Block = FixedWidth | VariableWidth | FixedSizeList | PackedStruct
