"""docs/conformance.md: every section of the specification has a test, and the page is what the marks of the tests say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "scripts" / "conformance.py"


def conformance() -> Any:
    spec = importlib.util.spec_from_file_location("conformance", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_section_has_a_test() -> None:
    assert conformance().untested() == []


def test_the_page_is_up_to_date() -> None:
    module = conformance()
    assert module.PAGE.read_text() == module.page(), "run python scripts/conformance.py"
