"""How many rows a batch may have so that it decodes few pages: stored bytes tell nothing of pages that compress well.

Writers end a page after a few megabytes of decoded values, so pages bound what a batch decodes, whatever their size in the file is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Column

_FIRST, _LATER = 1, 4
"""The most pages of a column in the first batch, which measures the rows, and in others. A page that is selected in part counts as that."""


class BatchLimits:
    """The most selected rows of a batch of these columns, which have a row for each item of their pages."""

    def __init__(self, columns: Iterable[Column], selected: Spans, num_rows: int) -> None:
        self._columns: list[tuple[np.ndarray, np.ndarray]] = []
        done: np.ndarray | None = None
        for column in columns:
            bounds = column.bounds
            if len(bounds) <= _FIRST + 1 or bounds[-1] != num_rows:
                continue
            if done is None:
                done = np.concatenate([[0], np.cumsum(selected[:, 1] - selected[:, 0])])
            # The number of selected rows before each page, and how many pages they are.
            before = _selected_before(selected, done, bounds)
            pages = np.concatenate([[0], np.cumsum(np.diff(before) / np.maximum(np.diff(bounds), 1))])
            if pages[-1] > _FIRST:
                self._columns.append((before, pages))

    def stop(self, start: int, stop: int) -> int:
        """The end of a batch of selected rows from `start`: at most `stop`, and after `start`."""
        for before, pages in self._columns:
            last = np.interp(start, before, pages) + (_LATER if start else _FIRST)
            stop = min(stop, round(float(np.interp(last, pages, before))))
        return max(stop, start + 1)


def _selected_before(selected: Spans, rows_before: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The number of selected rows before each of `bounds`; `rows_before` has that of the rows before each span."""
    at = np.searchsorted(selected[:, 1], bounds, side="left")
    inside = np.concatenate([selected[:, 0], [np.iinfo(np.int64).max]])[at]
    before: np.ndarray = rows_before[at] + np.maximum(bounds - inside, 0)
    return before
