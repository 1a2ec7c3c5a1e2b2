"""python -m bench.scale [--quick]: what a manifest of a million fragments costs one process, beside pylance.

The fragments share one data file of ten rows, so that the table takes 83 MB: ten terabytes in files of ten megabytes have such a manifest.
Each operation runs in a process of its own, which has done the same with a small table before. The figure is the CPU time of the process
from opening the table to the end of the operation.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from bench.growth import ROWS, markdown

DOCS = Path(__file__).parent.parent / "docs"
FRAGMENTS, QUICK_FRAGMENTS = 1_000_000, 20_000
ROUNDS = 2
HEADS = ("operation", "CPU s", "pylance, CPU s", "ratio", "memory, MB", "pylance, MB")
ADDRESS = 7 << 32 | 3
"""That of a row of the eighth fragment."""

NUMBERS = [3, 50, -1]
Work = Callable[[str], object]


def ours() -> dict[str, Work]:
    """The operations of Dataset, by name; each opens the table at a path."""
    from lance_spark import Dataset
    from lance_spark.metadata.fragment_messages import counted
    from lance_spark.table.scan.plan import ScanPlan, plan_tasks

    counted([b""])  # loads what only a table of very many fragments needs
    return {
        "open": lambda uri: Dataset.open(uri).schema,
        "count": lambda uri: Dataset.open(uri).count_rows(),
        "first row": lambda uri: Dataset.open(uri).head(1),
        "take of three rows": lambda uri: (table := Dataset.open(uri)).take([n % table.count_rows() for n in NUMBERS]),
        "row by its address": lambda uri: Dataset.open(uri).to_table(filter=f"_rowaddr = {ADDRESS}"),
        "append": lambda uri: Dataset.open(uri).insert(ROWS),
        "delete of one row": lambda uri: Dataset.open(uri).delete(f"_rowaddr = {ADDRESS}"),
        "cleanup after an append": lambda uri: Dataset.open(uri).insert(ROWS).cleanup_old_versions(timedelta(0)),
        "plan of a whole scan": lambda uri: plan_tasks(Dataset.open(uri).snapshot, ScanPlan(), 16),
    }


def pylance() -> dict[str, Work]:
    """The same of pylance, which does not tell how long its plans take."""
    import lance

    return {
        "open": lambda uri: lance.dataset(uri).schema,
        "count": lambda uri: lance.dataset(uri).count_rows(),
        "first row": lambda uri: lance.dataset(uri).to_table(limit=1),
        "take of three rows": lambda uri: (table := lance.dataset(uri)).take([n % table.count_rows() for n in NUMBERS]),
        "row by its address": lambda uri: lance.dataset(uri).to_table(filter=f"_rowaddr = {ADDRESS}"),
        "append": lambda uri: lance.write_dataset(ROWS, lance.dataset(uri), mode="append"),
        "delete of one row": lambda uri: lance.dataset(uri).delete(f"_rowaddr = {ADDRESS}"),
        "cleanup after an append": lambda uri: lance.write_dataset(ROWS, lance.dataset(uri), mode="append").cleanup_old_versions(
            timedelta(0)
        ),
    }


CONTESTANTS = {"ours": ours, "pylance": pylance}


def measure(who: str, name: str, small: str, table: str) -> None:
    """Print the CPU seconds of an operation on `table` and the process's memory, after the same on a `small` one."""
    work = CONTESTANTS[who]()[name]
    work(small)
    start = time.process_time()
    work(table)
    print("measured", time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def cost(folder: Path, who: str, name: str) -> tuple[float, float]:
    """The CPU seconds of an operation on a new copy of the table, the least of the rounds, and the memory in MB."""
    found = []
    for _ in range(ROUNDS):
        copies = [folder / f"{which}-copy" for which in ("small", "large")]
        for copy in copies:
            shutil.copytree(folder / copy.name.removesuffix("-copy"), copy, copy_function=os.link)
        command = [sys.executable, "-m", "bench.scale", "--measure", who, name, *map(str, copies)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        line = next(line for line in printed.splitlines() if line.startswith("measured "))
        found.append(tuple(float(number) for number in line.split()[1:]))
        for copy in copies:
            shutil.rmtree(copy)
    return min(seconds for seconds, _ in found), min(memory for _, memory in found)


def lines(folder: Path, fragments: int) -> Iterator[list[str]]:
    """The rows of the table."""
    from bench.commits import with_fragments

    with_fragments(str(folder / "small"), 10)
    with_fragments(str(folder / "large"), fragments)
    theirs = pylance()
    for name in ours():
        seconds, memory = cost(folder, "ours", name)
        if name not in theirs:
            yield [name, f"{seconds:.2f}", "", "", f"{memory:.0f}", ""]
            continue
        other, others_memory = cost(folder, "pylance", name)
        yield [name, f"{seconds:.2f}", f"{other:.2f}", f"{seconds / other:.2f}", f"{memory:.0f}", f"{others_memory:.0f}"]


def page(table: list[list[str]], fragments: int) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow", "numba"))
    return f"""# Very large tables

Made by `make bench-scale` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Compare only the ratios of one run.

A table of {fragments:,} fragments, whose manifest takes 83 MB, as that of ten terabytes in files of ten megabytes. The fragments share
one data file of ten rows, so that only the work on the manifest counts. Each operation runs without Spark, in a process of its own
that has done the same with a small table before. Every operation opens the table first. The figures are the CPU time of the process
from then to its end, the least of {ROUNDS} rounds, and the most memory that the process had.

{markdown(HEADS, table)}

Nothing parses all fragments of such a table, except a plan of a scan that reads them all. Their ids and row counts are read at once;
conditions on `_rowaddr`, `_rowid` (without stable row ids) and `_fragid` leave fragments out by their ids.
"""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 fragments; writes nothing")
    parser.add_argument("--measure", nargs=4, metavar=("WHO", "OPERATION", "SMALL", "TABLE"), help="one operation, in this process")
    asked = parser.parse_args()
    if asked.measure:
        measure(*asked.measure)
        return
    fragments = QUICK_FRAGMENTS if asked.quick else FRAGMENTS
    with tempfile.TemporaryDirectory() as folder:
        text = page(list(lines(Path(folder), fragments)), fragments)
    print(text)
    if not asked.quick:
        (DOCS / "bench-scale.md").write_text(text)


if __name__ == "__main__":
    main()
