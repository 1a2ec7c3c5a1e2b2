"""The page table of a legacy file: position and length of a page for each field and batch of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class PageTable:
    """The positions of the pages of a file of `size` bytes.

    `bounds` are the first row of each batch and the number of rows. `entries` is int64 [fields, batches, 2]: position and
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
        """The range from the start of a field's values in a batch to the end of the file: their encoding determines their size."""
        row = field_id - self.first_field
        if not 0 <= row < len(self.entries):
            raise CorruptFileError(f"the page table has no field {field_id}")
        return self.from_position(int(self.entries[row, batch, 0]))

    def dictionary(self, field_id: int) -> tuple[ByteRange, int]:
        """Like `page`, for the values of a field of dictionary type; also their number."""
        position, length = self.dictionaries.get(field_id, (0, 0))
        if not 0 <= length <= self.size:
            raise CorruptFileError(f"a dictionary of {length} values does not fit a file of {self.size} bytes")
        return self.from_position(position), length

    def from_position(self, position: int) -> ByteRange:
        """The rest of the file from `position`."""
        if not 0 <= position <= self.size:
            raise CorruptFileError(f"page position {position} is outside the file of {self.size} bytes")
        return ByteRange(position, self.size)
