"""The published files: the wheel, the source archive, and the README in an environment with only the wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

import lance_spark

ROOT = Path(__file__).parents[1]
NAME = f"lance_spark-{lance_spark.__version__}"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source archive."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, capture_output=True)
    return out


def test_the_wheel_has_the_package_the_licence_and_the_metadata(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        metadata = message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
        licence = wheel.read(f"{NAME}.dist-info/licenses/LICENSE")
    modules = {str(p.relative_to(ROOT)) for folder in ("lance_spark", "pyspark_lance") for p in (ROOT / folder).rglob("*.py")}
    java = {str(p.relative_to(ROOT)) for kind in ("java", "txt") for p in ROOT.glob(f"lance_spark/spark/jvm/**/*.{kind}")}
    data = {f"lance_spark/index/text/analysis/{name}" for name in ("icu_tables.xz", "LICENSE-ICU")}
    data |= {"lance_spark/namespace/catalogs/hive_metastore.thrift", "lance_spark/py.typed"}
    assert names == {
        *(name for name in names if name.startswith(f"{NAME}.dist-info/") or name.endswith(".pyi")),
        *(modules | java | data),
    }
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert metadata["Version"] == lance_spark.__version__
    assert (metadata["License-Expression"], metadata["Author"]) == ("Apache-2.0", "lance-spark contributors")
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_a_published_wheel_has_addresses_and_links_that_work_elsewhere(tmp_path: Path) -> None:
    environment = {**os.environ, "REPOSITORY": "https://host.example/us/lance-spark"}
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Security", "Changelog"}
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert "https://host.example/us/lance-spark/blob/main/docs/planner.md" in links
    elsewhere = [link for link in links if not link.startswith("#")]  # others lead to a heading of the README
    for address in (*elsewhere, *urls.values()):
        assert address.startswith("https://")
        if (file := address.removeprefix("https://host.example/us/lance-spark/blob/main/")) != address:
            assert (ROOT / file.partition("#")[0]).is_file(), address


def test_a_build_has_no_files_of_earlier_builds(built: Path, tmp_path: Path) -> None:
    """setuptools keeps what it has copied: after an update of a checkout, `pip install .` would install files that were removed."""
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    removed = "lance_spark/spark/jvm/lancespark/Removed.java"
    earlier = tmp_path / NAME / "build" / "lib" / removed
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(tmp_path / NAME)]
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / f"{NAME}-py3-none-any.whl") as wheel:
        names = wheel.namelist()
    assert "lance_spark/__init__.py" in names
    assert removed not in names


def test_the_source_archive_has_the_changelog_and_no_tests(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def interpreter(version: str) -> str:
    """A Python of this version, from the PATH or pyenv; skips the test if there is none."""
    found = [sys.executable, shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for python in (str(each) for each in found if each is not None):
        done = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return python
    pytest.skip(f"no Python {version} is on this machine")


def installed(home: Path, python: str, *packages: str) -> Path:
    """A fresh virtual environment with these packages."""
    subprocess.run([python, "-m", "venv", str(home)], check=True, capture_output=True)
    command = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(command, env=plain_environment(), check=True, capture_output=True)
    return home


def plain_environment() -> dict[str, str]:
    """The environment of somebody who has neither activated an environment nor set anything for Spark."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV"))}
    return {**kept, "PATH": os.defpath, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module", params=["3.11 4.0", "3.11 4.3", "3.12 4.3", "3.13 4.3"])
def fresh(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment with only the wheel and a notebook kernel, by the versions of Python and of Spark."""
    python, spark = request.param.split()
    home = tmp_path_factory.mktemp("fresh") / "venv"
    wheel = f"{built / f'{NAME}-py3-none-any.whl'}[spark]"
    yield installed(home, interpreter(python), wheel, f"pyspark=={spark}.*", "nbclient", "ipykernel")
    shutil.rmtree(home)


FIRST = """
import lance_spark
from lance_spark import LanceTable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
lance_spark.enable(spark)
spark.range(10).selectExpr("id", "id / 2 AS v").write.format("lance").mode("append").save("points.lance")
LanceTable.forPath(spark, "points.lance").update("id = 9", {"v": "v + 100"})
print("rows:", [tuple(row) for row in spark.read.format("lance").load("points.lance").where("id > 7").orderBy("id").collect()])
other = spark.newSession()
lance_spark.enable(other)
print("other session:", other.read.format("lance").load("points.lance").count())
"""


def check_first(done: subprocess.CompletedProcess[str], output: str) -> None:
    """The rows are printed, and no lookup of Spark's has failed."""
    assert done.returncode == 0, done.stderr
    assert "rows: [(8, 4.0), (9, 104.5)]" in output, done.stderr
    assert "other session: 10" in output
    assert "Skipping the lookup of Python Data Sources" not in done.stderr


def test_a_script_runs_without_an_activated_environment(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(FIRST)
    command = [str(fresh / "bin" / "python"), "first.py"]
    done = subprocess.run(command, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True)
    check_first(done, done.stdout)


def test_a_notebook_runs_without_an_activated_environment(fresh: Path, tmp_path: Path) -> None:
    cell: dict[str, object] = {"cell_type": "code", "id": "first", "execution_count": None, "metadata": {}, "outputs": [], "source": FIRST}
    notebook = tmp_path / "first.ipynb"
    notebook.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    command = [str(fresh / "bin" / "jupyter"), "execute", "--inplace", str(notebook)]
    done = subprocess.run(command, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(notebook.read_text())["cells"][0]["outputs"]
    check_first(done, "".join(part for output in outputs for part in output.get("text", [])))


def test_the_readme_runs_where_only_the_wheel_is_installed(built: Path, tmp_path: Path) -> None:
    home = installed(tmp_path / "venv", sys.executable, f"{built / f'{NAME}-py3-none-any.whl'}[spark]")
    environment = plain_environment()
    version = subprocess.run([str(home / "bin" / "lance-spark"), "--version"], env=environment, capture_output=True, text=True, check=True)
    assert version.stdout == f"lance-spark {lance_spark.__version__}\n"
    place = tmp_path / "place"
    place.mkdir()
    command = [str(home / "bin" / "python"), "-P", str(ROOT / "tests" / "examples.py"), str(ROOT / "README.md")]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "7 examples"


def test_pages_for_other_libraries_run_where_no_spark_is_installed(built: Path, tmp_path: Path) -> None:
    home = installed(tmp_path / "venv", sys.executable, str(built / f"{NAME}-py3-none-any.whl"), "duckdb", "polars")
    python = str(home / "bin" / "python")
    has_spark = subprocess.run([python, "-c", "import pyspark"], env=plain_environment(), capture_output=True)
    assert has_spark.returncode == 1
    place = tmp_path / "place"
    place.mkdir()
    for page in ("python.md", "loaders.md"):
        command = [python, "-P", str(ROOT / "tests" / "examples.py"), str(ROOT / "docs" / page)]
        done = subprocess.run(command, cwd=place, env=plain_environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_chosen_python_without_the_package_is_named(built: Path, tmp_path: Path) -> None:
    other = installed(tmp_path / "other", sys.executable, "six")
    environment = {**os.environ, "PYTHONPATH": "", "PYSPARK_PYTHON": str(other / "bin" / "python")}
    home = installed(tmp_path / "venv", sys.executable, f"{built / f'{NAME}-py3-none-any.whl'}[spark]")
    (tmp_path / "first.py").write_text(FIRST)
    done = subprocess.run([str(home / "bin" / "python"), "first.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert f"workers with {other}/bin/python, which does not find lance_spark, pyarrow" in last
    assert f"such as {home}/bin/python" in last


def test_without_pyspark_the_extra_is_named(built: Path, tmp_path: Path) -> None:
    home = installed(tmp_path / "venv", sys.executable, f"{built / f'{NAME}-py3-none-any.whl'}")
    command = [str(home / "bin" / "python"), "-c", "import lance_spark; lance_spark.Dataset; lance_spark.enable"]
    done = subprocess.run(command, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True)
    expected = "ModuleNotFoundError: lance_spark.enable needs the package pyspark: pip install 'lance-spark[spark]'"
    assert done.stderr.splitlines()[-1] == expected
