"""Which rows an index says satisfy a condition, and how the answers for parts of a condition combine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import BitMap

from lance_spark.metadata.bitmaps import bitmap_of, offsets_of

Rows = dict[int, BitMap]
"""Row offsets by fragment id; or, for indexes of row ids, the low halves of the ids by their high halves."""


@dataclass(frozen=True)
class Found:
    """The rows that one segment finds. All rows that satisfy the condition are among them; if `exact`, no others are.

    Nothing is known of the fragments `unknown`, which the segment should have, but has not.
    """

    rows: Rows
    exact: bool
    unknown: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Answer:
    """The rows that satisfy a condition, for some fragments.

    For the fragments `covered`, all rows that satisfy it are among `rows`; for the fragments `exact`, which are covered, no others
    are. `names` are the indexes that were asked.
    """

    rows: Rows
    covered: BitMap
    exact: BitMap
    names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of rows found."""
        return sum(len(found) for found in self.rows.values())


def both(a: Answer, b: Answer) -> Answer:
    """The answer to `A AND B`. A fragment that only one of them covers has the rows of that one, which must be checked."""
    rows = {}
    for fragment in a.rows.keys() | b.rows.keys():
        known = [x.rows.get(fragment, BitMap()) for x in (a, b) if fragment in x.covered]
        rows[fragment] = known[0] if len(known) == 1 else known[0] & known[1]
    return Answer(_not_empty(rows), a.covered | b.covered, a.exact & b.exact, _names(a, b))


def either(a: Answer, b: Answer) -> Answer:
    """The answer to `A OR B`: only for fragments that both cover."""
    covered = a.covered & b.covered
    rows = {f: a.rows.get(f, BitMap()) | b.rows.get(f, BitMap()) for f in a.rows.keys() | b.rows.keys() if f in covered}
    return Answer(rows, covered, a.exact & b.exact, _names(a, b))


def beside(a: Answer, b: Answer) -> Answer:
    """Two answers to the same condition: that of `b` for the fragments that `a` does not cover."""
    more = b.covered - a.covered
    rows = {**a.rows, **{f: found for f, found in b.rows.items() if f in more}}
    return Answer(rows, a.covered | more, a.exact | (b.exact & more), _names(a, b))


def unchecked(answer: Answer) -> Answer:
    """The same rows, none of which is known to satisfy the whole condition."""
    return replace(answer, exact=BitMap())


def without(answer: Answer, fragments: BitMap) -> Answer:
    """The answer for the other fragments."""
    rows = {f: found for f, found in answer.rows.items() if f not in fragments}
    return replace(answer, rows=rows, covered=answer.covered - fragments, exact=answer.exact - fragments)


def within(rows: Rows, sizes: Mapping[int, int]) -> Rows:
    """The rows of the fragments in `sizes`, fragment id -> number of rows; other rows do not exist."""
    kept = {}
    for fragment in rows.keys() & sizes.keys():
        found, size = rows[fragment], sizes[fragment]
        if found and found.max() >= size:
            found = found.copy()
            found.remove_range(size, 1 << 32)
        kept[fragment] = found
    return _not_empty(kept)


def of_numbers(numbers: np.ndarray) -> Rows:
    """The rows of addresses or row ids (uint64), in any order."""
    numbers = np.sort(numbers)
    rows, low, at = {}, numbers.astype(np.uint32), 0
    while at < len(numbers):
        high = numbers.item(at) >> 32
        stop = int(numbers.searchsorted(np.uint64(high << 32 | 0xFFFFFFFF), side="right"))
        rows[high] = bitmap_of(low[at:stop])
        at = stop
    return rows


def numbers_of(rows: Rows) -> np.ndarray:
    """The addresses or row ids (uint64) of the rows, ascending."""
    parts = [offsets_of(found).astype(np.uint64) + (np.uint64(high) << np.uint64(32)) for high, found in sorted(rows.items())]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def union(several: Iterable[Rows]) -> Rows:
    """The rows in any of several."""
    by_fragment: dict[int, list[BitMap]] = {}
    for rows in several:
        for fragment, found in rows.items():
            by_fragment.setdefault(fragment, []).append(found)
    return {fragment: found[0] if len(found) == 1 else BitMap.union(*found) for fragment, found in by_fragment.items()}


def intersection(sets: Sequence[Rows]) -> Rows:
    """The rows in all of several; none if there are no sets."""
    common, *others = sorted(sets, key=lambda rows: sum(map(len, rows.values()))) or [{}]
    for rows in others:
        common = {f: both for f, found in common.items() if f in rows and (both := found & rows[f])}
    return common


def _not_empty(rows: Rows) -> Rows:
    return {fragment: found for fragment, found in rows.items() if found}


def _names(a: Answer, b: Answer) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*a.names, *b.names)))
