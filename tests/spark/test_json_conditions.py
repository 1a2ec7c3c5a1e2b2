"""Conditions with get_json_object reach the JSON indexes of a table, and give the rows that Spark finds without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset, LanceTable
from tests.spark.plans import scans

Load = Callable[..., DataFrame]
DOCUMENTS = [{"s": ["é7", "b", "1", "1.50", None, 1.5, True, {"x": "é7"}, ["é7"]][i % 9], "n": i % 11} for i in range(180)]


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON documents as JSON and as text, which is sometimes in single quotes; with an index of strings and one of integers."""
    path = tmp_path_factory.mktemp("json") / "t.lance"
    texts = [json.dumps(d) for d in DOCUMENTS]
    quoted = [t.replace('"', "'") if i % 5 else t for i, t in enumerate(texts)]
    strings = [json.dumps({"s": d["s"] if isinstance(d["s"], str) else None, "n": d["n"]}) for d in DOCUMENTS]
    rows = {"id": range(180), "mixed": pa.array(texts, pa.json_()), "doc": pa.array(strings, pa.json_()), "plain": pa.array(quoted)}
    Dataset.write(path, pa.table(rows), max_rows_per_file=100)
    table = LanceTable.forPath(spark, str(path))
    table.createIndex("doc", "JSON", name="strings", path="$.s", target_index_type="BITMAP")
    table.createIndex("doc", "JSON", name="numbers", path="n", target_index_type="BTREE")
    return path


CONDITIONS = [
    "get_json_object(doc, '$.s') = 'é7'",
    "'b' = get_json_object(doc, \"$['s']\") AND id > 20",
    "get_json_object(DOC, '$.s') IN ('é7', 'none')",
    "get_json_object(mixed, '$.s') = 'é7'",
    "get_json_object(mixed, '$.s') IN ('1.5', 'true', '[\"é7\"]', '{\"x\":\"é7\"}')",
    "get_json_object(mixed, '$.*') = 'b'",
    "NOT get_json_object(mixed, '$.s') = 'b'",
    "get_json_object(mixed, '$.s') = 'b' OR id = 3",
    "get_json_object(plain, '$.s') = 'é7'",
    "get_json_object(mixed, '$.s') = get_json_object(mixed, '$.s.x')",
]


def test_conditions_find_the_rows_that_spark_finds(load: Load, stored: Path) -> None:
    everything = load(stored).toPandas()
    spark = load(stored).sparkSession
    local = spark.createDataFrame(everything)
    for condition in CONDITIONS:
        found = [sorted(row.id for row in df.where(condition).select("id").collect()) for df in (load(stored), local)]
        assert found[0] == found[1], condition


@pytest.mark.parametrize("condition", CONDITIONS[:3])
def test_explain_names_the_index(load: Load, stored: Path, condition: str) -> None:
    (scan,) = scans(load(stored).where(condition))
    assert "strings (JSON)" in scan


def test_the_read_option_takes_all_json_functions(load: Load, stored: Path) -> None:
    filtered = load(stored, filter="json_get_int(doc, '$.n') = 4")
    assert "numbers (JSON)" in scans(filtered)[0]
    assert filtered.count() == sum(d["n"] == 4 for d in DOCUMENTS)
