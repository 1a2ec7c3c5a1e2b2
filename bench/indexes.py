"""python -m bench.indexes [--quick] [--rows N]: making scalar indexes and lookups through them, beside pylance, or Parquet in Spark.

The contestants take turns on the same machine. The table's rows are in random order, its indexes are made by pylance. `--quick` uses less
data and no Spark, and writes nothing; `--rows` measures only Dataset and pylance on so many rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from bench.growth import markdown
from lance_spark import Dataset

FOLDER, DOCS = Path(__file__).parent / "data", Path(__file__).parent.parent / "docs"
ROWS, QUICK_ROWS = 10_000_000, 500_000
FRAGMENTS = 10
COLUMNS = ["id", "k", "v", "name"]
ROUNDS, SPARK_ROUNDS, BUILD_ROUNDS = 21, 7, 5
BUILT = {"BTREE": "id", "BITMAP": "k", "NGRAM": "name", "BLOOMFILTER": "id", "ZONEMAP": "id"}
"""The indexes that are made, with their columns."""


def rows(count: int) -> pa.Table:
    """Rows whose column `id` has every number below `count` once, in random order; `k` has 1000 values."""
    rng = np.random.default_rng(7)
    ids = rng.permutation(count)
    names = pa.array(np.char.add("name ", (ids % 99_991).astype(str)))
    return pa.table({"id": ids, "k": rng.integers(0, 1000, count, dtype=np.int32), "v": rng.random(count), "name": names})


def make(count: int) -> tuple[Path, Path]:
    """The table with indexes of `id` (BTREE), `k` (BITMAP) and `name` (NGRAM), and Parquet files sorted by `id`; made once."""
    path, sorted_files = FOLDER / f"indexes-{count}.lance", FOLDER / f"indexes-{count}.parquet"
    if not sorted_files.exists():
        FOLDER.mkdir(exist_ok=True)
        table = rows(count)
        lance.write_dataset(table, path, mode="overwrite", max_rows_per_file=count // FRAGMENTS)
        lance.dataset(path).create_scalar_index("id", "BTREE", replace=True)
        lance.dataset(path).create_scalar_index("k", "BITMAP", replace=True)
        lance.dataset(path).create_scalar_index("name", "NGRAM", replace=True)
        in_order = table.sort_by("id")
        sorted_files.mkdir()
        for part in range(FRAGMENTS):
            size = count // FRAGMENTS
            pa.parquet.write_table(in_order.slice(part * size, size), sorted_files / f"{part}.parquet", row_group_size=100_000)
    return path, sorted_files


def filters(count: int) -> dict[str, str]:
    """The conditions by name."""
    known = ", ".join(str(i) for i in range(11, count, count // 1000))
    return {
        "one row by id": f"id = {count // 3}",
        "1000 ids by IN": f"id IN ({known})",
        "range of 0.1 %": f"id BETWEEN {count // 2} AND {count // 2 + count // 1000 - 1}",
        "contains": "contains(name, '54321')",
        "two columns, AND": f"k = 17 AND id < {count // 10}",
        "rows counted": f"id < {count // 100}",
    }


def rounds(contestants: Mapping[str, Callable[[], int]], number: int, of_processor: bool = False) -> dict[str, float]:
    """The median seconds of each, after two rounds that do not count. Checks that all find the same number of rows.

    With `of_processor`, the least seconds of CPU time of the process, which other processes of the machine disturb less.
    """
    clock, figure = (time.process_time, min) if of_processor else (time.perf_counter, statistics.median)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    found = {name: [run(), run()][0] for name, run in contestants.items()}
    if len(set(found.values())) > 1:
        raise RuntimeError(f"different numbers of rows: {found}")
    for _ in range(number):
        for name, run in contestants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: float(figure(times)) for name, times in seconds.items()}


def without_spark(path: Path, count: int) -> list[list[str]]:
    """The rows of the table of Dataset and pylance."""
    ours, theirs = Dataset.open(path), lance.dataset(path)

    def ours_found(condition: str) -> int:
        return int(ours.scan(COLUMNS, filter=condition).to_table().num_rows)

    def theirs_found(condition: str) -> int:
        return int(theirs.to_table(COLUMNS, filter=condition).num_rows)

    table = []
    for name, condition in filters(count).items():
        if name == "rows counted":
            runs: dict[str, Callable[[], int]] = {
                "ours": partial(ours.count_rows, condition),
                "pylance": partial(theirs.count_rows, filter=condition),
            }
        else:
            runs = {
                "ours": partial(ours_found, condition),
                "pylance": partial(theirs_found, condition),
            }
        found = rounds(runs, ROUNDS, of_processor=True)
        table.append([name, *(f"{found[who] * 1000:.2f}" for who in ("ours", "pylance")), f"{found['ours'] / found['pylance']:.2f}"])
    return table


def builds(path: Path) -> list[list[str]]:
    """The rows of the table of making indexes of a copy of the table; the first rounds, which do not count, load compiled code."""
    copy = path.with_name(f"{path.stem}-built.lance")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy, copy_function=os.link)

    def made(open_table: Callable[[str], Any], column: str, kind: str) -> int:
        open_table(str(copy)).create_scalar_index(column, kind, name=f"made_{kind}", replace=True)
        return 0

    table = []
    for kind, column in BUILT.items():
        runs: dict[str, Callable[[], int]] = {
            "ours": partial(made, Dataset.open, column, kind),
            "pylance": partial(made, lance.dataset, column, kind),
        }
        took = rounds(runs, BUILD_ROUNDS, of_processor=True)
        table.append([f"{kind} of {column}", *(f"{took[who]:.2f}" for who in runs), f"{took['ours'] / took['pylance']:.2f}"])
    shutil.rmtree(copy)
    return table


def counted(frame: DataFrame, condition: str) -> int:
    """How many rows Spark counts."""
    return frame.where(condition).count()


def collected(frame: DataFrame, condition: str) -> int:
    """How many rows the driver gets."""
    return len(frame.where(condition).collect())


def with_spark(path: Path, sorted_files: Path, count: int) -> list[list[str]]:
    """The rows of the table of Spark."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    lance_spark.enable(spark)
    frames = {"ours": spark.read.format("lance").load(str(path)), "Parquet": spark.read.parquet(str(sorted_files))}
    table = []
    for name, condition in filters(count).items():
        if name == "rows counted":
            runs: dict[str, Callable[[], int]] = {who: partial(counted, df, condition) for who, df in frames.items()}
        else:
            runs = {who: partial(collected, df, condition) for who, df in frames.items()}
        found = rounds(runs, SPARK_ROUNDS)
        table.append([name, *(f"{found[who] * 1000:.0f}" for who in ("ours", "Parquet")), f"{found['ours'] / found['Parquet']:.2f}"])
    spark.stop()
    return table


def page(command: str, count: int, plain: list[list[str]], built: list[list[str]], in_spark: list[list[str]]) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow"))
    spark = f"""
In Spark, in milliseconds, the median of {SPARK_ROUNDS} rounds, beside Parquet files that are sorted by the column `id`:

{markdown(["with Spark, ms", "ours", "sorted Parquet", "ratio"], in_spark)}
"""
    return f"""# Look-ups

Made by `{command}` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Compare only the ratios of one run.

A table of {count:,} rows in random order and {FRAGMENTS} fragments, with a BTREE of `id`, a BITMAP of `k` and an NGRAM of `name`, which
pylance made. Each look-up returns all {len(COLUMNS)} columns. The figures are milliseconds of CPU time of the process, the least of
{ROUNDS} rounds in which the contestants take turns; everything that they keep in memory is there.

{markdown(["rows found, CPU ms", "ours", "pylance", "ratio"], plain)}

Making indexes of the same table, in seconds of CPU time, the least of {BUILD_ROUNDS} rounds:

{markdown(["index, CPU s", "ours", "pylance", "ratio"], built)}
{spark if in_spark else ""}"""


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int)
    asked = parser.parse_args()
    count = asked.rows or (QUICK_ROWS if asked.quick else ROWS)
    path, sorted_files = make(count)
    plain = without_spark(path, count)
    command = f"python -m bench.indexes --rows {count}" if asked.rows else "make bench-indexes"
    text = page(command, count, plain, builds(path), [] if asked.quick or asked.rows else with_spark(path, sorted_files, count))
    print(text)
    if not asked.quick:
        (DOCS / "bench-indexes.md").write_text(text)


if __name__ == "__main__":
    main()
