"""python -m bench.upkeep [--days N] [--rows N]: a month of a table without maintenance, with a compaction each night, and with `maintain`.

Each day appends rows 24 times, updates some and deletes some; then queries look up rows by an index, filter a range, and scan everything.
Prints the bytes that maintenance rewrote, and what the queries of the last days took.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.table.upkeep.maintain import new_bytes
from lance_spark.table.upkeep.waste import waste_of

APPENDS = 24
LAST_DAYS = 5
"""The queries of so many days are counted, when the policies differ most."""
Policy = Callable[[Dataset], object]


def nothing(table: Dataset) -> None:
    """The table is left alone."""


def every_night(table: Dataset) -> None:
    """All small fragments are joined, and indexes are extended, each night."""
    table = table.optimize.compact_files()
    table.optimize.optimize_indices()


def by_gain(table: Dataset) -> None:
    """What twenty reads repay is done."""
    table.maintain()


POLICIES: dict[str, Policy] = {"none": nothing, "every night": every_night, "maintain": by_gain}


@dataclass
class Month:
    """What a policy took: bytes that it rewrote and seconds, and milliseconds of queries by their kind, and fragments in the end."""

    rewritten: int = 0
    seconds: float = 0.0
    queries: dict[str, list[float]] = field(default_factory=dict)
    fragments: int = 0
    wasted: int = 0


def rows(rng: np.random.Generator, first: int, count: int) -> pa.Table:
    """New events: ids in order, users at random, and texts."""
    ids = np.arange(first, first + count)
    users = rng.integers(0, 5000, count)
    return pa.table({"id": ids, "user": users, "text": [f"event {i} of user {u} and some more words" for i, u in zip(ids, users)]})


def month(uri: str, policy: Policy, days: int, count: int) -> Month:
    """Live through the days. The same rows are written, changed and asked for with each policy."""
    rng, found, first = np.random.default_rng(0), Month(), 0
    for day in range(days):
        for _ in range(APPENDS):
            table = Dataset.write(uri, rows(rng, first, count), "append" if first else "create")
            first += count
        if not day:
            table.create_scalar_index("user", "BTREE")
        low = int(rng.integers(0, first))
        Dataset.open(uri).update({"text": "'changed'"}, f"id >= {low} AND id < {low + count // 4}")
        Dataset.open(uri).delete(f"user = {int(rng.integers(0, 5000))}")
        before, start = Dataset.open(uri), time.perf_counter()
        policy(before)
        found.seconds += time.perf_counter() - start
        found.rewritten += new_bytes(before.snapshot, Dataset.open(uri).snapshot)
        if day >= days - LAST_DAYS:
            ask(Dataset.open(uri), rng, first, found.queries)
    last = Dataset.open(uri).snapshot
    found.fragments, found.wasted = len(last.manifest.fragments), waste_of(last).total
    return found


def ask(table: Dataset, rng: np.random.Generator, top: int, into: dict[str, list[float]]) -> None:
    """The queries of a day."""
    for _ in range(10):
        low = int(rng.integers(0, top))
        filters = {"lookup": f"user = {int(rng.integers(0, 5000))}", "range": f"id >= {low} AND id < {low + 2000}", "scan": None}
        for kind, condition in filters.items():
            start = time.perf_counter()
            table.scan(filter=condition).to_table()
            into.setdefault(kind, []).append(1000 * (time.perf_counter() - start))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.upkeep", description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=2000, help="rows of an append")
    given = parser.parse_args()
    print("| policy | rewritten, MB | maintenance, s | fragments | wasted, MB | lookup, ms | range, ms | scan, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, policy in POLICIES.items():
        with tempfile.TemporaryDirectory() as folder:
            took = month(f"{folder}/t.lance", policy, given.days, given.rows)
        times = [f"{statistics.median(took.queries[kind]):.1f}" for kind in ("lookup", "range", "scan")]
        figures = [f"{took.rewritten / 1e6:.1f}", f"{took.seconds:.1f}", str(took.fragments), f"{took.wasted / 1e6:.1f}", *times]
        print(f"| {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
