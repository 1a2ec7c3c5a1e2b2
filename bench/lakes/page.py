"""The page of the results."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version

from bench.growth import markdown
from bench.lakes.contestants import LAKES
from bench.lakes.turns import Contestant, Measured
from bench.lakes.works import WORKS

_HEADS = ("work", *(f"{name}, s (CPU s)" for name in LAKES), "ours / best of Delta and Iceberg, s", "CPU s", "ours / Parquet, s")
_RIVALS = ("delta", "iceberg")


def _best(results: dict[str, Measured], ours: Measured, names: Sequence[str], what: str) -> str:
    others = [statistics.median(getattr(results[n], what)) for n in names if n in results]
    return f"{statistics.median(getattr(ours, what)) / max(min(others), 0.001):.2f}" if others else ""


def _line(name: str, results: dict[str, Measured]) -> list[str]:
    cells = []
    for who in LAKES:
        m = results.get(who)
        cells.append("" if m is None else f"{statistics.median(m.seconds):.2f} ({statistics.median(m.processors):.2f})")
    ours = results["ours"]
    ratios = [_best(results, ours, _RIVALS, "seconds"), _best(results, ours, _RIVALS, "processors")]
    return [name, *cells, *ratios, _best(results, ours, ["parquet"], "seconds")]


def _sum(results: dict[str, dict[str, Measured]]) -> dict[str, Measured]:
    """All queries of TPC-H together, round by round."""
    queries = [r for name, r in results.items() if name.startswith("TPC-H")]
    found = {}
    for who in LAKES:
        mine = [q[who] for q in queries if who in q]
        seconds, processors = ([sum(t) for t in zip(*(getattr(m, what) for m in mine))] for what in ("seconds", "processors"))
        found[who] = Measured(seconds, processors)
    return found


def _sizes(results: dict[str, dict[str, Measured]], what: str, heads: Sequence[str]) -> str:
    lines = []
    for name, by_contestant in results.items():
        values = {who: getattr(m, what) for who, m in by_contestant.items()}
        if any(values.values()):
            lines.append([name, *("" if values.get(who) is None else f"{values[who] / 1e6:.1f}" for who in LAKES)])
    return markdown(heads, lines)


def page(contestants: Sequence[Contestant], scale: float, rounds: int, memory: str, many: int) -> str:
    """The documentation page."""
    results = {w.name: {c.name: c.results[w.name] for c in contestants if w.name in c.results} for w in WORKS}
    results = {name: found for name, found in results.items() if found}
    lines = [_line(name, r) for name, r in results.items()]
    lines.append(_line("all queries of TPC-H that are measured", _sum(results)))
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numba"))
    heads = ("work", *(f"{name}, MB" for name in LAKES))
    return f"""# Beside Delta Lake and Iceberg

Made by `make bench-lakes` in one run: {rounds} rounds after one to warm up, in which the contestants, each in a session of its
own, take turns after each work. Compare only the ratios of one run. {os.cpu_count()} cores, local[2], {memory} for each driver,
Python {platform.python_version()}, {versions}, Delta Lake 4.0.0, Iceberg 1.10.0. TPC-H at scale {scale:g}.
When the run ended, {os.getloadavg()[2]:.1f} tasks had wanted to run at once on average of 15 minutes, those of other programs included:
times on the clock mean little if that is more than the cores; those of processors depend less on it.

- **ours** is the SQL catalog of this project; **delta** has deletion vectors; **iceberg** merges changes when rows are read
  (merge-on-read); **parquet** is Spark's own reader and writer.
- Cells have the medians of seconds on the clock and, in brackets, of processors. All contestants gave the same answers: where they
  do not, the run ends with an error.
- Both compactions rewrite all files of all contestants, and leave all deleted rows out.
- *Many appends* are {many:,} statements, once.

{markdown(_HEADS, lines)}

## Bytes of new files

Compare those of compactions and of changes: what has to be rewritten.

{_sizes(results, "written", heads)}

## Bytes read

As Spark's tasks report them.

{_sizes(results, "read", heads)}

## Memory

The most that a contestant's processes had at once, the JVM included, in the round that does not count.

{_sizes(results, "memory", heads)}
"""
