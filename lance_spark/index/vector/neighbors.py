"""Rows that were found for several queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Neighbors:
    """Rows near to queries, in arrays of one length.

    The row at `addresses[i]` (uint64) has `distances[i]` (float32) to the query with the number
    `queries[i]` (int64).
    """

    queries: np.ndarray
    distances: np.ndarray
    addresses: np.ndarray

    def __len__(self) -> int:
        """The number of rows; one that was found for several queries counts several times."""
        return len(self.queries)

    def at(self, places: np.ndarray) -> Neighbors:
        """Those at these places, or where a mask is true."""
        return Neighbors(self.queries[places], self.distances[places], self.addresses[places])

    def nearest(self, most: int) -> Neighbors:
        """At most so many rows of each query, in the order of queries and distances.

        Of those at one distance, the ones with the lowest addresses.
        """
        ordered = self.at(np.lexsort((self.addresses, self.distances, self.queries)))
        return ordered.at(ordered.ranks() < most)

    def ranks(self) -> np.ndarray:
        """The place of each row among those of its query, which are together."""
        begins = np.flatnonzero(np.diff(self.queries, prepend=-1))
        counts = np.diff(np.append(begins, len(self)))
        return np.arange(len(self)) - np.repeat(begins, counts)

    def of_each(self) -> dict[int, Neighbors]:
        """The rows of each query that has any, which are together, by its number."""
        numbers, begins = np.unique(self.queries, return_index=True)
        ends = np.append(begins, len(self))[1:]
        spans = zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        found = {}
        for number, begin, end in spans:
            own = slice(begin, end)
            found[number] = Neighbors(self.queries[own], self.distances[own], self.addresses[own])
        return found


NONE = Neighbors(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.uint64))


def joined(parts: Sequence[Neighbors]) -> Neighbors:
    """Those of all parts, one part after the other."""
    parts = [NONE, *parts]
    return Neighbors(
        np.concatenate([part.queries for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.addresses for part in parts]),
    )
