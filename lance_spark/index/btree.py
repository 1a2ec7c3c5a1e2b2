"""BTREE: all values of the column in order, in pages with known bounds.

`page_data.lance` has the rows sorted by value, nulls first (see `order`); `page_lookup.lance` the first and last value of each page of
`batch_size` rows (null as the first of a page that starts with nulls), its number of nulls, and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.index.answer import Found, of_numbers
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.order import in_order, is_ascending, merged, sort_order
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.one_column import holds, holds_for_null
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import Column, Expression, In
from lance_spark.reading import spans

DATA = "page_data.lance"
LOOKUP = "page_lookup.lance"
PAGE_ROWS = 4096
VERSION = 0
"""In tables with stable row ids 1: the rows are addresses."""

_FEW_ROWS = 1 << 16
"""So many rows are always worth finding."""

_QUICKLY_READ = 1 << 22
"""So many values are always worth reading, if few of them satisfy the condition."""

_KEPT_PAGES, _KEPT_WIDE_PAGES = 1024, 16
"""If so few pages of numbers, or of other values, are read, they stay in memory for the next search."""

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
        return int(self.bounds.nbytes + self.nulls.nbytes + self.sizes.nbytes)

    @cached_property
    def have_nulls(self) -> bool:
        return bool(self.nulls.any())

    def spans_of(self, numbers: np.ndarray) -> spans.Spans:
        """The rows of the pages with these numbers."""
        starts = numbers * self.page_rows
        return spans.merged(spans.of(starts, np.minimum(starts + self.page_rows, self.num_rows)), 0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of rows of each page."""
        starts = np.arange(len(self.nulls), dtype=np.int64) * self.page_rows
        return np.minimum(self.page_rows, self.num_rows - starts)


@dataclass(frozen=True)
class _Page:
    """The values of a page, in order, and the numbers of their rows."""

    values: pa.Array
    numbers: np.ndarray


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """Every row whose value satisfies the condition; None if too many values would have to be read, or if it cannot be evaluated."""
    data = files.open(DATA)
    if data.num_rows < files.live_rows:
        raise CorruptFileError(f"{data.path}: expected at least {files.live_rows} rows, found {data.num_rows}")
    pages = files.cached("pages", lambda: _read_pages(files, data), lambda pages: pages.nbytes)
    try:
        kept = pages_that_may_hold(condition, pages.bounds)
        if pages.have_nulls:
            # Old writers keep the count of nulls when rows are gone, so only one without bounds tells that there are no values.
            kept = kept & ((pages.nulls < pages.sizes) | np.asarray(pages.bounds.upper.is_valid()))
            if holds_for_null(condition, pages.bounds.lower.type):
                kept = kept | (pages.nulls > 0)
        numbers = np.flatnonzero(kept)
        if _too_many(condition, pages, numbers):
            return None
        few = _KEPT_PAGES if pa.types.is_primitive(pages.bounds.lower.type) else _KEPT_WIDE_PAGES
        find = _in_few if len(numbers) <= few else _in_many
        found = find(files, data, pages, numbers, condition)
    except InvalidOptionError:
        return None  # the values of deleted rows are here too: only a scan shows whether the condition fails
    return Found(of_numbers(found), exact=True)


def _too_many(condition: Expression, pages: _Pages, kept: np.ndarray) -> bool:
    """Whether the pages `kept` have more values than are worth reading, or more of them satisfy the condition than are worth finding."""
    if len(kept) * pages.page_rows <= _FEW_ROWS:
        return False
    half = min(pages.num_rows // 2, _MOST_ROWS)
    values = pages.sizes[kept].sum()
    if values > max(_QUICKLY_READ, half):
        return True
    if values <= max(_FEW_ROWS, half):
        return False
    # Where both bounds satisfy a condition, most values between them do.
    ends = (bound.take(pa.array(kept)) for bound in (pages.bounds.lower, pages.bounds.upper))
    whole = np.logical_and(*(holds(condition, end) for end in ends))
    return bool(pages.sizes[kept[whole]].sum() > max(_FEW_ROWS, half))


def _in_few(files: IndexFiles, data: IndexFile, pages: _Pages, wanted: np.ndarray, condition: Expression) -> np.ndarray:
    """The numbers of the rows in the pages `wanted` that satisfy the condition. The pages stay in memory."""

    def read(numbers: Sequence[int]) -> Iterator[_Page]:
        chosen = np.array(numbers)
        rows = data.read((0, 1), spans.rows(pages.spans_of(chosen)))
        stops = np.cumsum(pages.sizes[chosen]).tolist()
        if not is_ascending(rows.column(0)):
            # Old writers may leave a page in another order when they move rows.
            order = [start + sort_order(rows.column(0).slice(start, stop - start)) for start, stop in zip([0, *stops], stops)]
            rows = rows.take(pa.array(np.concatenate(order)))
        lower, upper = (bound.take(pa.array(chosen)) for bound in (pages.bounds.lower, pages.bounds.upper))
        _check_values(rows.column(0), np.array([0, *stops]), lower, upper, data.path)
        for start, stop in zip([0, *stops], stops):
            # A slice would keep the memory of all pages.
            values, numbers = (pa.concat_arrays([column]) for column in rows.slice(start, stop - start).columns)
            yield _Page(values, unsigned(numbers, data.path))

    known = files.cached_each("page", wanted.tolist(), read, lambda page: page.values.nbytes + page.numbers.nbytes)
    if not known:
        return np.empty(0, np.uint64)
    numbers = known[0].numbers if len(known) == 1 else np.concatenate([page.numbers for page in known])
    found: np.ndarray = numbers[_hits(condition)(joined([page.values for page in known]))]
    return found


def _in_many(files: IndexFiles, data: IndexFile, pages: _Pages, wanted: np.ndarray, condition: Expression) -> np.ndarray:
    """As `_in_few`; only the values that satisfy the condition have their row numbers read."""
    chosen = pages.spans_of(wanted)
    rows = spans.rows(chosen)
    hits = _hits(condition)
    places, done = [np.empty(0, np.int64)], 0
    for batch in data.batches((0,), range(*chosen[0].tolist()) if len(chosen) == 1 else rows):
        values = batch.column(0)
        places.append(rows[done : done + batch.num_rows][hits(values) if is_ascending(values) else holds(condition, values)])
        done += batch.num_rows
    numbers = [np.empty(0, np.uint64), *(unsigned(batch.column(0), data.path) for batch in data.batches((1,), np.concatenate(places)))]
    return np.concatenate(numbers)


def _hits(condition: Expression) -> Callable[[pa.Array], np.ndarray]:
    """A function that gives the positions, or a mask, of those of some values, which are in order, that satisfy the condition."""
    match condition:
        case In(Column(_, t), wanted, False) if wanted and pa.types.is_integer(t):
            known = np.unique(np.array(wanted, dtype=t.to_pandas_dtype()))

            def find(values: pa.Array) -> np.ndarray:
                if values.type != t or values.null_count:
                    return holds(condition, values)
                ordered = values.to_numpy()
                first, last = (np.searchsorted(ordered, known, side=side) for side in ("left", "right"))
                return spans.rows(spans.merged(spans.of(first, last), 0))

            return find
        case _:
            return lambda values: holds(condition, values)


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
    lower, upper = table.columns[:2]
    if lower.type != types[0] or upper.type != types[0]:
        raise CorruptFileError(f"{lookup.path}: expected bounds of {types[0]}, found columns of {table.schema.types}")
    nulls, numbers = (unsigned(column, lookup.path) for column in table.columns[2:])
    order = np.argsort(numbers)
    if (numbers[order] != np.arange(len(order))).any():
        raise CorruptFileError(f"{lookup.path}: the pages are not numbered from 0 to {len(order) - 1}")
    if len(order) and (order[1:] < order[:-1]).any():
        lower, upper, nulls = lower.take(order), upper.take(order), nulls[order]
    _check_order((lower, upper), lookup.path)
    return _Pages(PageBounds(lower, upper), nulls.astype(np.int64), page_rows, data.num_rows)


def _check_values(values: pa.Array, edges: np.ndarray, lower: pa.Array, upper: pa.Array, what: str) -> None:
    """Raise CorruptFileError unless the values of pages, which are in order between the `edges`, lie within the bounds of the pages."""
    nulls = np.concatenate([[0], np.cumsum(np.asarray(values.is_null()))])
    last = edges[1:] - 1
    first = np.minimum(edges[:-1] + np.diff(nulls[edges]), last)
    _check_order((lower, values.take(pa.array(first)), values.take(pa.array(last)), upper), what)


def _check_order(columns: Sequence[pa.Array], what: str) -> None:
    """Raise CorruptFileError unless the first values of all columns, then the second ones, and so on, ascend. Nulls are no values:
    some writers give a page with nulls a null as its lower bound, others its lowest value."""
    places = np.arange(len(columns) * len(columns[0])).reshape(len(columns), -1).T.ravel()
    if not is_ascending(joined(list(columns)).take(pa.array(places)).drop_null()):
        raise CorruptFileError(
            f"{what}: values are outside of the bounds of their page, or the bounds do not ascend; build the index again"
        )


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, in any order; their numbers are addresses in every table."""
    return _write(in_order(rows), value_type, target)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist, reading each of them once, in batches."""
    for files, _ in sources:
        _read_pages(files, files.open(DATA))
    rows = [_translated(files.open(DATA), translation) for files, translation in sources]
    return _write(rows[0] if len(rows) == 1 else merged(rows), sources[0][0].open(DATA).schema[0].type, target)


def _translated(data: IndexFile, translation: Translation) -> Iterator[pa.RecordBatch]:
    """The values and the rows where they are now."""
    for batch in data.batches((0, 1)):
        numbers, exist = translation.numbers(unsigned(batch.column(1), data.path))
        if exist.any():
            kept = batch.column(0) if exist.all() else batch.column(0).filter(pa.array(exist))
            yield pa.RecordBatch.from_arrays([kept, pa.array(numbers[exist], pa.uint64())], names=["value", "row"])


class _Lookup:
    """Collects the bounds and nulls of pages while their rows are written."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._rows = 0
        nothing = pa.array([], value_type)
        self._lower, self._upper, self._last = [nothing], [nothing], nothing
        self._pages, self._counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]

    def add(self, values: pa.Array) -> None:
        """Add the next rows."""
        if not len(values):
            return
        before = self._rows % PAGE_ROWS
        starts = np.arange(-before % PAGE_ROWS, len(values), PAGE_ROWS)
        self._lower.append(values.take(pa.array(starts)))
        self._upper.append(values.take(pa.array(np.arange(PAGE_ROWS - 1 - before, len(values), PAGE_ROWS))))
        edges = np.unique(np.concatenate([[0], starts, [len(values)]]))
        nulls = np.concatenate([[0], np.cumsum(np.asarray(values.is_null()))])
        self._counts.append(np.diff(nulls[edges]))
        self._pages.append((self._rows + edges[:-1]) // PAGE_ROWS)
        self._rows += len(values)
        self._last = values.slice(len(values) - 1)

    def finish(self) -> tuple[pa.Array, ...]:
        """The columns of the lookup file."""
        upper = self._upper if self._rows % PAGE_ROWS == 0 else [*self._upper, self._last]
        count = -(-self._rows // PAGE_ROWS)
        nulls = np.zeros(count, np.uint32)
        np.add.at(nulls, np.concatenate(self._pages), np.concatenate(self._counts).astype(np.uint32))
        return joined(self._lower), joined(upper), pa.array(nulls), pa.array(np.arange(count, dtype=np.uint32))


def _write(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget) -> Trained:
    """Write both files of the rows, which are in order."""
    lookup = _Lookup(value_type)
    with target.create(DATA, pa.schema([pa.field("values", value_type), pa.field("ids", pa.uint64(), nullable=False)])) as out:
        for batch in rows:
            out.put(*batch.columns)
            lookup.add(batch.column(0))
    counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "page_idx")]
    with target.create(LOOKUP, pa.schema([pa.field("min", value_type), pa.field("max", value_type), *counts])) as out:
        out.put(*lookup.finish())
        out.metadata |= {"batch_size": str(PAGE_ROWS), "range_partitioned": "false"}
    return target.trained(b"", VERSION)
