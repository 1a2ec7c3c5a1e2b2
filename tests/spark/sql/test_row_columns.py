"""Commands whose conditions name metadata columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset

ROWS = pa.table({"id": range(6), "v": range(0, 60, 10)})
MERGE = "MERGE INTO {t} t USING (SELECT 1L AS k) s ON "
COMMANDS = {
    "DELETE": "DELETE FROM {t} WHERE {c} AND id = 1",
    "UPDATE": "UPDATE {t} SET v = -1 WHERE {c} AND id = 1",
    "MERGE ON": MERGE + "t.{c} AND t.id = s.k WHEN MATCHED THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, 0)",
    "MERGE WHEN": MERGE + "t.id = s.k WHEN MATCHED AND t.{c} THEN DELETE",
    "MERGE BY SOURCE": MERGE + "t.id <> s.k WHEN NOT MATCHED BY SOURCE AND t.{c} THEN DELETE",
    "MERGE INSERT": MERGE + "t.{c} AND t.id = s.k WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, 0)",
}
# Values of the type of the column, and others that Spark converts first.
CONDITIONS = ["_rowid = 1L", "_rowid = 1", "_rowaddr = 1L", "_fragid = 0", "_row_created_at_version >= 1", "_metadata.row_index = 1L"]


@pytest.fixture(scope="module")
def named(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, str]]:
    """Makes a table, and returns its location and a name: of the SQL catalog, of the session catalog, or of a view of its path."""
    root = tmp_path_factory.mktemp("lake")
    lance_spark.catalog(spark, "rowcolumns", root=str(root))

    def named(door: str) -> tuple[str, str]:
        number = len(list(Path(root).iterdir()))
        uri = f"{root}/t{number}.lance"
        Dataset.write(uri, ROWS)
        if door == "catalog":
            return uri, f"rowcolumns.t{number}"
        if door == "session":
            spark.sql(f"DROP TABLE IF EXISTS rc{number}")
            spark.sql(f"CREATE TABLE rc{number} USING lance LOCATION '{uri}'")
            return uri, f"rc{number}"
        spark.read.format("lance").load(uri).createOrReplaceTempView(f"rv{number}")
        return uri, f"rv{number}"

    return named


def changed(uri: str) -> list[tuple[int, int]]:
    table = Dataset.open(uri).scan().to_table()
    return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist()))


@pytest.mark.matrix
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("door", ["catalog", pytest.param("session", marks=pytest.mark.slow), pytest.param("view", marks=pytest.mark.slow)])
def test_conditions_name_metadata_columns(
    spark: SparkSession, named: Callable[[str], tuple[str, str]], door: str, command: str, condition: str
) -> None:
    uri, name = named(door)
    spark.sql(COMMANDS[command].format(t=name, c=condition))
    without = [(i, i * 10) for i in range(6) if i != 1]
    expected = {
        "UPDATE": sorted([*without, (1, -1)]),
        "MERGE ON": sorted([*without, (1, -1)]),
        "MERGE INSERT": changed_by_none(),
    }
    assert changed(uri) == expected.get(command, without)


def changed_by_none() -> list[tuple[int, int]]:
    return [(i, i * 10) for i in range(6)]
