"""`make demo`: the quickstart runs and prints the expected output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_session import worker_environment

SCRIPT = Path(__file__).parents[1] / "examples" / "quickstart" / "quickstart.py"


@pytest.mark.slow
def test_the_quickstart_writes_appends_queries_and_travels_back(tmp_path: Path) -> None:
    environment = {**os.environ, **worker_environment()}
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for shown in (
        "|1710|    7|",
        "|    3|  183|",
        "version 1 has 1500 rows, the latest 1797",
        "{'id': 0, 'label': 0} is nearest to {'id': 877, 'label': 0}",
    ):
        assert shown in done.stdout
