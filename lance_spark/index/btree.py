"""BTREE: all values of the column in order, in pages with known bounds.

`page_data.lance` has the rows sorted by value, nulls first and NaN last; `page_lookup.lance` the first and last value of each page of
`batch_size` rows (null as the first of a page that starts with nulls), its number of nulls, and its number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.index.answer import Found, of_numbers
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.predicate.one_column import holds, holds_for_null
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import Column, Expression
from lance_spark.reading import spans

DATA = "page_data.lance"
LOOKUP = "page_lookup.lance"
PAGE_ROWS = 4096

_FEW_ROWS = 1 << 16
"""So many values are always worth reading."""

_MOST_ROWS = 1 << 25
"""More values than these are not read: the memory for their rows would not be bounded."""


@dataclass(frozen=True)
class _Pages:
    """The pages in order: their bounds, their numbers of nulls, and the number of rows of each but the last."""

    bounds: PageBounds
    nulls: np.ndarray
    page_rows: int
    num_rows: int

    @property
    def nbytes(self) -> int:
        return int(self.bounds.lower.nbytes + self.bounds.upper.nbytes + self.nulls.nbytes)

    def spans_of(self, kept: np.ndarray) -> spans.Spans:
        """The rows of the pages `kept`, a mask."""
        starts = np.flatnonzero(kept) * self.page_rows
        return spans.merged(np.stack([starts, np.minimum(starts + self.page_rows, self.num_rows)], axis=1), 0)

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each page."""
        starts = np.arange(len(self.nulls), dtype=np.int64) * self.page_rows
        return np.minimum(self.page_rows, self.num_rows - starts)


def search(files: IndexFiles, condition: Expression, column: Column, details: bytes) -> Found | None:
    """Every row whose value satisfies the condition; None if too many values would have to be read, or if it cannot be evaluated."""
    data = files.open(DATA)
    if data.num_rows < files.live_rows:
        raise CorruptFileError(f"{data.path}: expected at least {files.live_rows} rows, found {data.num_rows}")
    pages = files.cached("pages", lambda: _read_pages(files, data), lambda pages: pages.nbytes)
    try:
        kept = pages_that_may_hold(condition, pages.bounds) & (pages.nulls < pages.sizes)
        if holds_for_null(condition, pages.bounds.lower.type):
            kept |= pages.nulls > 0
        wanted = pages.spans_of(kept)
        if spans.count(wanted) > max(_FEW_ROWS, min(data.num_rows // 2, _MOST_ROWS)):
            return None
        rows = range(*wanted[0].tolist()) if len(wanted) == 1 else spans.rows(wanted)
        found = [np.empty(0, np.uint64)]
        for batch in data.batches((0, 1), rows):
            found.append(batch.column(1).to_numpy()[holds(condition, batch.column(0))])
    except InvalidOptionError:
        return None  # the values of deleted rows are here too: only a scan shows whether the condition fails
    return Found(of_numbers(np.concatenate(found)), exact=True)


def _read_pages(files: IndexFiles, data: IndexFile) -> _Pages:
    """Read the lookup file and check it."""
    lookup = files.open(LOOKUP)
    types = [f.type for f in data.schema]
    if len(types) != 2 or not files.fits(types[0]) or types[1] != pa.uint64():
        raise CorruptFileError(f"{data.path}: expected values of {files.indexed.type} and row numbers, found columns of {types}")
    if lookup.metadata.get("range_partitioned", "false") != "false":
        raise UnsupportedFeatureError(f"{lookup.path}: an index whose pages are in several files is not supported")
    page_rows = lookup.number("batch_size", PAGE_ROWS)
    if not page_rows or lookup.num_rows != -(-data.num_rows // page_rows):
        raise CorruptFileError(f"{lookup.path}: {lookup.num_rows} pages of {page_rows} rows, but there are {data.num_rows} rows")
    table = lookup.read(("min", "max", "null_count", "page_idx"))
    lower, upper, nulls, numbers = table.columns
    if lower.type != types[0] or upper.type != types[0] or nulls.null_count or numbers.null_count:
        raise CorruptFileError(f"{lookup.path}: expected bounds of {types[0]} for numbered pages, found columns of {table.schema.types}")
    order = np.argsort(numbers.to_numpy())
    if (numbers.to_numpy()[order] != np.arange(len(order))).any():
        raise CorruptFileError(f"{lookup.path}: the pages are not numbered from 0 to {len(order) - 1}")
    if len(order) and (order[1:] < order[:-1]).any():
        lower, upper, nulls = lower.take(order), upper.take(order), nulls.take(order)
    return _Pages(PageBounds(lower, upper), nulls.to_numpy().astype(np.int64), page_rows, data.num_rows)
