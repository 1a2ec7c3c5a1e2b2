"""What Spark's UI shows of lance scans and writes. The values come from the store of queries, from which Spark makes its pages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.spark.jvm import install
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from tests import write_ahead_logs as logs
from tests.namespace.partitioned.made import with_partitions
from tests.spark.columns import rows
from tests.spark.plans import Sql, physical
from tests.spark_session import SPARK_ERRORS

Load = Callable[..., DataFrame]
Shown = dict[str, str]
ROWS = 3000
BOTH = pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])


def items(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


def shown(spark: SparkSession, *kinds: str) -> Shown:
    """The metrics that Spark shows of the last node of one of these kinds, by description. A statement may run several queries."""
    sc: Any = spark.sparkContext._jsc.sc()
    sc.listenerBus().waitUntilEmpty()
    session: Any = spark._jsparkSession
    store = session.sharedState().statusStore()
    for query in reversed(items(store.executionsList())):
        for node in items(store.planGraph(query.executionId()).allNodes()):
            if node.name().startswith(kinds):
                values = store.executionMetrics(query.executionId())
                return {m.name(): values.apply(m.accumulatorId()) for m in items(node.metrics()) if values.contains(m.accumulatorId())}
    raise AssertionError(f"no query has a node of {kinds}")


def scanned(spark: SparkSession) -> Shown:
    """The metrics of the last scan."""
    return shown(spark, "BatchScan lance")


def written(spark: SparkSession) -> Shown:
    """The metrics of the last write."""
    return shown(spark, "AppendData", "OverwriteByExpression")


def size(spark: SparkSession, count: int) -> str:
    """A number of bytes as Spark shows it."""
    jvm: Any = spark._jvm
    text: str = jvm.org.apache.spark.util.Utils.bytesToString(count)
    return text


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three fragments of 1000 rows."""
    uri = str(tmp_path_factory.mktemp("metrics") / "t.lance")
    table = pa.table({"id": range(ROWS), "s": [f"s{i}" for i in range(ROWS)], "g": [i % 7 for i in range(ROWS)]})
    return Dataset.write(uri, table, max_rows_per_file=1000)


def mode(spark: SparkSession, columns: bool) -> Any:
    return nullcontext() if columns else rows(spark)


def sizes(folder: str) -> list[int]:
    return [file.stat().st_size for file in Path(folder, "data").iterdir()]


@BOTH
def test_a_scan_shows_its_rows_bytes_pages_and_times(spark: SparkSession, load: Load, stored: Dataset, columns: bool) -> None:
    with mode(spark, columns):
        assert len(load(stored.uri).collect()) == ROWS
    # A copy of the tasks remembers nothing of the files.
    cost, tasks = Cost(), pickle.loads(pickle.dumps(plan_tasks(stored.snapshot, ScanPlan())))
    assert sum(batch.num_rows for task in tasks for batch in task.read(cost)) == ROWS
    found = scanned(spark)
    assert found["number of output rows"] == found["rows selected"] == "3,000"
    assert found["bytes read"] == size(spark, cost.counts.bytes_read)
    assert found["bytes of the files"] == size(spark, sum(sizes(stored.uri)))
    assert found["pages read"] == found["pages of the columns"] == str(cost.counts.pages) == "9"
    assert found["fragments skipped"] == "0"
    assert found["time decoding"].endswith((" ms", " s"))
    assert found["time waiting for the store"].endswith((" ms", " s"))


def test_the_parts_of_a_divided_file_count_it_once(spark: SparkSession, load: Load, tmp_path: Path) -> None:
    uri = str(tmp_path / "one.lance")
    Dataset.write(uri, pa.table({"v": pa.array([b"%032d" % i for i in range(2_000)], pa.binary(32))}))
    frame = load(uri, max_partition_bytes=20_000)
    assert frame.rdd.getNumPartitions() > 1
    assert len(frame.collect()) == 2_000
    found = scanned(spark)
    assert found["bytes of the files"] == size(spark, sum(sizes(uri)))
    assert (found["pages of the columns"], found["rows selected"]) == ("1", "2,000")
    assert "total (min, med, max)\n" in found["bytes read"]


@BOTH
def test_a_pushed_limit_shows_the_little_that_is_read(spark: SparkSession, load: Load, stored: Dataset, columns: bool) -> None:
    with mode(spark, columns):
        assert len(load(stored.uri).limit(5).collect()) == 5
        found = scanned(spark)
        assert (found["rows selected"], found["fragments skipped"], found["pages read"]) == ("5", "2", "3")
        assert len(load(stored.uri).where("id > 500").limit(5).collect()) == 5
        found = scanned(spark)
        assert (found["rows selected"], found["pages read"], found["pages of the columns"]) == ("5", "3", "3")
        assert [row.id for row in load(stored.uri).orderBy(F.desc("id")).limit(2).collect()] == [2999, 2998]
        found = scanned(spark)
        assert (found["rows selected"], found["fragments skipped"]) == ("2", "0")


def test_a_filter_shows_what_it_leaves(spark: SparkSession, load: Load, stored: Dataset) -> None:
    assert load(stored.uri).where("id >= 2990").select("s").count() == 10
    found = scanned(spark)
    assert (found["rows selected"], found["fragments skipped"]) == ("10", "0")
    assert load(stored.uri).where("_fragid = 1").count() == 1000
    assert scanned(spark)["rows selected"] == "1,000"


def test_an_index_skips_fragments(spark: SparkSession, load: Load, tmp_path: Path) -> None:
    uri = str(tmp_path / "indexed.lance")
    made = Dataset.write(uri, pa.table({"id": range(4000), "s": ["x"] * 4000}), max_rows_per_file=1000)
    made.create_scalar_index("id", "BTREE")
    assert [row.id for row in load(uri).where("id = 1234").collect()] == [1234]
    found = scanned(spark)
    assert (found["rows selected"], found["fragments skipped"]) == ("1", "3")


def test_bounds_of_pages_skip_fragments(spark: SparkSession, load: Load, tmp_path: Path) -> None:
    uri = str(tmp_path / "days.lance")
    for day in range(3):
        rows = np.random.default_rng(day).random(1_000_000)
        Dataset.write(uri, pa.table({"day": pa.repeat(pa.scalar(day), len(rows)), "x": rows + day}), mode="append")
    frame = load(uri).where("x BETWEEN 1.25 AND 1.75 AND day > 0")
    assert "bounds of pages: 1 of 3 fragments" in physical(frame)
    expected = int((np.abs(np.random.default_rng(1).random(1_000_000) - 0.5) <= 0.25).sum())
    assert frame.count() == expected
    assert scanned(spark)["fragments skipped"] == "2"


def test_a_count_from_the_manifest_reads_nothing(spark: SparkSession, load: Load, stored: Dataset) -> None:
    assert load(stored.uri).selectExpr("count(*)").first() == (ROWS,)
    found = scanned(spark)
    assert (found["fragments skipped"], found["rows selected"], found["number of output rows"]) == ("3", "3,000", "1")
    assert (found["bytes read"], found["pages read"]) == ("0.0 B", "0")


@BOTH
def test_pushed_groups_show_the_rows_that_are_grouped(spark: SparkSession, load: Load, stored: Dataset, columns: bool) -> None:
    with mode(spark, columns):
        assert len(load(stored.uri).where("id < 1500").groupBy("g").agg(F.sum("id")).collect()) == 7
    found = scanned(spark)
    assert (found["rows selected"], found["number of output rows"]) == ("1,500", "7")


def test_rows_without_columns_are_counted(spark: SparkSession, load: Load, stored: Dataset) -> None:
    ten = spark.range(10).select(F.lit(1).alias("one"))
    assert load(stored.uri).crossJoin(F.broadcast(ten)).selectExpr("count(*)").first() == (10 * ROWS,)
    assert scanned(spark)["rows selected"] == "3,000"


def test_a_partitioned_namespace_shows_the_partitions_that_are_skipped(spark: SparkSession, load: Load, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("ts", pa.timestamp("us", "UTC"))])
    made = PartitionedNamespace.create(tmp_path / "n", schema, [("year", "ts")])
    years = [(y, pa.table({"id": [y], "ts": [datetime(y, 6, 1, tzinfo=UTC)]}, schema=schema)) for y in (2021, 2022, 2023)]
    uri = with_partitions(made, [({"ts_year": year}, table) for year, table in years]).uri
    assert [row.id for row in load(uri).where("ts > TIMESTAMP '2023-01-01 00:00:00Z'").collect()] == [2023]
    found = scanned(spark)
    assert (found["partitions skipped"], found["rows selected"]) == ("2", "1")
    assert "fragments skipped" not in found


def test_a_failed_query_and_accumulators_of_the_user_are_as_without_metrics(spark: SparkSession, load: Load, stored: Dataset) -> None:
    counter = spark.sparkContext.accumulator(0)

    def counted(value):  # type: ignore[no-untyped-def]  # Spark cannot evaluate annotations of a local function
        counter.add(1)
        if value == 2500:
            raise ValueError("this row is bad")
        return value

    plus = F.udf(counted, "long")
    with pytest.raises(SPARK_ERRORS, match="this row is bad"):
        load(stored.uri).select(plus("id")).collect()
    counter.value = 0
    assert len(load(stored.uri).where("id < 1000").select(plus("id")).collect()) == counter.value == 1000
    assert scanned(spark)["rows selected"] == "1,000"


def test_a_write_to_a_path_shows_files_bytes_and_rows(spark: SparkSession, uri: str) -> None:
    spark.range(0, 1000, 1, 2).write.format("lance").mode("append").save(uri)
    found = written(spark)
    assert (found["files written"], found["rows written"], found["bytes written"]) == ("2", "1,000", size(spark, sum(sizes(uri))))
    assert found["time encoding"].endswith((" ms", " s", " m"))
    assert found["time waiting for the store"].endswith((" ms", " s"))
    assert "rows deleted" not in found
    spark.range(10).write.format("lance").mode("overwrite").save(uri)
    assert written(spark)["rows written"] == "10"


def test_tables_of_the_session_catalog_show_their_writes(spark: SparkSession, sql: Sql) -> None:
    sql("CREATE TABLE t USING lance AS SELECT id FROM range(100)")
    assert written(spark)["rows written"] == "100"
    sql("INSERT INTO t SELECT id FROM range(7)")
    assert written(spark)["rows written"] == "7"
    sql("CREATE OR REPLACE TABLE t USING lance AS SELECT id FROM range(20)")
    assert written(spark)["rows written"] == "20"


def test_statements_that_make_tables_of_a_catalog_hand_rows_over_as_other_writes_do(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "measured", root=str(tmp_path))
    spark.sql("CREATE TABLE measured.t AS SELECT id FROM range(100)")
    assert written(spark)["rows written"] == "100"
    spark.sql("CREATE OR REPLACE TABLE measured.t AS SELECT id FROM range(20)")
    assert written(spark)["rows written"] == "20"


@pytest.fixture
def changed(spark: SparkSession, uri: str) -> Iterator[str]:
    """A temporary view of a table with the ids 0 to 99."""
    Dataset.write(uri, pa.table({"id": range(100), "v": range(100)}))
    spark.read.format("lance").load(uri).createOrReplaceTempView("changed")
    yield "changed"
    spark.catalog.dropTempView("changed")


def test_row_level_commands_show_the_rows_that_they_change(spark: SparkSession, changed: str) -> None:
    def counts() -> tuple[str, ...]:
        found = written(spark)
        return tuple(found[f"rows {what}"] for what in ("deleted", "updated", "inserted", "written"))

    spark.sql(f"DELETE FROM {changed} WHERE id % 10 = 0")
    assert counts() == ("10", "0", "0", "0")
    spark.sql(f"UPDATE {changed} SET v = 0 WHERE id > 94")
    assert counts() == ("0", "5", "0", "5")
    spark.sql(
        f"MERGE INTO {changed} t USING (SELECT id FROM range(95, 103)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 95 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 2)"
    )
    assert counts() == ("1", "4", "3", "7")
    assert scanned(spark)["rows selected"] == "90"
    spark.sql(f"MERGE INTO {changed} t USING (SELECT 500 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    assert counts() == ("0", "0", "1", "1")


def test_the_distribution_over_tasks_is_shown_for_sizes_and_times(spark: SparkSession) -> None:
    loader, gateway = install._loader(spark), cast(Any, spark.sparkContext._gateway)

    def text(kind: str, *values: int) -> str:
        array: Any = gateway.new_array(gateway.jvm.long, len(values))
        for i, value in enumerate(values):
            array[i] = value
        nothing = gateway.new_array(gateway.jvm.java.lang.Class, 0)
        arguments = gateway.new_array(gateway.jvm.java.lang.Object, 0)
        metric = loader.loadClass(f"lancespark.metrics.{kind}Metric").getConstructor(nothing).newInstance(arguments)
        found: str = metric.aggregateTaskMetrics(array)
        return found

    assert text("Count", 1000, 234, 0) == "1,234"
    assert text("Size", 0, 2048, 0) == "2.0 KiB"
    assert text("Size", 4096, 0, 2048, 8192) == "total (min, med, max)\n14.0 KiB (2.0 KiB, 4.0 KiB, 8.0 KiB)"
    assert text("Time", 1_500_000, 3_000_000) == "total (min, med, max)\n4 ms (1 ms, 3 ms, 3 ms)"
    assert (text("Count"), text("Size"), text("Time")) == ("0", "0.0 B", "0 ms")


def test_a_table_with_a_log_shows_how_many_rows_are_of_it(spark: SparkSession, load: Load, tmp_path: Path) -> None:
    uri = logs.make(str(tmp_path / "logged.lance"))
    shard = logs.flushed(uri, 2, 3, 4)
    writer = logs.unflushed(uri, 4, 5, shard=shard)
    assert len(load(uri).collect()) == 5
    assert (found := scanned(spark))["rows selected"] == "5"
    assert found["rows of the write-ahead log"] == "4"
    assert load(uri, mem_wal="base").collect() == [(1, "1", 1), (2, "2", 2)]
    assert "rows of the write-ahead log" not in scanned(spark)
    writer.close()
