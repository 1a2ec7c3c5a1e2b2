"""ZONEMAP: the smallest and the largest value, the nulls and the NaNs of each zone.

`zonemap.lance` has one row per zone. NaNs count as the largest value; a minimum is the least number. Global buffer 1 is the
RowAddrTreeMap of the null rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark._proto import index_pb2
from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index.answer import Found, Rows, of_numbers, union
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import parse_row_addresses, serialise_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.zones import FIELDS, Zone, check_complete, rows_in, without_zones, zones
from lance_spark.predicate.compare import plain
from lance_spark.predicate.one_column import holds_for_null
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import Column, Expression

FILE = "zonemap.lance"
ROWS_PER_ZONE = 8192
VERSION = 0
NULL_BITMAP = "null_bitmap"
"""The metadata with the number of the buffer of null rows."""


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows of the zones with a value that may satisfy the condition; exact if only nulls satisfy it."""
    file = files.open(FILE)
    zone = files.cached("zones", lambda: _comparable(files, file), lambda b: b.nbytes)
    nulls, nans, lengths = (zone.column(name).to_numpy() for name in ("null_count", "nan_count", "zone_length"))
    # A zone without values has no bounds; otherwise a missing bound is unknown.
    empty = np.asarray(zone.column("max").is_null()) & (lengths <= nulls) & (nans == 0)
    kept = pages_that_may_hold(condition, PageBounds(zone.column("min"), zone.column("max"))) & ~empty
    unknown = without_zones(zone.column("fragment_id").to_numpy(), files.fragments)
    rows = [rows_in(zone, kept, files.fragments, file.path, bool(files.sizes))]
    exact = not kept.any() and bool(files.sizes)
    if holds_for_null(condition, files.indexed.type):
        known = null_rows(files, file)
        exact = exact and known is not None
        rows.append(rows_in(zone, nulls > 0, files.fragments, file.path, bool(files.sizes)) if known is None else known)
    return Found(union(rows), exact, unknown)


def _comparable(files: IndexFiles, file: IndexFile) -> pa.RecordBatch:
    """All zones, with bounds that conditions can be evaluated on: none for nested values, and no dictionaries."""
    names = _schema(pa.null()).names
    if types.is_nested(files.indexed.type):
        counts = file.read(names[2:])
        _check_counts(file, counts.columns)
        columns = [*[pa.nulls(counts.num_rows, files.indexed.type)] * 2, *counts.columns]
    else:
        zone = _zones(files, file)
        columns = [*map(plain, zone.columns[:2]), *zone.columns[2:]]
    return pa.RecordBatch.from_arrays(columns, names)


def _zones(files: IndexFiles, file: IndexFile) -> pa.RecordBatch:
    """All zones, checked."""
    zone = file.read(_schema(pa.null()).names)
    if not all(files.fits(t) for t in zone.schema.types[:2]):
        raise CorruptFileError(f"{file.path}: expected bounds of {files.indexed.type}, found columns of {zone.schema.types}")
    _check_counts(file, zone.columns[2:])
    return zone


def _check_counts(file: IndexFile, counts: Sequence[pa.Array]) -> None:
    for count in counts:
        unsigned(count, file.path)


def null_rows(files: IndexFiles, file: IndexFile) -> Rows | None:
    """The null rows, if the index has them."""
    if NULL_BITMAP not in file.metadata:
        return None
    rows = parse_row_addresses(file.buffer(NULL_BITMAP), files.fragments, file.path)
    return {fragment: found for fragment, found in rows.items() if fragment in files.fragments}


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, in order of their addresses. Parameter: `rows_per_zone`."""
    size = positive(parameters, "rows_per_zone", ROWS_PER_ZONE)
    nulls: list[Rows] = []
    columns: list[list[object]] = [[] for _ in range(7)]
    for zone in zones(rows, size):
        for column, value in zip(columns, (*_summary(zone), *zone.place)):
            column.append(value)
        if zone.values.null_count:
            nulls.append(nulls_of(zone))
    with target.create(FILE, _schema(value_type)) as out:
        out.put(*(pa.array(values, f.type, from_pandas=False) for values, f in zip(columns, out.schema)))
        out.metadata["rows_per_zone"] = str(size)
        out.attach(NULL_BITMAP, serialise_row_addresses(union(nulls)))
    return target.trained(_details(size), VERSION)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the zones of all sources, each of which is limited to its `fragments`. The rows must be where they were."""
    opened = [files.open(FILE) for files, _ in sources]
    stored = [_zones(files, file) for (files, _), file in zip(sources, opened)]
    schema = _schema(stored[0].schema.field("min").type)
    tables = [pa.Table.from_batches([zone]).cast(schema) for zone in stored]
    for table, (files, _), file in zip(tables, sources, opened):
        check_complete(table["fragment_id"].to_numpy(), files.fragments, file.path)
    kept = [t.filter(pc.is_in(t["fragment_id"], pa.array(sorted(files.fragments), pa.uint64()))) for t, (files, _) in zip(tables, sources)]
    merged = pa.concat_tables(kept).sort_by([("fragment_id", "ascending"), ("zone_start", "ascending")])
    nulls = [(null_rows(files, file), translation) for (files, translation), file in zip(sources, opened)]
    size = opened[0].number("rows_per_zone", ROWS_PER_ZONE)
    with target.create(FILE, schema) as out:
        for batch in merged.to_batches():
            out.write(batch)
        out.metadata["rows_per_zone"] = str(size)
        known = [translation.rows(found) for found, translation in nulls if found is not None]
        if len(known) == len(nulls):
            out.attach(NULL_BITMAP, serialise_row_addresses(union(known)))
    return target.trained(_details(size), VERSION)


def parameters(files: IndexFiles) -> dict[str, object]:
    """The parameters of an existing segment."""
    return {"rows_per_zone": max(1, files.open(FILE).number("rows_per_zone", ROWS_PER_ZONE))}


def positive(parameters: Mapping[str, object], name: str, default: int) -> int:
    """The parameter `name`, a whole number of at least 1. Raises InvalidOptionError."""
    value = parameters.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOptionError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def nulls_of(zone: Zone) -> Rows:
    """The null rows of a zone."""
    return of_numbers(zone.addresses[np.asarray(zone.values.is_null())])


def _details(size: int) -> bytes:
    # use_seeds is false, so that other writers do not expect seeds in the data files.
    details = index_pb2.ZoneMapIndexDetails(rows_per_zone=size, use_seeds=False, has_null_bitmap=True)
    return details.SerializeToString(deterministic=True)


def _schema(value_type: pa.DataType) -> pa.Schema:
    counts = (pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "nan_count"))
    return pa.schema([pa.field("min", value_type), pa.field("max", value_type), *counts, *FIELDS])


def _summary(zone: Zone) -> tuple[pa.Scalar | int | None, pa.Scalar | int | None, int, int]:
    """The minimum, the maximum (None: vectors have none), and the numbers of nulls and NaNs."""
    values = zone.values
    if types.is_floating(values.type):
        return _float_summary(values)
    if types.is_integer(values.type) and not values.null_count:
        # Arrow does the same, but takes three times as long for a zone.
        numbers = values.to_numpy()
        return numbers.min().item(), numbers.max().item(), 0, 0
    if types.is_nested(values.type):
        return None, None, values.null_count, 0
    if types.is_duration(values.type):
        # Arrow does not order durations.
        low, high = pc.min_max(values.cast(pa.int64())).values()
        return low.cast(values.type), high.cast(values.type), values.null_count, 0
    low, high = pc.min_max(values).values()
    return low, high, values.null_count, 0


def _float_summary(values: pa.Array) -> tuple[pa.Scalar, pa.Scalar, int, int]:
    """As `_summary`, in the total order: -0.0 is less than 0.0."""
    known = values.drop_null().to_numpy(zero_copy_only=False)
    numbers = known[~np.isnan(known)]
    nans = len(known) - len(numbers)
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (None, None)
    if low == 0 and np.signbit(numbers[numbers == 0]).any():
        low = known.dtype.type(-0.0)
    if high == 0 and not np.signbit(numbers[numbers == 0]).all():
        high = known.dtype.type(0.0)
    if nans:
        high = known.dtype.type(np.nan)
    return pa.scalar(low, values.type, from_pandas=False), pa.scalar(high, values.type, from_pandas=False), values.null_count, nans
