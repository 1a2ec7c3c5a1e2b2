"""What was measured, as a table and as a picture. Nothing in them is typed in."""

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
    """The seconds of every round of one work, by contestant."""

    name: str
    seconds: dict[str, list[float]]

    def median(self, contestant: str) -> float:
        """The contestant's middle round."""
        return statistics.median(self.seconds[contestant])

    def ratio(self, other: str) -> float:
        """Our time as a multiple of the other's."""
        return self.median("ours") / self.median(other)


def table(results: Sequence[Result]) -> str:
    """A Markdown table: the median seconds of each contestant with fastest and slowest round, and ours as a multiple of each other's."""
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
    """The page of the documentation."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pylance", "pyarrow", "numba"))
    return f"""# Measurements

Made by `make bench` in one run: {rounds} rounds in which the contestants take turns, after one that does not count. Times differ from
machine to machine and hour to hour; the ratios of one run are what can be compared. The table has the median of the rounds, and the
fastest and slowest of them in brackets.

- **ours**: this connector, `lance_spark.enable(spark)`.
- **pylance**: a Python data source that wraps the Rust wheel the obvious way, a task a fragment (`bench/sources.py`).
- **parquet**: Spark's own Parquet reader and writer, which live in the JVM.
- **floor**: a Python data source that gives one ready batch again and again, or drops what it is given: what Spark takes for itself.

TPC-H at scale {scale:g}; 384-dimensional vectors with text; 200 columns of features; a table of 2,000 fragments. Tables were written by
pylance and by pyarrow. {os.cpu_count()} cores, local[2], Python {platform.python_version()}, {versions}.

![ratios](bench.svg)

{table(results)}
"""


def plot(results: Sequence[Result], path: Path) -> None:
    """How long each contestant takes when ours is 1, with the range of its rounds; further right is slower."""
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
    axes.set_xlabel("time as a multiple of ours (right of the line: slower than ours)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    figure.legend(loc="upper center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, format="svg", metadata={"Date": None})
