"""Spark's internals that the planner uses: they are listed and exist, and a warning names missing ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.spark.jvm import install
from tests.spark.class_files import references
from tests.spark.processes import ROOT, START, run

PUBLIC = re.compile(
    r"org\.apache\.spark\.(sql\.(connector|types|util|vectorized)\.(?!.*CatalogV2Util)|"
    r"sql\.(SparkSession|SparkSessionExtensions|RuntimeConfig)$|SparkContext$|TaskContext$|util\.TaskCompletionListener$)"
)


def context_loader(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


ABSENT = [name for name, version in install._SINCE.items() if tuple(map(int, pyspark.__version__.split(".")[:2])) < version]
"""The features of newer versions of Spark than the one that runs."""
FEATURES = [
    "scan",
    "conditions",
    "resolution",
    "row_level",
    "session_catalog",
    "functions",
    "text",
    "search",
    "nearest",
    "catalog",
    "statements",
    "changelog",
    "planning",
    "columnar",
]


@pytest.fixture(scope="module")
def features(spark: SparkSession) -> Any:
    """The Java object with the lists."""
    return install._new(spark, install._loader(spark), "lancespark.core.Features")


def test_this_spark_has_everything_that_the_planner_uses(spark: SparkSession, features: Any) -> None:
    assert list(features.names()) == FEATURES
    assert {name for name in FEATURES if features.missing(name, context_loader(spark))} == set(ABSENT)


def test_the_lists_match_the_compiled_classes(spark: SparkSession, features: Any) -> None:
    """Of each feature: what its folder refers to is in its list, or in that of a feature that it needs."""
    classes = install._compile(spark.sparkContext._gateway, context_loader(spark), install.sources(ABSENT))
    used: dict[str, set[tuple[str, str]]] = {name: set() for name in FEATURES}
    for name in classes.keySet():
        used[install.feature_of(name)] |= {(c, m) for c, m in references(bytes(classes.get(name))) if c.startswith("org.apache.spark.")}
    for name in set(FEATURES) - set(ABSENT):
        listed = set(features.used(name))
        needed = {entry for other in features.needs(name) for entry in features.used(other)}
        assert sorted({f"{c}#{m}" for c, m in used[name] if not PUBLIC.match(c)} - needed) == [], name
        assert sorted(listed - {f"{c}#{m}" for c, m in used[name]} - by_name(listed)) == [], name


@pytest.mark.parametrize("feature", FEATURES[1:])
def test_the_other_features_compile_without_one(spark: SparkSession, features: Any, feature: str) -> None:
    """So a renamed member of Spark costs the feature that uses it, and those that need this feature."""
    without = [name for name in FEATURES if name in ABSENT or feature in features.needs(name)]
    classes = install._compile(spark.sparkContext._gateway, context_loader(spark), install.sources(without))
    assert {install.feature_of(name) for name in classes.keySet()} == set(FEATURES) - set(without)


def test_the_lists_have_what_the_sources_refer_to_by_strings(features: Any) -> None:
    listed = {entry.partition("#")[2] for name in FEATURES for entry in features.used(name)}
    members, made = members_by_name()
    assert made
    assert len(members) > 10
    assert members <= listed
    assert made <= {member.partition("/")[0] for member in listed}


def members_by_name() -> tuple[set[str], set[str]]:
    """What the sources refer to by strings: private fields and arguments of case classes as members, and the names of methods."""
    source = "".join(install.sources().values())
    fields = set(re.findall(r'SparkInternals\.[gs]et\([^"]*?"([\w$]+)"', source))
    arguments = set(re.findall(r'SparkInternals\.(?:with|argument)\([^"]*?"(\w+)"', source))
    made = set(re.findall(r'SparkInternals\.made\([^"]*?"(\w+)"', source))
    return {f".{name}" for name in fields} | {f"{name}/0" for name in arguments} | {"makeCopy/1"}, made


def by_name(entries: set[str]) -> set[str]:
    """The entries that the sources refer to by strings."""
    members, made = members_by_name()
    named = {entry for entry in entries if (member := entry.partition("#")[2]) in members or member.partition("/")[0] in made}
    others = {entry.partition("#")[0] for entry in entries - named if not entry.endswith("#")}
    # A class of which only such members are in use is not named in the compiled classes either.
    return by_name_for_columns(entries) | named | {f"{owner}#" for owner in {entry.partition("#")[0] for entry in named} - others}


def by_name_for_columns(entries: set[str]) -> set[str]:
    """The entries that PythonTask and its users refer to by strings: their class and their member occur in the sources."""
    names = ("PythonTask", "PythonBatches", "PythonWriterFactory")
    source = "".join(install.sources()[f"lancespark/columnar/{name}.java"] for name in names)

    def occurs(entry: str) -> bool:
        name, _, member = entry.partition("#")
        member = re.split("[/|]", member.removeprefix("."))[0].rpartition("$$")[2]
        return name.rpartition(".")[2].partition("$")[0] in source and member.replace("new", "Constructor") in source

    return {entry for entry in entries if occurs(entry)}


def test_the_versions_of_spark_are_the_same_everywhere() -> None:
    """The sentence of the planner, those that are tested, and those that are installed."""
    (sentence,) = re.findall(r'VERSIONS = "(.*?)"', install.sources()["lancespark/core/Features.java"])
    (tested,) = re.findall(r"^SPARK_VERSIONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"[\d.]+", sentence) == tested.split()
    (oldest, newest) = (tuple(map(int, v.split("."))) for v in (tested.split()[0], tested.split()[-1]))
    assert f'"pyspark>={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"' in (ROOT / "pyproject.toml").read_text()


def test_missing_internals_are_found_by_name(spark: SparkSession) -> None:
    known = {path: text for path, text in install.sources().items() if path in install._SELF_CONTAINED}
    # py4j takes classes of one name for one class
    others = {path: re.sub(r"\b(Features?)\b", r"Other\1", text) for path, text in known.items()}
    path = "lancespark/core/Features.java"
    for old, new in (
        ('".ds", "name/0"', '".gone", "name/7"'),
        ('"PythonBatch"', '"Gone"'),
        ('"PythonWrite", "new/4"', '"PythonWrite", "new/9"'),
    ):
        assert old in others[path]
        others[path] = others[path].replace(old, new)
    gateway, context = spark.sparkContext._gateway, context_loader(spark)
    loader = install._class_loader(gateway, context, install._compile(gateway, context, others))
    missing = install._new(spark, loader, "lancespark.core.OtherFeatures").missing("scan", context)
    assert sorted(missing) == ["Gone", "PythonTable#.gone", "PythonTable#name/7", "PythonWrite#new/9"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("Features.java", '".ds"', '".gone"'), ("LanceTable.java", "inner.capabilities()", "inner.gone()")],
    ids=["a private field", "a method"],
)
def test_with_missing_internals_queries_run_and_a_warning_names_them(tmp_path: Path, uri: str, file: str, old: str, new: str) -> None:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    java = tmp_path / "lance_spark" / "spark" / "jvm"
    for name, before, after in ((file, old, new), ("Features.java", '"capabilities/0"', '"gone/0"')):
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
        ('SimplePythonFunction", "new/7"', "WorkerReport", "new SimplePythonFunction(", {"columnar"}),
        ('WriteDelta", "condition/0"', "RowLevelCommands", "delta.condition()", {"row_level", "statements"}),
        ('CommandResult", "new/4"', "LanceStatement", "new CommandResult(", {"statements"}),
        ('NoSuchNamespaceException", "new/1"', "CatalogPython", "new NoSuchNamespaceException(", {"catalog", "statements"}),
    ],
)
def test_a_renamed_member_costs_one_feature(tmp_path: Path, uri: str, listed: str, file: str, used: str, lost: set[str]) -> None:
    Dataset.write(uri, pa.table({"id": range(10), "s": list("abcdefghij")}))
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    for name, before, after in (("Features", listed, re.sub(r'/\d"$', '/9"', listed)), (file, used, f"gone.{used}")):
        (source,) = (tmp_path / "lance_spark" / "spark" / "jvm").rglob(f"{name}.java")
        assert before in source.read_text()
        source.write_text(source.read_text().replace(before, after))
    out = run(START + PROBES, uri, f"{tmp_path}/warehouse", path=tmp_path)
    found = dict(re.findall(r"<(\w+): (\w+)>", out))
    assert {name for name, answer in found.items() if answer == "lost"} == lost, out
    assert found["scan"] == "True"
    assert re.search(rf"this version of Spark lacks {listed.partition(chr(34))[0]}#\w+/9", out)
