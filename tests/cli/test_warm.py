"""`warm`: afterwards, what the documentation shows compiles nothing, and `warm --check` says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lance_spark.cli.main import main
from lance_spark.kernels import bits
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.warmed import Compiled, asked, keep_list, listed, pack

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled kernels: an empty one."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "lance-spark"


def compile_ones() -> Compiled:
    """Call a kernel of the package, which this process may have loaded already, and return it."""
    loaded: Any = bits._ones
    vars(bits)["_ones"] = kernel(loaded.source.function)
    assert bits.ones(np.array([5], np.uint64), 2).tolist() == [0, 2]
    (found,) = (one for one in asked() if one.name == "lance_spark.kernels.bits._ones")
    return found


def test_check_lists_what_would_still_be_compiled(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--check"]) == 1
    assert capsys.readouterr().out == "all kernels would be compiled: there is no list of `lance-spark warm` of this version\n"
    ones = compile_ones()
    missing = Compiled("lance_spark.kernels.bits._ones", "array(uint8, 9d, C)")
    removed = Compiled("lance_spark.kernels.none.before", "int64")
    keep_list([ones, missing])
    assert main(["warm", "--check"]) == 1
    assert capsys.readouterr().out == f"would be compiled: {missing}\n1 of 2 kernels are compiled\n"
    assert main(["warm", "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"warmed": True, "missing": [str(missing)]}
    keep_list([ones])
    assert main(["warm", "--check"]) == 0
    keep_list([ones, removed])
    assert main(["warm", "--check"]) == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": "0.0", "kernels": []}', '{"version": 1, "kernels": 1}'])
def test_a_list_of_another_version_or_a_damaged_one_is_none(kept: Path, content: str) -> None:
    kept.mkdir(parents=True)
    (kept / "warmed.json").write_text(content)
    assert listed() is None


def test_an_archive_serves_where_it_is_unpacked(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ones = compile_ones()
    pack([ones], str(tmp_path / "kernels.tar.gz"))
    with tarfile.open(tmp_path / "kernels.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    assert ones.file() is None
    monkeypatch.setenv("LANCE_SPARK_KERNELS", str(tmp_path / "unpacked"))
    file = ones.file()
    assert file is not None
    assert file.parent == tmp_path / "unpacked"
    assert listed() == [ones]


def test_check_and_out_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["warm", "--check", "--out", "kernels.tar.gz"])
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find what `warm` has compiled, and may compile nothing."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("warmed"))}
    done = subprocess.run([sys.executable, "-m", "lance_spark", "warm"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ready after ")
    return {**environment, "LANCE_SPARK_COMPILE": "never"}


@pytest.mark.slow
def test_after_warm_nothing_would_be_compiled(warmed: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-m", "lance_spark", "warm", "--check"], env=warmed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


WHY = "warm does not compile fastlanes._unpack and rle._bound_runs for arrays of uint32, which these reads need"
LACKS = pytest.mark.xfail(reason=WHY, strict=True)
SHOWN = [
    pytest.param("tests/test_quickstart.py", marks=LACKS),
    "tests/test_text_search_example.py",
    "tests/test_vector_search_example.py",
    "tests/test_streaming_example.py",
    "tests/test_backfill_example.py",
    pytest.param("tests/test_examples.py -k tutorial", marks=LACKS),
    "tests/test_examples.py -k searching",
    "tests/test_examples.py -k getting-started",
    "tests/test_examples.py -k indexes",
    "tests/test_examples.py -k verbs",
]


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN)
def test_after_warm_what_the_documentation_shows_compiles_nothing(warmed: dict[str, str], shown: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shown.split()]
    done = subprocess.run(command, cwd=ROOT, env=warmed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
