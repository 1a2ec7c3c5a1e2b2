"""The example of text search finds what it should, by words, by meaning and by both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_session import worker_environment

SCRIPT = Path(__file__).parents[1] / "examples" / "text_search" / "text_search.py"


@pytest.mark.slow
def test_the_documentation_is_searched_by_words_by_meaning_and_by_both(tmp_path: Path) -> None:
    environment = {**os.environ, **worker_environment()}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "split a string at spaces"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *_, header, _, _, _, _, _ = lines = done.stdout.splitlines()
    assert header.split("  ")[1].strip() == "by words"
    by_both = [line[78:].strip() for line in lines[-5:]]
    assert {"builtins.str.split", "builtins.str.rsplit"} <= set(by_both)
