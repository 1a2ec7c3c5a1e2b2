"""BLOOMFILTER: a split-block bloom filter of the values of each zone.

`bloomfilter.lance` has one row per zone; nulls are not in the filters. Global buffer 1 is the RowAddrTreeMap of the null rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_spark.arrow.split_block import BLOCK_BYTES, filter_bytes, hashes, make_filter, may_contain
from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index.answer import Found, Rows, union
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import serialise_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.zone_map import NULL_BITMAP, null_rows, nulls_of, positive
from lance_spark.index.zones import FIELDS, check_complete, rows_in, without_zones, zones
from lance_spark.predicate.tree import And, Column, Compare, Expression, In, IsNull, Literal, Or

FILE = "bloomfilter.lance"
VALUES_PER_ZONE = 8192
PROBABILITY = 0.00057
"""The defaults of pylance: with them a filter has 32 KiB."""
VERSION = 0
_SCHEMA = pa.schema([*FIELDS, pa.field("has_null", pa.bool_(), nullable=False), pa.field("bloom_filter_data", pa.binary(), nullable=False)])
_PLACES = [f.name for f in FIELDS]
_BATCH_BYTES = 4 << 20
"""Bytes of filters that are written at once; an index of at most this size stays in memory after its first search."""


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows of the zones whose filters may contain a value that the condition asks for; exact for IS NULL."""
    if condition == IsNull(column):
        file = files.open(FILE)
        nulls = null_rows(files, file)
        unknown = without_zones(unsigned(file.read(_PLACES[:1]).column(0), file.path), files.fragments)
        return None if nulls is None else Found(nulls, exact=True, unknown=unknown)
    wanted = _wanted(condition, column, files.indexed.type)
    if wanted is None:
        return None
    file = files.open(FILE)
    places = files.cached("places", lambda: file.read(_PLACES), lambda b: b.nbytes)
    kept = np.zeros(file.num_rows, np.bool_)
    if len(wanted) and file.num_rows:
        hashed = hashes(wanted)
        at = 0
        for batch in _filters(files, file):
            kept[at : at + batch.num_rows] = _may_contain(batch.column(0), hashed, file.path)
            at += batch.num_rows
    unknown = without_zones(unsigned(places.column(0), file.path), files.fragments)
    return Found(rows_in(places, kept, files.fragments, file.path, bool(files.sizes)), exact=False, unknown=unknown)


def _filters(files: IndexFiles, file: IndexFile) -> Iterable[pa.RecordBatch]:
    """The filters, kept in memory if they are few."""
    column = _SCHEMA.names[-1]
    size = files.sizes.get(FILE)
    if size is None or size > _BATCH_BYTES:
        return file.batches([column])
    return [files.cached(column, lambda: file.read([column]), lambda b: b.nbytes)]


def _may_contain(filters: pa.Array, hashed: np.ndarray, what: str) -> np.ndarray:
    bounds, data = _bounds(filters, what), filters.buffers()[2]
    return may_contain(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), bounds, hashed)


def _bounds(filters: pa.Array, what: str) -> np.ndarray:
    """Where each filter begins and ends in the data of the array. Raises CorruptFileError if they are no filters."""
    if filters.null_count or not types.is_binary(filters.type):
        raise CorruptFileError(f"{what}: expected bloom filters as binary values without nulls, found {filters.type}")
    bounds = np.frombuffer(filters.buffers()[1], np.int32, len(filters) + 1, filters.offset * 4).astype(np.int64)
    if (np.diff(bounds) % BLOCK_BYTES).any():
        raise CorruptFileError(f"{what}: a bloom filter is not a whole number of blocks of {BLOCK_BYTES} bytes")
    return bounds


def _wanted(condition: Expression, column: Column, stored: pa.DataType) -> pa.Array | None:
    """Values one of which a row must have to satisfy the condition, as they are stored; None if there is no such set."""
    match condition:
        case And(operands):
            return next((found for o in operands if (found := _wanted(o, column, stored)) is not None), None)
        case Or(operands):
            parts = [_wanted(o, column, stored) for o in operands]
            known = [p for p in parts if p is not None]
            return pa.concat_arrays(known) if len(known) == len(parts) else None
        case Compare("=", left, Literal(value)) if left == column and value is not None:
            return _as_stored([value], column.type, stored)
        case Compare("=", Literal(value), right) if right == column and value is not None:
            return _as_stored([value], column.type, stored)
        case In(operand, values, _) if operand == column:
            return _as_stored(values, column.type, stored)
        case _:
            return None


def _as_stored(values: Sequence[object], compared: pa.DataType, stored: pa.DataType) -> pa.Array | None:
    """The stored forms of values; None if one has too many of them, as NaN has. A value that cannot be stored has none."""
    array = pa.array(values, compared, from_pandas=False)
    if types.is_floating(stored):
        numbers = array.to_numpy(zero_copy_only=False)
        if compared != stored or np.isnan(numbers).any():
            return None
        return pa.array(np.concatenate([numbers, -numbers[numbers == 0]]), stored)
    if types.is_timestamp(stored) and types.is_timestamp(compared):
        return _as_stored_times(array.cast(pa.int64()), stored)
    text = (types.is_string, types.is_large_string), (types.is_binary, types.is_large_binary)
    if any(any(is_(compared) for is_ in same) and any(is_(stored) for is_ in same) for same in text):
        return array.cast(stored)
    return array if compared == stored else None


def _as_stored_times(micros: pa.Array, stored: pa.DataType) -> pa.Array | None:
    """Microseconds in the unit of the stored timestamps; nanoseconds that are seen as a microsecond are too many."""
    per_unit = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(stored.unit)
    if per_unit is None:
        return None
    numbers = micros.to_numpy(zero_copy_only=False)
    return pa.array(numbers[numbers % per_unit == 0] // per_unit, pa.int64()).cast(stored)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, in order of their addresses. Parameters: `number_of_items` per zone, and `probability`."""
    items = positive(parameters, "number_of_items", VALUES_PER_ZONE)
    probability = parameters.get("probability", PROBABILITY)
    if not isinstance(probability, float) or not 0 < probability < 1:
        raise InvalidOptionError(f"probability must be a number between 0 and 1, not {probability!r}")
    size = filter_bytes(items, probability)
    nulls: list[Rows] = []
    with target.create(FILE, _SCHEMA) as out:
        waiting: list[tuple[object, ...]] = []
        for zone in zones(rows, items):
            if zone.values.null_count:
                nulls.append(nulls_of(zone))
            known = zone.values.drop_null()
            waiting.append((*zone.place, zone.values.null_count > 0, make_filter(hashes(known), size)))
            if len(waiting) * size >= _BATCH_BYTES:
                out.put(*_columns(waiting))
                waiting = []
        out.put(*_columns(waiting))
        out.metadata |= {"bloomfilter_item": str(items), "bloomfilter_probability": repr(probability)}
        out.attach(NULL_BITMAP, serialise_row_addresses(union(nulls)))
    return target.trained(b"", VERSION)


def parameters(files: IndexFiles) -> dict[str, object]:
    """The parameters of an existing segment."""
    file = files.open(FILE)
    items = max(1, file.number("bloomfilter_item", VALUES_PER_ZONE))
    try:
        probability = float(file.metadata.get("bloomfilter_probability", PROBABILITY))
    except ValueError as e:
        raise CorruptFileError(f"{file.path}: bloomfilter_probability is not a number: {e}") from e
    return {"number_of_items": items, "probability": probability if 0 < probability < 1 else PROBABILITY}


def _columns(rows: Sequence[tuple[object, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(_SCHEMA)]


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the zones of all sources, each of which is limited to its `fragments`. The rows must be where they were."""
    opened = [files.open(FILE) for files, _ in sources]
    with target.create(FILE, _SCHEMA) as out:
        for (files, _), file in zip(sources, opened):
            check_complete(unsigned(file.read(_PLACES[:1]).column(0), file.path), files.fragments, file.path)
            for batch in file.batches(_SCHEMA.names):
                _bounds(batch.column(_SCHEMA.names[-1]), file.path)
                kept = np.isin(unsigned(batch.column(0), file.path), np.fromiter(files.fragments, np.uint64, len(files.fragments)))
                out.put(*batch.filter(pa.array(kept)).columns)
        first = opened[0].metadata
        out.metadata |= {key: first[key] for key in ("bloomfilter_item", "bloomfilter_probability") if key in first}
        nulls = [(null_rows(files, file), translation) for (files, translation), file in zip(sources, opened)]
        known = [translation.rows(found) for found, translation in nulls if found is not None]
        if len(known) == len(nulls):
            out.attach(NULL_BITMAP, serialise_row_addresses(union(known)))
    return target.trained(b"", VERSION)
