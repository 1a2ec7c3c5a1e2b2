"""A query that is killed and started again writes every row once; HYPOTHESIS_PROFILE=full kills it 40 times."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import lance
import pytest

from tests.spark.processes import ROOT
from tests.spark_session import worker_environment

KILLS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 2
FILES = 4 * KILLS + 4

SCRIPT = """
import sys, lance_spark
from pyspark.sql import SparkSession
source, uri, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
lance_spark.enable(spark)
stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
writer = stream.writeStream.format("lance").option("checkpointLocation", checkpoint).trigger(availableNow=True)
writer.start(uri).awaitTermination()
"""


def versions(uri: str) -> int:
    return len(list(Path(uri, "_versions").glob("*.manifest")))


@pytest.mark.slow
@pytest.mark.timeout(60 * KILLS + 240)
def test_a_killed_stream_writes_every_row_once(tmp_path: Path) -> None:
    chance, uri = random.Random(7), str(tmp_path / "t.lance")
    (tmp_path / "in").mkdir()
    for i in range(FILES):
        (tmp_path / "in" / f"{i}.json").write_text(f'{{"id": {2 * i}}}\n{{"id": {2 * i + 1}}}\n')
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "in"), uri, str(tmp_path / "checkpoint")]
    environment, killed = {**os.environ, **worker_environment()}, 0
    while True:
        before = versions(uri)
        query = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
        while killed < KILLS and versions(uri) == before and query.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                query.wait(timeout=0.05)
        try:
            assert query.wait(timeout=chance.random() * 2 if killed < KILLS else None) == 0
            break
        except subprocess.TimeoutExpired:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
            killed += 1
    assert killed == KILLS
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(2 * FILES))
    lance.dataset(uri).validate()
