"""python -m bench.clustering [--scale S]: what filters read of TPC-H's lineitem as it is, along a Hilbert curve, and in Z-order.

In one process, without Spark: rows, bytes and processor time of a condition on either of the two columns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import data
from bench.growth import markdown
from lance_spark import Dataset
from lance_spark.predicate import parse
from lance_spark.table.compaction import curve
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

FOLDER = Path(__file__).parent / "data"
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.clustering", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    rows = pq.read_table(data.tpch(FOLDER, "lineitem", given.scale).parquet)
    # Arrow has no `take` of the views of texts that the generator writes.
    rows = rows.cast(pa.schema([f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in rows.schema]))
    last = int(np.max(rows["l_partkey"].to_numpy()))
    conditions = (
        "l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-30'",
        "l_shipdate = DATE '1995-06-01'",
        f"l_partkey BETWEEN {last // 200} AND {last // 100}",
        f"l_partkey = {last // 200}",
    )
    table = []
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
                table.append([name, condition, f"{found / len(rows):.3%}", f"{size / 1e6:.1f} MB", f"{size / whole:.1%}", f"{seconds:.3f}"])
    print(markdown(["order", "condition", "rows", "bytes read", "of all", "CPU s"], table))


if __name__ == "__main__":
    main()
