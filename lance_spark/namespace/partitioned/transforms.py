"""The eight partition transforms: arrays of source values -> arrays of partition values.

Implements "Partition Transform" of the partitioning specification. Unlike in Iceberg, time parts are calendar parts (months are 1 to 12 in
every year), numbers are truncated towards zero, and a bucket is the absolute value of the hash modulo N.
"""

from __future__ import annotations

from collections.abc import Callable
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
MURMUR3, XXHASH64 = "murmur3", "xxhash64"
"""The hashes of buckets: that of the published page of the specification, and that of the document."""


@dataclass(frozen=True)
class Transform:
    """One of `KINDS`; `parameter` is the width of `truncate` or the number of buckets, which are made by `hash`."""

    kind: str
    parameter: int | None = None
    hash: str = MURMUR3

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidOptionError(f"unknown partition transform {self.kind!r}; expected one of {', '.join(KINDS)}")
        needs = self.kind in PARAMETERS
        if needs != (self.parameter is not None) or (needs and not 1 <= int(self.parameter or 0) < 2**31):
            wanted = f"the {PARAMETERS[self.kind]}, a whole number from 1 to 2^31 - 1" if needs else "no parameter"
            raise InvalidOptionError(f"the partition transform {self.kind} takes {wanted}; found {self.parameter!r}")

    def __str__(self) -> str:
        kind = self.kind if self.hash == MURMUR3 else f"{self.kind} by {self.hash}"
        return kind if self.parameter is None else f"{kind}[{self.parameter}]"

    def result_type(self, source: pa.DataType) -> pa.DataType:
        """The type of the partition values of a source column. Raises InvalidOptionError if the transform does not apply to its type."""
        if self.kind == "identity" and not pa.types.is_nested(source) and not pa.types.is_null(source):
            return source
        if self.kind in TIME_PARTS and (pa.types.is_timestamp(source) or (pa.types.is_date(source) and self.kind != "hour")):
            return pa.int32()
        if self.kind == "truncate" and (is_text(source) or pa.types.is_integer(source) or pa.types.is_decimal(source)):
            return source
        if self.kind == "bucket" and (source == pa.int64() or is_text(source) or is_binary(source)):
            return pa.int32() if self.hash == MURMUR3 else pa.int64()
        raise InvalidOptionError(f"the partition transform {self} cannot be written for a column of type {source}; {_ADVICE[self.kind]}")

    def apply(self, values: pa.Array) -> pa.Array:
        """The partition value of each value; null for null. `result_type` must accept the type of the values."""
        if self.kind == "identity":
            return values
        if self.kind in TIME_PARTS:
            return part(self.kind, values)
        if self.kind == "bucket":
            hashes = _murmur3 if self.hash == MURMUR3 else _xxhash64
            return _buckets(values, int(self.parameter or 1), hashes, self.result_type(values.type))
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


def _buckets(values: pa.Array, count: int, hashes: Callable[[np.ndarray, np.ndarray], np.ndarray], t: pa.DataType) -> pa.Array:
    """The bucket of each value. Integers are hashed as int64, little endian; text as UTF-8."""
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if values.type == pa.int64():
        data = values.fill_null(0).to_numpy().astype("<i8", copy=False).view(np.uint8)
        offsets = np.arange(len(values) + 1, dtype=np.int64) * 8
    else:
        wide = values.cast(pa.large_binary())
        _, ends, content = wide.buffers()
        offsets = np.frombuffer(ends, "<i8")[wide.offset : wide.offset + len(wide) + 1]
        data = np.frombuffer(content or b"", np.uint8)
    sizes = hashes(data, np.ascontiguousarray(offsets))
    return pa.array((sizes % np.uint64(count)).astype(np.int64), pa.int64(), mask=mask).cast(t)


def _murmur3(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The absolute values of the hashes."""
    from lance_spark.kernels.murmur3 import murmur3  # loads numba

    hashes = np.empty(len(offsets) - 1, np.int64)
    murmur3(data, offsets, hashes)
    return np.abs(hashes).astype(np.uint64)


def _xxhash64(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The absolute values of the hashes as signed numbers, of which one has no absolute value among these."""
    from lance_spark.kernels.xxh64 import xxh64  # loads numba

    hashes = np.empty(len(offsets) - 1, np.uint64)
    xxh64(data, offsets, hashes)
    return np.where(hashes >> np.uint64(63), ~hashes + np.uint64(1), hashes)


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
