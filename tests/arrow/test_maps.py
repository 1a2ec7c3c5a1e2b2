"""Map arrays from the entries in files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.arrow.maps import map_array
from lance_spark.errors import CorruptFileError

T = pa.map_(pa.string(), pa.int32())
OFFSETS = [None, pa.py_buffer(np.array([0, 1, 3], np.int32))]


def entries(keys: list[str | None], validity: int | None = None) -> pa.StructArray:
    t = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])
    buffers = [None if validity is None else pa.py_buffer(bytes([validity]))]
    return pa.Array.from_buffers(t, len(keys), buffers, children=[pa.array(keys), pa.array([1, None, 3], pa.int32())])


def test_maps_are_rows_of_entries() -> None:
    made = map_array(T, 2, OFFSETS, entries(["a", "b", "c"]))
    assert made.to_pylist() == [[("a", 1)], [("b", None), ("c", 3)]]
    assert map_array(T, 1, OFFSETS, entries(["a", "b", "c"]), offset=1).to_pylist() == made.to_pylist()[1:]


@pytest.mark.parametrize("made", [entries(["a", None, "c"]), entries(["a", "b", "c"], 0b101)], ids=["a key", "an entry"])
def test_null_keys_and_null_entries_are_refused(made: pa.StructArray) -> None:
    with pytest.raises(CorruptFileError, match="a map has a null key"):
        map_array(T, 2, OFFSETS, made)
