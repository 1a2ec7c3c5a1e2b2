"""Keys of stores in statements and options: they are hidden in Spark's output, event log and web UI."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from lance_spark.storage.options import GENERAL, MANIFEST_STORE, TABLES
from tests.spark.processes import ROOT, run

NAMES = sorted({name for table in TABLES.values() for name in table} | {*GENERAL} - {MANIFEST_STORE})
SETTINGS = {f"storage.{name}": f"hush:{name}" for name in NAMES}

JOB = """
import json, sys, urllib.request
import lance_spark
from pyspark.sql import SparkSession

folder, settings, explains = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "True"
builder = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1").config("spark.ui.port", "0")
for key, value in json.loads(sys.argv[4]).items():
    builder = builder.config(key, value)
builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"file:{folder}/events")
spark = builder.config("spark.eventLog.compress", "false").config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
lance_spark.enable(spark)
spark.range(3).write.format("lance").mode("append").save(f"{folder}/t")
options = ", ".join(f"`{key}` '{value}'" for key, value in settings.items())
made = [
    f"CREATE TABLE t USING lance OPTIONS ({options}) LOCATION '{folder}/t'",
    f"CREATE TABLE made USING lance OPTIONS ({options}) LOCATION '{folder}/made' AS SELECT 1L id",
    f"CREATE TEMPORARY VIEW v USING lance OPTIONS (path '{folder}/t', {options})",
]
queries = ["SELECT * FROM t WHERE id > 0", "INSERT INTO t SELECT 7L", "INSERT INTO v SELECT 8L", "SELECT sum(id) FROM v"]
answers = []
def ask(statement):
    answers.append([statement, "\\n".join(map(str, spark.sql(statement).collect()))])
for statement in made + queries:
    ask(statement)
for table in ("t", "made"):
    for question in ("DESCRIBE EXTENDED", "SHOW CREATE TABLE", "SHOW TBLPROPERTIES", "SHOW TABLE EXTENDED LIKE"):
        ask(f"{question} {table!r}" if question.endswith("LIKE") else f"{question} {table}")
for query in queries:
    for how in ("FORMATTED", "COST", "EXTENDED"):
        ask(f"EXPLAIN {how} {query}")
for statement in made if explains else ():
    ask("EXPLAIN EXTENDED " + statement.replace("TABLE t ", "TABLE t2 ").replace("TABLE made", "TABLE made2").replace("VIEW v", "VIEW v2"))
frame = spark.read.format("lance").options(**settings).load(f"{folder}/t")
answers.append(["frame", frame._jdf.queryExecution().toString()])
frame.write.format("lance").options(**settings).mode("append").save(f"{folder}/t")
frame.write.format("lance").options(**settings, path=f"{folder}/saved").mode("append").saveAsTable("saved")
lance_spark.write(frame, f"{folder}/written", **settings)
pages = ["/environment/", "/SQL/", f"/api/v1/applications/{spark.sparkContext.applicationId}/sql?details=true&length=1000"]
pages += [f"/SQL/execution/?id={i}" for i in range(len(answers))]
answers += [[page, urllib.request.urlopen(spark.sparkContext.uiWebUrl + page).read().decode()] for page in pages]
answers.append(["rows", spark.table("t").count(), spark.table("made").count(), spark.table("saved").count()])
spark.stop()
json.dump(answers, open(f"{folder}/answers.json", "w"))
"""


def recommended() -> dict[str, str]:
    """The Spark settings that docs/options.md recommends."""
    text = (ROOT / "docs" / "options.md").read_text()
    return dict(re.findall(r'--conf "(spark\.redaction[a-z.]*)=(.*)"', text))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("configured", [False, True], ids=["as Spark comes", "as recommended"])
def test_spark_shows_no_key_of_a_store(tmp_path: Path, configured: bool) -> None:
    """By default, Spark prints only the text of explained statements; with the recommended settings it hides that, too."""
    (tmp_path / "events").mkdir()
    settings = recommended() if configured else {}
    assert len(settings) == (2 if configured else 0)
    printed = run(JOB, str(tmp_path), json.dumps(SETTINGS), str(configured), json.dumps(settings))
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers.pop() == ["rows", 10, 1, 5]
    shown = {what: set(re.findall("hush:([a-z0-9_]+)", text)) for what, text in [*answers, ["output", printed]]}
    events = [Path(folder, name).read_text() for folder, _, names in os.walk(tmp_path / "events") for name in names if name[0] != "."]
    assert any("CreateTableAsSelect" in text and "CreateTempViewUsing" in text for text in events)
    shown["event log"] = set(re.findall("hush:([a-z0-9_]+)", "".join(events)))
    assert {what: names for what, names in shown.items() if names} == {}


def test_the_settings_of_a_store_have_names_that_spark_hides() -> None:
    assert all(re.search("(?i)secret|password|token|access[.]?key", name) for name in map("storage.secret.{}".format, NAMES))
