"""Nullable: values without nulls, values with a validity bitmap, or only nulls."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.buffers.limits import check_bytes
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps, side_by_side
from lance_spark.v2_0.encoding import Encoding


@dataclass(frozen=True)
class NoNulls:
    """Values of which none is null."""

    values: Encoding

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, unchanged."""
        return self.values.read(spans, t)


@dataclass(frozen=True)
class SomeNulls:
    """Values with a bitmap, 1 for a valid value; null slots hold arbitrary values."""

    validity: Encoding
    values: Encoding

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, with nulls where the bitmap has 0."""
        valid, values = yield from side_by_side([self.validity.read(spans, pa.bool_()), self.values.read(spans, t)])
        return with_validity(values, valid)


@dataclass(frozen=True)
class AllNulls:
    """Nulls only, without a buffer."""

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """As many nulls as rows."""
        yield from ()
        count = sp.count(spans)
        check_bytes(count * (bit_width(t) or 32) / 8, "a page of nulls")
        return pa.nulls(count, t)


def with_validity(array: pa.Array, valid: pa.BooleanArray) -> pa.Array:
    """`array` with additional nulls where `valid` is false; both have offset 0."""
    if array.null_count:
        valid = pc.and_(valid, array.is_valid())
    bitmap, t = valid.buffers()[1], array.type
    if pa.types.is_dictionary(t):
        return pa.DictionaryArray.from_arrays(with_validity(array.indices, valid), array.dictionary, ordered=t.ordered)
    if pa.types.is_fixed_size_list(t):
        return pa.Array.from_buffers(t, len(array), [bitmap], children=[array.values])
    if pa.types.is_struct(t):
        return pa.Array.from_buffers(t, len(array), [bitmap], children=[array.field(i) for i in range(t.num_fields)])
    if pa.types.is_null(t):
        return array
    return pa.Array.from_buffers(t, len(array), [bitmap, *array.buffers()[1:]])
