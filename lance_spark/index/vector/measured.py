"""What searches of an index were measured to find: which settings find which share of the nearest rows.

It is measured when the index is built or optimized, by vectors of its own rows. The manifest stores it as a hint among the
details of the index, which pylance carries along and does not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any

from lance_spark._proto import index_pb2 as pb

HINT = "lance_spark.recall"
"""The key of the hint."""

LEVELS = (10, 100)
"""The numbers of nearest rows that are measured."""

USUAL_RECALL = 0.95
"""The recall of a search that asks for none."""

_OTHER_ROWS = 0.2
"""With so many more or fewer rows, as a share, another segment was measured."""

_DRIFTED, _UNBALANCED = 1.25, 1.5
"""An index should be trained again if its vectors are so many times as far from their centroids, or its partitions as unbalanced."""

_CAUTION = 2.5
"""A setting must be above the target by so many standard errors of its measured recall."""


@dataclass(frozen=True)
class Setting:
    """How an index is searched, and the share of the nearest rows that was found like this.

    `nprobes` partitions are read at first; a graph keeps `ef` rows (0: it has none); with a
    `refine_factor` (0: without), distances are computed from vectors.
    """

    nprobes: int
    ef: int
    refine_factor: int
    recall: float


@dataclass(frozen=True)
class Shape:
    """How well partitions fit their vectors: the mean distance `apart` of a vector from the nearest centroid, and the `imbalance`:
    how many times as many rows a search of one partition reads as if all had the same number. 1 is the best.
    """

    apart: float
    imbalance: float


@dataclass(frozen=True)
class Measured:
    """What was measured of a segment: for each of some `LEVELS`, settings, the cheapest first, each with a higher recall.

    `rows` were in its fragments, deleted ones too, in so many `partitions`; so many `queries` were asked. `shape` is that of the partitions
    then, `trained` that when the index was trained, or measured for the first time.
    """

    rows: int
    partitions: int
    queries: int
    shape: Shape
    trained: Shape
    levels: Mapping[int, Sequence[Setting]] = field(default_factory=dict)

    def setting(self, k: int, target: float) -> Setting | None:
        """The cheapest setting that finds this share of the `k` nearest rows; None if none does, or if it was not measured."""
        level = next((level for level in sorted(self.levels) if k <= level), None)
        if level is None:
            return None
        asked = max(self.queries * level, 1)
        for one in self.levels[level]:
            error = sqrt(max(one.recall * (1 - one.recall), 0) / asked)
            if one.recall - _CAUTION * error >= target:
                return one
        return None

    def tells_of(self, rows: int, partitions: int) -> bool:
        """Whether this was measured of a segment with about so many rows. Others write the details of one segment into others."""
        return partitions == self.partitions and abs(rows - self.rows) <= _OTHER_ROWS * self.rows

    @property
    def drift(self) -> float:
        """How many times as far the vectors are from their centroids as when these were trained."""
        return self.shape.apart / self.trained.apart if self.trained.apart > 0 else 1.0

    @property
    def expected_recall(self) -> float | None:
        """The recall of a search that asks for none; None if the index does not find enough, and is not searched."""
        found = self.setting(LEVELS[0], USUAL_RECALL)
        return None if found is None else found.recall

    @property
    def complaint(self) -> str | None:
        """Why the index should be trained again; None if it need not."""
        if self.drift > _DRIFTED:
            return f"its vectors are {self.drift:.1f} times as far from the centroids as when it was trained"
        if self.shape.imbalance > _UNBALANCED * self.trained.imbalance:
            return f"its partitions are {self.shape.imbalance / self.trained.imbalance:.1f} times as unbalanced as when it was trained"
        return None


@lru_cache(maxsize=256)
def measured_in(details: bytes) -> Measured | None:
    """What the details of a vector index tell; None if it was not measured, or if they tell nothing that is understood."""
    try:
        told = json.loads(pb.VectorIndexDetails.FromString(details).hints.get(HINT, "null"))
        if told is None:
            return None
        levels = {int(k): tuple(_setting(one) for one in settings) for k, settings in told["levels"].items()}
        shape, trained = (Shape(*map(float, told[name])) for name in ("shape", "trained"))
        return Measured(int(told["rows"]), int(told["partitions"]), int(told["queries"]), shape, trained, levels)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _setting(told: Sequence[Any]) -> Setting:
    nprobes, ef, refine_factor, recall = told
    found = Setting(int(nprobes), int(ef), int(refine_factor), float(recall))
    if found.nprobes < 1 or found.ef < 0 or found.refine_factor < 0 or not 0 <= found.recall <= 1:
        raise ValueError("no setting of a search")
    return found


def with_measured(details: bytes, measured: Measured | None) -> bytes:
    """The details of a vector index that tell this; None: that it was not measured."""
    message = pb.VectorIndexDetails.FromString(details)
    if measured is None and HINT not in message.hints:
        return details
    message.hints.pop(HINT, None)
    if measured is not None:
        levels = {str(k): [[s.nprobes, s.ef, s.refine_factor, round(s.recall, 4)] for s in of] for k, of in measured.levels.items()}
        told = {
            "rows": measured.rows,
            "partitions": measured.partitions,
            "queries": measured.queries,
            "shape": [float(f"{number:.6g}") for number in (measured.shape.apart, measured.shape.imbalance)],
            "trained": [float(f"{number:.6g}") for number in (measured.trained.apart, measured.trained.imbalance)],
            "levels": levels,
        }
        message.hints[HINT] = json.dumps(told, separators=(",", ":"))
    return message.SerializeToString(deterministic=True)
