"""Reading one column's selected rows batch by batch: a page is loaded when a batch reaches it and released after it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.naming import naming
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps, side_by_side

T = TypeVar("T")


class Paged(Generic[T]):
    """The pages of one column, with the number of its rows before the end of each.

    `load` decodes all selected rows of the page with a given number to a T.
    """

    def __init__(self, ends: Sequence[int], spans: Spans, num_rows: int, load: Callable[[int, Spans], Steps[T]]) -> None:
        if (total := ends[-1] if ends else 0) != num_rows:
            raise CorruptFileError(f"expected {num_rows} values, found pages with {total}")
        if len(spans) and not 0 <= spans[0, 0] <= spans[-1, 1] <= num_rows:
            raise IndexError(f"rows {spans[0, 0]} to {spans[-1, 1]} are out of bounds: the column has {num_rows} rows")
        if len(ends) == 1 and len(spans):
            self._selected, self._ends = [(0, spans)], [sp.count(spans)]
        else:
            self._select(spans, ends)
        self._load = load
        self._loaded: dict[int, T] = {}

    def _select(self, spans: Spans, ends: Sequence[int]) -> None:
        """Find the pages with selected rows."""
        # A page is selected if fewer spans end before it than begin before its end.
        starts = [0, *ends[:-1]]
        begun, ended = spans[:, 0].searchsorted(ends), spans[:, 1].searchsorted(starts, side="right")
        chosen = (begun > ended[: len(ends)]).nonzero()[0].tolist()
        self._selected = [(i, sp.cut(spans, starts[i], ends[i])) for i in chosen]
        self._ends = list(itertools.accumulate(sp.count(part) for _, part in self._selected))

    def parts(self, start: int, stop: int) -> Steps[list[tuple[T, int, int]]]:
        """The pages of selected rows `start` to `stop`, each with the range (stop exclusive) of its selected rows."""
        first = bisect.bisect_right(self._ends, start)
        last = bisect.bisect_left(self._ends, stop) + 1 if stop > start else first
        wanted = range(first, min(last, len(self._selected)))
        missing = [i for i in wanted if i not in self._loaded]
        if missing:
            loaded = yield from side_by_side([self._named(*self._selected[i]) for i in missing])
            self._loaded.update(zip(missing, loaded))
        parts = []
        for i in wanted:
            begin, end = self._ends[i - 1] if i else 0, self._ends[i]
            parts.append((self._loaded[i], max(start - begin, 0), min(stop, end) - begin))
            # A reader and its pages refer to each other, so the last page would stay in memory until the garbage collector runs.
            if end <= stop:
                del self._loaded[i]
        return parts

    def _named(self, number: int, selected: Spans) -> Steps[T]:
        """Load a page; errors name its number."""
        return naming(f"page {number}", self._load(number, selected))
