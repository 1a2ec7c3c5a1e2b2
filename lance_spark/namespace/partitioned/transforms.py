"""The eight partition transforms: arrays of source values -> arrays of partition values.

Implements "Partition Transform" of the partitioning specification. Unlike in Iceberg, time parts are calendar parts (months are 1 to 12 in
every year), numbers are truncated towards zero, and a bucket is the absolute value of the hash modulo N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_binary, is_text
from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.partitioned.local_time import part

TIME_PARTS = ("year", "month", "day", "hour")
KINDS = ("identity", *TIME_PARTS, "truncate", "bucket", "multi_bucket")
PARAMETERS = {"truncate": "width", "bucket": "num_buckets", "multi_bucket": "num_buckets"}
"""The transforms with a parameter, and its name in a spec."""


@dataclass(frozen=True)
class Transform:
    """One of `KINDS`; `parameter` is the width of `truncate` or the number of buckets."""

    kind: str
    parameter: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidOptionError(f"unknown partition transform {self.kind!r}; expected one of {', '.join(KINDS)}")
        needs = self.kind in PARAMETERS
        if needs != (self.parameter is not None) or (needs and not 1 <= int(self.parameter or 0) < 2**31):
            wanted = f"the {PARAMETERS[self.kind]}, a whole number from 1 to 2^31 - 1" if needs else "no parameter"
            raise InvalidOptionError(f"the partition transform {self.kind} takes {wanted}; found {self.parameter!r}")

    def __str__(self) -> str:
        return self.kind if self.parameter is None else f"{self.kind}[{self.parameter}]"

    def result_type(self, source: pa.DataType) -> pa.DataType:
        """The type of the partition values of a source column. Raises InvalidOptionError if the transform does not apply to its type."""
        if self.kind == "identity" and not pa.types.is_nested(source) and not pa.types.is_null(source):
            return source
        if self.kind in TIME_PARTS and (pa.types.is_timestamp(source) or (pa.types.is_date(source) and self.kind != "hour")):
            return pa.int32()
        if self.kind == "truncate" and (is_text(source) or pa.types.is_integer(source) or pa.types.is_decimal(source)):
            return source
        if self.kind == "bucket" and (source == pa.int64() or is_text(source) or is_binary(source)):
            return pa.int32()
        raise InvalidOptionError(f"the partition transform {self} cannot be written for a column of type {source}; {_ADVICE[self.kind]}")

    def apply(self, values: pa.Array) -> pa.Array:
        """The partition value of each value; null for null. `result_type` must accept the type of the values."""
        if self.kind == "identity":
            return values
        if self.kind in TIME_PARTS:
            return part(self.kind, values)
        if self.kind == "bucket":
            return _bucket(values, int(self.parameter or 1))
        if is_text(values.type):
            return pc.utf8_slice_codeunits(values, 0, self.parameter)
        return _truncated(values, int(self.parameter or 1))


_ADVICE = {
    "identity": "use a column without children",
    **dict.fromkeys(TIME_PARTS, "use a date or a timestamp (hour: a timestamp)"),
    "truncate": "use a string, an integer or a decimal",
    "bucket": "implementations agree on the hash of int64, string and binary columns only",
    "multi_bucket": "implementations do not agree on the hash of several columns; use bucket on one of them",
}


def known_transform(expression: str) -> tuple[str, int | None] | None:
    """The kind and parameter of the transform that is equivalent to a SQL expression of a spec; None if there is none."""
    text = "".join(expression.split()).lower().replace("col0", "col")
    if text == "col":
        return "identity", None
    for kind in TIME_PARTS:
        if text == f"date_part('{kind}',col)":
            return kind, None
    for kind, start, end in (
        ("truncate", "left(col,", ")"),
        ("truncate", "col-(col%", ")"),
        ("bucket", "abs(murmur3(col))%", ""),
    ):
        number = text.removeprefix(start).removesuffix(end)
        if text.startswith(start) and text.endswith(end) and number.isascii() and number.isdigit() and 0 < int(number[:11]) < 2**31:
            return kind, int(number)
    return None


def _bucket(values: pa.Array, count: int) -> pa.Array:
    from lance_spark.kernels.murmur3 import murmur3  # loads numba

    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if values.type == pa.int64():
        data = values.fill_null(0).to_numpy().astype("<i8", copy=False).view(np.uint8)
        offsets = np.arange(len(values) + 1, dtype=np.int64) * 8
    else:
        wide = values.cast(pa.large_binary())
        _, ends, content = wide.buffers()
        offsets = np.frombuffer(ends, "<i8")[wide.offset : wide.offset + len(wide) + 1]
        data = np.frombuffer(content or b"", np.uint8)
    hashes = np.empty(len(values), np.int64)
    murmur3(data, np.ascontiguousarray(offsets), hashes)
    return pa.array((np.abs(hashes) % count).astype(np.int32), pa.int32(), mask=mask)


def _truncated(values: pa.Array, width: int) -> pa.Array:
    """Round each number towards zero to a multiple of `width`."""
    if pa.types.is_decimal(values.type):
        coded = values.dictionary_encode()
        exact = pa.array([v - v % width for v in coded.dictionary.to_pylist()], values.type)
        return exact.take(coded.indices)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    wide = np.uint64 if values.type == pa.uint64() else np.int64
    numbers = values.fill_null(0).to_numpy().astype(wide)
    return pa.array(numbers - np.fmod(numbers, wide(width)), mask=mask).cast(values.type)
