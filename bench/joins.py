"""python -m bench.joins [--quick]: a nearest join in Spark, beside single searches of pylance and Spark's own plan.

Times are those of processors, of the process and all that it has started: other programs on the machine change them less than the
time that passes. pylance searches for some questions, Spark's own plan compares still fewer of them with all rows; both are extrapolated.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from bench.growth import markdown
from bench.indexes import DOCS, FOLDER
from bench.memory import Peak, processor_seconds, workers
from bench.search import DIMENSIONS, PARTS, K, partitions_of, vectors
from lance_spark import Dataset

ROWS, QUICK_ROWS, QUESTIONS = 1_000_000, 200_000, 10_000
SINGLE, CROSSED = 300, 5
"""How many questions pylance searches for, and Spark's own plan compares."""
ROUNDS = 3
HEADS = ("s of processors", "s passed", "s of processors for all", "of the join")
JOIN = f"SELECT n, id FROM q JOIN t APPROX NEAREST {K} BY DISTANCE vector_l2_distance(q, vec)"
RULE = {"spark.sql.optimizer.excludedRules": "lance_spark.NearestJoins"}


def make(count: int) -> Path:
    """A table with an index, made once by lance-spark."""
    path = FOLDER / f"joins-{count}.lance"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors(count, 2).ravel()), DIMENSIONS)
        made = Dataset.write(str(path), pa.table({"id": np.arange(count), "vec": column}))
        made.create_index("vec", "IVF_PQ", num_partitions=partitions_of(count), num_sub_vectors=PARTS)
    return path


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """The time of processors, and the time that passed."""
    before, start = processor_seconds(os.getpid()), time.perf_counter()
    function()
    return processor_seconds(os.getpid()) - before, time.perf_counter() - start


def run(frame: DataFrame) -> None:
    """Compute all rows."""
    frame.write.format("noop").mode("overwrite").save()


def session() -> SparkSession:
    """A session with two cores."""
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    lance_spark.enable(spark)
    return spark


def measured(spark: SparkSession, count: int) -> tuple[list[list[str]], int]:
    """The rows of the table for so many vectors, and the most memory of a worker in bytes. The least of the rounds counts, in turns."""
    path, questions = make(count), vectors(QUESTIONS, 3)
    theirs = lance.dataset(path)

    def searched() -> None:
        for query in questions[:SINGLE]:
            theirs.to_table(["id", "_distance"], nearest={"column": "vec", "q": query, "k": K})

    spark.read.format("lance").load(str(path)).createOrReplaceTempView("t")
    rows = pa.table({"n": np.arange(len(questions)), "q": pa.FixedSizeListArray.from_arrays(pa.array(questions.ravel()), DIMENSIONS)})
    Dataset.write(str(FOLDER / "joins-questions.lance"), rows, mode="overwrite")
    spark.read.format("lance").load(str(FOLDER / "joins-questions.lance")).createOrReplaceTempView("all")

    def joined(number: int) -> DataFrame:
        spark.sql(f"SELECT n, q FROM all WHERE n < {number}").createOrReplaceTempView("q")
        return spark.sql(JOIN)

    searched()
    with Peak(os.getpid(), workers) as peak:
        run(joined(len(questions)))
    ours, single = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(lambda: run(joined(len(questions)))))
        single.append(seconds(searched))
    for name, value in RULE.items():
        spark.conf.set(name, value)
    crossed = seconds(lambda: run(joined(CROSSED)))
    for name in RULE:
        spark.conf.unset(name)
    found = {
        "nearest join": (len(questions), min(ours)),
        f"pylance, {SINGLE} single searches": (SINGLE, min(single)),
        f"Spark's own plan, {CROSSED} questions": (CROSSED, crossed),
    }
    table = []
    for name, (number, (worked, passed)) in found.items():
        whole = worked * len(questions) / number
        table.append([name, f"{worked:.2f}", f"{passed:.2f}", f"{whole:.1f}", f"{whole / min(ours)[0]:.1f}"])
    return table, peak.bytes


def page(tables: Sequence[tuple[int, list[list[str]], int]]) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pylance", "pyarrow", "numba"))
    load = os.getloadavg()[1]
    parts = [
        markdown([f"{QUESTIONS:,} questions, {rows:,} rows", *HEADS], table)
        + f"\n\nThe most memory of a Python worker, which runs tasks, was {most >> 20} MiB."
        for rows, table, most in tables
    ]
    joined = "\n\n".join(parts)
    return f"""# Nearest joins

Made by `make bench-joins` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}.
Compare only the ratios of one run. When it ended, {load:.1f} tasks had wanted to run at once on average of 5 minutes, others included.

The nearest {K} of vectors of {DIMENSIONS} float32 numbers around 1,000 centres, for each question of a [nearest join](nearest-join.md) in
Spark's own words. lance-spark made the indexes, IVF_PQ with {PARTS} parts, and 512 partitions for a million rows or 256 for 200,000, of
which each question searches 20. Spark runs two tasks at once, and has run the join before. The times of processors are those of all
processes, the driver and Java included.

{joined}

- pylance searches for one question after another in its own process, and reads `id` of the rows. Spark's
  [own plan](nearest-join.md#in-sparks-own-words) compares each question with all rows. Both are measured for some questions and
  extrapolated; the column *of the join* tells how many times the work of the join they take.
- The figures of the join and of pylance are the least of {ROUNDS} rounds in turns.
"""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.joins", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 rows only; writes nothing")
    asked = parser.parse_args()
    sizes = (QUICK_ROWS,) if asked.quick else (ROWS, QUICK_ROWS)
    spark = session()
    text = page([(rows, *measured(spark, rows)) for rows in sizes])
    print(text)
    if not asked.quick:
        (DOCS / "bench-joins.md").write_text(text)


if __name__ == "__main__":
    main()
