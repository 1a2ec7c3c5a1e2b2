"""python -m bench.scale_spark TABLE SMALL FILES: the cost of queries of Spark, whose driver has 2 GB, on a table of very many fragments.

`bench.scale` has this table too, from a process of its own; run alone, this prints it. All queries first run on the small table. The files
of the third table have ten megabytes in its manifest: its scan is only planned.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from bench.growth import markdown
from bench.memory import Peak, processor_seconds

HEADS = ("query", "CPU ms", "the same on 10 fragments, CPU ms", "ms")
ROUNDS, SETTLE_S = 3, 0.3
MEMORY = "2g"

QUERIES: dict[str, Callable[[DataFrame], object]] = {
    "`count(*)`": lambda df: df.count(),
    "`LIMIT 1`": lambda df: df.limit(1).collect(),
    "count of one fragment": lambda df: df.where("_fragid = 7").count(),
    "row by its address": lambda df: df.where(f"_rowaddr = {7 << 32 | 3}").collect(),
}
OPENED, PLANNED, PLANNED_LARGE = "first `load`", "tasks of a whole scan", "tasks of a whole scan, files of ten megabytes"


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """The CPU seconds of all processes and the seconds of `work`."""
    before, start = processor_seconds(os.getpid()), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    # Workers finish their task after the query.
    time.sleep(SETTLE_S)
    return processor_seconds(os.getpid()) - before, seconds


def lines(table: str, small: str, files: str) -> Iterator[list[str]]:
    """The rows of the table, the least of the rounds, and last the most memory of all processes."""
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", MEMORY).config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lance_spark.enable(spark)

    def measured(uri: str) -> dict[str, tuple[float, float]]:
        load = partial(spark.read.format("lance").load, uri)
        found, df = {OPENED: cost(load)}, load()
        for name, query in QUERIES.items():
            times = [cost(partial(query, df)) for _ in range(ROUNDS)]
            found[name] = min(cpu for cpu, _ in times), min(seconds for _, seconds in times)
        found[PLANNED] = planned(uri)
        return found

    def planned(uri: str) -> tuple[float, float]:
        return cost(lambda: spark.read.format("lance").load(uri).rdd.getNumPartitions())

    try:
        measured(small)
        of_small = measured(small)
        with Peak(os.getpid()) as peak:
            of_table = measured(table)
            of_table[PLANNED_LARGE] = planned(files)
        for name, (cpu, seconds) in of_table.items():
            yield [name, f"{cpu * 1e3:.0f}", f"{of_small[name][0] * 1e3:.0f}" if name in of_small else "", f"{seconds * 1e3:.0f}"]
        yield ["memory of all processes, MB", f"{peak.bytes / 1e6:.0f}", "", ""]
    finally:
        spark.stop()


def main() -> None:
    """Print the table."""
    print(markdown(HEADS, list(lines(*sys.argv[1:4]))))


if __name__ == "__main__":
    main()
