"""The example of vector search finds pictures of the same digit, and recall grows with what is searched."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "vector_search" / "vector_search.py"


@pytest.mark.slow
def test_pictures_of_digits_are_found_by_an_index_with_and_without_filters(tmp_path: Path) -> None:
    root = str(SCRIPT.parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(SCRIPT)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    nearest, before, after = (ast.literal_eval(found) for found in re.findall(r"\[.*\]", done.stdout))
    assert [row["label"] for row in nearest] == [1] * 5
    assert len(before) == 5
    assert 1 not in {row["label"] for row in before}
    assert len(after) < 5
    recalls = [float(recall) for recall in re.findall(r"^ +\d+ +[\d-]+ +([\d.]+)  ", done.stdout, re.MULTILINE)]
    assert len(recalls) == 10
    assert recalls[0] < recalls[5] < recalls[-1]
    assert recalls[-1] > 0.99
    pairs, pictures, groups, largest = map(int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
    assert 2 <= largest <= pictures
    assert groups < pictures <= 2 * pairs
