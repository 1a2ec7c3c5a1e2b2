"""The offsets of Binary and List: where each value ends, with a null marked by adding a number that is larger than any end.

A value starts where the one before it ends, so the selected rows need the offsets of one row more at the start of each span.
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
    """Of each selected value the length, and whether it is not null; `content` are the bytes or items that the spans of values take."""

    lengths: np.ndarray
    valid: np.ndarray
    content: Spans


def read_extents(encoding: Encoding, bits: int, null_adjustment: int, spans: Spans) -> Steps[Extents]:
    """Decode the offsets, unsigned integers of `bits` bits, of the rows of `spans`."""
    wider = sp.merged(sp.wider(spans, 1, 0), GAP * 8 // bits)
    array = yield from encoding.read(wider, pa.type_for_alias(f"uint{bits}"))
    stored = values_of(array).astype(np.uint64, copy=False)
    if null_adjustment == 0 and len(stored):
        raise CorruptFileError("offsets whose null adjustment is 0")
    adjustment = np.uint64(null_adjustment)
    valid = stored < adjustment
    ends = np.where(valid, stored, stored - adjustment)
    if len(ends) and int(ends.max()) >= 2**62:
        raise CorruptFileError(f"an offset of {int(ends.max())}")
    # With a leading 0, entry i + 1 is the end and entry i the start of row i.
    bounds = np.zeros(len(ends) + 1, dtype=np.int64)
    bounds[1:] = ends
    at = sp.positions(spans, wider)
    lengths = bounds[at + 1] - bounds[at]
    if len(lengths) and lengths.min() < 0:
        raise CorruptFileError("offsets that fall")
    ends_of_spans = np.cumsum(spans[:, 1] - spans[:, 0])
    starts_of_spans = ends_of_spans - (spans[:, 1] - spans[:, 0])
    content = np.stack([bounds[at[starts_of_spans]], bounds[at[ends_of_spans - 1] + 1]], axis=1)
    if len(content) > 1 and (content[1:, 0] < content[:-1, 1]).any():
        raise CorruptFileError("offsets that fall")
    return Extents(lengths, valid[at], sp.merged(content, 0))
