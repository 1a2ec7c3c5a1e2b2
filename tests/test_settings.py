"""The page of settings has every setting that the code knows, and no other."""

from __future__ import annotations

import re

from tests.pages import DOCS
from tests.settings import PACKAGE, names_in_the_code

PAGE = (DOCS / "settings.md").read_text()
PRIVATE = {"SPARK_HIDE_TRACEBACK"}
"""Variables that lance-spark sets for Spark's own code."""


def section(title: str) -> str:
    """The text under a heading of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def test_the_page_has_every_setting_and_variable_that_the_code_reads() -> None:
    assert names_in_the_code() - PRIVATE <= first_cells("Settings of Spark") | first_cells("Environment variables")


def test_every_variable_and_setting_of_the_page_is_in_the_code() -> None:
    own = {name for name in first_cells("Settings of Spark") if name.startswith("spark.lance.")}
    assert own | first_cells("Environment variables") <= names_in_the_code()


def test_the_page_names_the_one_root_of_all_loggers() -> None:
    calls = [
        call
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".java")
        for call in re.findall(r"getLogger\((.*?)\)", path.read_text())
    ]
    assert {*calls} == {'"lance_spark"', "__name__"}
    assert "`lance_spark` and those below it" in section("Loggers")


def test_the_folders_of_the_page_are_those_of_the_code() -> None:
    code = (PACKAGE / "kernels" / "code_folders.py").read_text()
    for part in ("ready", "compiled", "XDG_CACHE_HOME", "lance-spark-"):
        assert part in code
        assert part in section("Folders")
