"""The package's parts depend on each other in one direction, and the heavy libraries are imported only where design says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "lance_spark"
LAYERS = ["lance_table", "verbs", "spark", "namespace", "table", "index", "file", "layouts", "encodings"]
"""Each may import those behind it. v2_0 and v0_1 stand where layouts stands, dataset where spark stands without pyspark."""
BESIDE = {"v2_0": "layouts", "v0_1": "layouts", "dataset": "spark"}
FREE = {"errors", "schema", "blobs", "selection", "maps", "predicate", "byte_ranges", "columns", "spans", "memory", "_proto"}
"""May be imported by all, and import none of the layers."""
STORAGE = {"storage", "storage_local", "storage_location", "storage_options"}
MODULES = sorted(p for p in ROOT.rglob("*.py") if "_proto" not in p.parts)


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path):
    """(module, inside a function) of every import."""
    tree = ast.parse(path.read_text())
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name, id(node) in inside) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((f"{node.module}.{a.name}", id(node) in inside) for a in node.names)


def layer(name: str) -> int:
    return LAYERS.index(BESIDE.get(name, name))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = part(path)
    for name, _ in imports(path):
        if not name.startswith("lance_spark."):
            continue
        other = name.split(".")[1]
        if own in ("__init__", "__main__") or other in FREE | STORAGE or other == own or other == "__init__":
            continue
        assert own not in FREE | STORAGE, f"{own} is for all to import, so it must not import {name}"
        same_level = own in BESIDE or other in BESIDE
        assert layer(own) < layer(other) or (same_level and layer(own) <= layer(other)), f"{own} must not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pyspark_and_fsspec_stay_in_their_places(path):
    names = [name.split(".")[0] for name, _ in imports(path)]
    if part(path) not in ("spark", "verbs", "lance_table"):
        assert "pyspark" not in names
    if part(path) not in STORAGE:
        assert "fsspec" not in names
    assert "lance" not in names, "pylance is the oracle, never a dependency"


def test_planning_a_scan_needs_neither_numba_nor_pyspark_nor_clients_nor_the_sql_parser():
    modules = "lance_spark.table.scan, lance_spark.table.commit, lance_spark.dataset"
    code = f"import sys, {modules}; print({{'numba', 'pyspark', 'fsspec', 'sqlglot'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command_that_needs_spark_says_so_where_there_is_none():
    without = "import sys; sys.modules |= {'pyspark': None, 'py4j': None}"
    code = f"{without}; from lance_spark.__main__ import main; sys.exit(main(['jar', 'x.jar']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'lance-spark[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
