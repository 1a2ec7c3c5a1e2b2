"""The example of a backfill is killed and resumed, computes appended pictures only, and finds pictures of the same digit."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_session import worker_environment

SCRIPT = Path(__file__).parents[1] / "examples" / "backfill" / "backfill.py"


@pytest.mark.slow
def test_embeddings_are_resumed_and_extended_and_searched(tmp_path: Path) -> None:
    environment = {**os.environ, **worker_environment(), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (rows, now), (appended, computed) = ((int(a), int(b)) for a, b in re.findall(r"(\d+) rows got .* (\d+) of them", done.stdout))
    assert rows == 1500
    assert 0 < now < 1500
    assert (appended, computed) == (297, 297)
    labels = ast.literal_eval(re.findall(r"\[.*\]", done.stdout)[-1])
    assert labels.count(8) >= 4
