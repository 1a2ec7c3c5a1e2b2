"""Where rows are after a compaction: addresses before and after.

A group of fragments is rewritten as other fragments: the rows that were not deleted follow one another in the order of the old fragments,
and fill the new ones in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import InvalidOperationError
from lance_spark.index.answer import Rows, numbers_of, of_numbers, union
from lance_spark.metadata.bitmaps import offsets_of


class Translation(Protocol):
    """Says where the rows of an index are now. Rows are addresses or row ids."""

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The new numbers (uint64) of rows, and a mask of the rows that still exist; the new numbers of others mean nothing."""

    def rows(self, rows: Rows) -> Rows:
        """The rows that still exist, by their new numbers."""


@dataclass(frozen=True)
class Kept:
    """Rows that stay where they are: those in `live`; others do not exist any more."""

    live: Rows

    @cached_property
    def _ranges(self) -> np.ndarray:
        """The first and the last row of each range of live rows."""
        ranges = [np.empty((0, 2), np.uint64)]
        for high, found in sorted(self.live.items()):
            low = offsets_of(found)
            ends = np.flatnonzero(np.diff(low) != 1)
            first, last = np.append(0, ends + 1)[: len(low)], np.append(ends, len(low) - 1)[: len(low)]
            ranges.append(np.stack([low[first], low[last]], axis=1).astype(np.uint64) + np.uint64(high << 32))
        return np.concatenate(ranges)

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Translation`."""
        if not len(self._ranges):
            return numbers, np.zeros(len(numbers), np.bool_)
        at = np.searchsorted(self._ranges[:, 0], numbers, side="right") - 1
        return numbers, (at >= 0) & (numbers <= self._ranges[at, 1])

    def rows(self, rows: Rows) -> Rows:
        """See `Translation`."""
        return {high: both for high, found in rows.items() if high in self.live and (both := found & self.live[high])}


@dataclass(frozen=True)
class Chain:
    """Several translations, one after the other."""

    links: Sequence[Translation]

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Translation`."""
        exist = np.ones(len(numbers), np.bool_)
        for link in self.links:
            numbers, there = link.numbers(numbers)
            exist &= there
        return numbers, exist

    def rows(self, rows: Rows) -> Rows:
        """See `Translation`."""
        return reduce(lambda found, link: link.rows(found), self.links, rows)


@dataclass(frozen=True)
class OldFragment:
    """A rewritten fragment: its id, its number of rows, and the offsets of the rows that were kept (None: all)."""

    id: int
    rows: int
    kept: BitMap | None = None

    @property
    def kept_rows(self) -> int:
        """The number of rows that were kept."""
        return self.rows if self.kept is None else len(self.kept)


@dataclass(frozen=True)
class Group:
    """Fragments that were rewritten together, in order, and the ids and numbers of rows of their replacements, in order."""

    old: tuple[OldFragment, ...]
    new: tuple[tuple[int, int], ...]


class Moves:
    """Translates the addresses of rows. Rows of other fragments than those of `groups` stay where they are.

    Raises InvalidOperationError for a group whose new fragments do not have as many rows as the old ones kept.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        # All kept rows have numbers in the order of the groups; the new fragments of all groups, laid end to end, have them in this order.
        old: list[tuple[int, int, int, bool]] = []
        kept = [np.empty(0, np.uint64)]
        first = after = 0
        for group in groups:
            for fragment in group.old:
                old.append((fragment.id, first, fragment.rows, fragment.kept is not None))
                if fragment.kept is not None:
                    kept.append(offsets_of(fragment.kept) + np.uint64(fragment.id << 32))
                first += fragment.kept_rows
            after += sum(rows for _, rows in group.new)
            if first != after:
                raise InvalidOperationError(f"a compaction kept {first} rows, but the new fragments have {after} rows")
        old.sort()
        self._ids, self._first, self._rows = (np.array([o[i] for o in old], np.int64) for i in range(3))
        self._has_kept = np.array([o[3] for o in old], np.bool_)
        self._kept = np.sort(np.concatenate(kept))
        new = [fragment for group in groups for fragment in group.new]
        self._new_ids = np.array([i for i, _ in new], np.uint64)
        self._new_starts = np.cumsum([0, *(rows for _, rows in new)])

    def numbers(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Translation`."""
        if not len(self._ids):
            return addresses, np.ones(len(addresses), np.bool_)
        high, low = (addresses >> np.uint64(32)).astype(np.int64), (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
        at = np.minimum(np.searchsorted(self._ids, high), len(self._ids) - 1)
        moved = self._ids[at] == high
        exist = ~moved | (low < self._rows[at])
        place = self._first[at] + low
        partly = moved & self._has_kept[at]
        if partly.any():
            found = np.searchsorted(self._kept, addresses[partly])
            there = self._kept[np.minimum(found, max(len(self._kept) - 1, 0))] == addresses[partly] if len(self._kept) else found < 0
            exist[partly] &= there
            place[partly] = self._first[at[partly]] + found - np.searchsorted(self._kept, high[partly].astype(np.uint64) << np.uint64(32))
        real = moved & exist
        new = addresses.copy()
        which = np.searchsorted(self._new_starts, place[real], side="right") - 1
        new[real] = (self._new_ids[which] << np.uint64(32)) + (place[real] - self._new_starts[which]).astype(np.uint64)
        return new, exist

    def rows(self, rows: Rows) -> Rows:
        """See `Translation`."""
        ids = set(self._ids.tolist())
        stay = {fragment: found for fragment, found in rows.items() if fragment not in ids}
        new, exist = self.numbers(numbers_of({fragment: found for fragment, found in rows.items() if fragment in ids}))
        return union((stay, of_numbers(new[exist])))
