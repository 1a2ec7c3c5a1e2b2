"""Where rows are after a compaction: addresses before and after.

A group of fragments is rewritten as other fragments: the rows that were not deleted follow one another in the order of the old fragments,
and fill the new ones in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pyroaring import BitMap

from lance_spark.index.answer import Rows, numbers_of, of_numbers, offsets


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

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Translation`."""
        return numbers, np.isin(numbers, numbers_of(self.live), kind="sort")

    def rows(self, rows: Rows) -> Rows:
        """See `Translation`."""
        return {high: both for high, found in rows.items() if high in self.live and (both := found & self.live[high])}


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
    """Translates the addresses of rows. Rows of other fragments than those of `groups` stay where they are."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._old: dict[int, tuple[Group, int, OldFragment]] = {}
        for group in groups:
            first = 0
            for old in group.old:
                self._old[old.id] = group, first, old
                first += old.kept_rows

    @property
    def fragments(self) -> BitMap:
        """The ids of the rewritten fragments."""
        return BitMap(self._old)

    def numbers(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Translation`."""
        high = (addresses >> np.uint64(32)).astype(np.int64)
        new, exist = addresses.copy(), np.ones(len(addresses), np.bool_)
        for fragment in np.unique(high).tolist():
            if fragment in self._old:
                here = high == fragment
                new[here], exist[here] = self._moved(fragment, addresses[here].astype(np.uint32))
        return new, exist

    def rows(self, rows: Rows) -> Rows:
        """See `Translation`."""
        stay = {fragment: found for fragment, found in rows.items() if fragment not in self._old}
        moved = [np.empty(0, np.uint64)]
        for fragment, found in rows.items():
            if fragment in self._old:
                new, exist = self._moved(fragment, offsets(found))
                moved.append(new[exist])
        for fragment, found in of_numbers(np.concatenate(moved)).items():
            stay[fragment] = stay[fragment] | found if fragment in stay else found
        return stay

    def _moved(self, fragment: int, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        group, first, old = self._old[fragment]
        if old.kept is None:
            place, exist = before.astype(np.int64), before < old.rows
        else:
            kept = offsets(old.kept)
            place = np.searchsorted(kept, before)
            exist = place < len(kept)
            exist[exist] = kept[place[exist]] == before[exist]
        place += first
        starts = np.cumsum([0, *(rows for _, rows in group.new)])
        number = np.searchsorted(starts, place, side="right") - 1
        exist &= number < len(group.new)
        number = np.minimum(number, max(len(group.new) - 1, 0))
        if not group.new:
            return np.zeros(len(before), np.uint64), np.zeros(len(before), np.bool_)
        ids = np.array([i for i, _ in group.new], np.uint64)
        return (ids[number] << np.uint64(32)) + (place - starts[number]).astype(np.uint64), exist
