"""Selections of rows as spans, for planning in the readers of older storage versions. No I/O.

Most selections are a few runs of adjacent rows. A run stays a run in nested data: a run of lists is a run of items, a run of fixed-size
lists is a run of values, and a run of strings is one range of bytes.

Tables may have many files of few rows, so this uses methods of arrays, which take half of the time of numpy's functions for small arrays.
"""

from __future__ import annotations

import numpy as np

from lance_spark.reading.steps import Rows

Spans = np.ndarray
"""int64 [n, 2]: start (inclusive) and stop (exclusive) of each span; ascending, none empty, none overlapping."""


_FEW = 4
"""So few spans are summed up one by one: numpy needs longer to begin."""


def all_rows(count: int) -> Spans:
    """All of `count` rows."""
    return np.array([[0, count]] if count else [], dtype=np.int64).reshape(-1, 2)


def of(starts: np.ndarray, stops: np.ndarray) -> Spans:
    """The spans with these starts and stops."""
    # numpy's stack takes several times as long.
    made = np.empty((len(starts), 2), np.int64)
    made[:, 0], made[:, 1] = starts, stops
    return made


def from_rows(rows: Rows) -> Spans:
    """The fewest spans that cover exactly these rows."""
    if isinstance(rows, range):
        return np.array([[rows.start, rows.stop]] if len(rows) else [], dtype=np.int64).reshape(-1, 2)
    if not len(rows):
        return all_rows(0)
    breaks = (rows[1:] - rows[:-1] != 1).nonzero()[0]
    made = np.empty((len(breaks) + 1, 2), np.int64)
    made[0, 0], made[-1, 1] = rows[0], rows[-1] + 1
    made[1:, 0] = rows[breaks + 1]
    made[:-1, 1] = rows[breaks] + 1
    return made


def count(spans: Spans) -> int:
    """The number of selected rows."""
    if len(spans) <= _FEW:
        return sum(stop - start for start, stop in spans.tolist())
    return int(np.add.reduce(spans[:, 1] - spans[:, 0]))


def wider(spans: Spans, before: int, behind: int) -> Spans:
    """Each span extended by up to `before` rows before it and `behind` rows after it; spans may then overlap."""
    return of(np.maximum(spans[:, 0] - before, 0), spans[:, 1] + behind)


def merged(spans: Spans, gap: int) -> Spans:
    """Spans at most `gap` rows apart are merged; empty ones are dropped."""
    spans = spans[spans[:, 0] < spans[:, 1]]
    if len(spans) < 2:
        return spans
    cuts = (spans[1:, 0] - spans[:-1, 1] > gap).nonzero()[0]
    starts = np.concatenate([spans[:1, 0], spans[cuts + 1, 0]])
    stops = np.concatenate([spans[cuts, 1], spans[-1:, 1]])
    return of(starts, stops)


def positions(inner: Spans, outer: Spans) -> np.ndarray:
    """The position of each row of `inner` among the rows of `outer`; every span of `inner` is within one of `outer`."""
    return rows(within(inner, outer))


def within(inner: Spans, outer: Spans) -> Spans:
    """The spans of `inner`, each within one of `outer`, as positions among the rows of `outer`; spans may then be adjacent."""
    at = outer[:, 0].searchsorted(inner[:, 0], side="right") - 1
    lengths = outer[:, 1] - outer[:, 0]
    distances = lengths.cumsum() - outer[:, 1]
    moved: np.ndarray = inner + distances[at][:, None]
    return moved


def rows(spans: Spans) -> np.ndarray:
    """The number of every row of the selection."""
    lengths = spans[:, 1] - spans[:, 0]
    before = lengths.cumsum() - lengths
    numbers: np.ndarray = (spans[:, 0] - before).repeat(lengths) + np.arange(lengths.sum())
    return numbers


def both(a: Spans, b: Spans) -> Spans:
    """The rows that are in both selections; `a` has few spans."""
    parts = [cut(b, start, stop) + start for start, stop in a.tolist()]
    return np.concatenate([*parts, all_rows(0)])


def cut(spans: Spans, start: int, stop: int) -> Spans:
    """The part of the selection in rows `start` to `stop`, relative to `start`."""
    first = spans[:, 1].searchsorted(start, side="right")
    last = spans[:, 0].searchsorted(stop, side="left")
    inside: np.ndarray = spans[first:last] - start
    if len(inside):
        # Only the first and the last span can be cut.
        inside[0, 0] = max(inside[0, 0], 0)
        inside[-1, 1] = min(inside[-1, 1], stop - start)
    return inside
