"""The planner's classes are compiled by the first session of an installation, and kept for later ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_spark.spark.planner import install
from lance_spark.spark.planner.kept_classes import is_whole, jar_of, keep


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python keeps its compiled files."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


def jars(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_a_later_session_compiles_nothing(spark: SparkSession, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway: Any = spark.sparkContext._gateway
    context = install._context_loader(spark)
    assert str(install._place(gateway, context).toString()) == "lancespark:/"
    (jar,) = jars(kept)
    jar.write_bytes(jar.read_bytes()[:-1000])  # as a full disk may leave it
    assert str(install._place(gateway, context).toString()) == "lancespark:/"
    monkeypatch.setattr(install, "_compile", None)
    place = install._place(gateway, context)
    assert jars(kept) == [jar]
    assert str(place.toString()) == f"file:{jar}"
    places = gateway.new_array(gateway.jvm.java.net.URL, 1)
    places[0] = place
    sparks = gateway.jvm.java.lang.Class.forName("org.apache.spark.sql.classic.SparkSession", False, context).getClassLoader()
    loader = gateway.jvm.java.net.URLClassLoader(places, sparks)
    assert str(install._made(gateway, loader, "lancespark.Features").complaint("scan", sparks)) in ("", "None")


def test_other_sources_and_builds_have_other_jars() -> None:
    names = {jar_of(parts) for parts in ([b"4.3", b"ab"], [b"4.3", b"ac"], [b"4.4", b"ab"], [b"4.3a", b"b"])}
    assert len(names) == 4


@pytest.mark.parametrize("content", [None, b"", b"PK", b"no archive"])
def test_what_is_no_archive_is_not_used(tmp_path: Path, content: bytes | None) -> None:
    jar = tmp_path / "planner.jar"
    if content is not None:
        jar.write_bytes(content)
    assert not is_whole(jar)


def test_without_a_place_nothing_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kept / "file").write_bytes(b"")
    keep(kept / "file" / "planner.jar", lambda path: Path(path).write_bytes(b"jar"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    keep(kept / "planner.jar", lambda path: Path(path).write_bytes(b"jar"))
    assert jars(kept) == [kept / "file"]


def test_a_jar_that_cannot_be_written_leaves_no_file(kept: Path) -> None:
    def write(path: str) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError("no space left")

    keep(kept / "planner.jar", write)
    assert jars(kept) == []
