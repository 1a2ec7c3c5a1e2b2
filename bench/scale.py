"""python -m bench.scale [--quick]: what a manifest of a million fragments costs one process, beside pylance.

The fragments share one data file of ten rows, so that the table takes 83 MB: ten terabytes in files of ten megabytes have such a manifest.
Each operation runs in a process of its own, which has done the same with a small table before. The figure is the CPU time of the process
from opening the table to the end of the operation.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from bench.growth import ROWS, markdown

DOCS = Path(__file__).parent.parent / "docs"
FRAGMENTS, QUICK_FRAGMENTS = (1_000_000, 20_000, 2_000), (20_000,)
ROUNDS = 2
HEADS = ("operation", "CPU ms", "pylance, CPU ms", "ratio", "memory, MB", "pylance, MB")
ADDRESS = 7 << 32 | 3
"""That of a row of the eighth fragment."""

NUMBERS = [3, 50, -1]
FILE_BYTES, CORES = 10 << 20, 16
"""The files of ten terabytes, and the cores of a cluster that reads them."""

COLUMNS, NAMES = 5_000, ["c5", "c777", "c4998"]
OPENED, PLANNED = "row by its address, after opening", "tasks of a whole scan for Spark"
PLANNED_LARGE = "tasks of a whole scan, files of ten megabytes"
OF_COLUMNS = ("scan of three columns", "count by a condition", "delete of one row by a condition")

Work = Callable[[str], Callable[[], object]]
"""Prepares an operation on the table at a path. Only what it returns is measured."""


def whole(operation: Callable[[str], object]) -> Work:
    """An operation that opens the table itself."""
    return lambda uri: partial(operation, uri)


def planned(uri: str) -> int:
    """The bytes of the tasks of a whole scan, as Spark pickles them."""
    from pyspark import cloudpickle

    from lance_spark import Dataset
    from lance_spark.spark.columns.batches import Conversion
    from lance_spark.spark.read.reader import LanceReader, Parts, Returned
    from lance_spark.table.scan.plan import ScanPlan, plan_tasks

    table = Dataset.open(uri)
    tasks = partial(plan_tasks, table.snapshot, ScanPlan())
    reader = LanceReader(Parts(tasks, cores=CORES), Returned(Conversion(table.schema)))
    pickled: Callable[[object], bytes] = cloudpickle.dumps
    return sum(len(pickled(partition)) for partition in reader.partitions())


def ours() -> dict[str, Work]:
    """The operations of Dataset, by name."""
    from lance_spark import Dataset

    operations: dict[str, Callable[[str], object]] = {
        "open": lambda uri: Dataset.open(uri).schema,
        "count": lambda uri: Dataset.open(uri).count_rows(),
        "first row": lambda uri: Dataset.open(uri).head(1),
        "take of three rows": lambda uri: (table := Dataset.open(uri)).take([n % table.count_rows() for n in NUMBERS]),
        "row by its address": lambda uri: Dataset.open(uri).to_table(filter=f"_rowaddr = {ADDRESS}"),
        "append": lambda uri: Dataset.open(uri).insert(ROWS),
        "delete of one row": lambda uri: Dataset.open(uri).delete(f"_rowaddr = {ADDRESS}"),
        "update of one row": lambda uri: Dataset.open(uri).update({"id": "id + 1"}, where=f"_rowaddr = {ADDRESS}"),
        "new name of a column": lambda uri: Dataset.open(uri).alter_columns({"path": "s", "name": "t"}),
        "removal of a column": lambda uri: Dataset.open(uri).drop_columns(["s"]),
        "cleanup after an append": lambda uri: Dataset.open(uri).insert(ROWS).cleanup_old_versions(timedelta(0)),
        PLANNED: planned,
        PLANNED_LARGE: planned,
        OF_COLUMNS[0]: lambda uri: Dataset.open(uri).to_table(columns=NAMES),
        OF_COLUMNS[1]: lambda uri: Dataset.open(uri).count_rows("c7 > 50"),
        OF_COLUMNS[2]: lambda uri: Dataset.open(uri).delete("c7 = 50"),
    }
    opened: dict[str, Work] = {OPENED: lambda uri: partial(Dataset.open(uri).to_table, filter=f"_rowaddr = {ADDRESS}")}
    return {**{name: whole(operation) for name, operation in operations.items()}, **opened}


def pylance() -> dict[str, Work]:
    """The same of pylance, which does not tell how long its plans take."""
    import lance

    operations: dict[str, Callable[[str], object]] = {
        "open": lambda uri: lance.dataset(uri).schema,
        "count": lambda uri: lance.dataset(uri).count_rows(),
        "first row": lambda uri: lance.dataset(uri).to_table(limit=1),
        "take of three rows": lambda uri: (table := lance.dataset(uri)).take([n % table.count_rows() for n in NUMBERS]),
        "row by its address": lambda uri: lance.dataset(uri).to_table(filter=f"_rowaddr = {ADDRESS}"),
        "append": lambda uri: lance.write_dataset(ROWS, lance.dataset(uri), mode="append"),
        "delete of one row": lambda uri: lance.dataset(uri).delete(f"_rowaddr = {ADDRESS}"),
        "update of one row": lambda uri: lance.dataset(uri).update({"id": "id + 1"}, where=f"_rowaddr = {ADDRESS}"),
        "new name of a column": lambda uri: lance.dataset(uri).alter_columns({"path": "s", "name": "t"}),
        "removal of a column": lambda uri: lance.dataset(uri).drop_columns(["s"]),
        "cleanup after an append": lambda uri: lance.write_dataset(ROWS, lance.dataset(uri), mode="append").cleanup_old_versions(
            timedelta(0)
        ),
        OF_COLUMNS[0]: lambda uri: lance.dataset(uri).to_table(columns=NAMES),
        OF_COLUMNS[1]: lambda uri: lance.dataset(uri).count_rows("c7 > 50"),
        OF_COLUMNS[2]: lambda uri: lance.dataset(uri).delete("c7 = 50"),
    }
    opened: dict[str, Work] = {OPENED: lambda uri: partial(lance.dataset(uri).to_table, filter=f"_rowaddr = {ADDRESS}")}
    return {**{name: whole(operation) for name, operation in operations.items()}, **opened}


CONTESTANTS = {"ours": ours, "pylance": pylance}


def megabytes(name: str) -> float:
    """The memory of this process as Linux names it: `VmRSS` is what it has, and `VmHWM` the most that it has had since `clear_refs`."""
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(found.split()[1]) * 1024 / 1e6


def measure(who: str, name: str, small: str, table: str) -> None:
    """Print the CPU seconds of an operation on `table` and the memory in MB that it needs, after the same on a `small` one."""
    prepare = CONTESTANTS[who]()[name]
    prepare(small)()
    work = prepare(table)
    # The most memory is counted from now on.
    Path("/proc/self/clear_refs").write_text("5")
    before, start = megabytes("VmRSS"), time.process_time()
    work()
    print("measured", time.process_time() - start, megabytes("VmHWM") - before)


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


def lines(folder: Path, names: Iterable[str]) -> Iterator[list[str]]:
    """The rows of these operations on the tables `small` and `large` in a folder."""
    theirs = pylance()
    for name in names:
        seconds, memory = cost(folder, "ours", name)
        if name not in theirs:
            yield [name, f"{seconds * 1e3:.0f}", "", "", f"{memory:.0f}", ""]
            continue
        other, others_memory = cost(folder, "pylance", name)
        yield [name, f"{seconds * 1e3:.0f}", f"{other * 1e3:.0f}", f"{seconds / other:.2f}", f"{memory:.0f}", f"{others_memory:.0f}"]


def of_fragments(folder: Path, fragments: int) -> Iterator[list[str]]:
    """The rows of a table of so many fragments."""
    from bench.commits import with_fragments

    folder.mkdir()
    with_fragments(str(folder / "small"), 10)
    with_fragments(str(folder / "large"), fragments)
    yield from lines(folder, [name for name in ours() if name not in (PLANNED_LARGE, *OF_COLUMNS)])
    shutil.rmtree(folder / "large")
    # Nothing reads the files of a plan.
    with_fragments(str(folder / "large"), fragments, FILE_BYTES)
    yield from lines(folder, [PLANNED_LARGE])


def of_columns(folder: Path, columns: int) -> Iterator[list[str]]:
    """The rows of a table of one fragment with a hundred rows and so many columns."""
    from lance_spark import Dataset

    folder.mkdir()
    for name in ("small", "large"):
        Dataset.write(folder / name, pa.table({f"c{i}": range(i, i + 100) for i in range(columns)}))
    yield from lines(folder, OF_COLUMNS)


def of_spark(folder: Path, fragments: int) -> str:
    """The table of queries of Spark. Spark forks processes, so that it runs in one that has not imported pylance."""
    from bench.commits import with_fragments

    folder.mkdir()
    tables = [str(folder / name) for name in ("large", "small", "files")]
    for table, count, size in zip(tables, (fragments, 10, fragments), (None, None, FILE_BYTES)):
        with_fragments(table, count, size)
    command = [sys.executable, "-m", "bench.scale_spark", *tables]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def page(tables: Mapping[int, list[list[str]]], spark: str, wide: list[list[str]]) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow", "numba"))
    sections = [f"## {fragments:,} fragments\n\n{markdown(HEADS, table)}\n" for fragments, table in tables.items()]
    return f"""# Very large tables

Made by `make bench-scale` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Compare only the ratios of one run.

The manifest of a table of 1,000,000 fragments takes 83 MB, as that of ten terabytes in files of ten megabytes. The fragments share
one data file of ten rows, so that only the work on the manifest counts. Each operation runs without Spark, in a process of its own
that has done the same with a small table before. Every operation opens the table first, except where the name says otherwise. The
figures are the CPU time of the process from then to its end, and the most memory that it had more than at that time, the least of
{ROUNDS} rounds.

{chr(10).join(sections)}
No operation parses all fragments of such a table, also not the plan of a scan that reads them all: their ids, row counts and sizes
are read from the bytes of the manifest at once, and a task of Spark has the bytes of its own fragments. Conditions on `_rowaddr`,
`_rowid` (without stable row ids) and `_fragid` leave fragments out by their ids. The tasks of a scan are those for {CORES} cores.
Where the files have ten megabytes, a task reads 128 MB, so that the whole scan has many tasks.

## {next(iter(tables)):,} fragments in Spark

Queries of PySpark {version("pyspark")} on two cores, whose driver has 2 GB, after the same on a table of 10 fragments: the CPU time of all
processes, and the seconds, the least of three rounds. `load` and the tasks of a whole scan are measured once. The process that plans
keeps the version that it opened last, so that only the first query of a version reads its manifest.

{spark}

## 5,000 columns

A table of one fragment with 100 rows.

{markdown(HEADS, wide)}
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
    sizes = QUICK_FRAGMENTS if asked.quick else FRAGMENTS
    with tempfile.TemporaryDirectory() as folder:
        tables = {fragments: list(of_fragments(Path(folder) / str(fragments), fragments)) for fragments in sizes}
        spark = of_spark(Path(folder) / "spark", sizes[0])
        text = page(tables, spark, list(of_columns(Path(folder) / "columns", COLUMNS)))
    print(text)
    if not asked.quick:
        (DOCS / "bench-scale.md").write_text(text)


if __name__ == "__main__":
    main()
