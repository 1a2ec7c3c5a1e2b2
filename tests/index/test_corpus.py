"""Filters over the tables of the index corpus in the folder LANCE_SPARK_CORPUS, if this environment variable is set."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset

FOLDER = os.environ.get("LANCE_SPARK_CORPUS")
KINDS = ("BTREE", "BITMAP")


def filters(kinds: tuple[str, ...]) -> list[tuple[Path, list[tuple[str, list[int]]]]]:
    """The tables with an index of these kinds, each with its filters and the ids of their rows."""
    found = []
    for path in sorted(Path(FOLDER or "").glob("indexes/*.queries.json")):
        about = json.loads(path.read_text())
        if about["index"]["index_type"] not in kinds:
            continue
        with pa.ipc.open_file(str(path).replace(".queries.json", ".answers.arrow")) as answers:
            rows = answers.read_all().to_pylist()
        asked = [
            (query["spark"], sorted(row["id"] for row in rows if row["query"] == number))
            for number, query in enumerate(about["queries"])
            if query["kind"] == "filter" and "refused" not in query
        ]
        found.append((Path(str(path).replace(".queries.json", ".lance")), asked))
    return found


@pytest.mark.skipif(FOLDER is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_filters_of_other_writers_tables_find_the_same_rows_through_their_indexes() -> None:
    used = asked = 0
    for path, queries in filters(KINDS):
        table = Dataset.open(path)
        for text, ids in queries:
            scan = table.scan(columns=["id"], filter=text)
            assert sorted(scan.to_table()["id"].to_pylist()) == ids, f"{path.name}: {text}"
            assert table.count_rows(text) == len(ids), f"{path.name}: {text}"
            used += "indexes: none" not in scan.explain()
            asked += 1
    assert used > asked * 0.85
