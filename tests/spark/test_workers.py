"""Workers start fast, and serve several queries: they are forked from a process that has imported the package, and survive limits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.spark.source import LanceDataSource
from tests.spark.processes import START, run, run_without

DAEMON = "lance_spark.spark.daemon"


@pytest.fixture
def stored(uri: str) -> str:
    Dataset.write(uri, pa.table({"id": range(1000), "s": [str(i) for i in range(1000)]}), max_rows_per_file=100)
    return uri


@pytest.mark.slow
def test_a_limit_does_not_stop_the_worker(stored: str) -> None:
    """In a session with Spark's own daemon: the sessions of other tests have the package's for all workers."""
    script = f"""
from tests.spark.processes import processes
spark = builder.master("local[2]").getOrCreate()
lance_spark.enable(spark)
table = spark.read.format("lance").load(sys.argv[1])
for frame in (table.limit(3), table.where("id > 40").limit(3), table.orderBy("id").limit(3)):
    assert len(frame.collect()) == 3
    before = processes("{DAEMON}")
    assert len(before) >= 2
    for _ in range(2):
        assert len(frame.collect()) == 3
    assert table.first() is not None
    assert before <= processes("{DAEMON}")
print("the workers are kept")
"""
    assert "the workers are kept" in run(START + script, stored)


OWN_DAEMON = "import runpy\nrunpy.run_module('pyspark.daemon', run_name='__main__', alter_sys=True)\n"
WORK = {
    "columns": "assert len(table.where('id > 40').collect()) == 959",
    "rows": """
spark.conf.set("spark.lance.columnar", "false")
frame = table.where("id > 40")
assert "Columnar: false" in frame._jdf.queryExecution().toString()
assert {(row.id, row.s) for row in frame.collect()} == {(i, str(i)) for i in range(41, 1000)}
assert len(frame.selectExpr("rand() AS r").collect()) == 959
assert len(table.limit(7).collect()) == 7
spark.conf.unset("spark.lance.columnar")
""",
    "a write": """
table.coalesce(1).write.format("lance").mode("append").save(sys.argv[1] + "-written")
assert spark.read.format("lance").load(sys.argv[1] + "-written").count() == 1000
""",
    "another function": """
def doubled(batches):
    for batch in batches:
        yield pyarrow.record_batch([pyarrow.compute.multiply(batch["id"], 2)], ["id"])
assert [row.id for row in spark.range(3).mapInArrow(doubled, "id long").collect()] == [0, 2, 4]
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("work", ["rows", "a write", "columns"])
@pytest.mark.parametrize("own", [False, True], ids=["Spark's daemon", "the user's daemon"])
def test_scans_and_writes_have_this_daemon_unless_the_user_has_chosen_one(stored: str, tmp_path: Path, work: str, own: bool) -> None:
    """Other functions keep that of the session."""
    (tmp_path / "own_daemon.py").write_text(OWN_DAEMON)
    chosen = '.config("spark.python.daemon.module", "own_daemon")' if own else ""
    script = f"""
import os
import pyarrow, pyarrow.compute
from tests.spark.processes import processes
os.environ["PYTHONPATH"] += os.pathsep + sys.argv[2]
spark = builder{chosen}.master("local[1]").getOrCreate()
lance_spark.enable(spark)
table = spark.read.format("lance").load(sys.argv[1])
{WORK[work]}
def runs(daemon):  # this process has the name in its command, too
    return bool(processes("-m " + daemon))
ours = runs("{DAEMON}")
{WORK["another function"]}
print("ours, the session's:", ours, runs("{"own_daemon" if own else "pyspark.daemon"}"))
"""
    out = run(START + script, stored, str(tmp_path))
    assert f"ours, the session's: {not own} True" in out


def test_the_process_that_commits_reads_no_archives_again_and_its_modules_are_no_garbage(stored: str, tmp_path: Path) -> None:
    archive, writer = tmp_path / "packages.zip", tmp_path / "writer.pickle"
    with zipfile.ZipFile(archive, "w") as packages:
        packages.writestr("packed.py", "")
    source = LanceDataSource({"path": stored})
    writer.write_bytes(pickle.dumps(source.writer(source.schema(), overwrite=False)))
    script = f"""
import gc, pickle, sys, zipimport
import packed
from lance_spark.spark.workers.version import SPARK_VERSION
pickle.load(open({str(writer)!r}, "rb")).commit([])
archives = [i for i in sys.path_importer_cache.values() if isinstance(i, zipimport.zipimporter)]
print(bool(archives) and SPARK_VERSION < (4, 2), gc.get_freeze_count() > 0)
"""
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": "1", "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(archive)])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.slow
def test_workers_start_where_only_they_find_the_package(stored: str, tmp_path: Path) -> None:
    out = run_without(DAEMON, tmp_path, stored)
    assert "Columnar: true" in out
    assert "['3']" in out


@pytest.mark.slow
def test_all_workers_of_a_session_can_have_this_daemon(stored: str) -> None:
    script = f"""
spark = builder.config("spark.python.daemon.module", "{DAEMON}").master("local[1]").getOrCreate()
lance_spark.enable(spark)
show(spark)
def imported(_):
    import pyarrow, sys
    names = ["lance_spark.spark.read.reader", "lance_spark.layouts.read_column", "numba", "pandas"]
    yield pyarrow.record_batch([[set(names) <= set(sys.modules)]], ["x"])
print(spark.range(1).mapInArrow(imported, "x boolean").collect())
"""
    out = run(START + script, stored)
    assert "['3']" in out
    assert "Row(x=True)" in out
