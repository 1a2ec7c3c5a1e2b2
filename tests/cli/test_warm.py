"""`warm`: afterwards, what the documentation shows compiles nothing, and `warm --check` says so."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import lance_spark
from lance_spark.cli.main import main
from lance_spark.kernels import bits, code_folders
from lance_spark.kernels.kernel import Kernel, kernel
from lance_spark.kernels.warmed import Compiled, asked, keep, listed, pack
from tests.kernels.test_store import ANOTHER_USER, as_another_user
from tests.test_wheel import installed, plain_environment

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
    keep([ones, missing])
    assert main(["warm", "--check"]) == 1
    assert capsys.readouterr().out == f"would be compiled: {missing}\n1 of 2 kernels are compiled\n"
    assert main(["warm", "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"warmed": True, "missing": [str(missing)]}
    keep([ones])
    assert main(["warm", "--check"]) == 0
    keep([ones, removed])
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


def test_warm_leaves_beside_the_package_what_it_finds_in_the_cache_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who runs an image has another cache than root, who made it."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of root"))
    monkeypatch.setattr(code_folders, "PACKAGED", tmp_path / "file" / "no folder")
    ones = compile_ones()
    assert keep([ones]) == tmp_path / "of root" / "lance-spark"
    monkeypatch.setattr(code_folders, "PACKAGED", tmp_path / "compiled")
    assert keep([ones]) == tmp_path / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of another"))
    file = ones.file()
    assert file is not None
    assert file.parent == tmp_path / "compiled"


def test_check_and_out_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["warm", "--check", "--out", "kernels.tar.gz"])
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find what `warm` has compiled, and may compile nothing."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("warmed"))}
    done = subprocess.run(
        [sys.executable, "-m", "lance_spark", "warm"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("ready after ")
    return {**environment, "LANCE_SPARK_COMPILE": "never"}


@pytest.mark.slow
def test_after_warm_nothing_would_be_compiled(warmed: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lance_spark", "warm", "--check"],
        env=warmed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


SHOWN = [
    "tests/test_quickstart.py",
    "tests/test_text_search_example.py",
    "tests/test_vector_search_example.py",
    "tests/test_streaming_example.py",
    "tests/test_backfill_example.py",
    "tests/test_examples.py -k tutorial",
    "tests/test_examples.py -k searching",
    "tests/test_examples.py -k getting-started",
    "tests/test_examples.py -k indexes",
    "tests/test_examples.py -k verbs",
]


def kernels_of_the_package() -> Iterator[Kernel]:
    for found in pkgutil.walk_packages(lance_spark.__path__, "lance_spark."):
        # torch may be missing, and a daemon and a program do their work when they are imported.
        if found.name.endswith((".torch", ".daemon", ".__main__")):
            continue
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Kernel):
                yield value


def list_of(warmed: dict[str, str]) -> list[Compiled]:
    """What `warm` has compiled."""
    content = Path(warmed["NUMBA_CACHE_DIR"], "lance-spark", "warmed.json").read_text()
    return [Compiled(name, types) for name, types in json.loads(content)["kernels"]]


@pytest.mark.slow
def test_warm_compiles_every_kernel(warmed: dict[str, str]) -> None:
    """Those that Python calls: the others are part of them."""
    kernels = list(kernels_of_the_package())
    called_by_kernels = {source.name for one in kernels for source in one.source._called}
    compiled = {one.name for one in list_of(warmed)}
    missing = [one.source.name for one in kernels if one.source.name not in called_by_kernels | compiled]
    assert len(kernels) > 100
    assert not missing


WORDS = {"uint8", "uint16", "uint32", "uint64"}
FEWER_WORDS = {
    ("encodings.byte_stream_split._join", ("uint32", "uint64")),  # floats
    ("encodings.byte_stream_split._split", ("uint32", "uint64")),
    ("encodings.rle._add_up", ("uint16", "uint8")),  # lengths of runs
    ("encodings.rle._find_runs", ("uint16", "uint8")),
    ("encodings.rle._repeat", ("uint16", "uint8")),
    ("layouts.mini_block.locate.locate", ("uint16", "uint32")),  # the words of chunks
}


@pytest.mark.slow
def test_a_kernel_of_words_is_compiled_for_all_of_their_sizes(warmed: dict[str, str]) -> None:
    """Other data than that of `warm` must not lead to words of another size, nor to arrays with gaps."""
    forms: dict[str, list[list[str]]] = defaultdict(list)
    for one in list_of(warmed):
        assert ", A)" not in one.types, one
        forms[one.name].append(re.findall(r"array\((\w+), ", one.types))
    fewer = set()
    for name, types in forms.items():
        for of_one_argument in zip(*types, strict=True):
            words = WORDS & set(of_one_argument)
            if len(words) > 1 and words != WORDS:
                fewer.add((name.removeprefix("lance_spark."), tuple(sorted(words))))
    assert fewer == FEWER_WORDS


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN)
def test_after_warm_what_the_documentation_shows_compiles_nothing(warmed: dict[str, str], shown: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shown.split()]
    done = subprocess.run(command, cwd=ROOT, env=warmed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]


USES = """
import sys
from numba.core import event
import numpy as np, pyarrow as pa
import lance_spark
from lance_spark.dataset import Dataset

with event.install_recorder("numba:compile") as compiled:
    count = 3000
    texts = [f"row {i} of the table" for i in range(count)]
    coordinates = pa.array(np.random.default_rng(0).standard_normal(count * 8).astype("float32"))
    vectors = pa.FixedSizeListArray.from_arrays(coordinates, 8)
    rows = pa.table({"id": range(count), "text": texts, "tags": [[t[:5]] for t in texts], "vector": vectors})
    table = Dataset.write(sys.argv[1] + "/table.lance", rows)
    table = table.create_scalar_index("text", "INVERTED")
    table = table.create_index("vector", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    assert table.scan().to_table() == rows
    print(table.scan(["id"], filter="id % 1000 = 7").to_table()["id"].to_pylist())
    print(table.scan(["id"], full_text_query="1234", limit=5).to_table()["id"].to_pylist())
    nearest = {"column": "vector", "q": rows["vector"][5].values.to_numpy(), "k": 1, "refine_factor": 4}
    print(table.scan(["id"], nearest=nearest).to_table()["id"].to_pylist())
print(len(compiled.buffer), "compiled")
print(lance_spark.__file__)
"""


@pytest.fixture(scope="module")
def wheel(warmed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the kernels for this Python, as `make build` makes it for each."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("lance_spark", "pyspark_lance"):
        unwanted = shutil.ignore_patterns("__pycache__", "compiled", "ready")
        shutil.copytree(ROOT / folder, source / folder, ignore=unwanted)
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
    ):
        shutil.copy(ROOT / name, source)
    archive = source / "kernels.tar.gz"
    allowed = {**warmed, "LANCE_SPARK_COMPILE": ""}
    subprocess.run(
        [sys.executable, "-m", "lance_spark", "warm", "--out", str(archive)],
        env=allowed,
        check=True,
    )
    with tarfile.open(archive) as packed:
        packed.extractall(source / "lance_spark" / "kernels" / "ready", filter="data")
    command = [sys.executable, "-m", "build", "--outdir", str(source / "dist"), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = source.glob("dist/*-py3-none-any.whl")
    return built


@pytest.mark.slow
@as_another_user
@pytest.mark.parametrize("place", ["installed", "in the archive", "installed and warmed"])
def test_with_the_kernels_of_the_wheel_nothing_is_compiled(wheel: Path, warmed: dict[str, str], place: str, tmp_path: Path) -> None:
    """A user who can write neither to the package nor to a home; the wheel's kernels, or those that root has in a cache at `warm`."""
    tables = tmp_path / "tables"
    tables.mkdir()
    os.chown(tables, 65534, 65534)
    nothing = {
        "HOME": "/nonexistent",
        "XDG_CACHE_HOME": "",
        "TMPDIR": "/nonexistent",
        "LANCE_SPARK_COMPILE": "never",
    }
    environment = {**plain_environment(), **nothing}
    if place != "in the archive":
        home = installed(tmp_path / "venv", sys.executable, str(wheel), f"numba=={numba.__version__}")
        python = str(home / "bin" / "python")
    else:
        environment["PYTHONPATH"] = str(wheel)  # as --py-files does
        python = sys.executable
    if place == "installed and warmed":
        (kernels,) = home.glob("lib/python*/site-packages/lance_spark/kernels")
        shutil.rmtree(kernels / "ready")
        of_root = plain_environment() | {"XDG_CACHE_HOME": warmed["NUMBA_CACHE_DIR"]}
        subprocess.run([python, "-m", "lance_spark", "warm"], env=of_root, check=True)
    program = [*ANOTHER_USER, python, "-c", USES, str(tables)]
    done = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *answers, compiled, file = done.stdout.splitlines()
    assert answers == ["[7, 1007, 2007]", "[1234]", "[5]"]
    assert compiled == "0 compiled"
    assert file.startswith(str(wheel if place == "in the archive" else tmp_path / "venv"))
    check = [*ANOTHER_USER, python, "-m", "lance_spark", "warm", "--check"]
    subprocess.run(check, env=environment, cwd=tmp_path, check=True)
    if place == "installed":
        warm = [*ANOTHER_USER, python, "-m", "lance_spark", "warm", "--json"]
        printed = subprocess.run(warm, env=environment, cwd=tmp_path, check=True, capture_output=True).stdout
        assert json.loads(printed)["folder"].endswith("lance_spark/kernels/ready")
