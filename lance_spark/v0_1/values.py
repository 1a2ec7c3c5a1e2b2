"""The two encodings of legacy files: plain (fixed width, back to back) and var-binary (absolute offsets, bytes elsewhere)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import GAP, binary_array, bit_width, fixed_width_array, is_large, offsets_of, read_bits, validity_of
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps


def read_plain(page: ByteRange, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
    """Values of fixed width. This encoding has no nulls: they were written as 0."""
    bits = bit_width(t)
    assert bits is not None
    wanted = sp.merged(spans, GAP * 8 // bits)
    data = yield from read_bits(page, bits, wanted)
    return _only(fixed_width_array(t, sp.count(wanted), data), spans, wanted)


def read_strings(page: ByteRange, spans: Spans, t: pa.DataType, nullable: bool) -> Steps[pa.Array]:
    """Strings or binary values. In a nullable column empty values and nulls are not distinguished; both are read as null."""
    large = is_large(t)
    wider = sp.merged(sp.wider(spans, 0, 1), GAP // 8)
    words = yield from read_bits(page, 64, wider)
    offsets = np.frombuffer(words.tobytes(), dtype="<i8")
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > page.stop):
        raise CorruptFileError(f"strings at bytes {offsets[0]} to {offsets[-1]} are outside the file of {page.stop} bytes")
    if (np.diff(offsets) < 0).any():
        raise CorruptFileError("decreasing offsets")
    # Rows between selected ones are read too if that costs less than another range.
    average = int((offsets[-1] - offsets[0]) // len(offsets)) if len(offsets) else 0
    wanted = sp.merged(spans, GAP // (average + 8))
    at = sp.positions(wanted, wider)
    ends = np.cumsum(wanted[:, 1] - wanted[:, 0])
    first, last = at[ends - (wanted[:, 1] - wanted[:, 0])], at[ends - 1] + 1
    data = yield from read_bits(ByteRange(0, page.stop), 8, sp.merged(np.stack([offsets[first], offsets[last]], axis=1), 0))
    lengths = offsets[at + 1] - offsets[at]
    validity = validity_of(lengths > 0) if nullable else None
    return _only(binary_array(t, offsets_of(lengths, large), data, validity), spans, wanted)


def _only(array: pa.Array, spans: Spans, wanted: Spans) -> pa.Array:
    """The values of `spans`, from those of `wanted`."""
    return array if len(spans) == len(wanted) else take(array, pa.array(sp.positions(spans, wanted)))
