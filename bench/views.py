"""python -m bench.views [--rows N]: processor time of a refresh of a materialized view after 1% of its input has changed, against all rows.

The session, its workers and this process count. On a quiet machine with two cores it takes about two minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import lance_spark
from bench.growth import markdown
from bench.memory import processor_seconds
from lance_spark import Dataset

VIEWS = {
    "filter and projection": "SELECT id, x * 2 AS y, s FROM lance.t WHERE x >= 0",
    "1000 groups": "SELECT k, count(*) AS n, sum(x) AS total, min(x) AS least FROM lance.t GROUP BY k",
    "join": "SELECT t.id, t.x, d.name FROM lance.t AS t JOIN lance.d AS d ON t.k = d.k",
}


def made(root: str, rows: int) -> None:
    """The table of facts, in the order of the key, and that of names."""
    keys = np.sort(np.random.default_rng(1).integers(0, 1000, rows))
    columns = {"id": np.arange(rows), "k": keys, "x": np.random.default_rng(2).random(rows), "s": [f"text {i % 9973}" for i in range(rows)]}
    Dataset.write(f"{root}/t.lance", pa.table(columns), enable_stable_row_ids=True, max_rows_per_file=rows // 20)
    Dataset.write(f"{root}/d.lance", pa.table({"k": range(1000), "name": [f"n{i}" for i in range(1000)]}), enable_stable_row_ids=True)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    lance_spark.enable(spark)
    with tempfile.TemporaryDirectory() as root:
        lance_spark.catalog(spark, "lance", root=root)
        made(root, rows)
        views = {name: lance_spark.materialized_view(spark, f"lance.v{i}", query) for i, (name, query) in enumerate(VIEWS.items())}
        told = []
        seconds: dict[tuple[str, bool], float] = {}
        for turn in range(2):  # the first one warms up
            Dataset.open(f"{root}/t.lance").update({"x": f"x + {turn + 1}"}, f"id >= {rows - rows // 100}")
            for name, view in views.items():
                for full in (False, True):
                    before = processor_seconds(os.getpid())
                    view.refresh(full=full)
                    seconds[name, full] = processor_seconds(os.getpid()) - before
        for name in VIEWS:
            part, whole = seconds[name, False], seconds[name, True]
            told.append((name, f"{whole:.1f}", f"{part:.1f}", f"{part / whole:.0%}"))
        print(markdown(("view", "all rows, CPU s", "1% changed, CPU s", "share"), told))


if __name__ == "__main__":
    main()
