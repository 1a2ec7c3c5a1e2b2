"""Compile the planner's Java into a jar, which the wheel has as lance_spark/spark/jvm/classes.jar, so that no session compiles it.

    python scripts/classes.py JAVAC JAR

The classes are compiled against the installed PySpark, which must be the newest that is supported: it has the interfaces of all features.
Warnings are errors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from lance_spark.spark.jvm.classes import DIGEST, digest_of
from lance_spark.spark.jvm.features import sources

# All warnings of the sources. Two kinds are about Spark's jars, which name jars that are not there (path), and classes of annotations that
# are not (classfile).
LINT = "-Xlint:all,-path,-classfile"
RELEASE = "17"
SPARK = Path(pyspark.__file__).parent / "jars"


def javac(compiler: str, into: Path, files: list[Path], *, others: Path | None = None) -> None:
    """Compile these files. They may use each other, Spark, and what is compiled already in `into`, or else in `others`."""
    options = ["--release", RELEASE, LINT, "-Werror", "-g:source,lines", "-cp", f"{others or into}:{SPARK}/*", "-d", str(into)]
    if subprocess.run([compiler, *options, *map(str, files)], check=False).returncode:
        sys.exit("the planner's Java does not compile, or not without warnings")


def compile_all(compiler: str, into: Path) -> None:
    """Compile the planner, and the parsers that are made of the versions of Spark's ParserInterface."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / path for path in sources()]
        for file, text in zip(files, sources().values()):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="ascii")
        javac(compiler, into, files)
    java = str(Path(compiler).resolve().with_name("java"))
    with tempfile.TemporaryDirectory() as name:
        command = [java, "-cp", f"{into}:{SPARK}/*", "lancespark.statements.ParserSource", name]
        subprocess.run(command, check=True)
        for folder in sorted(Path(name).iterdir()):
            javac(compiler, folder, sorted(folder.glob("*.java")), others=into)
            parser = Path("lancespark", "statements", f"{folder.name}.class")
            shutil.copy(folder / parser, into / parser)


def main(compiler: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as jar:
        into = Path(folder)
        compile_all(compiler, into)
        # Without times, so that the same sources make the same bytes.
        jar.writestr(zipfile.ZipInfo(DIGEST), digest_of(sources()))
        for file in sorted(into.rglob("*.class")):
            entry = zipfile.ZipInfo(str(file.relative_to(into)))
            entry.compress_type = zipfile.ZIP_DEFLATED
            jar.writestr(entry, file.read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
