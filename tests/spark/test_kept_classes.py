"""The planner's classes are compiled by the first session of an installation, and kept for later ones."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.spark.jvm import classes, install
from lance_spark.spark.jvm.classes import digest_of, folder, is_whole, jar_of, keep, packaged
from tests.spark.processes import START, run


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lance-spark"


def jars(folder: Path) -> list[Path]:
    """Jars and unfinished jars."""
    return list(folder.rglob("*.jar*"))


def test_a_later_session_compiles_nothing(spark: SparkSession, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway: Any = spark.sparkContext._gateway
    context = install._context_loader(spark)
    first = str(install._place(gateway, context).toString())
    (jar,) = jars(kept)
    assert first == f"file:{jar}"
    jar.write_bytes(jar.read_bytes()[:-1000])  # as a full disk may leave it
    assert str(install._place(gateway, context).toString()) == first
    monkeypatch.setattr(install, "_compile", None)
    place = install._place(gateway, context)
    assert jars(kept) == [jar]
    assert str(place.toString()) == first
    places = gateway.new_array(gateway.jvm.java.net.URL, 1)
    places[0] = place
    sparks = gateway.jvm.java.lang.Class.forName("org.apache.spark.sql.classic.SparkSession", False, context).getClassLoader()
    loader = gateway.jvm.java.net.URLClassLoader(places, sparks)
    assert str(install._made(gateway, loader, "lancespark.core.Features").complaint("scan", sparks)) in ("", "None")


@pytest.mark.slow
def test_the_jar_is_kept_where_python_keeps_no_files(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Dataset.write(tmp_path / "table.lance", pa.table({"id": range(100)}))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    script = """
spark = builder.master("local[1]").getOrCreate()
lance_spark.enable(spark)
frame = spark.read.format("lance").load(sys.argv[1]).where("id > 90")
print(frame.count(), "PushedFilters: [id IS NOT NULL, id > 90]" in frame._jdf.queryExecution().toString())
"""
    refusing = "from lance_spark.spark.jvm import install\ninstall._compile = None\n"
    for start in (START, START + refusing):
        assert "9 True" in run(start + script, str(tmp_path / "table.lance"))
    assert len(jars(kept)) == 1


def test_other_sources_and_builds_have_other_jars(kept: Path) -> None:
    names = {jar_of(parts) for parts in ([b"4.3", b"ab"], [b"4.3", b"ac"], [b"4.4", b"ab"], [b"4.3a", b"b"])}
    assert len(names) == 4
    assert {name.parent for name in names if name is not None} == {kept}


def test_the_jar_of_the_wheel_is_used_beside_its_own_sources_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "classes.jar"
    monkeypatch.setattr(classes, "PACKAGED", jar)
    assert packaged({"a/A.java": "class A {}"}) is None  # a checkout has none
    with zipfile.ZipFile(jar, "w") as opened:
        opened.writestr(classes.DIGEST, digest_of({"a/A.java": "class A {}"}))
    assert packaged({"a/A.java": "class A {}"}) == jar
    assert packaged({"a/A.java": "class A { }"}) is None


def test_a_folder_that_others_can_write_to_is_not_used(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    own = folder()
    assert own == kept
    kept.chmod(0o777)
    assert folder() == tmp_path / "temporary" / f"lance-spark-{os.getuid()}"


def test_jars_of_earlier_installations_are_removed(kept: Path) -> None:
    made = []
    for number in range(7):
        jar = jar_of([str(number).encode()])
        assert jar is not None
        keep(jar, lambda path: Path(path).write_bytes(b"jar"))
        os.utime(jar, (number, number))
        made.append(jar)
    assert sorted(jars(kept)) == sorted(made[-4:])


@pytest.mark.parametrize("content", [None, b"", b"PK", b"no archive"])
def test_what_is_no_archive_is_not_used(tmp_path: Path, content: bytes | None) -> None:
    jar = tmp_path / "planner.jar"
    if content is not None:
        jar.write_bytes(content)
    assert not is_whole(jar)


def test_without_a_place_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert folder() is None
    assert jar_of([b"4.3"]) is None
    keep(tmp_path / "file" / "planner.jar", lambda path: Path(path).write_bytes(b"jar"))
    assert jars(tmp_path) == []


def test_a_jar_that_cannot_be_written_leaves_no_file(kept: Path) -> None:
    def write(path: str) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError("no space left")

    jar = jar_of([b"4.3"])
    assert jar is not None
    keep(jar, write)
    assert jars(kept) == []
