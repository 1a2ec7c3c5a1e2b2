"""BITMAP: the rows of each distinct value.

`bitmap_page_lookup.lance` has a row for each value: `keys`, ascending, null first, and `bitmaps`, the RowAddrTreeMap of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index import keyed_rows
from lance_spark.index.answer import Found, Rows, of_numbers, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps
from lance_spark.index.keyed_rows import FILE as DATA
from lance_spark.index.moves import Translation
from lance_spark.index.order import first_of_equals, sort_order
from lance_spark.index.row_sets import ROW_ADDRESSES, numbers_in, parse_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.one_column import holds, holds_for_null
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import Column, Expression
from lance_spark.reading import spans

VERSION = 0
_PAGE_KEYS = 4096
_KEPT_KEYS = 1 << 20
"""With more distinct values than these, only the first and the last of each page of keys stay in memory."""

_FEW_KEYS = 1 << 10
"""The bitmaps of so few keys are read one by one."""

_FEW_ROWS = 1 << 16
"""So many rows are always worth finding."""

_MOST_ROWS = 1 << 25
"""More keys or rows than these are not found: the memory for them would not be bounded."""


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows of the values that satisfy the condition; None if they are too many, or if it cannot be evaluated on a value."""
    data = files.open(DATA)
    types = [f.type for f in data.schema]
    if len(types) != 2 or not files.fits(types[0]) or types[1] not in (pa.binary(), pa.large_binary()):
        raise CorruptFileError(f"{data.path}: expected keys of {files.indexed.type} and bitmaps, found columns of {types}")
    most = max(_FEW_ROWS, min(files.live_rows // 2, _MOST_ROWS))
    try:
        if data.num_rows <= _KEPT_KEYS:
            keys = files.cached("keys", lambda: data.read((0,)).column(0), lambda keys: int(keys.nbytes))
            wanted = np.flatnonzero(holds(condition, keys))
        else:
            bounds = files.cached("bounds", lambda: _page_bounds(data), lambda b: int(b.lower.nbytes + b.upper.nbytes))
            wanted = _in_pages(data, condition, bounds, most)
    except InvalidOptionError:
        return None
    # Each key has a row at least.
    rows = _rows(files, data, wanted, most) if len(wanted) <= most else None
    return None if rows is None else Found(rows, exact=True)


def _page_bounds(data: IndexFile) -> PageBounds:
    """The first and the last key of each page. Raises CorruptFileError if they are not in order."""
    first = np.arange(0, data.num_rows, _PAGE_KEYS)
    last = np.minimum(first + _PAGE_KEYS, data.num_rows) - 1
    read = np.unique(np.concatenate([first, last]))
    keys = data.read((0,), read).column(0)
    if (sort_order(keys) != np.arange(len(keys))).any() or not first_of_equals(keys).all():
        raise CorruptFileError(f"{data.path}: the keys are not in ascending order")
    return PageBounds(*(keys.take(pa.array(np.searchsorted(read, ends))) for ends in (first, last)))


def _in_pages(data: IndexFile, condition: Expression, bounds: PageBounds, most: int) -> np.ndarray:
    """The numbers of the keys that satisfy the condition, from pages that may have some. After more than `most`, the rest is left out."""
    kept = pages_that_may_hold(condition, bounds)
    if bounds.lower[:1].null_count and holds_for_null(condition, bounds.lower.type):
        kept[0] = True
    starts = np.flatnonzero(kept) * _PAGE_KEYS
    found, count = [np.empty(0, np.int64)], 0
    for start, stop in spans.merged(np.stack([starts, np.minimum(starts + _PAGE_KEYS, data.num_rows)], axis=1), 0).tolist():
        for batch in data.batches((0,), range(start, stop)):
            found.append(start + np.flatnonzero(holds(condition, batch.column(0))))
            start += batch.num_rows
            count += len(found[-1])
            if count > most:
                return np.concatenate(found)
    return np.concatenate(found)


def _rows(files: IndexFiles, data: IndexFile, wanted: np.ndarray, most: int) -> Rows | None:
    """The rows of the keys with these numbers; None if there are more than `most`."""
    parts: list[Rows] = []
    count = 0
    if len(wanted) <= _FEW_KEYS:
        for batch in data.batches((1,), wanted):
            parts += [parse_row_addresses(value, files.fragments, data.path) for value in bitmaps(batch.column(0), data.path)]
        return union(parts)
    for batch in data.batches((1,), wanted, batch_rows=_FEW_KEYS):
        for sets in ROW_ADDRESSES.parse(batch.column(0), files.fragments, data.path):
            count += len(numbers_in(sets))
            if count > most:
                return None
            parts.append(of_numbers(numbers_in(sets)))
    return union(parts)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, in any order."""
    return _written(target, keyed_rows.collect(rows), value_type)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist."""
    opened = [(files, files.open(DATA), translation) for files, translation in sources]
    rows = [keyed_rows.read(*source, ROW_ADDRESSES) for source in opened]
    return _written(target, keyed_rows.united(rows), opened[0][1].schema[0].type)


def _written(target: IndexTarget, rows: Iterable[pa.RecordBatch], key_type: pa.DataType) -> Trained:
    with target.create(DATA, keyed_rows.schema(key_type)) as out:
        keyed_rows.write_bitmaps(out, rows)
    return target.trained(b"", VERSION)
