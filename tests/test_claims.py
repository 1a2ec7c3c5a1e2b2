"""What the pages claim about other products is what the measurements say: each figure names its row."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
_CLAIM = re.compile(r"<!-- measured: (?P<page>[\w-]+\.md); (?P<row>[^;]+); (?P<column>[^;]+?) (?P<sign>[=<>]) (?P<value>[\d.]+) -->")
_SIGNS = {"=": operator.eq, "<": operator.lt, ">": operator.gt}
CLAIMS = [
    (page.name, claim) for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))] for claim in _CLAIM.finditer(page.read_text())
]


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def measured(page: Path, row: str, column: str) -> float:
    """The number in a table of a page, in the row that begins with a text and the column under a text."""
    lines = page.read_text().splitlines()
    for head, line in enumerate(lines):
        if not line.startswith("|") or column not in cells(line):
            continue
        for below in lines[head + 2 :]:
            if not below.startswith("|"):
                break
            if cells(below)[0] == row:
                return float(cells(below)[cells(line).index(column)].split()[0].replace(",", ""))
    raise AssertionError(f"{page.name} has no row {row!r} with a column {column!r}")


@pytest.mark.parametrize(("page", "claim"), CLAIMS, ids=lambda value: value if isinstance(value, str) else value["row"])
def test_a_claim_is_what_its_row_says(page: str, claim: re.Match[str]) -> None:
    found = measured(DOCS / claim["page"], claim["row"], claim["column"])
    assert _SIGNS[claim["sign"]](found, float(claim["value"])), f"{page}: {claim[0]}, but it is {found}"


def test_every_figure_of_the_comparison_names_its_row() -> None:
    for line in (DOCS / "comparison.md").read_text().splitlines():
        figures = set(re.findall(r"(?<![\d.])\d+\.\d\d(?![\d.])", _CLAIM.sub("", line)))
        assert figures <= {claim["value"] for claim in _CLAIM.finditer(line)}, line


def test_every_statement_of_the_comparison_says_where_it_comes_from() -> None:
    rows = [cells(line) for line in (DOCS / "comparison.md").read_text().splitlines() if line.startswith("|")]
    assert rows
    for row in rows:
        assert row[-1], row


def test_a_wrong_figure_and_an_unknown_row_are_found(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text("| work | ours / pylance |\n|---|---:|\n| a scan | 0.44 |\n")
    assert measured(page, "a scan", "ours / pylance") == 0.44
    with pytest.raises(AssertionError, match="no row 'another'"):
        measured(page, "another", "ours / pylance")
