"""enable(): all kinds of sessions prune, at any time of the call. Also tests the jar for Connect servers."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset
from tests.spark.plans import RULES, physical, scans
from tests.spark.processes import START, run

Load = Callable[..., DataFrame]

NEEDS_CONNECT = pytest.mark.skipif(importlib.util.find_spec("grpc_status") is None, reason="needs the packages of pyspark[connect]")
_PORT, _PATIENCE_S = 15002, 250.0


@pytest.fixture
def connect_port() -> Iterator[None]:
    """The port of Spark Connect, which all servers use: for one test at a time, in all processes, and once the last server has left it."""
    with open(f"{tempfile.gettempdir()}/lance-spark-tests-connect.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deadline = time.monotonic() + _PATIENCE_S
        while not _is_free(_PORT):
            assert time.monotonic() < deadline, f"port {_PORT} is in use"
            os.sched_yield()
        yield


def _is_free(port: int) -> bool:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("", port))
        except OSError:
            return False
        return True


@pytest.fixture
def stored(uri: str) -> str:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    return uri


def is_pruned(df: DataFrame) -> bool:
    [scan] = scans(df.where("id = 3").select("s"))
    return "PushedFilters: [id IS NOT NULL, id = 3]" in scan and "ReadSchema: struct<s:string>" in scan


def test_enabling_again_adds_nothing(spark: SparkSession, stored: str) -> None:
    for _ in range(3):
        lance_spark.enable(spark)
    rules = spark._jsparkSession.experimental().extraOptimizations()
    assert names(rules) == RULES
    assert names(spark._jsparkSession.extensions().buildOptimizerRules(spark._jsparkSession)) == RULES


def names(rules: Any) -> list[str]:
    return [str(rules.apply(i).ruleName()) for i in range(rules.size())]


def test_new_and_cloned_sessions_prune(spark: SparkSession, stored: str) -> None:
    new = spark.newSession()
    assert is_pruned(new.read.format("lance").load(stored))
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    assert is_pruned(clone.read.format("lance").load(stored))


def test_threads_prune(load: Load, stored: str) -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_pruned(load(stored)) and load(stored).where("id = 3").count() == 1))
    thread.start()
    thread.join()
    assert found == [True]


def test_other_sources_are_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).write.parquet(f"{tmp_path}/p")
    plan = physical(spark.read.parquet(f"{tmp_path}/p").where("id = 3"))
    assert "FileScan parquet" in plan
    assert "lance" not in plan.replace(str(tmp_path), "")


def test_a_plan_that_is_cached_is_used(load: Load, stored: str) -> None:
    cached = load(stored).where("id < 5").cache()
    assert cached.count() == 5
    assert "InMemoryTableScan" in physical(cached.where("id = 3"))
    assert cached.where("id = 3").count() == 1
    assert load(stored).count() == 10
    cached.unpersist()


def test_streams_join_tables(spark: SparkSession, load: Load, stored: str, tmp_path: Path) -> None:
    spark.range(5).write.parquet(f"{tmp_path}/in")
    stream = spark.readStream.schema("id long").parquet(f"{tmp_path}/in").join(load(stored).where("id < 3"), "id")
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True)
    writer.start(f"{tmp_path}/out").awaitTermination()
    assert spark.read.parquet(f"{tmp_path}/out").count() == 3


@pytest.mark.slow
def test_a_session_that_has_run_a_query_can_be_enabled(stored: str) -> None:
    script = """
spark = builder.master("local[1]").getOrCreate()
spark.range(3).count()
lance_spark.enable(spark)
lance_spark.enable(spark)
show(spark)
show(spark.newSession())
"""
    out = run(START + script, stored)
    assert "replaced a previously registered function" not in out
    assert out.count("PushedFilters: [id IS NOT NULL, id = 3]") == 2
    assert out.count("['d']") == 2


@pytest.mark.slow
def test_reads_and_writes_connect_to_no_server_of_accumulators(tmp_path: Path) -> None:
    """A session to which a task has sent the values of accumulators takes a second to stop."""
    script = """
from pyspark.accumulators import UpdateRequestHandler
connections = []
UpdateRequestHandler.handle = connections.append
spark = builder.master("local[1]").getOrCreate()
lance_spark.enable(spark)
spark.range(10).write.format("lance").mode("append").save(sys.argv[1])
print(spark.read.format("lance").load(sys.argv[1]).where("id > 3").count(), len(connections))
"""
    assert "6 0" in run(START + script, str(tmp_path / "t.lance"))


@pytest.mark.slow
def test_a_warning_names_the_jvm_connector_on_the_class_path(stored: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "connector.jar", "w") as jar:
        jar.writestr("org/lance/spark/LanceDataSource.class", b"")
    script = 'lance_spark.enable(builder.master("local[1]").config("spark.jars", sys.argv[2]).getOrCreate())'
    assert "the JVM connector for Lance is on the class path" in run(START + script, stored, f"{tmp_path}/connector.jar")


@pytest.mark.slow
@NEEDS_CONNECT
@pytest.mark.usefixtures("connect_port")
def test_connect_without_the_jar_reads_whole_tables_with_a_warning(stored: str) -> None:
    script = 'spark = builder.remote("local[1]").getOrCreate(); lance_spark.enable(spark); lance_spark.enable(spark); show(spark)'
    out = run(START + script, stored)
    assert out.count("queries read whole lance tables") == 1
    assert "PushedFilters" not in out
    assert "['d']" in out


@pytest.mark.slow
@NEEDS_CONNECT
@pytest.mark.usefixtures("connect_port")
def test_connect_with_the_jar_reads_what_it_needs(stored: str, tmp_path: Path) -> None:
    jar = f"{tmp_path}/planner.jar"
    run("import runpy; runpy.run_module('lance_spark', run_name='__main__')", "jar", jar)
    script = """
builder = builder.config("spark.jars", sys.argv[2]).config("spark.sql.extensions", "lancespark.LancePlanner$Extensions")
builder = builder.config("spark.sql.catalog.lance", "lancespark.LanceCatalog").config("spark.sql.catalog.lance.root", sys.argv[3])
spark = builder.remote("local[1]").getOrCreate()
lance_spark.enable(spark)
show(spark)
spark.sql("CREATE TABLE lance.t AS SELECT id FROM range(3)")
spark.sql("DELETE FROM lance.t WHERE id = 1")
[done] = spark.sql("CALL lance.system.compact('t')").collect()
print("compacted", done.version, [row.id for row in spark.table("lance.t").orderBy("id").collect()])
for statement in (
    "OPTIMIZE lance.t", "VACUUM lance.t DRY RUN", "DESCRIBE HISTORY lance.t", "DESCRIBE DETAIL lance.t",
    "RESTORE TABLE lance.t TO VERSION AS OF 2", "ALTER TABLE lance.t CREATE BRANCH b", "ALTER TABLE lance.t CREATE TAG g",
    "SHOW TAGS FROM lance.t", "CREATE INDEX i ON lance.t (id)", "SHOW INDEXES FROM lance.t",
    "ALTER TABLE lance.t ADD CONSTRAINT c CHECK (id >= 0)", "ALTER TABLE lance.t WRITE ORDERED BY id",
    "ALTER TABLE lance.t ADD COLUMNS z FROM (SELECT _rowaddr, id AS z FROM lance.t)", "CREATE TABLE lance.u SHALLOW CLONE lance.t",
    "REPLACE lance.t WHERE id = 2 AS SELECT 2L AS id, 20L AS z", "SELECT * FROM lance.t.files", f"DESCRIBE HISTORY lance.`{sys.argv[1]}`",
):
    spark.sql(statement).collect()
print("stated", [tuple(row) for row in spark.table("lance.t").orderBy("id").collect()])
"""
    near = """
made = "array(CAST(id AS FLOAT), 0F) AS vec FROM range(9)"
spark.sql(f"CREATE TABLE lance.v TBLPROPERTIES ('vec.arrow.fixed-size-list.size' = '2') AS SELECT id, {made}")
near = spark.sql(
    "SELECT n, id FROM (SELECT 1 AS n, array(3.2F, 0F) AS q) JOIN lance.v APPROX NEAREST 2 BY DISTANCE vector_l2_distance(q, vec)"
)
near.explain()
print("near", sorted(tuple(row) for row in near.collect()))
"""
    has_nearest = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
    out = run(START + script + near * has_nearest, stored, jar, f"{tmp_path}/lake")
    assert not has_nearest or "MapInArrow join: the 2 nearest" in out
    assert not has_nearest or "near [(1, 3), (1, 4)]" in out
    assert "compacted 3 [0, 2]" in out
    assert "stated [(0, 0), (2, 20)]" in out
    assert "PushedFilters: [id IS NOT NULL, id = 3]" in out
    assert "queries read whole lance tables" not in out
    assert "['d']" in out
