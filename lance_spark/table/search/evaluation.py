"""How good searches are: the rows that they find against those that are known to be right, and the time that they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidOptionError

Gains = Mapping[Hashable, float]
"""How relevant rows are, by their keys; others are not."""

MEASURES = ("recall", "mrr", "ndcg", "latency_ms")


@dataclass(frozen=True)
class Evaluation:
    """What searches found: `queries` has a row for each of them.

    `recall` is the share of the relevant rows that it found, `mrr` 1 by the rank of the first of them
    (0 if it found none), `ndcg` the gain of what it found, discounted by rank, of what is possible, and
    `latency_ms` the time it took. Queries without relevant rows have nulls, and do not count.
    """

    queries: pa.Table

    @property
    def summary(self) -> pa.Table:
        """One row: the number of queries, the mean of each measure, and the median and the 95th percentile of the time."""
        means = {name: _mean(self.queries.column(name)) for name in MEASURES}
        times = self.queries.column("latency_ms").to_numpy()
        p50, p95 = (float(np.percentile(times, percent)) if len(times) else None for percent in (50, 95))
        found = {"queries": len(times), **means, "latency_ms_p50": p50, "latency_ms_p95": p95}
        return pa.Table.from_pylist([found])

    def to_pandas(self) -> Any:
        """A DataFrame of pandas, which must be installed, with a row for each query."""
        return self.queries.to_pandas()

    def plot(self, axes: Any = None) -> Any:
        """Draw the recall of each query against its time, with matplotlib, which must be installed; returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError as e:
            raise InvalidOptionError("a plot needs matplotlib: pip install 'lance-spark[plot]'") from e
        if axes is None:
            _, axes = pyplot.subplots()
        told = self.summary.to_pylist()[0]
        axes.scatter(self.queries.column("latency_ms").to_numpy(), self.queries.column("recall").to_numpy(), s=12)
        axes.set_xlabel("ms")
        axes.set_ylabel("recall")
        axes.set_title(", ".join(f"{name} {told[name]:.3f}" for name in MEASURES if told[name] is not None))
        return axes


def evaluation(searches: Sequence[Callable[[], Sequence[Hashable]]], truth: Sequence[Gains]) -> Evaluation:
    """Run searches, which return the keys of their rows, best first, and compare them with the `truth`.

    The first one runs twice: opening the table and its indexes does not count.
    """
    if len(searches) != len(truth):
        raise InvalidOptionError(f"the truth has {len(truth)} lists of rows for {len(searches)} queries")
    if searches:
        searches[0]()
    rows = []
    for number, (search, gains) in enumerate(zip(searches, truth)):
        start = time.perf_counter()
        found = search()
        elapsed = 1000 * (time.perf_counter() - start)
        rows.append({"query_index": number, "found": len(found), **measures(found, gains), "latency_ms": elapsed})
    names = ("query_index", "found", *MEASURES)
    types = (pa.int64(), pa.int64(), *([pa.float64()] * len(MEASURES)))
    return Evaluation(pa.Table.from_pylist(rows, pa.schema(list(zip(names, types)))))


def measures(found: Sequence[Hashable], gains: Gains) -> dict[str, float | None]:
    """Recall, reciprocal rank and nDCG of rows, best first; None if no rows are relevant. A row counts once."""
    relevant = {key: gain for key, gain in gains.items() if gain > 0}
    if not relevant:
        return {"recall": None, "mrr": None, "ndcg": None}
    found = list(dict.fromkeys(found))
    ranks = [rank for rank, key in enumerate(found) if key in relevant]
    best = sorted(relevant.values(), reverse=True)[: len(found)]
    possible = sum(gain / np.log2(rank + 2) for rank, gain in enumerate(best))
    gained = sum(relevant[found[rank]] / np.log2(rank + 2) for rank in ranks)
    return {
        "recall": len(ranks) / len(relevant),
        "mrr": 1 / (ranks[0] + 1) if ranks else 0.0,
        "ndcg": float(gained / possible) if possible else 0.0,
    }


def gains_of(truth: object) -> Gains:
    """The gains of rows: those of a mapping, or 1 for each row of a list. Raises InvalidOptionError."""
    if isinstance(truth, Mapping):
        return {_key(key): float(gain) for key, gain in truth.items()}
    if isinstance(truth, str | bytes) or not hasattr(truth, "__iter__"):
        raise InvalidOptionError(f"the truth of a query is a list of the keys of its rows, or a mapping to gains, not {truth!r}")
    return dict.fromkeys((_key(key) for key in truth), 1.0)


def _key(key: Any) -> Hashable:
    found: Hashable = key.item() if isinstance(key, np.generic) else key
    return found


def _mean(column: pa.ChunkedArray) -> float | None:
    values = column.drop_null().to_numpy()
    return float(values.mean()) if len(values) else None
