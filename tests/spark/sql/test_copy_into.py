"""COPY INTO, as its users type it: each file of a folder is loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.spark_session import SPARK_ERRORS

TABLES = {"sql": "copies.db.{}", "session": "spark_catalog.default.copies_{}", "path": "copies.`{root}/paths/{}.lance`"}
ONE, NONE = [(1, 1)], [(0, 0)]
NAMES = iter(range(1000))


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of the catalog `copies`."""
    root = tmp_path_factory.mktemp("copies")
    lance_spark.catalog(spark, "copies", root=str(root / "lake"))
    spark.sql("CREATE NAMESPACE copies.db")
    yield root
    for table in spark.catalog.listTables("default"):
        if table.name.startswith("copies_"):
            spark.sql(f"DROP TABLE spark_catalog.default.{table.name}")


def table(spark: SparkSession, root: Path, catalog: str) -> str:
    """A new table of one row with the id 100."""
    name = TABLES[catalog].format(f"t{next(NAMES)}", root=root)
    using = " USING lance" if catalog == "session" else ""
    spark.sql(f"CREATE TABLE {name}{using} AS SELECT 100L AS id, 'there' AS v")
    return name


def file(folder: Path, name: str, *ids: int) -> None:
    """A file of JSON with these ids."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f'{{"id": {i}, "v": "v{i}"}}\n' for i in ids))


def rows(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]


def ids(spark: SparkSession, name: str) -> list[int]:
    return [i for (i,) in rows(spark, f"SELECT id FROM {name} ORDER BY id")]


@pytest.mark.parametrize("catalog", TABLES)
def test_each_file_is_loaded_once(catalog: str, spark: SparkSession, root: Path, tmp_path: Path) -> None:
    name = table(spark, root, catalog)
    file(tmp_path, "a.json", 1)
    copy = f"COPY INTO {name} FROM '{tmp_path}' FILEFORMAT = JSON"
    done = spark.sql(copy)
    assert (done.columns, [tuple(row) for row in done.collect()]) == (["num_affected_rows", "num_inserted_rows"], ONE)
    assert rows(spark, copy) == NONE
    file(tmp_path, "b.json", 2)
    file(tmp_path / "below", "c.json", 3)
    assert rows(spark, copy) == [(2, 2)]
    assert rows(spark, f"{copy} COPY_OPTIONS ('force' = 'true')") == [(3, 3)]
    assert rows(spark, copy) == NONE
    assert ids(spark, name) == [1, 1, 2, 2, 3, 3, 100]


def test_a_query_files_patterns_and_formats(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    name = table(spark, root, "sql")
    for i, text in enumerate(("a.csv", "b.csv", "c.txt"), 1):
        (tmp_path / text).write_text(f"number;text\n{i};x\n")
    source = f"FROM (SELECT CAST(number AS BIGINT) * 10 AS id, text AS v FROM '{tmp_path}' WHERE number < 9) FILEFORMAT = CSV"
    options = "FORMAT_OPTIONS ('header' = 'true', 'delimiter' = ';')"
    assert rows(spark, f"COPY INTO {name} {source} FILES = ('b.csv') {options}") == ONE
    assert rows(spark, f"COPY INTO {name} {source} PATTERN = '*.csv' {options}") == ONE
    assert rows(spark, f"COPY INTO {name} {source} {options}") == ONE
    assert ids(spark, name) == [10, 20, 30, 100]


def test_new_columns_and_those_of_folders(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    name = table(spark, root, "sql")
    file(tmp_path / "w=5", "a.json", 1)
    copy = f"COPY INTO {name} FROM '{tmp_path}' FILEFORMAT = JSON"
    with pytest.raises(SPARK_ERRORS, match="w"):
        spark.sql(copy)
    assert ids(spark, name) == [100]
    assert rows(spark, f"{copy} COPY_OPTIONS ('mergeSchema' = 'true')") == ONE
    assert rows(spark, f"SELECT w FROM {name} WHERE id = 1") == [(5,)]


def test_what_is_wrong_is_refused_and_loads_nothing(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    name = table(spark, root, "sql")
    file(tmp_path, "a.json", 1)
    start = f"COPY INTO {name} FROM '{tmp_path}'"
    for wrong, message in {
        start: "needs FILEFORMAT = one of parquet",
        f"{start} FILEFORMAT = XML": "needs FILEFORMAT = one of parquet",
        f"{start} FILEFORMAT = JSON VALIDATE ALL": "FORMAT_OPTIONS, COPY_OPTIONS or the end is expected",
        f"{start} FILEFORMAT = JSON COPY_OPTIONS ('once' = 'true')": "they are force and mergeSchema",
        f"{start} FILEFORMAT = JSON COPY_OPTIONS ('force' = 'yes')": "takes true or false",
        f"{start} FILEFORMAT = JSON FILES = ('a.json') PATTERN = '*'": "give one of them",
        f"COPY INTO {name} FROM '{tmp_path}/nothing' FILEFORMAT = JSON": "PATH_NOT_FOUND",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            spark.sql(wrong)
    assert ids(spark, name) == [100]


def test_two_at_once_load_each_file_once(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    name = table(spark, root, "sql")
    for i in range(3):
        file(tmp_path, f"{i}.json", i)
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda _: rows(spark, f"COPY INTO {name} FROM '{tmp_path}' FILEFORMAT = JSON")[0][0], range(2)))
    assert sum(found) == 3
    assert ids(spark, name) == [0, 1, 2, 100]
