"""python -m bench.views [--rows N ..] [--quick]: refreshes of materialized views by what has changed, beside REFRESH FULL of all rows.

Each view is made once of a table of facts. Then rows are appended, updated and deleted, some more each time, and each change is
followed by a refresh. The times are those of processors, of the process and all that it has started, and those that passed.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Row, SparkSession

import lance_spark
from bench.growth import markdown
from bench.joins import seconds, session
from lance_spark import Dataset

ROWS, QUICK_ROWS = (1_000_000, 5_000_000), 100_000
PRODUCTS, ROWS_OF_CUSTOMER, ROWS_OF_ORDER = 10_000, 100, 4
SHARES = {"0.01%": 10_000, "1%": 100, "10%": 10}
"""One row of so many changes."""
VIEWS = {
    "filtered rows": "SELECT id, customer, price * 2 AS twice, note FROM lance.facts WHERE price % 4 <> 1",
    "groups": (
        "SELECT customer, count(*) AS orders, sum(price) AS total, min(price) AS least, max(price) AS most, avg(price) AS mean "
        "FROM lance.facts GROUP BY customer"
    ),
    "facts and a dimension": "SELECT f.id, f.price, p.name, p.kind FROM lance.facts f JOIN lance.products p ON f.product = p.product",
    "last row of each key": (
        "SELECT * FROM (SELECT id, order_id, price, note, row_number() OVER (PARTITION BY order_id ORDER BY id DESC) AS place "
        "FROM lance.facts) WHERE place = 1"
    ),
}
HEADS = ("view", "changed rows", "appended", "updated", "deleted", "REFRESH FULL")


@dataclass
class Facts:
    """The table of facts: where it is, and how many rows it had at first."""

    uri: str
    rows: int
    next_id: int

    def some(self, count: int) -> pa.Table:
        """New rows, of customers and products at random."""
        rng = np.random.default_rng(self.next_id)
        ids = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        columns = {
            "id": ids,
            "customer": rng.integers(0, self.rows // ROWS_OF_CUSTOMER, count),
            "order_id": rng.integers(0, self.rows // ROWS_OF_ORDER, count),
            "product": rng.integers(0, PRODUCTS, count),
            "price": rng.integers(0, 100_000, count),
        }
        return pa.table({**columns, "note": pa.array([f"note {i}" for i in rng.integers(0, 1000, count)])})

    def append(self, every: int) -> None:
        """Add one row for so many."""
        Dataset.write(self.uri, self.some(self.rows // every), mode="append")

    def update(self, every: int) -> None:
        """Change the price of one row of so many."""
        Dataset.open(self.uri).update({"price": "price + 7"}, f"id % {every} = 3")

    def delete(self, every: int) -> None:
        """Remove one row of so many."""
        Dataset.open(self.uri).delete(f"id % {every} = 5")


CHANGES: tuple[Callable[[Facts, int], None], ...] = (Facts.append, Facts.update, Facts.delete)


def made(folder: Path, count: int) -> Facts:
    """The tables."""
    facts = Facts(str(folder / "facts.lance"), count, 0)
    for number in range(4):
        rows = facts.some(count // 4)
        Dataset.write(facts.uri, rows, "append" if number else "create", enable_stable_row_ids=True)
    products = np.arange(PRODUCTS)
    names = {"product": products, "name": [f"product {i}" for i in products], "kind": products % 10}
    Dataset.write(str(folder / "products.lance"), pa.table(names), enable_stable_row_ids=True)
    return facts


def refreshed(spark: SparkSession, view: str, mode: str) -> tuple[float, float]:
    """The seconds of processors and those that passed of a refresh, which must be of this mode."""
    found: list[Row] = []
    rest = " FULL" if mode == "full" else ""
    statement = f"REFRESH MATERIALIZED VIEW {view}{rest}"
    took = seconds(lambda: found.extend(spark.sql(statement).collect()))
    assert found[0]["refresh"] == mode, found
    return took


def lines(spark: SparkSession, count: int, names: Sequence[str]) -> Iterator[list[str]]:
    """The rows of the table for so many facts."""
    with tempfile.TemporaryDirectory() as folder:
        facts = made(Path(folder), count)
        lance_spark.catalog(spark, "lance", root=folder)
        for number, name in enumerate(names):
            view = f"lance.v{number}"
            spark.sql(f"CREATE MATERIALIZED VIEW {view} AS {VIEWS[name]}")
            facts.append(SHARES["0.01%"])
            refreshed(spark, view, "incremental")
            full = min(refreshed(spark, view, "full") for _ in range(2))
            for share, every in SHARES.items():
                cells = []
                for change in CHANGES:
                    change(facts, every)
                    cells.append(cell(refreshed(spark, view, "incremental"), full))
                yield [name, share, *cells, f"{full[0]:.2f} ({full[1]:.2f})"]
            spark.sql(f"DROP MATERIALIZED VIEW {view}")


def cell(took: tuple[float, float], full: tuple[float, float]) -> str:
    """What a refresh took, and how much that is of a full one."""
    return f"{took[0]:.2f} ({took[1]:.2f}) {took[0] / full[0]:.0%}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.views", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=list(VIEWS))
    given = parser.parse_args()
    spark = session()
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numba"))
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}; {time.strftime('%Y-%m-%d')}")
    for count in [QUICK_ROWS] if given.quick else given.rows:
        print(f"\n{count:,} rows; s of processors (s passed), and the share of REFRESH FULL\n")
        print(markdown(HEADS, []), flush=True)
        for line in lines(spark, count, given.views):
            print(f"| {' | '.join(line)} |", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
