"""BITMAP: the rows of each distinct value.

`bitmap_page_lookup.lance` has a row for each value: `keys`, ascending, null first, and `bitmaps`, the RowAddrTreeMap of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index import keyed_rows
from lance_spark.index.answer import Found, Rows, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps
from lance_spark.index.keyed_rows import FILE as DATA
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import ROW_ADDRESSES, parse_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.one_column import holds
from lance_spark.predicate.tree import Column, Expression

VERSION = 0
_MOST_KEYS = 1 << 20
"""With more distinct values than these, the index is not used."""

_MOST_FOUND = 1 << 15
"""Bitmaps that are read for one condition."""


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows of the values that satisfy the condition; None if they are too many, or if it cannot be evaluated on a value."""
    data = files.open(DATA)
    if data.num_rows > _MOST_KEYS:
        return None
    keys = files.cached("keys", lambda: _keys(files, data), lambda keys: int(keys.nbytes))
    try:
        wanted = np.flatnonzero(holds(condition, keys))
    except InvalidOptionError:
        return None
    return None if len(wanted) > _MOST_FOUND else Found(union(_bitmaps(files, data, wanted)), exact=True)


def _keys(files: IndexFiles, data: IndexFile) -> pa.Array:
    """The distinct values."""
    types = [f.type for f in data.schema]
    if len(types) != 2 or not files.fits(types[0]) or types[1] not in (pa.binary(), pa.large_binary()):
        raise CorruptFileError(f"{data.path}: expected keys of {files.indexed.type} and bitmaps, found columns of {types}")
    return data.read((0,)).column(0)


def _bitmaps(files: IndexFiles, data: IndexFile, wanted: np.ndarray) -> Iterator[Rows]:
    """The rows of the keys with these numbers."""
    for batch in data.batches((1,), wanted):
        for value in bitmaps(batch.column(0), data.path):
            yield parse_row_addresses(value, files.fragments, data.path)


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
