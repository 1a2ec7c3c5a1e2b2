"""python -m bench [--quick]: measures all workloads with all contestants, in alternation, and prints medians and ratios.

The full run also writes docs/bench.md and docs/bench.svg.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import lance_spark
from bench import data, works
from bench.report import Result, page, plot, table
from bench.sources import FloorSource, PylanceSource
from bench.tpch import QUERIES, TABLES

FOLDER = Path(__file__).parent / "data"
DOCS = Path(__file__).parent.parent / "docs"
ROUNDS = 5


def session() -> SparkSession:
    """A session with two cores, as in CI."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    spark = builder.config("spark.sql.shuffle.partitions", "4").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(PylanceSource)
    spark.dataSource.register(FloorSource)
    lance_spark.enable(spark)
    return spark


def all_works(spark: SparkSession, scale: float, quick: bool) -> Iterator[tuple[str, Callable[[], works.Work]]]:
    """Functions that prepare the workloads, by name, in the order of the measurement."""
    tpch = {name: data.tpch(FOLDER, name, scale) for name in TABLES}
    lineitem, orders, part = tpch["lineitem"], tpch["orders"], tpch["part"]
    vectors = data.vectors(FOLDER, 10_000 if quick else 200_000)
    wide = data.wide(FOLDER, 10_000 if quick else 200_000)
    labels, keys = data.labels(FOLDER, 500_000 if quick else 20_000_000), data.labels(FOLDER, 100_000 if quick else 4_000_000)
    many = data.fragments(FOLDER, 100 if quick else 2000)
    two = ["l_orderkey", "l_extendedprice"]
    days, key = "l_shipdate >= DATE '1995-06-01' AND l_shipdate < DATE '1995-06-26'", f"key = {wide.rows // 2}"
    last = 6_000_000 * scale
    few = f"l_orderkey BETWEEN {last / 2:.0f} AND {last / 2 + 8 * scale:.0f} OR l_orderkey = 32"
    ids = f"id IN ({', '.join(str(i * (vectors.rows // 1000)) for i in range(1000))})"
    scan, query = works.scan, works.query
    yield "full scan of lineitem", lambda: scan(spark, lineitem, "full scan of lineitem")
    yield "2 of 16 columns", lambda: scan(spark, lineitem, "2 of 16 columns", two)
    yield "count(*)", lambda: works.count(spark, lineitem)
    yield "filter 1%", lambda: scan(spark, lineitem, "filter 1%", condition=days)
    yield "filter 0.001%", lambda: scan(spark, lineitem, "filter 0.001%", condition=few)
    yield "point lookup", lambda: scan(spark, wide, "point lookup, 200 columns", condition=key)
    yield "3 of 200", lambda: scan(spark, wide, "3 of 200 columns", ["key", "amount0", "code2"])
    yield "top 10", lambda: query(spark, "top 10 of orders", works.TOP, [orders])
    yield "join", lambda: query(spark, "join with a filtered dimension", works.JOIN, [lineitem, part])
    yield "Q1", lambda: query(spark, "TPC-H Q1", QUERIES[1], [lineitem])
    yield "Q6", lambda: query(spark, "TPC-H Q6", QUERIES[6], [lineitem])
    yield "Q14", lambda: query(spark, "TPC-H Q14", QUERIES[14], [lineitem, part])
    yield "TPC-H, all", lambda: works.tpch(spark, list(tpch.values()))
    yield "group by", lambda: works.group_by(spark, "group by a label", "label", labels)
    yield "group by unique keys", lambda: works.group_by(spark, "group by unique keys", "key", keys)
    yield "pandas UDF", lambda: works.udf(spark, lineitem, "pandas UDF over a column", columnar=True)
    yield "pandas UDF", lambda: works.udf(spark, lineitem, "pandas UDF, rows handed over", columnar=False)
    yield "vectors", lambda: scan(spark, vectors, "full scan of 384-dim vectors")
    yield "vectors by id", lambda: scan(spark, vectors, "1,000 vectors by id", condition=ids)
    yield "write", lambda: works.write(spark, lineitem)
    yield "append", lambda: works.append(spark, orders)
    yield "first row", lambda: works.open_many(spark, many)
    yield "imports", works.imports


def measure(work: works.Work, rounds: int) -> Result:
    """Measure a workload: seconds of each round. The contestants take turns, after one warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in work.runs}
    for i in range(rounds + 1):
        for name, run in work.runs.items():
            start = time.perf_counter()
            run()
            if i:
                times[name].append(time.perf_counter() - start)
    return Result(work.name, times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, two rounds: about a minute; writes nothing")
    parser.add_argument("--only", default="", help="only works whose name contains this; writes nothing")
    parser.add_argument("--scale", type=float, help="the scale factor of TPC-H")
    arguments = parser.parse_args()
    scale = arguments.scale or (0.05 if arguments.quick else 1)
    rounds = 2 if arguments.quick else ROUNDS
    results = []
    for name, make in all_works(session(), scale, arguments.quick):
        if arguments.only.lower() in name.lower():
            results.append(measure(make(), rounds))
            print(table(results[-1:]).splitlines()[-1], flush=True)
    print("\n" + table(results))
    if not arguments.quick and not arguments.only:
        (DOCS / "bench.md").write_text(page(results, scale, rounds))
        plot(results, DOCS / "bench.svg")


if __name__ == "__main__":
    main()
