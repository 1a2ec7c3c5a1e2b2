"""python -m bench.lakes [--quick]: the same works with lance-spark, Delta Lake, Iceberg and Parquet, which take turns.

It needs an environment with PySpark 4.0 and the jars of both; `make bench-lakes` makes one. A full run also writes docs/bench-lakes.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import data
from bench.lakes.contestants import LAKES
from bench.lakes.page import page
from bench.lakes.turns import Contestant, measure, serve
from bench.lakes.works import WORKS, Source
from bench.tpch import TABLES

FOLDER = Path(__file__).parent.parent / "data"
DOCS = Path(__file__).parent.parent.parent / "docs"
QUICK_QUERIES = ("TPC-H Q1", "TPC-H Q6")
NEW_KEYS = 100_000_000
"""What is added to the keys of orders that are merged as new ones."""


def prepared(scale: float, wide_rows: int, many: int) -> Source:
    """The source of all rows, made once for each scale."""
    tables = {name: data.tpch(FOLDER, name, scale).parquet for name in TABLES}
    lineitem = pq.read_table(tables["lineitem"])
    # Arrow has no `take` of the views of texts that the generator writes.
    views = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in lineitem.schema]
    lineitem = lineitem.cast(pa.schema(views))
    keys = lineitem["l_orderkey"].to_numpy()
    firsts = np.flatnonzero(lineitem["l_linenumber"].to_numpy() == 3)
    key = int(keys[firsts[len(firsts) // 3]])
    chosen = _changed(lineitem.filter(pa.array(keys % 103 == 5)))
    new = chosen.set_column(0, "l_orderkey", pa.array(chosen["l_orderkey"].to_numpy() + NEW_KEYS))
    of_key = _changed(lineitem.filter(pa.array((keys == key) & (lineitem["l_linenumber"].to_numpy() == 3))))
    folder = FOLDER / f"sf{scale:g}"
    pq.write_table(pa.concat_tables([chosen, new.cast(chosen.schema)]), folder / "changes.parquet")
    pq.write_table(of_key, folder / "one.parquet")
    wide, changes, one = data.wide(FOLDER, wide_rows).parquet, str(folder / "changes.parquet"), str(folder / "one.parquet")
    return Source(tables, wide, changes, one, key, int(keys.max()), many)


def _changed(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("l_partkey")
    return rows.set_column(at, rows.schema.field(at), pa.array(rows["l_partkey"].to_numpy() + 1, rows.schema.field(at).type))


def main() -> None:
    """Measure and print, or be a contestant's process."""
    parser = argparse.ArgumentParser(prog="python -m bench.lakes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows, one round, and two of the queries of TPC-H")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        name, root, memory, source = given.serve
        serve(name, Path(root), memory, Source(**json.loads(source)))
        return
    scale, wide_rows, many, memory = (0.02, 2_000, 20, "1g") if given.quick else (1.0, 200_000, 1000, "4g")
    rounds = 1 if given.quick else given.rounds
    works = [work for work in WORKS if not (given.quick and work.name.startswith("TPC-H")) or work.name in QUICK_QUERIES]
    source = prepared(scale, wide_rows, many)
    contestants = []
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        try:
            for name in LAKES:
                (root := Path(folder) / name).mkdir()
                contestants.append(Contestant(name, root, memory, source))
            measure(contestants, works, rounds)
        finally:
            for contestant in contestants:
                contestant.stop()
    text = page(contestants, scale, rounds, memory, many)
    print(text)
    if not given.quick:
        (DOCS / "bench-lakes.md").write_text(text)


if __name__ == "__main__":
    main()
