"""python -m bench.lakes [--quick]: the same works with lance-spark, Delta Lake, Iceberg and Parquet, which take turns.

It needs an environment with PySpark 4.0 and the jars of both; `make bench-lakes` makes one. Each part of the works is measured in sessions
of its own, and `--only` measures some parts anew: the results of all parts are kept, and docs/bench-lakes.md is made of them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import data
from bench.lakes.contestants import LAKES, Ours
from bench.lakes.page import page
from bench.lakes.requests import requests
from bench.lakes.turns import Contestant, Part, measure, read_part, serve
from bench.lakes.works import PARTS, Source, Work
from bench.tpch import TABLES

FOLDER = Path(__file__).parent.parent / "data"
DOCS = Path(__file__).parent.parent.parent / "docs"
QUICK_QUERIES = ("TPC-H Q1", "TPC-H Q6")
REQUESTS = "requests"
NAMES = [*PARTS, REQUESTS]
ROUNDS = 3
ROUNDS_OF_READS = 6
"""A round of scans takes seconds, and Java compiles what they run for four rounds or more, in every contestant."""
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
    parser.add_argument("--quick", action="store_true", help="few rows, one round, and two of the queries of TPC-H")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, and {ROUNDS_OF_READS} for reads, if not given")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="measure these parts, and leave the results of others")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        name, root, memory, source = given.serve
        serve(name, Path(root), memory, Source(**json.loads(source)))
        return
    scale, many, memory = (0.01, 20, "1g") if given.quick else (given.scale, max(20, int(1000 * given.scale)), "4g")
    source = prepared(scale, int(scale * 200_000), many)
    saved = FOLDER / f"lakes{scale:g}"
    saved.mkdir(exist_ok=True)
    counts = FOLDER / "lakes-requests.json"
    for part in given.only:
        if part == REQUESTS:
            counts.write_text(json.dumps(sent(memory)))
            continue
        works = [w for w in PARTS[part] if not given.quick or not w.name.startswith("TPC-H") or w.name in QUICK_QUERIES]
        rounds = 1 if given.quick else given.rounds or (ROUNDS_OF_READS if part == "reads" else ROUNDS)
        print(part, flush=True)
        for result in measured(works, rounds, memory, source):
            (saved / f"{part}.json").write_text(json.dumps(asdict(result)))
    parts = {name: read_part(path) for name in PARTS if (path := saved / f"{name}.json").exists()}
    text = page(parts, scale, memory, many, json.loads(counts.read_text()) if counts.exists() else {})
    print(text)
    if not given.quick:
        (DOCS / "bench-lakes.md").write_text(text)


def sent(memory: str) -> dict[str, dict[str, int]]:
    """The requests to S3."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        return requests(Ours(Path(folder), memory).spark)


def measured(works: list[Work], rounds: int, memory: str, source: Source) -> Iterator[Part]:
    """The results of works in new sessions, after each round."""
    contestants: list[Contestant] = []
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        try:
            for name in LAKES:
                (root := Path(folder) / name).mkdir()
                contestants.append(Contestant(name, root, memory, source))
            for done in measure(contestants, works, rounds):
                found = {w.name: {c.name: c.results[w.name] for c in contestants if w.name in c.results} for w in works}
                yield Part(done, os.getloadavg()[2], {name: results for name, results in found.items() if results})
        finally:
            for contestant in contestants:
                contestant.stop()


if __name__ == "__main__":
    main()
