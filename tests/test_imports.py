"""Imports point one way: `ROOMS` lists the folders of the package from the top to the bottom, and each imports only those below it."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent / "lance_spark"
ROOMS = [
    "__main__",
    "cli",
    "__init__",
    "lance_table",
    "operations",
    "create_partitioned",
    "maintain_all",
    "verbs/backfill",
    "verbs/merge",
    "verbs",
    "spark/planning_daemon",
    "spark/catalog",
    "spark",
    "spark/write",
    "spark/read",
    "spark/jvm",
    "spark/options",
    "spark/columns",
    "spark/workers",
    "spark/aggregation",
    "spark/protocol",
    "namespace/partitioned",
    "namespace",
    "namespace/catalogs",
    "namespace/http",
    "namespace/error_codes",
    "namespace/protocol",
    "polars",
    "torch",
    "loaders",
    "dataset",
    "actions",
    "table/engines",
    "inspection",
    "table/backfill",
    "table/upkeep",
    "table/views",
    "table/compaction",
    "table/branches",
    "table/feed",
    "table/changes/merge",
    "table/changes",
    "table/mem_wal_writing",
    "table/indexes",
    "table/join",
    "table/search",
    "table/minhash",
    "table/mem_wal",
    "table/scan",
    "table/write",
    "table/commit",
    "table/maintenance",
    "table/versions",
    "table/build",
    "table/manifest_store",
    "index/fm",
    "index/minhash",
    "index/text/build",
    "index/text",
    "index/text/analysis",
    "index/vector/make",
    "index/vector",
    "index",
    "file",
    "v0_1",
    "v2_0",
    "layouts",
    "layouts/mini_block",
    "layouts/full_zip",
    "layouts/constant",
    "layouts/choose",
    "layouts/levels",
    "layouts/values",
    "layouts/nodes",
    "encodings",
    "metadata",
    "predicate",
    "arrow",
    "storage",
    "reading",
    "options",
    "schema",
    "display",
    "buffers",
    "kernels",
    "_proto",
    "errors",
    "version",
]
"""Folders with modules in them, and modules beside them: those at the top of the package, and those of spark that its folders use."""
MODULES = sorted(p for p in ROOT.rglob("*.py") if "_proto" not in p.parts)


def room(path: Path) -> str:
    """The folder of a module, or the module itself if it is at the top of the package, or listed."""
    inner = path.relative_to(ROOT).with_suffix("")
    return str(inner.parent if len(inner.parts) > 1 and str(inner) not in ROOMS else inner)


@functools.cache
def imports(path: Path) -> tuple[str, ...]:
    """The full names of all imports of a module, including those inside functions, and of modules that a text names."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_module(node.value):
            yield node.value
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{a.name}" for a in node.names)


def is_module(text: str) -> bool:
    """Whether a text is the name of one of our modules, as for importlib."""
    if not re.fullmatch(r"lance_spark(\.\w+)+", text):
        return False
    return ROOT.joinpath(*text.split(".")[1:]).with_suffix(".py").is_file()


@functools.cache
def imported(name: str) -> Path:
    """The file of our package that contains `lance_spark.x.y.Name`."""
    parts = name.split(".")[1:]
    for count in range(len(parts), -1, -1):
        place = ROOT.joinpath(*parts[:count])
        if place.with_suffix(".py").is_file() and count:
            return place.with_suffix(".py")
        if (place / "__init__.py").is_file():
            return place / "__init__.py"
    raise AssertionError(name)


def test_imports_point_down() -> None:
    wrong = []
    for path in MODULES:
        own = room(path)
        for name in imports(path):
            if name.split(".")[0] != "lance_spark":
                continue
            other = room(imported(name))
            if own != other and ROOMS.index(own) >= ROOMS.index(other):
                wrong.append(f"{path.relative_to(ROOT)} must not import {name}: {other} is above {own}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_listed_and_documented() -> None:
    files = [p for p in ROOT.rglob("*.py") if "_proto" not in p.parts]
    folders = {p.parent for p in files} - {ROOT}
    assert {room(p) for p in files} <= set(ROOMS) | {"table"}
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        assert text, f"{folder} does not say what it is"


def test_modules_form_no_cycle() -> None:
    below = {p: {imported(n) for n in imports(p) if n.split(".")[0] == "lance_spark"} - {p} for p in MODULES}
    left = dict(below)
    while free := [p for p, others in left.items() if not others & left.keys()]:
        left = {p: others for p, others in left.items() if p not in free}
    assert not left, f"these modules import each other: {sorted(str(p.relative_to(ROOT)) for p in left)}"


def test_pyspark_and_fsspec_are_imported_only_in_their_folders() -> None:
    strangers = []
    for path in MODULES:
        top = path.relative_to(ROOT).parts[0].removesuffix(".py")
        refused = {"lance"}  # pylance is the oracle, never a dependency
        if top not in ("spark", "verbs", "lance_table"):
            refused.add("pyspark")
        if top != "storage":
            refused.add("fsspec")
        strangers += [f"{path.relative_to(ROOT)} must not import {name}" for name in imports(path) if name.split(".")[0] in refused]
    assert not strangers, "\n".join(strangers)


def test_planning_a_scan_needs_neither_numba_nor_pyspark_nor_pandas_nor_clients_nor_the_sql_parser() -> None:
    modules = "lance_spark.table.scan.plan, lance_spark.table.commit.commit, lance_spark.dataset"
    code = f"import sys, {modules}; print({{'numba', 'pyspark', 'pandas', 'fsspec', 'sqlglot'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_jar_command_reports_that_spark_is_missing() -> None:
    without = "import sys; sys.modules |= {'pyspark': None, 'py4j': None}"
    code = f"{without}; from lance_spark.__main__ import main; sys.exit(main(['jar', 'x.jar']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'lance-spark[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


JAVA = ROOT / "spark" / "jvm"
PACKAGES = [
    "lance",
    "lancespark",
    "lancespark.session_catalog",
    "lancespark.changelog",
    "lancespark.statements",
    "lancespark.catalog",
    "lancespark.columnar.driver",
    "lancespark.columnar",
    "lancespark.planning",
    "lancespark.nearest",
    "lancespark.search",
    "lancespark.functions",
    "lancespark.text",
    "lancespark.row_level",
    "lancespark.resolution",
    "lancespark.conditions",
    "lancespark.pushdown",
    "lancespark.table",
    "lancespark.scan",
    "lancespark.source",
    "lancespark.core",
    "lancespark.metrics",
    "lancespark.protocol",
]
"""The packages of the planner's Java from the top to the bottom. A package imports only those below it."""


def test_java_packages_point_down_and_a_folder_is_a_package() -> None:
    sources = sorted(JAVA.rglob("*.java"))
    for path in sources:
        text = path.read_text()
        package = ".".join(path.relative_to(JAVA).parent.parts)
        assert text.startswith(f"package {package};"), f"{path} is not in the folder of its package"
        types = re.findall(r"^(?:public |abstract |final )*(?:class|interface|enum) (\w+)", text, re.MULTILINE)
        assert types == [path.stem], f"{path} has another class at its top level"
        for other in set(re.findall(r"^import (lance(?:spark[\w.]*)?)\.[A-Z]\w*;", text, re.MULTILINE)):
            below = PACKAGES.index(package) < PACKAGES.index(other)
            assert below, f"{path} must not import {other}: it is above or beside it"
    assert {".".join(path.relative_to(JAVA).parent.parts) for path in sources} == set(PACKAGES)
