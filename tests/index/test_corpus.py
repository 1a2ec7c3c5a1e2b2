"""Filters over the tables of the index corpus in the folder LANCE_SPARK_CORPUS, if this environment variable is set."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from lance_spark.index.value_types import TAKES

FOLDER = os.environ.get("LANCE_SPARK_CORPUS")
EVERY = 1 if settings().max_examples > 100 else 6
"""One of so many tables is tried."""


def filters() -> list[tuple[Path, str, list[tuple[str, list[int]]]]]:
    """Some of the tables, each with the kind of its index, its filters and the ids of their rows."""
    found = []
    for path in sorted(Path(FOLDER or "").glob("indexes/*.queries.json"))[::EVERY]:
        about = json.loads(path.read_text())
        with pa.ipc.open_file(str(path).replace(".queries.json", ".answers.arrow")) as answers:
            rows = answers.read_all().to_pylist()
        asked = [
            (query["spark"], sorted(row["id"] for row in rows if row["query"] == number))
            for number, query in enumerate(about["queries"])
            if query["kind"] == "filter" and "refused" not in query
        ]
        found.append((Path(str(path).replace(".queries.json", ".lance")), str(about["index"]["index_type"]).upper(), asked))
    return found


@pytest.mark.skipif(FOLDER is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_filters_of_other_writers_tables_find_the_same_rows_through_their_indexes() -> None:
    used: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for path, kind, queries in filters():
        table = Dataset.open(path)
        for text, ids in queries:
            scan = table.scan(columns=["id"], filter=text)
            assert sorted(scan.to_table()["id"].to_pylist()) == ids, f"{path.name}: {text}"
            assert table.count_rows(text) == len(ids), f"{path.name}: {text}"
            used[kind] += "indexes: none" not in scan.explain()
            asked[kind] += 1
    assert used["BTREE"] + used["BITMAP"] > 0.85 * (asked["BTREE"] + asked["BITMAP"]), (used, asked)
    assert EVERY > 1 or all(used[kind] for kind in asked if kind in TAKES), (used, asked)
