"""The published files: the wheel, the source archive, and the README in an environment with only the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
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
    java = {str(p.relative_to(ROOT)) for p in ROOT.glob("lance_spark/**/*.java")}
    assert names == {
        *(name for name in names if name.startswith(f"{NAME}.dist-info/") or name.endswith(".pyi")),
        *(modules | java | {"lance_spark/py.typed"}),
    }
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert metadata["Version"] == lance_spark.__version__
    assert (metadata["License-Expression"], metadata["Author"]) == ("Apache-2.0", "lance-spark contributors")
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_the_source_archive_has_the_changelog_and_no_tests(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_readme_runs_where_only_the_wheel_is_installed(built: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV"))}
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    environment["PATH"] = os.pathsep.join([str(home / "bin"), environment["PATH"]])
    wheel = f"{built / f'{NAME}-py3-none-any.whl'}[spark]"
    python = str(home / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], env=environment, check=True, capture_output=True)
    version = subprocess.run(["lance-spark", "--version"], env=environment, capture_output=True, text=True, check=True)
    assert version.stdout == f"lance-spark {lance_spark.__version__}\n"
    place = tmp_path / "place"
    place.mkdir()
    command = [python, "-P", str(ROOT / "tests" / "examples.py"), str(ROOT / "README.md")]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "8 examples"
