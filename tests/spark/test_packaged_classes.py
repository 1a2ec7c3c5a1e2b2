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
from lance_spark.spark.jvm.classes import digest_of
from lance_spark.spark.jvm.features import absent, feature_of, needed, sources, text
from tests.spark import used_of_spark
from tests.spark.class_files import ClassFiles
from tests.spark.processes import ROOT, START, run
from tests.spark.test_cluster import package_zip

PARSER = "lancespark/statements/InstalledStatementParser"
PARSERS = {"4.0": f"{PARSER}Before4_1", "4.1": f"{PARSER}Before4_3", "4.2": f"{PARSER}Before4_3", "4.3": PARSER}
"""The parser that a version of Spark uses. All are in the jar."""


def test_the_jar_is_made_of_these_sources(jar: Path) -> None:
    with zipfile.ZipFile(jar) as opened:
        assert opened.read("lancespark/sources.sha256").decode() == digest_of(sources())
        classes = {name.partition("$")[0].removesuffix(".class") for name in opened.namelist() if name.endswith(".class")}
    assert classes == {path.removesuffix(".java") for path in sources()} | set(PARSERS.values())


def test_this_spark_has_each_member_that_the_jar_refers_to(jar: Path) -> None:
    """What a version lacks is of features that it does without, and of the parsers of other versions."""
    folder = Path(pyspark.__file__).parent / "jars"
    missing = ClassFiles([jar, *folder.glob("*.jar")]).missing(jar)
    others = {f"{name}.class" for name in PARSERS.values() if name != PARSERS[pyspark.__version__[:3]]}
    features = {feature_of(name) for name in missing.keys() - others}
    assert features <= set(absent()), missing


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


def test_the_list_of_features_has_what_the_classes_use_of_spark(jar: Path) -> None:
    assert text() == used_of_spark.written(jar), "run `make features`"


def test_what_the_list_says_to_be_named_in_strings_is_named_in_the_classes(jar: Path) -> None:
    """Constructors have no names. Interfaces of the public API are listed where not all versions have them."""
    words, public = used_of_spark.words(jar), used_of_spark.used(jar, of_public=True)
    for feature, named in used_of_spark.named().items():
        known = {_own_name(word) for other in needed(feature) for word in words[other]} | {"new"}
        for owner, members in named.items():
            is_named = bool(members) and {_own_name(re.split("[/|]", member)[0]) for member in members} <= known
            is_public = {(owner, member) for member in members or [""]} <= public[feature]
            assert is_named or is_public, f"{feature}: {owner} {members}"


def _own_name(member: str) -> str:
    """The name of a member without what Scala puts before that of a private field."""
    return member.rpartition(".")[2].rpartition("$$")[2]


def test_a_feature_refers_to_the_classes_of_those_alone_that_it_needs(jar: Path) -> None:
    """So it is left out of what is compiled where Spark lacks what it uses, and the others are not."""
    for name, owners in used_of_spark.own_classes(jar).items():
        others = {owner for owner in owners if feature_of(owner) not in needed(feature_of(name))}
        assert others == set(), name


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
