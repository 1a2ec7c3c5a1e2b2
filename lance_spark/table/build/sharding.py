"""Sharding: which shard of a table's log a row belongs to.

Implements "Sharding" and "Bucket Hashing" of the MemTable and WAL specification, as pylance's `evaluate_sharding_spec`.
All rows of a primary key must be in one shard, as keys are not compared between shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_spark.arrow.texts import bytes_of
from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError, check_type
from lance_spark.schema.schema import Field, Schema

_MOST_BUCKETS = 1024
_BUCKET, _IDENTITY, _UNSHARDED = "bucket", "identity", "unsharded"
_NUM_BUCKETS = "num_buckets"
_FIELD = "bucket"
"""The id that pylance gives to the field of every transform."""
_NAN32, _NAN64 = np.uint32(0x7FC00000), np.uint64(0x7FF8000000000000)
_NAMES = {pa.bool_(): "boolean", pa.string(): "utf8", pa.large_string(): "large_utf8"}
_NARROW = (types.is_boolean, types.is_date32, types.is_time32)
_WIDE = (types.is_int64, types.is_uint64, types.is_timestamp, types.is_time64)


@dataclass(frozen=True)
class ShardingField:
    """How one value of a shard is computed from a row: see pylance's class of the same name.

    Attributes:
        field_id: The name of the value.
        source_ids: The ids of the columns that it is computed from.
        transform: bucket, identity or unsharded.
        expression: Not supported, neither by pylance.
        result_type: The name of the value's type.
        parameters: `num_buckets` of bucket.
    """

    field_id: str
    source_ids: Sequence[int]
    transform: str | None = None
    expression: str | None = None
    result_type: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardingSpec:
    """How rows are assigned to shards. `spec_id` is its number in the log, from 1."""

    spec_id: int
    fields: Sequence[ShardingField]

    @property
    def num_shards(self) -> int:
        """The number of shards; 0 if the values decide."""
        counts = [_buckets(f) if f.transform == _BUCKET else int(f.transform == _UNSHARDED) for f in self.fields]
        return int(np.prod(counts)) if counts else 0

    def as_dict(self) -> dict[str, object]:
        """The spec in the form in which pylance's `mem_wal_index_details` returns it."""
        return {
            "spec_id": self.spec_id,
            "fields": [{**vars(f), "source_ids": list(f.source_ids), "parameters": dict(f.parameters)} for f in self.fields],
        }


def sharding_spec(
    schema: Schema,
    bucket_column: str | None,
    num_buckets: int | None,
    identity_column: str | None,
    is_unsharded: bool,
) -> ShardingSpec | None:
    """The spec of pylance's arguments of these names; None for shards that are chosen by hand. Raises InvalidOptionError."""
    if (bucket_column is None) != (num_buckets is None):
        raise InvalidOptionError("bucket sharding requires both bucket_column and num_buckets")
    if sum([bucket_column is not None, identity_column is not None, is_unsharded]) > 1:
        raise InvalidOptionError("at most one of bucket_column, identity_column and unsharded may be given")
    if bucket_column is not None and num_buckets is not None:
        check_type("num_buckets", num_buckets, Integral, "a number")
        return bucket(schema, bucket_column, num_buckets)
    if identity_column is not None:
        return identity(schema, identity_column)
    return unsharded() if is_unsharded else None


def bucket(schema: Schema, column: str, num_buckets: int) -> ShardingSpec:
    """The spec that assigns rows by a hash of a column. Raises InvalidOptionError."""
    source = _source(schema, column)
    return _checked(schema, ShardingField(_FIELD, (source.id,), _BUCKET, None, "int32", {_NUM_BUCKETS: str(num_buckets)}))


def identity(schema: Schema, column: str) -> ShardingSpec:
    """The spec with a shard for each value of a column. Raises InvalidOptionError."""
    source = _source(schema, column)
    name = _NAMES.get(source.type, str(source.type))
    return _checked(schema, ShardingField(_FIELD, (source.id,), _IDENTITY, None, name))


def unsharded() -> ShardingSpec:
    """The spec with one shard for all rows."""
    return ShardingSpec(1, (ShardingField(_FIELD, (), _UNSHARDED, None, "int32"),))


def check_spec(spec: ShardingSpec, schema: Schema) -> None:
    """Raise InvalidOptionError or UnsupportedFeatureError for a spec that cannot assign the rows of a table."""
    if spec.spec_id < 1 or not spec.fields:
        raise InvalidOptionError(f"a sharding spec needs a spec_id from 1 and fields, not {spec}")
    for one in spec.fields:
        _check_transform(one)
        if one.transform == _UNSHARDED:
            continue
        source = _by_id(one, schema)
        if one.transform == _BUCKET and _buckets(one) > _MOST_BUCKETS:
            raise InvalidOptionError(f"bucket sharding: {_NUM_BUCKETS} must be from 1 to {_MOST_BUCKETS}, not {_buckets(one)}")
        if one.transform == _BUCKET and not _is_hashed(source.type):
            raise InvalidOptionError(f"bucket sharding: rows cannot be assigned by column {source.name!r} of type {source.type}")
        if one.transform == _IDENTITY and not _is_identity(source.type):
            raise InvalidOptionError(f"identity sharding: rows cannot be assigned by column {source.name!r} of type {source.type}")


def evaluate_sharding_spec(batch: pa.RecordBatch, spec: ShardingSpec, schema: Schema) -> pa.RecordBatch:
    """The values of a spec for each row, as pylance's function of the same name. `schema` is that of the table.

    Raises InvalidOptionError for an invalid spec, UnsupportedFeatureError for a transform that is not known, and
    SchemaMismatchError if the batch lacks a column.
    """
    if not spec.fields:
        raise InvalidOptionError("the sharding spec has no fields")
    columns = [_values(batch, one, schema) for one in spec.fields]
    return pa.RecordBatch.from_arrays(columns, names=[one.field_id for one in spec.fields])


def _values(batch: pa.RecordBatch, one: ShardingField, schema: Schema) -> pa.Array:
    _check_transform(one)
    if one.transform == _UNSHARDED:
        return pa.array(np.zeros(batch.num_rows, np.int32))
    source = _by_id(one, schema)
    at = batch.schema.get_field_index(source.name)
    if at < 0:
        raise SchemaMismatchError(f"the rows lack the column {source.name!r}, which assigns them to shards")
    values = batch.column(at)
    if one.transform == _IDENTITY:
        return values
    hashed = _hashes(values)
    buckets = (hashed & 0x7FFFFFFF) % _buckets(one)
    if values.null_count:
        buckets[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.array(buckets.astype(np.int32))


def _hashes(values: pa.Array) -> np.ndarray:
    """The hash of each value; those of nulls mean nothing."""
    from lance_spark.kernels.murmur3 import murmur3, murmur3_of_words  # loads numba

    t = values.type
    if not _is_hashed(t):
        raise InvalidOptionError(f"bucket sharding: values of type {t} have no hash")
    out = np.empty(len(values), np.int64)
    if types.is_string(t) or types.is_large_string(t):
        murmur3_of_words(*bytes_of(values), out)
        return out
    words = _words(values)
    size = words.dtype.itemsize
    murmur3(words.view(np.uint8), np.arange(len(words) + 1, dtype=np.int64) * size, out)
    return out


def _words(values: pa.Array) -> np.ndarray:
    """The values as words of 4 or 8 bytes, little endian."""
    t = values.type
    if types.is_float32(t):
        return _bits(values, np.uint32, _NAN32)
    if types.is_float64(t):
        return _bits(values, np.uint64, _NAN64)
    if types.is_boolean(t):
        return np.asarray(values.fill_null(False)).astype("<i4")
    if any(is_kind(t) for is_kind in _NARROW):
        return np.asarray(values.view(pa.int32()).fill_null(0)).astype("<i4")
    if any(is_kind(t) for is_kind in _WIDE):
        wide = values if types.is_integer(t) else values.view(pa.int64())
        return np.asarray(wide.fill_null(0)).astype("<i8" if types.is_signed_integer(wide.type) else "<u8")
    return np.asarray(values.fill_null(0)).astype("<i4")


def _bits(values: pa.Array, word: type, nan: np.generic) -> np.ndarray:
    numbers = np.asarray(values.fill_null(0))
    bits: np.ndarray = numbers.view(word).copy()
    bits[numbers == 0] = 0
    bits[np.isnan(numbers)] = nan
    return bits


def _is_hashed(t: pa.DataType) -> bool:
    if types.is_integer(t) or types.is_float32(t) or types.is_float64(t):
        return True
    kinds = (*_NARROW, *_WIDE, types.is_string, types.is_large_string)
    return any(is_kind(t) for is_kind in kinds)


def _is_identity(t: pa.DataType) -> bool:
    return types.is_integer(t) or any(is_kind(t) for is_kind in (types.is_boolean, types.is_string, types.is_large_string))


def _check_transform(one: ShardingField) -> None:
    if one.transform not in (_BUCKET, _IDENTITY, _UNSHARDED):
        what = f"the transform {one.transform!r}" if one.transform else "an expression"
        known = f"{_BUCKET}, {_IDENTITY} and {_UNSHARDED}"
        raise UnsupportedFeatureError(f"the sharding field {one.field_id!r} has {what}; supported are the transforms {known}")
    if one.transform == _BUCKET:
        _buckets(one)


def _buckets(one: ShardingField) -> int:
    text = one.parameters.get(_NUM_BUCKETS)
    if text is None or not text.isdecimal() or int(text) < 1:
        raise InvalidOptionError(f"bucket sharding: {_NUM_BUCKETS} of field {one.field_id!r} must be a number from 1, not {text!r}")
    return int(text)


def _by_id(one: ShardingField, schema: Schema) -> Field:
    wanted = one.source_ids[0] if one.source_ids else None
    found = next((f for f in schema.fields if f.id == wanted), None)
    if found is None:
        what = f"needs the column with the id {wanted}, which the table does not have"
        raise InvalidOptionError(f"the sharding field {one.field_id!r} {what}")
    return found


def _source(schema: Schema, column: str) -> Field:
    found = next((f for f in schema.fields if f.name == column), None)
    if found is None:
        raise InvalidOptionError(f"sharding: the table has no column {column!r}; its columns are: {', '.join(schema.names)}")
    return found


def _checked(schema: Schema, one: ShardingField) -> ShardingSpec:
    spec = ShardingSpec(1, (one,))
    check_spec(spec, schema)
    return spec
