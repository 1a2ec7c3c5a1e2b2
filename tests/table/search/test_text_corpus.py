"""Full-text searches of the tables of the index corpus in the folder LANCE_SPARK_CORPUS, if this environment variable is set."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset

FOLDER = os.environ.get("LANCE_SPARK_CORPUS")
EVERY = 1 if settings().max_examples > 100 else 6
"""One of so many tables is tried."""


@pytest.mark.skipif(FOLDER is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_searches_of_other_writers_tables_give_the_same_scores() -> None:
    asked = 0
    for path in sorted(Path(FOLDER or "").glob("indexes/*_fts_*.queries.json"))[::EVERY]:
        with pa.ipc.open_file(str(path).replace(".queries.json", ".answers.arrow")) as answers:
            rows = answers.read_all().to_pylist()
        table = Dataset.open(str(path).replace(".queries.json", ".lance"))
        for number, query in enumerate(json.loads(path.read_text())["queries"]):
            if query["kind"] != "fts" or "refused" in query:
                continue
            if query.get("filter") and "appended" in path.name:
                continue  # pylance takes the statistics of rows without an index from the filtered ones only (docs/searching.md)
            scan = table.scan(columns=["id"], full_text_query=query["query"], filter=query.get("filter"), limit=query["limit"])
            expected = sorted(row["value"] for row in rows if row["query"] == number)
            found = np.sort(scan.to_table()["_score"])
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{path.name}: {query}")
            asked += 1
    assert asked
