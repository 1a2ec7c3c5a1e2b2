"""python -m bench.clustering [--scale S]: what filters read of TPC-H's lineitem as it is, along a Hilbert curve, and in Z-order.

In one process, without Spark: rows, bytes and processor time of a condition on either of the two columns. At scale 1, writes
docs/bench-clustering.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import data
from bench.growth import markdown
from lance_spark import Dataset
from lance_spark.index.zone_map import ROWS_PER_ZONE
from lance_spark.predicate import parse
from lance_spark.table.compaction import curve
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

FOLDER = Path(__file__).parent / "data"
DOCS = Path(__file__).parent.parent / "docs"
SCALE = 1.0
"""The scale of the page."""
HEADS = ("order", "condition", "rows", "bytes read, MB", "of all bytes", "CPU ms")
COLUMNS = ("l_shipdate", "l_partkey")


def z_order(ranks: Sequence[np.ndarray]) -> np.ndarray:
    """The place of points with these coordinates (uint64 below 2**16) in Z-order: their bits in turn."""
    place = np.zeros(len(ranks[0]), np.uint64)
    for bit in range(15, -1, -1):
        for rank in ranks:
            place = (place << np.uint64(1)) | (rank >> np.uint64(bit) & np.uint64(1))
    return place


ORDERS: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray] | None] = {"as written": None, "Hilbert": curve.hilbert, "Z-order": z_order}


def read(uri: str, condition: str) -> tuple[int, int, float]:
    """The rows that satisfy the condition, the bytes that are read for all columns of them, and the seconds of the processor."""
    snapshot, cost, start = Dataset.open(uri).snapshot, Cost(), time.process_time()
    plan = ScanPlan(predicate=parse(condition, snapshot.manifest.schema))
    rows = sum(batch.num_rows for task in plan_tasks(snapshot, plan, cores=2) for batch in task.read(cost))
    return rows, cost.counts.bytes_read, time.process_time() - start


def lines(scale: float) -> Iterator[list[str]]:
    """The rows of the table: each order with each condition."""
    rows = pq.read_table(data.tpch(FOLDER, "lineitem", scale).parquet)
    # Arrow has no `take` of the views of texts that the generator writes.
    rows = rows.cast(pa.schema([f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in rows.schema]))
    last = int(np.max(rows["l_partkey"].to_numpy()))
    conditions = (
        "l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-30'",
        "l_shipdate = DATE '1995-06-01'",
        f"l_partkey BETWEEN {last // 200} AND {last // 100}",
        f"l_partkey = {last // 200}",
    )
    for name, order in ORDERS.items():
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            uri = f"{folder}/t.lance"
            Dataset.write(uri, rows)
            if order is not None:
                with patch.object(curve, "hilbert", order):
                    Dataset.open(uri).optimize.cluster(*COLUMNS)
            whole = read(uri, "true")[1]
            for condition in conditions:
                found, size, _ = read(uri, condition)
                seconds = min(read(uri, condition)[2] for _ in range(3))
                cells = [f"{found / len(rows):.3%}", f"{size / 1e6:.1f}", f"{size / whole:.1%}", f"{seconds * 1e3:.0f}"]
                yield [name, f"`{condition}`", *cells]


def page(table: Sequence[Sequence[str]]) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "numba"))
    return f"""# Clustered tables

Made by `make bench-clustering` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}.

The table `lineitem` of TPC-H at scale {SCALE:g}, as it is written, and after `Dataset.optimize.cluster{COLUMNS}`,
which orders the rows along a Hilbert curve. Z-order is the other curve that could be taken. A query reads all columns of the rows that
satisfy a condition on one of the two columns, in one process without Spark. The bytes are those of data files, beside the bytes that a
query of all rows reads. The CPU time is the least of three rounds.

{markdown(HEADS, table)}

A filter finds its rows by the bounds of zones of {ROWS_PER_ZONE:,} rows, which a clustering notes. More bytes are read than the share of
the rows: the dictionary of a page is read as a whole, and ranges of bytes that are near each other are read together.
"""


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.clustering", description=__doc__)
    parser.add_argument("--scale", type=float, default=SCALE)
    scale = parser.parse_args().scale
    text = page(list(lines(scale)))
    print(text)
    if scale == SCALE:
        (DOCS / "bench-clustering.md").write_text(text)


if __name__ == "__main__":
    main()
