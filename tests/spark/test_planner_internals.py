"""Spark's internals that the planner uses: they are listed and exist, and a warning names missing ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.spark.jvm import install
from lance_spark.spark.jvm.features import absent, feature_of, features, needed, sources, text
from tests.spark.processes import ROOT, START, run


def context_loader(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


FEATURES = list(features())
UNTESTED = ("features.txt", "\nbuild ", "\n# ")
"""The file in which no build of Spark is known, and what to replace in it."""


@pytest.fixture(scope="module")
def lists(spark: SparkSession) -> Any:
    """The Java object with the lists."""
    return install._new(spark, install._loader(spark), "lancespark.core.Features")


def test_this_spark_has_everything_that_the_planner_uses(spark: SparkSession, lists: Any) -> None:
    assert {name for name in FEATURES if lists.missing(name, context_loader(spark))} == set(absent())


def test_builds_that_were_tested_are_known_by_their_revisions(spark: SparkSession, lists: Any) -> None:
    """So a new version of Spark has lines of its own, or none and is looked at entry by entry. A vendor's build of the same version is."""
    builds = dict(line.split(" ")[1:] for line in text().splitlines() if line.startswith("build "))
    assert {version.rpartition(".")[0] for version in builds} == {"4.0", "4.1", "4.2", "4.3"}
    info = context_loader(spark).getResourceAsStream("spark-version-info.properties")
    running = dict(line.split("=", 1) for line in bytes(info.readAllBytes()).decode().splitlines() if "=" in line)
    if running["version"] in builds:
        assert builds[running["version"]] == running["revision"]
    assert lists.lacking(" ".join(absent()), context_loader(spark)) == ""


def test_no_class_is_named_in_a_string() -> None:
    """Only the list of features names plugins."""
    texts = {path: source for path, source in sources().items() if not path.endswith("/FeatureLines.java")}
    assert [path for path, source in texts.items() if re.search(r'"lancespark[.\w]*\.[A-Z]', source)] == []


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES[1:])
def test_the_other_features_compile_without_one(spark: SparkSession, feature: str) -> None:
    """So a renamed member of Spark costs the feature that uses it, and those that need this feature."""
    without = [name for name in FEATURES if name in absent() or feature in needed(name)]
    classes = install._compile(spark.sparkContext._gateway, context_loader(spark), sources(without))
    assert {feature_of(name) for name in classes.keySet()} == set(FEATURES) - set(without)


def test_the_features_name_each_member_that_the_sources_refer_to_by_a_string() -> None:
    members, made = members_by_name()
    assert made
    assert len(members) > 10
    listed = {member for line in text().splitlines() if line.startswith(("named ", "uses ")) for member in line.split(" ")[2:]}
    assert members <= listed
    assert made <= {member.partition("/")[0] for member in listed}


def members_by_name() -> tuple[set[str], set[str]]:
    """What the sources refer to by strings: private fields and arguments of case classes as members, and the names of methods."""
    source = "".join(sources().values())
    fields = set(re.findall(r'(?:SparkInternals\.[gs]et|Session\.addRule)\([^";]*?"([\w$]+)"', source))
    arguments = set(re.findall(r'SparkInternals\.(?:with|argument)\([^"]*?"(\w+)"', source))
    made = set(re.findall(r'SparkInternals\.made\([^"]*?"(\w+)"', source))
    return {f".{name}" for name in fields} | {f"{name}/0" for name in arguments} | {"makeCopy/1"}, made


def test_the_versions_of_spark_are_the_same_everywhere() -> None:
    """The sentence of the planner, those that are tested, and those that are installed."""
    (sentence,) = re.findall(r'VERSIONS = "(.*?)"', sources()["lancespark/core/Features.java"])
    (tested,) = re.findall(r"^SPARK_VERSIONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"[\d.]+", sentence) == tested.split()
    (oldest, newest) = (tuple(map(int, v.split("."))) for v in (tested.split()[0], tested.split()[-1]))
    assert f'"pyspark>={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"' in (ROOT / "pyproject.toml").read_text()


def test_missing_internals_are_found_by_name(spark: SparkSession) -> None:
    known = {path: source for path, source in sources().items() if path in install._SELF_CONTAINED}
    # py4j takes classes of one name for one class
    others = {path: re.sub(r"\b(Feature(?:s|Lines)?)\b", r"Other\1", source) for path, source in known.items()}
    path = "lancespark/core/FeatureLines.java"
    replacements = {"PythonTable .ds": "PythonTable .gone name/7", "PythonBatch new": "Gone new", "PythonWrite new/4": "PythonWrite new/9"}
    for old, new in replacements.items():
        assert old in others[path]
        others[path] = others[path].replace(old, new)
    gateway, context = spark.sparkContext._gateway, context_loader(spark)
    loader = install._class_loader(gateway, context, install._compile(gateway, context, others))
    missing = install._new(spark, loader, "lancespark.core.OtherFeatures").missing("scan", context)
    assert sorted(missing) == ["Gone", "PythonTable#.gone", "PythonTable#name/7", "PythonWrite#new/9"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("features.txt", "PythonTable .ds", "PythonTable .gone"), ("LanceTable.java", "inner.capabilities()", "inner.gone()")],
    ids=["a private field", "a method"],
)
def test_with_missing_internals_queries_run_and_a_warning_names_them(tmp_path: Path, uri: str, file: str, old: str, new: str) -> None:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    java = tmp_path / "lance_spark" / "spark" / "jvm"
    for name, before, after in ((file, old, new), ("features.txt", "capabilities/0", "gone/0"), UNTESTED):
        (source,) = java.rglob(name)
        text = source.read_text()
        assert before in text
        source.write_text(text.replace(before, after))
    script = """
spark = builder.master("local[1]").config("spark.sql.warehouse.dir", sys.argv[2]).getOrCreate()
lance_spark.enable(spark)
show(spark)
show(spark)
spark.sql(f"CREATE TABLE t USING lance LOCATION '{sys.argv[1]}'")
for statement in ("CREATE OR REPLACE TABLE t USING lance AS SELECT 1 AS id", "REPLACE TABLE t (id INT) USING lance"):
    try:
        spark.sql(statement)
    except Exception as e:
        print("refused:", e)
print(spark.sql("SHOW TABLES").collect())
"""
    out = run(START + script, uri, f"{tmp_path}/warehouse", path=tmp_path)
    assert out.count("queries read whole lance tables") == 1
    assert re.search(r"this version of Spark lacks .*PythonTable#gone/0", out)
    assert "Upgrade lance-spark" in out
    assert "PushedFilters" not in out
    assert out.count("['d']") == 2
    assert len(re.findall(r"refused: .*default\.t was not replaced.*INSERT OVERWRITE default\.t", out)) == 2
    assert "tableName='t'" in out
    assert Dataset.open(uri).count_rows() == 10


PROBES = """
spark = builder.master("local[1]").config("spark.sql.warehouse.dir", sys.argv[2]).getOrCreate()
lance_spark.enable(spark)
def probe(name, act):
    try:
        print(f"<{name}: {act()}>")
    except Exception as e:
        print(f"<{name}: lost>")
def plan():
    return spark.read.format("lance").load(sys.argv[1]).where("id = 3")._jdf.queryExecution().executedPlan().toString()
probe("scan", lambda: "PushedFilters: [id IS NOT NULL, id = 3]" in plan())
probe("columnar", lambda: "Columnar: true" in plan() or "lost")
spark.read.format("lance").load(sys.argv[1]).createOrReplaceTempView("v")
probe("row_level", lambda: spark.sql("DELETE FROM v WHERE id = 9").count())
probe("functions", lambda: spark.sql(f"SELECT * FROM lance_scan('{sys.argv[1]}')").count())
probe("statements", lambda: spark.sql(f"OPTIMIZE lance.`{sys.argv[1]}`").count() > 0)
probe("catalog", lambda: lance_spark.catalog(spark, "here", root=sys.argv[2]) or spark.sql("SHOW TABLES IN here").count())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listed", "file", "used", "lost"),
    [
        ("SimplePythonFunction new/7", "WorkerReport", "new SimplePythonFunction(", {"columnar"}),
        ("WriteDelta condition/0", "RowLevelCommands", "delta.condition()", {"row_level", "statements"}),
        ("CommandResult new/4", "LanceStatement", "new CommandResult(", {"statements"}),
        ("NoSuchNamespaceException new/1", "CatalogPython", "new NoSuchNamespaceException(", {"catalog", "statements"}),
    ],
)
def test_a_renamed_member_costs_one_feature(tmp_path: Path, uri: str, listed: str, file: str, used: str, lost: set[str]) -> None:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    for name, before, after in (("features.txt", listed, re.sub(r"/\d$", "/9", listed)), (f"{file}.java", used, f"gone.{used}"), UNTESTED):
        (source,) = (tmp_path / "lance_spark" / "spark" / "jvm").rglob(name)
        assert before in source.read_text()
        source.write_text(source.read_text().replace(before, after))
    out = run(START + PROBES, uri, f"{tmp_path}/warehouse", path=tmp_path)
    found = dict(re.findall(r"<(\w+): (\w+)>", out))
    assert {name for name, answer in found.items() if answer == "lost"} == lost, out
    assert found["scan"] == "True"
    assert re.search(rf"this version of Spark lacks {listed.split()[0]}#\w+/9", out)
