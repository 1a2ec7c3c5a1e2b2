"""Each word of Spark's writers, and of its catalog, on a path, in the session catalog and in a SQL catalog.

A word gives the rows and columns that it means in Spark, or a refusal that says what to write instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.streaming.readwriter import DataStreamWriter

import lance_spark
from tests.sample import FULL
from tests.spark.words import COLUMNS, GROUPS, OLD, Target, Word
from tests.spark_session import SPARK_ERRORS


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A SQL catalog, and a database in the session catalog."""
    lance_spark.catalog(spark, "words", root=str(tmp_path_factory.mktemp("lake")))
    yield "words"
    spark.sql("USE spark_catalog.default")


_NUMBERS = itertools.count()


@pytest.fixture
def target(request: pytest.FixtureRequest, spark: SparkSession, lake: str, tmp_path: Path) -> Iterator[Target]:
    """The table of a place, in a database of its own."""
    place = request.param
    if place == "path":
        path = str(tmp_path / "t.lance")
        yield Target(spark, f"{lake}.`{path}`", tmp_path, path)
        return
    database = f"{'spark_catalog' if place == 'session' else lake}.words_{next(_NUMBERS)}"
    spark.sql(f"CREATE NAMESPACE {database}")
    yield Target(spark, f"{database}.t", tmp_path)
    spark.sql(f"DROP NAMESPACE {database} CASCADE")


def _cells() -> Iterator[Any]:
    """Each word at two of three places, by turns; in the full profile at each. Plain: the first words of each group, each at one place."""
    for group, make in GROUPS.items():
        for number, word in enumerate(make()):
            for at, place in enumerate(word.places):
                is_plain = number % 12 == 0 and place == word.places[number // 12 % len(word.places)]
                is_left_out = len(word.places) == 3 and at == (number + 1) % 3 and not FULL
                if is_left_out and not is_plain:
                    continue
                marks = () if is_plain else pytest.mark.slow
                yield pytest.param(word, place, place, id=f"{group}-{word.name}-{place}", marks=marks)


@pytest.mark.filterwarnings("ignore:createExternalTable is deprecated:FutureWarning")
@pytest.mark.parametrize(("word", "place", "target"), list(_cells()), indirect=["target"])
def test_a_word_means_what_it_says(word: Word, place: str, target: Target) -> None:
    if word.starts:
        old = target.spark.createDataFrame([OLD], COLUMNS).write.format("lance")
        if target.path:
            old.mode("append").save(target.path)
        else:
            old.saveAsTable(target.name)
    expected = word.at(place)
    if not isinstance(expected, str):
        word.call(target)
        assert word.shows(target) == expected
        return
    with pytest.raises((*SPARK_ERRORS, ValueError), match=f"(?s){expected}"):
        word.call(target)
    if word.starts:
        assert target.rows == [OLD], "a refused word changes nothing"
    else:
        assert word.leaves or not target.exists, "a refused word makes no table"


OTHERS = {
    "DataFrameWriter": {"csv", "jdbc", "json", "orc", "parquet", "text", "xml", "format", "mode"},
    "DataFrameWriterV2": {"using"},
    "DataStreamWriter": {"format", "foreach", "option", "options", "outputMode", "queryName", "trigger"},
    "Catalog": {
        *("clearCache", "createDatabase", "currentCatalog", "currentDatabase", "databaseExists", "dropDatabase", "dropGlobalTempView"),
        *("dropTempView", "dropView", "functionExists", "getDatabase", "getFunction", "isCached", "listCatalogs", "listDatabases"),
        *("listFunctions", "listViews", "registerFunction", "setCurrentCatalog", "setCurrentDatabase", "uncacheTable"),
    },
}
"""Methods that are in no name of a word: other formats, those that each word needs, and those that name no table."""


@pytest.mark.parametrize("api", [DataFrameWriter, DataFrameWriterV2, DataStreamWriter, Catalog], ids=lambda api: api.__name__)
def test_each_method_of_spark_is_a_word(api: type) -> None:
    said = {part for make in GROUPS.values() for word in make() for part in word.name.split()}
    methods = {name for name in dir(api) if not name.startswith("_")}
    assert methods - said - OTHERS[api.__name__] == set()


def test_databases_of_a_catalog_are_those_of_its_namespace(spark: SparkSession, lake: str) -> None:
    catalog = spark.catalog
    catalog.setCurrentCatalog(lake)
    try:
        spark.sql("CREATE NAMESPACE shop")
        assert catalog.databaseExists("shop")
        assert "shop" in [database.name for database in catalog.listDatabases()]
        assert catalog.getDatabase("shop").catalog == lake
        catalog.setCurrentDatabase("shop")
        spark.sql("CREATE TABLE orders (id INT)")
        assert (catalog.currentCatalog(), catalog.currentDatabase()) == (lake, "shop")
        assert [table.name for table in catalog.listTables() if not table.isTemporary] == ["orders"]
        assert (catalog.tableExists("orders"), catalog.tableExists("none")) == (True, False)
    finally:
        spark.sql(f"DROP NAMESPACE IF EXISTS {lake}.shop CASCADE")
        catalog.setCurrentCatalog("spark_catalog")
