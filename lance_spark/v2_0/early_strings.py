"""Strings in files of early 2024: a column of lists, whose items are the bytes in the next column."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.reading.flat_buffers import binary_array, is_large, values_of
from lance_spark.reading.steps import FieldReader, Steps


def list_type(t: pa.DataType) -> pa.DataType:
    """The type of the lists that store strings or binary values of type `t`."""
    return pa.large_list(pa.uint8()) if is_large(t) else pa.list_(pa.uint8())


class EarlyStringsReader:
    """Reads `lists` (of `list_type(t)`) as strings of type `t`."""

    def __init__(self, t: pa.DataType, lists: FieldReader) -> None:
        self._type = t
        self._lists = lists

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        lists = yield from self._lists.read(start, stop)
        return binary_array(self._type, values_of(lists.offsets), values_of(lists.values), lists.buffers()[0])
