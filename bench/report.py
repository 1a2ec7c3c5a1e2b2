"""The report of the measurements: a table and a chart, generated from the results."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

CONTESTANTS = ("ours", "pylance", "parquet", "floor")
COLORS = {"pylance": "#d1495b", "parquet": "#30638e", "floor": "#8d99ae"}


@dataclass(frozen=True)
class Result:
    """The seconds of every round of a workload, by contestant."""

    name: str
    seconds: dict[str, list[float]]

    def median(self, contestant: str) -> float:
        """The contestant's median in seconds."""
        return statistics.median(self.seconds[contestant])

    def ratio(self, other: str) -> float:
        """Our median divided by the other's."""
        return self.median("ours") / self.median(other)


def table(results: Sequence[Result]) -> str:
    """A Markdown table with the median, fastest and slowest seconds of each contestant, and our ratio to the others."""
    others = CONTESTANTS[1:]
    heads = ["work", *(f"{c}, s" for c in CONTESTANTS), *(f"ours / {c}" for c in others)]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for r in results:
        times = [_spread(r.seconds[c]) if c in r.seconds else "" for c in CONTESTANTS]
        ratios = [f"{r.ratio(c):.2f}" if c in r.seconds else "" for c in others]
        lines.append(f"| {' | '.join([r.name, *times, *ratios])} |")
    return "\n".join(lines)


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


def page(results: Sequence[Result], scale: float, rounds: int) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pylance", "pyarrow", "numba"))
    return f"""# Measurements

Made by `make bench` in one run: {rounds} rounds in which the contestants take turns, after one warm-up round. Times differ between
machines and between runs, so compare only the ratios of one run. The table shows the median of the rounds, with the fastest and the
slowest round in brackets.

- **ours**: this connector, `lance_spark.enable(spark)`.
- **pylance**: a simple Python data source around the Rust wheel, with one task per fragment (`bench/sources.py`).
- **parquet**: Spark's own Parquet reader and writer, which run in the JVM.
- **floor**: a Python data source that returns one prepared batch repeatedly, or discards its input. This is Spark's own cost.

TPC-H at scale {scale:g}; 384-dimensional vectors with text; 200 columns of features; a table with 2,000 fragments. pylance
and pyarrow wrote the tables. {os.cpu_count()} cores, local[2], Python {platform.python_version()}, {versions}.

![ratios](bench.svg)

{table(results)}
"""


def plot(results: Sequence[Result], path: Path) -> None:
    """Write a chart of each contestant's time divided by ours, with the range of its rounds."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.36 * len(results) + 1.2))
    for y, r in enumerate(reversed(results)):
        for offset, contestant in zip((0.18, 0.0, -0.18), CONTESTANTS[1:]):
            if contestant not in r.seconds:
                continue
            ours, times = r.median("ours"), r.seconds[contestant]
            axes.plot([min(times) / ours, max(times) / ours], [y + offset] * 2, color=COLORS[contestant], linewidth=1.5)
            label = contestant if y == len(results) - 1 else None
            axes.plot([r.median(contestant) / ours], [y + offset], "o", color=COLORS[contestant], markersize=5, label=label)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16, 32], ["¼", "½", "1", "2", "4", "8", "16", "32"])
    axes.minorticks_off()
    axes.set_yticks(range(len(results)), [r.name for r in reversed(results)])
    axes.set_xlabel("time relative to ours (right of the line: slower)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    figure.legend(loc="upper center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, format="svg", metadata={"Date": None})
