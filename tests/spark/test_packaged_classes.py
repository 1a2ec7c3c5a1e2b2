"""The classes that the wheel has: javac takes the sources, each supported Spark has what they use, and no session compiles them again."""

from __future__ import annotations

import re
import shutil
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
from tests.spark.processes import NEWEST, ROOT, START, run

PARSER = "lancespark/statements/InstalledStatementParser.class"


def test_the_jar_is_made_of_these_sources(jar: Path) -> None:
    with zipfile.ZipFile(jar) as opened:
        assert opened.read("lancespark/sources.sha256").decode() == digest_of(sources())
        classes = {name.partition("$")[0].removesuffix(".class") for name in opened.namelist() if name.endswith(".class")}
    assert classes == {path.removesuffix(".java") for path in sources()} | {PARSER.removesuffix(".class")}


def test_this_spark_has_each_member_that_the_jar_refers_to(jar: Path) -> None:
    """What a version lacks is of features that it does without, and of methods of parsers that nobody calls in it."""
    folder = Path(pyspark.__file__).parent / "jars"
    missing = ClassFiles([jar, *folder.glob("*.jar")]).missing(jar)
    features = {feature_of(name) for name in missing if name != PARSER}
    assert features <= set(absent()), missing
    assert {name.partition("#")[0] for name in missing.get(PARSER, ())} <= {"org/apache/spark/sql/catalyst/parser/ParserInterface"}


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
