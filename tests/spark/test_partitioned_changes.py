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
    for refused in (table.detail, lambda: table.createIndex("id", "BTREE"), lambda: table.renameColumn("v", "w")):
        with pytest.raises(lance_spark.errors.UnsupportedFeatureError, match="partitioned namespace"):
            refused()
    with pytest.raises(PySparkException, match="partitioned namespace"):
        spark.sql(f"DELETE FROM {as_view(spark, uri)} WHERE _rowid = 3")


@pytest.fixture
def changed(spark: SparkSession, tmp_path: Path) -> PartitionedNamespace:
    """A namespace of which some versions have other rows: 3, 4 and 5."""
    namespace = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c", ("bucket", "k", 2)]).write(rows(0, 6), stable_row_ids=True)
    return namespace.update({"v": "v + 100"}, "id < 2").update({"c": "'it''s / new'"}, "id IN (1, 2)")


def test_a_statement_and_an_option_read_an_older_version_of_all_tables(
    spark_with_lake: SparkSession, changed: PartitionedNamespace
) -> None:
    spark, name = spark_with_lake, f"lance.`{changed.uri}`"
    feed = LanceTable.forPath(spark, changed.uri).changes(0)
    # The time of a commit has nanoseconds, of which the feed shows microseconds.
    told = feed.selectExpr("_commit_version", "string(_commit_timestamp + INTERVAL '0.000001' SECOND) AS moment")
    moments = {row._commit_version: row.moment for row in told.collect()}
    for version in (3, 4, 5):
        expected = content_of(PartitionedNamespace.open(changed.uri, version=version))
        assert content(spark, f"{name} VERSION AS OF {version}") == expected
        assert content(spark, f"{name} TIMESTAMP AS OF '{moments[version]}'") == expected
        read = spark.read.format("lance").option("version", version).load(changed.uri)
        assert sorted((tuple(row) for row in read.collect()), key=repr) == expected
    with pytest.raises(PySparkException, match="VERSION"):
        spark.sql(f"UPDATE {name} VERSION AS OF 3 SET v = 0")


def content_of(namespace: PartitionedNamespace) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in namespace.scan().to_table().to_pylist()), key=repr)


def test_the_change_feed_of_spark_is_that_of_the_namespace(spark: SparkSession, changed: PartitionedNamespace) -> None:
    told = ["id", "c", "v", "_change_type", "_commit_version"]
    expected = sorted((tuple(row[name] for name in told) for row in changed.changes(3).to_table().to_pylist()), key=repr)
    assert expected
    feed = spark.read.format("lance").option("readChangeFeed", True).option("startingVersion", 4).load(changed.uri)
    table = LanceTable.forPath(spark, changed.uri)
    for frame in (feed, table.changes(3)):
        assert sorted((tuple(row) for row in frame.select(*told).collect()), key=repr) == expected
    some = feed.where("_change_type = 'insert'").select("id")
    assert sorted(row.id for row in some.collect()) == [1, 2]
    net = spark.read.format("lance").option("readChangeFeed", True).option("netChanges", True).option("startingVersion", 4)
    with pytest.raises(PySparkException, match="net changes of a partitioned namespace"):
        net.load(changed.uri)


@pytest.mark.spec("partitioned-namespace.md", "Partition Value Discovery")
def test_partitions_specs_and_properties_are_shown(spark_with_lake: SparkSession, changed: PartitionedNamespace) -> None:
    spark = spark_with_lake
    changed.add_spec([("truncate", "c", 1)]).write(rows(21, 22))
    expected = ["c=Aa/k_bucket=0", "c=null/k_bucket=0", "c=it%27s %2F new/k_bucket=0", "c_truncate=A"]
    for name in (f"lance.`{changed.uri}`", in_session(spark, changed.uri), as_view(spark, changed.uri)):
        shown = [row.partition for row in spark.sql(f"SHOW PARTITIONS {name}").collect()]
        assert shown == sorted(shown)
        assert set(expected) <= set(shown), shown
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES lance.`{changed.uri}`").collect()}
    assert properties["partition_spec_v1"] == "c, bucket[2] of k"
    assert properties["partition_spec_v2"] == "truncate[1] of c"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED lance.`{changed.uri}`").collect()}
    assert "partition_spec_v1" in str(described)
    Dataset.write(f"{changed.uri}t", rows(0, 1))
    with pytest.raises(PySparkException, match="lance tables have no partitions"):
        spark.sql(f"SHOW PARTITIONS lance.`{changed.uri}t`")


def test_optimize_compacts_the_tables_that_a_condition_names(spark_with_lake: SparkSession, tmp_path: Path) -> None:
    spark = spark_with_lake
    uri = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"]).write(rows(0, 6)).write(rows(6, 12)).write(rows(12, 18)).uri
    before = content(spark, f"lance.`{uri}`")
    [one] = spark.sql(f"OPTIMIZE lance.`{uri}` WHERE id = 3").collect()
    assert (one.fragments_removed, one.fragments_added) == (3, 1)
    done = LanceTable.forPath(spark, uri).optimize().where("c IS NULL").executeCompaction()
    assert (done.fragments_removed, done.fragments_added) == (3, 1)
    [rest] = spark.sql(f"CALL lance.system.compact('{uri}')").collect()
    assert (rest.fragments_removed, rest.fragments_added, rest.conflicts) == (3, 1, 0)
    assert content(spark, f"lance.`{uri}`") == before
    check(PartitionedNamespace.open(uri))
    for refused in (f"OPTIMIZE lance.`{uri}` ZORDER BY (id)", f"VACUUM lance.`{uri}`", f"CALL lance.system.create_tag('{uri}', 'x')"):
        with pytest.raises(PySparkException, match="partitioned namespace"):
            spark.sql(refused)
