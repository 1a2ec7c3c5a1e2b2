"""A table that is made from a query over a table with a primary key takes its rows: it has no key, which the rows may repeat."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset
from lance_spark.schema.primary_key import primary_key
from tests.spark.catalog.lakes import Lake, lake
from tests.spark_session import SPARK_ERRORS

CATALOGS = ("sql", "session", "path")
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables with a key of one column, and of two."""
    with lake(spark, tmp_path_factory.mktemp("keyed")) as made:
        for keys, columns in {1: "id", 2: "id, part"}.items():
            made.sql(f"CREATE TABLE lance.ns.keyed_{keys} (id BIGINT NOT NULL, part INT NOT NULL, v STRING)")
            made.sql(f"INSERT INTO lance.ns.keyed_{keys} VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, NULL)")
            made.sql(f"ALTER TABLE lance.ns.keyed_{keys} SET UNENFORCED PRIMARY KEY ({columns})")
        yield made


QUERIES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "all columns": ("SELECT * FROM {keyed}", [(1, 1, "a"), (2, 1, "b"), (3, 2, None)]),
    "groups": ("SELECT part, count(*) AS id FROM {keyed} GROUP BY part", [(1, 2), (2, 1)]),
    "a left join": (
        "SELECT b.id, b.part FROM {keyed} a LEFT JOIN {keyed} b ON a.id = b.id + 1 ORDER BY 1",
        [(None, None), (1, 1), (2, 1)],
    ),
}


def _sql(verb: str) -> Callable[[SparkSession, str, str], Any]:
    return lambda spark, name, query: spark.sql(f"{verb} {name} USING lance AS {query}")


def _frame(end: Callable[[DataFrame, str], Any]) -> Callable[[SparkSession, str, str], Any]:
    return lambda spark, name, query: end(spark.sql(query), name)


DOORS: dict[str, tuple[Callable[[SparkSession, str, str], Any], bool]] = {
    "CREATE": (_sql("CREATE TABLE"), False),
    "CREATE OR REPLACE": (_sql("CREATE OR REPLACE TABLE"), False),
    "REPLACE": (_sql("CREATE OR REPLACE TABLE"), True),
    "create": (_frame(lambda rows, name: rows.writeTo(name).using("lance").create()), False),
    "createOrReplace": (_frame(lambda rows, name: rows.writeTo(name).using("lance").createOrReplace()), True),
    "saveAsTable": (_frame(lambda rows, name: rows.write.format("lance").saveAsTable(name)), False),
    "saveAsTable overwrite": (_frame(lambda rows, name: rows.write.format("lance").mode("overwrite").saveAsTable(name)), True),
}
"""Each with whether a table is there that it replaces."""


@pytest.fixture
def name(own: Lake, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The name of a new table in a catalog."""
    table = f"made_{next(_NUMBERS)}"
    names = {"sql": f"lance.ns.{table}", "session": f"spark_catalog.default.{table}", "path": f"lance.`{tmp_path}/{table}.lance`"}
    made = names[request.node.callspec.params["catalog"]]
    yield made
    own.sql(f"DROP TABLE IF EXISTS {made}")


def _key(own: Lake, name: str) -> list[str]:
    location = own.spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    return [field.name for field in primary_key(Dataset.open(location).snapshot.manifest.schema)]


@pytest.mark.matrix
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("door", DOORS)
def test_a_table_takes_the_rows_of_a_query_over_a_keyed_table(own: Lake, name: str, catalog: str, door: str, keys: int, query: str) -> None:
    text, expected = QUERIES[query]
    call, is_replaced = DOORS[door]
    if is_replaced:
        own.sql(f"CREATE TABLE {name} USING lance AS SELECT 'old' AS other")
    call(own.spark, name, text.format(keyed=f"lance.ns.keyed_{keys}"))
    found = own.sql(f"SELECT * FROM {name}")
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert _key(own, name) == []
    own.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert len(own.sql(f"SELECT * FROM {name}")) == 2 * len(expected)


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_table_that_is_replaced_keeps_its_key(own: Lake, name: str, catalog: str) -> None:
    own.sql(f"CREATE TABLE {name} USING lance AS SELECT 7L AS id, 8 AS part, 'x' AS v")
    own.sql(f"ALTER TABLE {name} ALTER COLUMN id SET NOT NULL")
    own.sql(f"ALTER TABLE {name} SET UNENFORCED PRIMARY KEY (id)")
    for query, rows in {
        "SELECT * FROM lance.ns.keyed_2": [(1, 1, "a"), (2, 1, "b"), (3, 2, None)],
        "SELECT id + 1 AS id, v FROM lance.ns.keyed_2": [(2, "a"), (3, "b"), (4, None)],
        f"SELECT * FROM {name} WHERE id > 2": [(3, "b"), (4, None)],
    }.items():
        own.sql(f"CREATE OR REPLACE TABLE {name} USING lance AS {query}")
        assert sorted(own.sql(f"SELECT * FROM {name}")) == rows
        assert _key(own, name) == ["id"]
    for query, message in {
        "SELECT v, part FROM lance.ns.keyed_1": "column 'id' is in the primary key",
        "SELECT CAST(id AS STRING) AS id FROM lance.ns.keyed_1": "column 'id' is in the primary key",
        "SELECT b.id FROM lance.ns.keyed_1 a LEFT JOIN lance.ns.keyed_1 b ON a.id = b.id + 1": "id.*null|null.*id",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"CREATE OR REPLACE TABLE {name} USING lance AS {query}")
    assert sorted(own.sql(f"SELECT * FROM {name}")) == [(3, "b"), (4, None)]
