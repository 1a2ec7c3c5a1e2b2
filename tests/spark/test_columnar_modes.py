"""When scans hand over columns and when rows, and how Spark's explain says it. The classes that read columns reach executors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset
from lance_spark.spark.jvm.features import sources
from tests.spark.columns import SETTING, hands_over_columns, rows
from tests.spark.plans import scans
from tests.spark.processes import START, run

Load = Callable[..., DataFrame]


@pytest.fixture
def stored(uri: str) -> str:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    return uri


def test_explain_says_that_columns_are_handed_over(load: Load, stored: str) -> None:
    [scan] = scans(load(stored).where("id > 3"))
    assert "Columnar: true" in scan
    assert "ColumnarToRow" in load(stored)._jdf.queryExecution().toString()


def test_the_setting_hands_over_rows_and_explain_says_why(spark: SparkSession, load: Load, stored: str) -> None:
    with rows(spark):
        [scan] = scans(load(stored))
        assert "Columnar: false (spark.lance.columnar is false)" in scan
        assert load(stored).count() == 10
        assert [row.s for row in load(stored).where("id < 2").collect()] == ["a", "b"]
    assert hands_over_columns(load(stored))


def test_another_value_of_the_setting_is_an_error(spark: SparkSession, load: Load, stored: str) -> None:
    spark.conf.set(SETTING, "off")
    try:
        with pytest.raises(IllegalArgumentException, match=r"invalid value of spark\.lance\.columnar: expected true or false, found off"):
            load(stored).collect()
    finally:
        spark.conf.unset(SETTING)


def test_metrics_of_the_worker_are_those_of_scans_of_rows(spark: SparkSession, load: Load, stored: str) -> None:
    def names() -> set[str]:
        leaf = load(stored)._jdf.queryExecution().executedPlan().collectLeaves().head()
        keys: Any = leaf.metrics().keySet().toSeq()
        return {keys.apply(i) for i in range(keys.size())}

    columns = names()
    with rows(spark):
        assert names() == columns
    assert "pythonDataReceived" in columns


def test_the_list_of_classes_for_executors_is_complete() -> None:
    texts = sources()
    text = texts["lancespark/columnar/driver/ColumnarMode.java"]
    listed = set(re.findall(r'"([\w/]+)"', text[text.index("CLASSES = {") : text.index("};")]))
    packages = r"lancespark/((?:columnar|protocol)/\w+)\.java"
    assert listed == {found[1] for path in texts if (found := re.fullmatch(packages, path))}


@pytest.mark.slow
def test_without_a_class_loader_that_takes_classes_rows_are_handed_over(stored: str) -> None:
    script = """
from lance_spark.spark.jvm import install
def compiled(gateway, context):
    return install._class_loader(gateway, context, install._compile_known(gateway, context))
install._compiled = compiled
spark = builder.master("local[1]").getOrCreate()
lance_spark.enable(spark)
show(spark)
"""
    out = run(START + script, stored)
    assert "Columnar: false (Spark's class loader takes no classes)" in out
    assert "['d']" in out


@pytest.mark.slow
def test_the_jar_hands_over_columns_without_enable(stored: str, tmp_path: Path) -> None:
    jar = f"{tmp_path}/planner.jar"
    subprocess.run([sys.executable, "-m", "lance_spark", "jar", jar], check=True, capture_output=True)
    with zipfile.ZipFile(jar) as z:
        assert "lancespark/columnar/FlatVector.class" in z.namelist()
    script = """
builder = builder.config("spark.jars", sys.argv[2]).config("spark.sql.extensions", "lancespark.LancePlanner$Extensions")
spark = builder.master("local[1]").getOrCreate()
show(spark)
"""
    out = run(START + script, stored, jar)
    assert "Columnar: true" in out
    assert "['d']" in out


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_executors_of_a_cluster_get_the_classes(stored: str, tmp_path: Path) -> None:
    script = """
import json, os, pyspark
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
os.environ["SPARK_SCALA_VERSION"] = "2.13"
os.environ["SPARK_WORKER_DIR"] = sys.argv[2]
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
spark = builder.master("local-cluster[2,1,1024]").config("spark.log.level", "OFF").config("spark.task.maxFailures", "1").getOrCreate()
lance_spark.enable(spark)
frame = spark.read.format("lance").load(sys.argv[1])
plan = frame._jdf.queryExecution().executedPlan().toString()
sums = [spark.sql("SELECT sum(id) FROM t").first()[0] for s in [spark] if frame.createOrReplaceTempView("t") is None]
other = spark.newSession()
sums.append(other.read.format("lance").load(sys.argv[1]).selectExpr("sum(id)").first()[0])
sums.append(frame.rdd.map(lambda row: row.id).sum())
spark.addArtifacts(__import__("shutil").make_archive(sys.argv[2] + "/more", "zip", sys.argv[1], "_versions"), archive=True)
sums.append(frame.where("id >= 0").selectExpr("sum(id)").first()[0])
jars = spark.sparkContext._jsc.sc().listJars()
print("RESULT " + json.dumps([plan, sums, [jars.apply(i) for i in range(jars.size())]]))
spark.stop()
"""
    (tmp_path / "work").mkdir()
    out = run(START + script, stored, f"{tmp_path}/work")
    [line] = [line for line in out.splitlines() if line.startswith("RESULT ")]
    plan, sums, jars = json.loads(line.removeprefix("RESULT "))
    assert "Columnar: true" in plan
    assert sums == [45] * 4
    assert any("lance-columnar" in jar for jar in jars)
