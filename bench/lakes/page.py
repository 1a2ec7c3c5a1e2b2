"""The page of the results."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version

from bench.growth import markdown
from bench.lakes.contestants import LAKES
from bench.lakes.requests import METHODS
from bench.lakes.turns import Measured, Part, Results
from bench.lakes.works import PARTS

_HEADS = ("work", *(f"{name}, s (CPU s)" for name in LAKES), "ours / best of Delta and Iceberg, s", "CPU s", "ours / Parquet, s")
_RIVALS = ("delta", "iceberg")
_READ = "As Spark's tasks report them, and the metrics of our scans. Iceberg reads most bytes in ways that Spark does not count."
_MEMORY = "The most that a contestant's processes had at once, the JVM included, in the round that does not count."
_SENT = "Those of **ours** for a small table, by a server on the same machine (moto). The jars of the others come without a client for S3."
_RUNS = """The load is how many tasks wanted to run at once on average of the last 15 minutes, those of other programs included. Times on
the clock mean little if that is more than the cores; those of processors depend less on it."""


def _best(results: dict[str, Measured], ours: Measured, names: Sequence[str], what: str) -> str:
    others = [min(getattr(results[n], what)) for n in names if n in results]
    return f"{min(getattr(ours, what)) / max(min(others), 0.01):.2f}" if others else ""


def _line(name: str, results: dict[str, Measured]) -> list[str]:
    cells = []
    for who in LAKES:
        m = results.get(who)
        cells.append("" if m is None else f"{min(m.seconds):.2f} ({min(m.processors):.2f})")
    ours = results["ours"]
    ratios = [_best(results, ours, _RIVALS, "seconds"), _best(results, ours, _RIVALS, "processors")]
    return [name, *cells, *ratios, _best(results, ours, ["parquet"], "seconds")]


def _sum(results: Results) -> dict[str, Measured]:
    """All queries of TPC-H together, round by round."""
    queries = [r for name, r in results.items() if name.startswith("TPC-H")]
    found = {}
    for who in LAKES:
        mine = [q[who] for q in queries if who in q]
        seconds, processors = ([sum(t) for t in zip(*(getattr(m, what) for m in mine))] for what in ("seconds", "processors"))
        found[who] = Measured(seconds, processors)
    return found


def _sizes(results: Results, what: str, title: str, text: str) -> str:
    """A section with a figure in bytes of each work and contestant, if there is one."""
    lines = []
    for name, by_contestant in results.items():
        values = {who: getattr(m, what) for who, m in by_contestant.items()}
        if any(values.values()):
            lines.append([name, *("" if values.get(who) is None else f"{values[who] / 1e6:.1f}" for who in LAKES)])
    return _section(title, text, ("work", *(f"{name}, MB" for name in LAKES)), lines)


def _section(title: str, text: str, heads: Sequence[str], lines: list[list[str]]) -> str:
    return f"## {title}\n\n{text}\n\n{markdown(heads, lines)}\n\n" if lines else ""


def page(parts: dict[str, Part], scale: float, memory: str, many: int, requests: dict[str, dict[str, int]]) -> str:
    """The documentation page."""
    results = {name: found for part in parts.values() for name, found in part.results.items() if found}
    lines = [_line(name, r) for name, r in results.items()]
    if "queries" in parts:
        lines.append(_line("all queries of TPC-H that are measured", _sum(results)))
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numba"))
    runs = [[name, str(part.rounds), f"{part.load:.1f}"] for name, part in parts.items()]
    methods = [m for m in METHODS if any(m in counts for counts in requests.values())]
    sent = [[work, *(str(counts.get(m, 0)) for m in methods)] for work, counts in requests.items()]
    missing = [name for name in PARTS if name not in parts]
    command = "make bench-lakes" if scale == 1 else f'make bench-lakes LAKES="--scale {scale:g}"'
    sections = [
        _sizes(results, "written", "Bytes of new files", "Compare those of compactions and of changes: what has to be rewritten."),
        _sizes(results, "read", "Bytes read", _READ),
        _sizes(results, "memory", "Memory", _MEMORY),
        _section("Requests to S3", _SENT, ("work", *methods), sent),
        _section("Runs", _RUNS + (f" Not measured yet: {', '.join(missing)}." if missing else ""), ("part", "rounds", "load"), runs),
    ]
    return f"""# Beside Delta Lake and Iceberg

Made by `{command}`: the contestants, each in a session of its own, take turns after each work, in the
rounds that the last table tells, after one to warm up. Each part of the works has new sessions. Compare only the ratios of a row.
{os.cpu_count()} cores, local[2], {memory} for each driver, Python {platform.python_version()}, {versions}, Delta Lake 4.0.0,
Iceberg 1.10.0. TPC-H at scale {scale:g}.

- **ours** is the SQL catalog of this project; **delta** has deletion vectors; **iceberg** merges changes when rows are read
  (merge-on-read); **parquet** is Spark's own reader and writer.
- Cells have the least of all rounds: seconds on the clock and, in brackets, of processors. All contestants gave the same answers: where
  they do not, the run ends with an error.
- Both compactions rewrite all files of all contestants, and leave all deleted rows out.
- *Many appends* are {many:,} statements, once{"" if any(name.startswith("many appends") for name in results) else "; not measured yet"}.

{markdown(_HEADS, lines)}

## What it is made of

- **Scans**: Python workers decode the pages, and Spark's JVM receives the columns through a socket (see [columns](columnar.md)). The others
  decode Parquet in the JVM that uses the values. What conditions and aggregates leave out in the workers is not handed over, and
  neither is a text or decimal of a dictionary for each of its rows.
- **Writes**: rows go from the JVM to Python workers in batches of Arrow, and are encoded there.
- **One statement for few rows** asks the Python process of the driver three times: to load the table, prepare the write, and commit.
  A commit waits until the disk has the new files; the others leave that to the operating system.
- **DELETE, UPDATE and MERGE** write the changed rows and bitmaps of deleted ones. A **backfill** writes the new column alone, where the
  others write all columns anew.

{"".join(sections).rstrip()}
"""
