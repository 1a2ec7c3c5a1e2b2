"""One process of the driver answers what Spark asks a table, and is forked from one that has imported the package."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, udf

import lance_spark
from lance_spark import Dataset
from lance_spark.spark.jvm import install
from lance_spark.spark.protocol import NUMBER, PROTOCOL
from tests.spark.processes import forked, processes, run_without
from tests.spark_session import SPARK_ERRORS

Load = Callable[..., DataFrame]
DAEMON = "lance_spark.spark.planning_daemon"
SPARKS = "pyspark.sql.worker."
"""In the command lines of Spark's own processes for planning."""


@pytest.fixture
def stored(uri: str) -> str:
    Dataset.write(uri, pa.table({"id": range(1000), "s": [str(i) for i in range(1000)]}))
    return uri


def test_reads_and_writes_by_all_doors_need_one_process_on_the_driver(spark: SparkSession, load: Load, stored: str, tmp_path: Path) -> None:
    before = processes(SPARKS)
    assert load(stored).where("id = 5").count() == 1
    daemon_and_process = processes(DAEMON)
    lance_spark.catalog(spark, "planned", root=str(tmp_path))
    assert spark.sql("SELECT s FROM planned.table WHERE id = 7").collect() == [("7",)]
    spark.sql(f"CREATE TABLE planned_here USING lance LOCATION '{stored}'")
    assert spark.table("planned_here").where("id < 3").count() == 3
    spark.range(1000, 1010).selectExpr("id", "string(id) AS s").write.format("lance").mode("append").save(stored)
    spark.sql("INSERT INTO planned.table VALUES (2000, 'x')")
    spark.sql("DELETE FROM planned.table WHERE id < 10")
    spark.sql("DROP TABLE planned_here")
    assert load(stored).count() == 1001
    # Processes that had nothing to do for a minute may have ended meanwhile.
    assert processes(SPARKS) <= before
    assert 2 <= len(processes(DAEMON)) <= len(daemon_and_process)


@pytest.fixture
def with_file(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with a file of --py-files, whose processes on the driver are others than those of sessions without it."""
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("more.py", "")
    context: Any = spark.sparkContext
    path = list(sys.path)
    context.addPyFile(str(tmp_path / "more.zip"))
    session = spark.newSession()
    session.createDataFrame([], "a int")  # which makes it the one whose sources are looked up
    yield session
    spark.createDataFrame([], "a int")
    context._python_includes.remove("more.zip")
    sys.path[:] = path


def forked_with_file() -> set[int]:
    """The processes that import from the file, as their variables say."""
    found = set()
    for process in forked(DAEMON):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if "more.zip" in Path(f"/proc/{process}/environ").read_text():
                found.add(process)
    return found


def test_enable_starts_the_process_which_the_first_query_asks(with_file: SparkSession, stored: str) -> None:
    before, sparks = forked_with_file(), processes(SPARKS)
    lance_spark.enable(with_file)
    while not (started := forked_with_file() - before):
        pass
    assert with_file.read.format("lance").load(stored).where("id = 5").count() == 1
    assert forked_with_file() - before == started
    assert processes(SPARKS) <= sparks
    shout = udf(str.upper, "string")
    assert with_file.range(1).select(shout(lit("a"))).collect() == [("A",)]  # by Spark's own worker


def test_executors_need_no_class_of_the_planner(spark: SparkSession) -> None:
    """They get the source with the reader of a scan. Executors of a cluster do not have its class."""
    jvm: Any = spark._jvm
    source_of = install._new(spark, install._loader(spark), "lancespark.source.FormatSource")
    source_of.setShortName("lance")
    source = source_of.source()
    assert source.getClass().getName() == "lancespark.planning.PlanningSource"
    sent = jvm.java.io.ByteArrayOutputStream()
    stream = jvm.java.io.ObjectOutputStream(sent)
    stream.writeObject(source)
    stream.flush()
    assert b"UserDefinedPythonDataSource" in bytes(sent.toByteArray())
    assert b"lancespark" not in bytes(sent.toByteArray())


def test_after_an_error_the_next_query_gets_another_process(load: Load, stored: str) -> None:
    with pytest.raises(SPARK_ERRORS, match=r"PYTHON_DATA_SOURCE_ERROR.*TableNotFoundError"):
        load(f"{stored}.not")
    assert load(stored).where("id = 5").count() == 1


def test_a_new_process_imports_nothing_to_plan_a_read(stored: str) -> None:
    """Spark ends processes after a minute without a request, so that the next query starts one."""
    script = f"""
import importlib, pickle, sys
importlib.import_module({DAEMON!r})
before = set(sys.modules)
from lance_spark.spark.source import LanceDataSource
source = LanceDataSource({{"path": {stored!r}}})
assert pickle.dumps(source.reader(source.schema()).partitions())
print(sorted(name for name in set(sys.modules) - before if name.startswith(("lance_spark", "pyspark"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_later_processes_import_nothing_for_a_statement(stored: str) -> None:
    """A process ends with an error or after a minute without a request. Its daemon has forked others before."""
    request = {"name": "history", "place": {"id": [stored]}, "arguments": {}}
    asked = json.dumps({NUMBER: PROTOCOL, "id": "", "operation": "call", "settings": {}, "arguments": request})
    script = f"""
import importlib, os, sys
daemon = importlib.import_module({DAEMON!r})
os.register_at_fork(after_in_parent=daemon.forked)
for _ in range(2):
    os.fork() or os._exit(0)
before = set(sys.modules)
from lance_spark.spark.catalog.source import CatalogSource
from lance_spark.spark.source import LanceDataSource
assert "Overwrite" in CatalogSource({{"request": {asked!r}}}).schema()[0].metadata["answer"]
source = LanceDataSource({{"path": {stored!r}}})
source.writer(source.schema(), overwrite=False).commit([])
print(sorted(name for name in set(sys.modules) - before if name.startswith(("lance_spark", "pyspark", "pandas", "numba"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_process_whose_connection_ends_between_requests_shows_no_error() -> None:
    """Spark ends processes after a minute without a request. Its daemon shows the traceback of each exception but SystemExit."""
    script = """
import os, socket
os.environ["PYTHON_WORKER_FACTORY_SECRET"] = ""
from pyspark import daemon
ours, sparks = socket.socketpair()
sparks.close()
print(daemon.worker(ours, True))
"""
    command = [sys.executable, "-c", script, "pyspark_lance.planning"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_settings_of_sparks_own_processes_apply(spark: SparkSession, load: Load, stored: str) -> None:
    """Here: that errors are shown without the lines of code that have raised them."""
    before = processes(SPARKS)
    spark.conf.set("spark.sql.execution.pyspark.udf.hideTraceback.enabled", "true")
    try:
        assert load(stored).where("id = 5").count() == 1
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.hideTraceback.enabled")
    assert processes(SPARKS) - before


def schema_by(python: Path, spark: SparkSession, uri: str) -> str:
    """The columns of a table, as Spark asks for them where its Python is `python`."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    source_of = install._new(spark, install._loader(spark), "lancespark.source.FormatSource")
    source_of.setShortName("lance")
    source = source_of.source()
    own, api = source.dataSourceCls(), jvm.org.apache.spark
    function = api.api.python.SimplePythonFunction(
        *(own.command(), own.envVars(), own.pythonIncludes(), str(python), own.pythonVer(), own.broadcastVars(), own.accumulator())
    )
    constructor = source.getClass().getDeclaredConstructors()[0]
    constructor.setAccessible(True)
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = function
    options = api.sql.util.CaseInsensitiveStringMap({"path": uri})
    created = constructor.newInstance(arguments).createDataSourceInPython("lance", options, jvm.scala.Option.empty())
    return str(created.schema().simpleString())


def failing(folder: Path, failures: int, end: str) -> Path:
    """A Python whose process for planning ends like this the first times that it is started. Each start is a line of the file `starts`."""
    python = folder / "python"
    python.write_text(f"""#!/bin/sh
case "$*" in *{DAEMON}*) echo start >> {folder}/starts; [ $(wc -l < {folder}/starts) -gt {failures} ] || {end};; esac
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(("failures", "end"), [(1, "exit 1"), (1, "kill -KILL $$"), (4, "{ echo no number; exit 0; }")])
def test_a_process_that_does_not_start_is_started_again(spark: SparkSession, stored: str, tmp_path: Path, failures: int, end: str) -> None:
    """The first one of a session, too: it may have been killed, or the machine be busy."""
    sparks, own = processes(SPARKS), processes(DAEMON)
    python = failing(tmp_path, failures, end)
    for _ in range(2):
        assert schema_by(python, spark, stored) == "struct<id:bigint,s:string>"
    assert len((tmp_path / "starts").read_text().split()) == failures + 1
    assert len(processes(DAEMON) - own) == 2
    assert processes(SPARKS) <= sparks


def test_sparks_own_processes_plan_where_no_process_starts(spark: SparkSession, stored: str, tmp_path: Path) -> None:
    own = processes(DAEMON)
    python = failing(tmp_path, 100, "exit 1")
    for _ in range(2):
        assert schema_by(python, spark, stored) == "struct<id:bigint,s:string>"
    assert len((tmp_path / "starts").read_text().split()) == 5
    assert processes(DAEMON) <= own


@pytest.mark.slow
def test_sparks_own_processes_plan_where_the_other_one_does_not_start(stored: str, tmp_path: Path) -> None:
    out = run_without(DAEMON, tmp_path, stored)
    assert "['3']" in out
