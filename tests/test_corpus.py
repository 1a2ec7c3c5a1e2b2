"""The whole corpus of tables, where there is one: the environment variable LANCE_SPARK_CORPUS names its folder."""

import os
from pathlib import Path

import pytest

from tests.tables import Case, cases

FOLDER = os.environ.get("LANCE_SPARK_CORPUS")
CASES = [case for folder in ("visible", "unstable") for case in cases(Path(FOLDER) / folder)] if FOLDER else []


@pytest.mark.skipif(FOLDER is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_there_is_a_corpus():
    assert CASES, f"no tables in {FOLDER}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.table.parent.name}/{case.id}")
def test_a_table_is_read_as_expected(case: Case):
    case.check()
