"""python -m bench [--quick]: times every work of every contestant in one run, in turn, and prints medians and ratios.

Times differ from machine to machine and hour to hour; the ratios of one run are what can be compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from pyspark.sql import SparkSession

import lance_spark
from bench import data, works
from bench.sources import FloorSource, PylanceSource

FOLDER = Path(__file__).parent / "data"
CONTESTANTS = ("ours", "ours, by option", "pylance", "parquet", "floor")


def session() -> SparkSession:
    """Two cores, as CI has."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(PylanceSource)
    spark.dataSource.register(FloorSource)
    lance_spark.enable(spark)
    return spark


def all_works(spark: SparkSession, quick: bool) -> list[works.Work]:
    """The works in the order in which they are measured."""
    lineitem = data.tpch(FOLDER, "lineitem", 0.05 if quick else 1)
    embeddings = data.vectors(FOLDER, 10_000 if quick else 200_000)
    many = data.fragments(FOLDER, 100 if quick else 2000)
    return [
        works.scan(spark, lineitem, "full scan of lineitem"),
        works.scan(spark, lineitem, "2 of 16 columns", ["l_orderkey", "l_extendedprice"]),
        works.count(spark, lineitem),
        works.scan(spark, lineitem, "filter 1%", condition="l_partkey < 100 OR l_shipdate < DATE '1992-01-25'"),
        works.scan(spark, lineitem, "point lookup", condition="l_orderkey = 32 AND l_linenumber = 1"),
        works.scan(spark, embeddings, "full scan of 384-dim vectors"),
        works.write(spark, lineitem),
        works.open_many(spark, many),
    ]


def measure(work: works.Work, rounds: int) -> dict[str, list[float]]:
    """Seconds of each run; the contestants take turns, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in work.runs}
    for i in range(rounds + 1):
        for name, run in work.runs.items():
            start = time.perf_counter()
            run()
            if i:
                times[name].append(time.perf_counter() - start)
    return times


def report(rows: list[tuple[str, dict[str, list[float]]]]) -> str:
    """A Markdown table: ours in seconds (fastest - slowest), then ours as a multiple of each other contestant's median."""
    others = [c for c in CONTESTANTS if c != "ours"]
    lines = ["| work | ours, s (min - max) | " + " | ".join(f"ours / {c}" if c != "ours, by option" else f"{c}, s" for c in others) + " |"]
    lines.append("|---" * (len(others) + 2) + "|")
    for name, times in rows:
        ours = statistics.median(times["ours"])
        cells = [f"{ours:.2f} ({min(times['ours']):.2f} - {max(times['ours']):.2f})"]
        for c in others:
            median = statistics.median(times[c]) if c in times else None
            cells.append("" if median is None else f"{median:.2f}" if c == "ours, by option" else f"{ours / median:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, two rounds: about a minute")
    parser.add_argument("--only", help="only works whose name contains this")
    arguments = parser.parse_args()
    spark = session()
    rows = []
    for work in all_works(spark, arguments.quick):
        if arguments.only and arguments.only not in work.name:
            continue
        times = measure(work, 2 if arguments.quick else 5)
        rows.append((work.name, times))
        print(report(rows[-1:]).splitlines()[-1], flush=True)
    print("\n" + report(rows))


if __name__ == "__main__":
    main()
