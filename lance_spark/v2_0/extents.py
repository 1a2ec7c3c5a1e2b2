"""The offsets of Binary and List: the end of each value; for a null a number larger than any end is added.

A value starts where the previous one ends, so each span also needs the offset of the row before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import GAP, values_of
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps
from lance_spark.v2_0.encoding import Encoding


@dataclass(frozen=True)
class Extents:
    """The length of each selected value, and whether it is valid; `content` are the ranges of bytes or items of the spans."""

    lengths: np.ndarray
    valid: np.ndarray
    content: Spans


def read_extents(encoding: Encoding, bits: int, null_adjustment: int, spans: Spans) -> Steps[Extents]:
    """Decode the offsets, unsigned integers of `bits` bits, of the rows of `spans`."""
    wider = sp.merged(sp.wider(spans, 1, 0), GAP * 8 // bits)
    array = yield from encoding.read(wider, pa.type_for_alias(f"uint{bits}"))
    stored = values_of(array).astype(np.uint64, copy=False)
    if null_adjustment == 0 and len(stored):
        raise CorruptFileError("found a null adjustment of 0 for offsets, expected more than any offset")
    adjustment = np.uint64(null_adjustment)
    valid = stored < adjustment
    ends = np.where(valid, stored, stored - adjustment)
    if len(ends) and int(ends.max()) >= 2**62:
        raise CorruptFileError(f"offset {int(ends.max())} is out of bounds")
    # With a leading 0, entry i is the start and entry i + 1 the end of row i.
    bounds = np.zeros(len(ends) + 1, dtype=np.int64)
    bounds[1:] = ends
    at = sp.positions(spans, wider)
    lengths = bounds[at + 1] - bounds[at]
    if len(lengths) and lengths.min() < 0:
        raise CorruptFileError("decreasing offsets")
    ends_of_spans = np.cumsum(spans[:, 1] - spans[:, 0])
    starts_of_spans = ends_of_spans - (spans[:, 1] - spans[:, 0])
    content = np.stack([bounds[at[starts_of_spans]], bounds[at[ends_of_spans - 1] + 1]], axis=1)
    if len(content) > 1 and (content[1:, 0] < content[:-1, 1]).any():
        raise CorruptFileError("decreasing offsets")
    return Extents(lengths, valid[at], sp.merged(content, 0))
