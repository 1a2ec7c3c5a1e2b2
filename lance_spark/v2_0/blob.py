"""Blob columns (version 1): each row is a descriptor, the position and size of a value that is stored outside of pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError
from lance_spark.reading.flat_buffers import binary_array, offsets_of, validity_of
from lance_spark.reading.steps import FieldReader, Steps

DESCRIPTORS = pa.struct([pa.field("position", pa.uint64(), False), pa.field("size", pa.uint64(), False)])

_SHOWN = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])


class BlobReader:
    """Reads the values that the descriptors refer to, or only the descriptors for a field with `descriptors`, batch by batch.

    (1, 0) is null, (0, 0) an empty value.
    """

    def __init__(self, t: pa.DataType, descriptors: FieldReader) -> None:
        if t != pa.large_binary() and t != _SHOWN:
            raise CorruptFileError(f"found a blob column, expected values of {t}")
        self._type = t
        self._descriptors = descriptors

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        descriptors = yield from self._descriptors.read(start, stop)
        positions, sizes = (descriptors.field(i).to_numpy(zero_copy_only=True) for i in range(2))
        if len(sizes) and max(int(positions.max()), int(sizes.max())) >= 2**62:
            raise CorruptFileError("the position or size of a blob is beyond the end of any file")
        valid = (sizes > 0) | (positions == 0)
        if pa.types.is_struct(self._type):
            return pa.Array.from_buffers(self._type, len(valid), [validity_of(valid)], children=descriptors.flatten())
        there = np.flatnonzero(sizes)
        begin, end = positions[there], positions[there] + sizes[there]
        values = yield [ByteRange(a, b) for a, b in zip(begin.tolist(), end.tolist())]
        data = np.concatenate([*values, np.empty(0, np.uint8)])
        return binary_array(pa.large_binary(), offsets_of(sizes.astype(np.int64), large=True), data, validity_of(valid))
