"""Spark reads the rows of a write-ahead log, too; a table that is opened to be changed warns of them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import write_ahead_logs as logs
from tests.spark.processes import START, run

SCRIPT = (
    START
    + """
spark = builder.master("local[2]").config("spark.sql.catalog.c", "lance_spark.catalog").getOrCreate()
lance_spark.enable(spark)
def step(name):
    print("step", name, file=sys.stderr, flush=True)
step("load")
frame = spark.read.format("lance").load(sys.argv[1])
print(frame.where("id >= 0").count(), frame.count(), frame.select("id").collect())
step("view")
spark.sql(f"CREATE TEMPORARY VIEW v USING lance OPTIONS (path '{sys.argv[1]}')")
print(spark.sql("SELECT * FROM v").count())
step("LanceTable")
table = lance_spark.LanceTable.forPath(spark, sys.argv[1])
step("overwrite")
try:
    frame.limit(0).write.format("lance").mode("overwrite").save(sys.argv[1])
except Exception as e:
    print("refused", str(e).splitlines()[0])
step("end")
spark.stop()
"""
)


# In a Spark of its own, whose log is read; tests/table/versions/test_write_ahead_log.py has the warning and the refusals without Spark.
@pytest.mark.slow
def test_a_table_to_be_changed_warns_once_and_an_overwrite_is_refused(tmp_path: Path) -> None:
    uri = logs.make(str(tmp_path / "t.lance"))
    logs.flushed(uri, 3)
    steps: dict[str, int] = {}
    now = ""
    lines = run(SCRIPT, uri).splitlines()
    for line in lines:
        now = line.removeprefix("step ") if line.startswith("step ") else now
        steps[now] = steps.get(now, 0) + ("the write-ahead log has rows" in line and "refused" not in line)
    assert {name: steps[name] for name in ("load", "view", "LanceTable")} == {"load": 0, "view": 0, "LanceTable": 1}, lines
    assert any("refused" in line or "UnsupportedFeatureError" in line for line in lines)
    assert logs.all_rows(uri, next(Path(uri, "_mem_wal").iterdir()).name) == [1, 2, 3]
