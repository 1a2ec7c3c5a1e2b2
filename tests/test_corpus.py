"""The whole corpus of tables in the folder LANCE_SPARK_CORPUS, if this environment variable is set."""

import os
from pathlib import Path
from typing import Any

import pytest

from lance_spark.errors import UnsupportedFeatureError
from tests.tables import cases

FOLDER = os.environ.get("LANCE_SPARK_CORPUS")
CASES = [case for folder in ("visible", "unstable") for case in cases(Path(FOLDER) / folder)] if FOLDER else []


KNOWN = {
    "o0_10_18_v2_nestednull": "expects the rows as their writer read them, which lost items that are in the file; we give those",
}


@pytest.mark.skipif(FOLDER is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_every_table_of_the_corpus_is_read_as_expected(subtests: Any) -> None:
    assert CASES, f"no tables in {FOLDER}"
    for case in CASES:
        with subtests.test(case.id):
            if "overlay" in case.id and case.version is None:
                with pytest.raises(UnsupportedFeatureError, match="data overlays"):
                    case.check()
            elif case.id in KNOWN:
                with pytest.raises(AssertionError):
                    case.check()
            else:
                case.check()
