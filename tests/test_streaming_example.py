"""The example of streaming, killed in the middle and started again, has each payment once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lance_spark import Dataset
from tests.spark_session import worker_environment

SCRIPT = Path(__file__).parents[1] / "examples" / "streaming" / "streaming.py"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_ledger_agrees_with_the_accounts_though_the_queries_were_killed(tmp_path: Path) -> None:
    command, environment = [sys.executable, str(SCRIPT), str(tmp_path)], {**os.environ, **worker_environment()}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    # Version 1 of the accounts is empty; the merge of the second batch may be anywhere when the process is killed.
    while first.poll() is None and len(list(tmp_path.glob("accounts.lance/_versions/*.manifest"))) < 2:
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "Python worker failed to connect back" in done.stderr:
        # Spark gives a worker 10 seconds to start, which a busy machine may exceed. The queries go on where they were.
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    amounts = [i * i % 100 - 40 for i in range(120)]
    assert done.stdout.splitlines()[-1] == f"7 accounts with {sum(amounts)} in all: the ledger agrees"
    assert sorted(Dataset.open(str(tmp_path / "payments.lance")).scan().to_table()["id"].to_pylist()) == list(range(120))
