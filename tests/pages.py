"""The tables of documentation pages that are made from the package. `python -m tests.pages` writes them into the pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.options import page as options

DOCS = Path(__file__).parents[1] / "docs"

PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "options.md": {"options": options.table},
}
"""By the page, the tables in it, each between two comments with its name."""


def written(text: str, name: str, table: str) -> str:
    """The text of a page with a table between the comments of this name."""
    begin, end = f"<!-- begin {name}: make pages -->\n", f"\n<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    found, count = pattern.subn(lambda _: begin + table + end, text)
    assert count == 1, f"the page has {count} places for the table {name}"
    return found


def page(name: str) -> str:
    """The text that a page should have."""
    text = (DOCS / name).read_text()
    for table, make in PAGES[name].items():
        text = written(text, table, make())
    return text


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name))
