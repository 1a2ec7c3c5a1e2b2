"""python -m bench.joins [--rows N] [--questions N]: a nearest join in Spark, beside single searches of pylance and Spark's own plan.

Times are those of processors, of the process and all that it has started: other programs on the machine change them less than the
time that passes. pylance searches for some questions, Spark's own plan compares still fewer of them with all rows; both are extrapolated.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from bench.growth import markdown
from bench.indexes import FOLDER
from bench.memory import Peak, processor_seconds, workers
from bench.search import DIMENSIONS, PARTS, K, partitions_of, vectors
from lance_spark import Dataset

ROWS, QUESTIONS = 1_000_000, 10_000
SINGLE, CROSSED = 300, 20
"""How many questions pylance searches for, and Spark's own plan compares."""
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    asked = parser.parse_args()
    path, questions = make(asked.rows), vectors(asked.questions, 3)
    theirs = lance.dataset(path)

    def searched() -> None:
        for query in questions[:SINGLE]:
            theirs.to_table(["id", "_distance"], nearest={"column": "vec", "q": query, "k": K})

    searched()
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    lance_spark.enable(spark)
    spark.read.format("lance").load(str(path)).createOrReplaceTempView("t")
    rows = pa.table({"n": np.arange(len(questions)), "q": pa.FixedSizeListArray.from_arrays(pa.array(questions.ravel()), DIMENSIONS)})
    Dataset.write(str(FOLDER / "joins-questions.lance"), rows, mode="overwrite")
    spark.read.format("lance").load(str(FOLDER / "joins-questions.lance")).createOrReplaceTempView("all")

    def joined(count: int) -> DataFrame:
        spark.sql(f"SELECT n, q FROM all WHERE n < {count}").createOrReplaceTempView("q")
        return spark.sql(JOIN)

    run(joined(SINGLE))
    with Peak(os.getpid(), workers) as peak:
        ours = seconds(lambda: run(joined(len(questions))))
    found = {"nearest join": (len(questions), ours), f"pylance, {SINGLE} single searches": (SINGLE, seconds(searched))}
    for name, value in RULE.items():
        spark.conf.set(name, value)
    found[f"Spark's own plan, {CROSSED} questions"] = (CROSSED, seconds(lambda: run(joined(CROSSED))))
    table = []
    for name, (count, (worked, passed)) in found.items():
        whole = worked * len(questions) / count
        table.append([name, f"{worked:.1f}", f"{passed:.1f}", f"{whole:.0f}", f"{whole / ours[0]:.1f}"])
    title = f"{len(questions)} questions, {asked.rows} rows"
    print(markdown([title, "s of processors", "s passed", "s of processors for all", "of the join"], table))
    print(f"The most memory of one Python worker, which runs tasks: {peak.bytes >> 20} MiB")


if __name__ == "__main__":
    main()
