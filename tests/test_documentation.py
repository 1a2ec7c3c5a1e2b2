"""The documentation follows the code: the API page names what there is, and the picture of the layers shows every folder."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import lance_spark
from lance_spark import errors
from tests.test_imports import ROOMS

ROOT = Path(__file__).parents[1]
LISTED = re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)


def test_the_api_page_lists_names_where_they_are_defined() -> None:
    for name in LISTED:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
        assert module in ("lance_spark", found.__module__), f"{name} is defined in {found.__module__}"


def test_the_api_page_lists_every_public_name() -> None:
    public = {name for name in lance_spark.__all__ if not hasattr(errors, name)}
    assert public <= {name.removeprefix("lance_spark.") for name in LISTED}


def test_the_picture_of_the_layers_shows_every_folder_above_those_that_it_imports() -> None:
    picture = subprocess.run([sys.executable, ROOT / "scripts" / "layers.py"], capture_output=True, text=True, check=True).stdout
    boxes = {name: int(y) for y, name in re.findall(r'class="name" x="\d+" y="(\d+)">(\w+)<', picture)}
    shown = [room for room in ROOMS if room not in ("__init__", "_proto", "version")]
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
