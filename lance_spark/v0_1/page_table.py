"""What a legacy file says of its pages: for each field and batch of rows a position and a length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class PageTable:
    """Where the pages of a file of `size` bytes are.

    `bounds` is the first row of each batch and, last, the number of rows. `entries` is int64 [fields, batches, 2]: position and
    length of each page; its first row is field `first_field`. `dictionaries` maps the ids of fields of dictionary type to
    position and number of their values.
    """

    size: int
    bounds: np.ndarray
    first_field: int
    entries: np.ndarray
    dictionaries: Mapping[int, tuple[int, int]]

    @property
    def num_rows(self) -> int:
        return int(self.bounds[-1])

    def page(self, field_id: int, batch: int) -> ByteRange:
        """Where a field's values of a batch start, and where the file ends: how many bytes they take depends on their encoding."""
        row = field_id - self.first_field
        if not 0 <= row < len(self.entries):
            raise CorruptFileError(f"the page table holds no field {field_id}")
        return self.from_position(int(self.entries[row, batch, 0]))

    def dictionary(self, field_id: int) -> tuple[ByteRange, int]:
        """As `page` for the values of a field of dictionary type, and how many they are."""
        position, length = self.dictionaries.get(field_id, (0, 0))
        if not 0 <= length <= self.size:
            raise CorruptFileError(f"a dictionary of {length} values in a file of {self.size} bytes")
        return self.from_position(position), length

    def from_position(self, position: int) -> ByteRange:
        """The rest of the file from `position` on."""
        if not 0 <= position <= self.size:
            raise CorruptFileError(f"a page at {position} of a file of {self.size} bytes")
        return ByteRange(position, self.size)
