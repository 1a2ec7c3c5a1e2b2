"""SQL's DELETE, UPDATE and MERGE of a partitioned namespace, by each door, and LanceTable's: as the same change of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable, PartitionedNamespace
from tests.namespace.partitioned.test_changes import check
from tests.spark.catalog.lakes import lake

pytestmark = pytest.mark.spec("partitioned-namespace.md", "ACID Enforcement")

SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("k", pa.int64()), ("v", pa.float64())])
FIELDS: dict[str, list[Any]] = {"identity": ["c"], "two levels": [("truncate", "c", 1), ("bucket", "k", 2)]}


def rows(start: int, stop: int) -> pa.Table:
    made = [{"id": i, "c": ["Aa", "ab", None][i % 3], "k": i % 4, "v": i / 2} for i in range(start, stop)]
    return pa.Table.from_pylist(made, SCHEMA)


STATEMENTS = {
    "delete in one table": "DELETE FROM {t} WHERE id = 1",
    "delete in several tables": "DELETE FROM {t} WHERE v < 3 OR c IS NULL",
    "delete by a query": "DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE v < 3)",
    "delete everything": "DELETE FROM {t}",
    "truncate": "TRUNCATE TABLE {t}",
    "update in several tables": "UPDATE {t} SET v = v * 2 WHERE id < 8",
    "update moved rows": "UPDATE {t} SET c = concat('new', id % 2), v = -1 WHERE id % 2 = 0",
    "update moved rows by a query": "UPDATE {t} SET k = k + 1 WHERE id IN (SELECT id FROM {t} WHERE v > 2)",
    "merge": """MERGE INTO {t} t USING (SELECT id + 6 AS id, c, k + 1 AS k, v FROM {t} WHERE id < 10) s ON t.id = s.id
        WHEN MATCHED AND s.id = 7 THEN DELETE
        WHEN MATCHED THEN UPDATE SET k = s.k, v = s.v
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN UPDATE SET c = 'left'""",
    "merge that only inserts": """MERGE INTO {t} t USING (SELECT id + 6 AS id, 'new' AS c, k, v FROM {t}) s ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT *""",
}


@pytest.fixture(scope="module")
def spark_with_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with lake(spark, tmp_path_factory.mktemp("lake")):
        yield spark


def content(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(f"SELECT * FROM {name}").collect()), key=repr)


def in_catalog(spark: SparkSession, uri: str) -> str:
    return f"lance.`{uri}`"


def in_session(spark: SparkSession, uri: str) -> str:
    name = f"spark_catalog.default.{Path(uri).parent.name.replace('-', '_')}_{Path(uri).name}"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING lance LOCATION '{uri}'")
    return name


def as_view(spark: SparkSession, uri: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen_{Path(uri).name} USING lance OPTIONS (path '{uri}')")
    return f"seen_{Path(uri).name}"


DOORS: dict[str, Callable[[SparkSession, str], str]] = {"catalog": in_catalog, "session catalog": in_session, "view": as_view}


@pytest.mark.matrix
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=list(STATEMENTS))
@pytest.mark.parametrize("fields", FIELDS.values(), ids=list(FIELDS))
@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
def test_a_statement_leaves_the_rows_of_the_same_statement_on_a_table(
    spark_with_lake: SparkSession, tmp_path: Path, door: Callable[[SparkSession, str], str], fields: list[Any], statement: str
) -> None:
    spark, namespace = spark_with_lake, PartitionedNamespace.create(tmp_path / "n", SCHEMA, fields).write(rows(0, 8)).write(rows(8, 12))
    Dataset.write(tmp_path / "t", rows(0, 12))
    if statement.startswith("TRUNCATE") and door is as_view:
        statement = STATEMENTS["delete everything"]
    names = [door(spark, str(tmp_path / name)) for name in ("n", "t")]
    for name in names:
        spark.sql(statement.format(t=name))
    assert content(spark, names[0]) == content(spark, names[1])
    changed = PartitionedNamespace.open(namespace.uri)
    assert changed.version == namespace.version + 1
    check(changed)


@pytest.mark.parametrize("fields", FIELDS.values(), ids=list(FIELDS))
def test_the_verbs_of_lance_table_leave_the_rows_of_the_same_verbs_on_a_table(
    spark: SparkSession, tmp_path: Path, fields: list[Any]
) -> None:
    PartitionedNamespace.create(tmp_path / "n", SCHEMA, fields).write(rows(0, 12))
    Dataset.write(tmp_path / "t", rows(0, 12))
    found = []
    for name in ("n", "t"):
        table = LanceTable.forPath(spark, str(tmp_path / name))
        done = [table.delete("id % 5 = 1"), table.update("id % 2 = 0", {"c": "concat('new', id % 3)", "v": "v + 1"})]
        source = table.toDF().selectExpr("id + 3 AS id", "c", "k", "v * 2 AS v")
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll("s.id > 5")
        done.append(merge.whenMatchedDelete().whenNotMatchedInsertAll().execute())
        counts = [(change.num_deleted_rows, change.num_updated_rows, change.num_inserted_rows) for change in done]
        found.append((counts, sorted((tuple(row) for row in table.toDF().collect()), key=repr)))
    assert found[0] == found[1]
    check(PartitionedNamespace.open(tmp_path / "n"))


def test_what_has_no_meaning_for_a_namespace_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    uri = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"]).write(rows(0, 6)).uri
    table = LanceTable.forPath(spark, uri)
    for refused in (table.detail, lambda: table.create_scalar_index("id", "BTREE"), lambda: table.renameColumn("v", "w")):
        with pytest.raises(lance_spark.errors.UnsupportedFeatureError, match="partitioned namespace"):
            refused()
    with pytest.raises(PySparkException, match="partitioned namespace"):
        spark.sql(f"DELETE FROM lance.`{uri}` WHERE _rowid = 3")
