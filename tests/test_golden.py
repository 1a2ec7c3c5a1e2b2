"""The vendored tables, written by pylance 0.7 to 14.0.2, are read as expected. See golden/PROVENANCE.md."""

import re
from pathlib import Path

import pytest

from tests.tables import Case, cases

GOLDEN = Path(__file__).parent / "golden"
CASES = list(cases(GOLDEN))


def test_every_table_of_the_provenance_is_here_and_no_other() -> None:
    told = re.findall(r"^\| `(\w+)` \|", (GOLDEN / "PROVENANCE.md").read_text(), re.MULTILINE)
    assert len(told) > 50
    assert sorted(told) == sorted(p.stem for p in GOLDEN.glob("*.lance")) == sorted({c.table.stem for c in CASES})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_table_is_read_as_expected(case: Case) -> None:
    case.check()
