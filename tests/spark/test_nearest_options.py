"""The options of a table say how its index is searched for joins by nearness in Spark's own words."""

from __future__ import annotations

import pytest
from pyspark.sql import types as st

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.nearest import NearestReader
from lance_spark.spark.read.nearest_steps import Steps
from lance_spark.spark.source import LanceDataSource
from tests.table.search.vectors import table, vectors

IDS = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index of forty partitions."""
    path = str(tmp_path_factory.mktemp("options") / "t")
    Dataset.write(path, table(vectors(rows=1200))).create_index("vec", "IVF_FLAT", num_partitions=40)
    return path


def steps(options: dict[str, str], exact: bool = False) -> Steps:
    """The steps that the planner asks for."""
    join = {"k": 3, "metric": "l2", "exact": exact, "left": False, "questions": IDS.json(), "column": ["vec"]}
    request = {"parallelism": 2, "filter": [], "schema": IDS.json(), "join": join}
    reader = LanceDataSource(options).bound(request).reader(IDS)
    assert isinstance(reader, NearestReader)
    return reader._steps()


@pytest.mark.parametrize(
    ("options", "probes"),
    [
        ({}, "6 to 24"),
        ({"nprobes": "7"}, "7"),
        ({"minimum_nprobes": "5", "maximum_nprobes": "9"}, "6 to 9"),
        ({"nprobes": "30", "refine_factor": "4"}, "30"),
        ({"search_effort": "1"}, "40"),
        ({"search_effort": "0", "minimum_nprobes": "2", "approx_mode": "fast"}, "2"),
    ],
)
def test_options_of_the_table_say_how_its_index_is_searched(uri: str, options: dict[str, str], probes: str) -> None:
    found = steps({"path": uri, **options})
    assert f", {probes} of 40 partitions" in found.told
    assert found.join.wanted.count == 3 * int(options.get("refine_factor", 1))
    assert found.join.nearest.approx_mode == options.get("approx_mode", "normal")


def test_a_target_chooses_how_the_index_is_searched(uri: str) -> None:
    low, high = (steps({"path": uri, "recall_target": target}).told for target in ("0.4", "0.9"))
    assert ", 1 of 40 partitions; recall: minimum_nprobes 1 for 0.4, 0." in low
    assert "for 0.9, 0.9" in high
    assert high.partition("minimum_nprobes ")[2] > "1"


def test_an_exact_join_uses_no_index(uri: str) -> None:
    assert "no index is used" in steps({"path": uri, "nprobes": "7", "refine_factor": "4"}, exact=True).told


def test_wrong_options_are_errors(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="9 > 5"):
        steps({"path": uri, "minimum_nprobes": "9", "maximum_nprobes": "5"})
    with pytest.raises(InvalidOptionError, match="'nprobes' takes a whole number from 1"):
        parse_options(ReadOptions, {"nprobes": "0"})
    with pytest.raises(InvalidOptionError, match="'search_effort' takes a number from 0 to 1"):
        parse_options(ReadOptions, {"search_effort": "nan"})
    with pytest.raises(InvalidOptionError, match="'approx_mode' takes fast or normal or accurate"):
        parse_options(ReadOptions, {"approx_mode": "best"})
    with pytest.raises(InvalidOptionError, match="nprobes is for joins; of a search, it is a parameter in the JSON of nearest"):
        parse_options(ReadOptions, {"nearest": "{}", "nprobes": "3"})
