"""The classes that the wheel has: javac takes the sources, each supported Spark has what they use, and no session compiles them again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from lance_spark import Dataset
from lance_spark.spark.jvm import install
from lance_spark.spark.jvm.classes import digest_of
from tests.spark.class_files import ClassFiles
from tests.spark.processes import ROOT, START, run

NEWEST = "4.3"
PARSER = "lancespark/statements/InstalledStatementParser.class"


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's classes: those of LANCE_SPARK_CLASSES, else compiled now, for which a JDK is needed."""
    given = os.environ.get("LANCE_SPARK_CLASSES")
    if given is not None:
        return Path(given)
    assert pyspark.__version__.startswith(f"{NEWEST}."), f"LANCE_SPARK_CLASSES must name a jar that was compiled with PySpark {NEWEST}"
    compiler = subprocess.run([ROOT / "scripts" / "javac"], check=True, capture_output=True, text=True).stdout.strip()
    out = tmp_path_factory.mktemp("classes") / "classes.jar"
    subprocess.run([sys.executable, ROOT / "scripts" / "classes.py", compiler, out], check=True)
    return out


def test_the_jar_is_made_of_these_sources(jar: Path) -> None:
    with zipfile.ZipFile(jar) as opened:
        assert opened.read("lancespark/sources.sha256").decode() == digest_of(install.sources())
        classes = {name.partition("$")[0].removesuffix(".class") for name in opened.namelist() if name.endswith(".class")}
    assert classes == {path.removesuffix(".java") for path in install.sources()} | {PARSER.removesuffix(".class")}


def test_this_spark_has_each_member_that_the_jar_refers_to(jar: Path) -> None:
    """What a version lacks is of features that it does without, and of methods of parsers that nobody calls in it."""
    folder = Path(pyspark.__file__).parent / "jars"
    missing = ClassFiles([jar, *folder.glob("*.jar")]).missing(jar)
    features = {install.feature_of(name) for name in missing if name != PARSER}
    assert features <= set(install._absent()), missing
    assert {name.partition("#")[0] for name in missing.get(PARSER, ())} <= {"org/apache/spark/sql/catalyst/parser/ParserInterface"}


SCRIPT = """
from lance_spark.spark.jvm import install
def refuse(*arguments):
    raise AssertionError("the planner is compiled")
install._compile = refuse
spark = builder.master("local[1]").getOrCreate()
lance_spark.enable(spark)
frame = spark.read.format("lance").load(sys.argv[1]).where("id > 90")
print(frame.count(), "PushedFilters: [id IS NOT NULL, id > 90]" in frame._jdf.queryExecution().toString())
spark.sql(f"OPTIMIZE lance.`{sys.argv[1]}`").collect()
parser = spark._jsparkSession.sessionState().sqlParser().getClass()
print("parser:", parser.getName())
"""


@pytest.mark.slow
def test_with_the_jar_of_the_wheel_the_planner_is_not_compiled(jar: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    shutil.copy(jar, tmp_path / "lance_spark" / "spark" / "jvm" / "classes.jar")
    Dataset.write(tmp_path / "table.lance", pa.table({"id": range(100)}))
    out = run(START + SCRIPT, str(tmp_path / "table.lance"), path=tmp_path)
    assert "9 True" in out
    (parser,) = re.findall(r"parser: lancespark.statements.(\S+)", out)
    is_newest = pyspark.__version__.startswith(f"{NEWEST}.")
    assert parser == ("InstalledStatementParser" if is_newest else "SessionStatementParser")
