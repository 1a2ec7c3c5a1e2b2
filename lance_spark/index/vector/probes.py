"""How many partitions of a segment a search reads at first, by the distances of its query to their centroids.

The rule and its numbers are pylance's (`adaptive_probe.rs` of version 14). They do not bound what is
searched: a search that finds less than `k` rows in these partitions reads further ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST_OF_K = (1, 10, 100, 200, 500, 1000, 10_000, 100_000)
"""The largest `k` of each column of the profiles."""


@dataclass(frozen=True)
class _Profile:
    """For each range of `k`: which centroids are near enough, and how many are read at least and most.

    A centroid is near enough if it is farther than the nearest one by at most `margin` times the
    distance of that one, or under dot, times the product of that one and the query.
    """

    margin: tuple[float, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]


_PROFILES = {
    "l2": _Profile(
        (0.2175, 0.265, 0.33, 0.375, 0.3725, 0.4175, 0.57, 0.75),
        (5, 6, 11, 15, 22, 29, 98, 463),
        (19, 24, 38, 56, 81, 93, 238, 704),
    ),
    "cosine": _Profile(
        (0.235, 0.2875, 0.38, 0.415, 0.45, 0.47, 0.6475, 0.58),
        (3, 8, 7, 18, 28, 34, 104, 738),
        (50, 77, 106, 156, 192, 248, 447, 958),
    ),
    "dot": _Profile(
        (0.14, 0.055, 0.0625, 0.0675, 0.07, 0.0725, 0.0825, 0.21),
        (56, 144, 200, 211, 244, 279, 517, 1009),
        (112, 432, 768, 833, 971, 1092, 1824, 2528),
    ),
}
_FACTORS = ((1, 0.6), (10, 7.0))
_FACTOR = 81.0
"""Without a profile, the centroids are near enough that are at most so many times as far as the
nearest one; the first numbers are the largest `k` of a factor."""

AUTO = 0.5
"""The effort of a search that does not say one."""


@dataclass(frozen=True)
class ProbeRule:
    """What a search says about the number of partitions that it reads first in each segment.

    It reads at least `minimum` of them and at most `maximum` (None: not given). `effort`, from 0 to 1,
    leads from the minimum over what the profiles say, at 0.5, to all.
    """

    k: int
    minimum: int | None = None
    maximum: int | None = None
    effort: float = AUTO

    def most(self, there: int) -> int:
        """The number of partitions that may be read, of those that are there."""
        return min(self.maximum or there, there)

    def bounds(self, metric: str, there: int) -> tuple[int, int]:
        """The least and the largest number of partitions that a query may read first."""
        lower, upper = self._limits(there)
        if self._is_fixed:
            return lower, lower
        least, most = self._with_effort(self._auto_bounds(metric, there), lower, upper).tolist()
        return least, most

    def compared(self, metric: str, there: int) -> int:
        """The number of nearest centroids whose distances `counts` needs, at least as many as may be read first."""
        _, most = self.bounds(metric, there)
        return max(most, int(self._auto_bounds(metric, there)[1]))

    def _auto_bounds(self, metric: str, there: int) -> np.ndarray:
        """The same as `bounds` for the effort 0.5."""
        at, profile = self._place(metric)
        ends = (1, there) if profile is None else (profile.least[at], profile.most[at])
        return np.clip(ends, *self._limits(there))

    def counts(self, distances: np.ndarray, metric: str, there: int) -> np.ndarray:
        """How many partitions each query reads first.

        `distances` has a row for each query: the distances to the nearest centroids, ascending, at
        least as many as `compared` says. There are so many partitions.
        """
        lower, upper = self._limits(there)
        if self._is_fixed or not there:
            return np.full(len(distances), lower)
        return self._with_effort(np.clip(self._near(distances, metric), lower, upper), lower, upper)

    @property
    def _is_fixed(self) -> bool:
        return self.minimum is not None and self.minimum == self.maximum

    def _limits(self, there: int) -> tuple[int, int]:
        upper = self.most(there)
        return min(self.minimum or 1, upper), upper

    def _place(self, metric: str) -> tuple[int, _Profile | None]:
        """The number of the column for `k`, and the profile of the metric if it has one for `k`."""
        at = int(np.searchsorted(_MOST_OF_K, self.k))
        return at, _PROFILES.get(metric) if at < len(_MOST_OF_K) else None

    def _near(self, distances: np.ndarray, metric: str) -> np.ndarray:
        """How many centroids are near enough to each query, within the bounds of the profile."""
        at, profile = self._place(metric)
        nearest = distances[:, :1].astype(np.float64)
        with np.errstate(invalid="ignore"):  # queries may have any numbers
            if profile is None:
                factor = next((own for most, own in _FACTORS if self.k <= most), _FACTOR)
                return np.asarray((distances <= nearest * factor).sum(axis=1))
            scale = np.abs(1 - nearest) if metric == "dot" else nearest
            near = (distances - nearest <= np.float32(profile.margin[at]) * scale).sum(axis=1)
        return np.asarray(np.clip(near, profile.least[at], profile.most[at]))

    def _with_effort(self, auto: np.ndarray, lower: int, upper: int) -> np.ndarray:
        """These numbers of partitions, of which each effort but 0.5 makes others within the limits."""
        if self.effort == AUTO or not upper:
            return auto
        # Between the ends, equal steps of the effort multiply the number of partitions by one factor.
        if self.effort < AUTO:
            found = np.ceil(lower * (auto / lower) ** (2 * self.effort))
            return np.clip(found, lower, auto).astype(np.int64)
        found = np.ceil(auto * (upper / auto) ** (2 * self.effort - 1))
        return np.clip(found, auto, upper).astype(np.int64)
