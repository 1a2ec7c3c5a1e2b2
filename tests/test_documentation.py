"""The documentation matches the code: referenced files exist, the API page is complete, and the picture of layers has every folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lance_spark
from lance_spark.actions.action import Door
from lance_spark.actions.cleanup import CLEANUP
from lance_spark.table.maintenance.cleanup import DEFAULT_AGE
from tests.examples import examples
from tests.test_imports import ROOMS

ROOT = Path(__file__).parents[1]
LISTED = re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
PATH = re.compile(r"[`(]((?:lance_spark|tests|docs|bench|scripts|examples|fuzz|protos)/[\w./]*\w)/?[`)]")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_folders_that_a_page_names_exist(page: Path) -> None:
    assert [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_has_a_language(page: Path) -> None:
    examples(page.read_text())  # raises ValueError with the line of a block that has none


def test_no_page_has_the_name_of_one_that_the_site_makes_itself() -> None:
    made = {"search", "genindex", "modindex", "py-modindex"}  # Sphinx would write its own page over ours
    assert {page.stem for page in ROOT.glob("docs/*.md")} & made == set()


def test_every_page_is_in_one_section_of_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    sections = re.findall(r"```\{toctree\}\n:hidden:\n:caption: .+\n\n([^`]+)```", index)
    listed = [page for section in sections for page in section.split()]
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in ROOT.glob("docs/**/*.md")}
    assert len(sections) == 8
    assert sorted(listed) == sorted(pages - {"index"})


def test_the_page_of_choices_says_what_each_cleanup_does_with_a_tag() -> None:
    table = (ROOT / "docs" / "which-api.md").read_text().split("## Clean up")[1].split("## Find rows")[0]
    rows = {row.split("](")[0].split("[")[1].strip("`"): row for row in table.splitlines() if row.startswith("| [")}
    doors: dict[Door, str] = {"LanceTable": "LanceTable.vacuum", "Dataset": "Dataset.cleanup_old_versions", "CALL": "CALL cleanup"}
    doors |= {"statement": "VACUUM", "command": "lance-spark cleanup"}
    for door, name in doors.items():
        default = next(p.default for p in CLEANUP.at(door) if p.name == "error_if_tagged_old_versions")
        assert ("it is kept" in rows[name]) == (default is False), door
        assert f"{DEFAULT_AGE.days} days" in rows[name]


def test_the_table_of_folders_has_every_folder() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| folder | what |")[1]
    named = {path.removeprefix("lance_spark/").removesuffix(".py").split("/")[-1] for path in re.findall(r"`([\w./]+)`", table)}
    folders = {p.parent.name for p in (ROOT / "lance_spark").glob("*/__init__.py")} - {"table", "_proto"}
    assert folders <= named


def test_the_api_page_lists_every_public_name() -> None:
    assert {*lance_spark.__all__} - {"errors"} == {name.removeprefix("lance_spark.") for name in LISTED}


def test_the_api_page_lists_what_public_classes_return() -> None:
    code = "from lance_spark import *; from returned_values import *; print(*(c.__name__ for c in returned_values(LanceTable, Dataset)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "scripts")])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert {"Scan", "MergeBuilder", "RowChanges", "Report", "Problem", "Tags", "Tag"} <= set(done.stdout.split())
    assert not {"Dataset", "Snapshot"} & set(done.stdout.split())


def test_the_picture_of_the_layers_shows_every_folder_above_those_that_it_imports() -> None:
    picture = subprocess.run([sys.executable, ROOT / "scripts" / "layers.py"], capture_output=True, text=True, check=True).stdout
    boxes = {name: int(y) for y, name in re.findall(r'class="name" x="\d+" y="(\d+)">(\w+)<', picture)}
    at_the_top = [room for room in ROOMS if "/" not in room and room not in ("__init__", "_proto", "version")]
    shown = at_the_top + [room for room in ROOMS if (ROOT / "lance_spark" / room).is_dir() and room != "_proto"]
    assert {room.split("/")[-1] for room in shown} <= boxes.keys()
    assert (
        boxes["spark"]
        < boxes["dataset"]
        < boxes["table"]
        < boxes["scan"]
        < boxes["file"]
        < boxes["layouts"]
        < boxes["encodings"]
        < boxes["kernels"]
    )
