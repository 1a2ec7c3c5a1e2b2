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
from tests.spark.test_cluster import package_zip

NEWEST = "4.3"
PARSER = "lancespark/statements/InstalledStatementParser"
PARSERS = {"4.0": f"{PARSER}Before4_1", "4.1": f"{PARSER}Before4_3", "4.2": f"{PARSER}Before4_3", "4.3": PARSER}
"""The parser that a version of Spark uses. All are in the jar."""


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
    assert classes == {path.removesuffix(".java") for path in install.sources()} | set(PARSERS.values())


def test_this_spark_has_each_member_that_the_jar_refers_to(jar: Path) -> None:
    """What a version lacks is of features that it does without, and of the parsers of other versions."""
    folder = Path(pyspark.__file__).parent / "jars"
    missing = ClassFiles([jar, *folder.glob("*.jar")]).missing(jar)
    others = {f"{name}.class" for name in PARSERS.values() if name != PARSERS[pyspark.__version__[:3]]}
    features = {install.feature_of(name) for name in missing.keys() - others}
    assert features <= set(install._absent()), missing


def test_a_zip_of_the_package_has_the_jar_too(jar: Path, tmp_path: Path) -> None:
    """As --py-files has it. Java reads a copy, which is kept for later sessions."""
    package = package_zip(tmp_path)
    with zipfile.ZipFile(package, "a") as opened:
        opened.write(jar, "lance_spark/spark/jvm/classes.jar")
    script = "from lance_spark.spark.jvm.install import packaged_classes as found; print(found() == found(), found())"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    is_same, found = done.stdout.split()
    assert is_same == "True"
    assert Path(found).parent == tmp_path / "lance-spark"
    assert Path(found).read_bytes() == jar.read_bytes()


SCRIPT = """
from lance_spark.spark.jvm import install
def refuse(*arguments):
    raise AssertionError("the planner is compiled")
install._compile = refuse
builder = builder.config("spark.driver.extraJavaOptions", f"-Xlog:class+load:file={sys.argv[2]}")
spark = builder.master("local[1]").getOrCreate()
lance_spark.enable(spark)
frame = spark.read.format("lance").load(sys.argv[1]).where("id > 90")
print(frame.count(), "PushedFilters: [id IS NOT NULL, id > 90]" in frame._jdf.queryExecution().toString())
spark.sql(f"OPTIMIZE lance.`{sys.argv[1]}`").collect()
parser = spark._jsparkSession.sessionState().sqlParser()
print(parser.parseExpression("1 + 1").sql(), len(parser.getClass().getMethods()) > 9, parser.getClass().getName())
"""


@pytest.mark.slow
def test_with_the_jar_of_the_wheel_no_class_is_compiled(jar: Path, tmp_path: Path) -> None:
    """Each class of the planner that Java loads is from the jar."""
    shutil.copytree(ROOT / "lance_spark", tmp_path / "lance_spark")
    shutil.copy(jar, tmp_path / "lance_spark" / "spark" / "jvm" / "classes.jar")
    Dataset.write(tmp_path / "table.lance", pa.table({"id": range(100)}))
    out = run(START + SCRIPT, str(tmp_path / "table.lance"), str(tmp_path / "loaded"), path=tmp_path)
    assert "9 True" in out
    assert f"(1 + 1) True {PARSERS[pyspark.__version__[:3]].replace('/', '.')}" in out
    loaded = re.findall(r"(lancespark\.\S+) source: (\S+)", (tmp_path / "loaded").read_text())
    assert len(loaded) > 50
    assert {source for _name, source in loaded} == {(tmp_path / "lance_spark/spark/jvm/classes.jar").as_uri().replace("///", "/")}
