"""Queries that are killed and started again write and read every row once; HYPOTHESIS_PROFILE=full kills each 40 times."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.spark.processes import ROOT
from tests.spark_session import worker_environment

KILLS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 2
FILES = 4 * KILLS + 4

START = """
import sys, lance_spark
from lance_spark import LanceTable
from pyspark.sql import SparkSession
source, uri, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
lance_spark.enable(spark)
def run(writer):
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()  # before Spark 4.2, availableNow reads one batch within the limits
    query.stop()
"""
SCRIPT = """
stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
run(stream.writeStream.format("lance").option("path", uri))
"""
COPY = """
stream = spark.readStream.format("lance").option("maxFilesPerTrigger", 1).load(source)
run(stream.writeStream.format("lance").option("path", uri))
"""
UPSERT = """
def upsert(rows, number):
    merge = LanceTable.forPath(spark, uri).alias("t").merge(rows.alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"n": "t.n + 1"}).whenNotMatchedInsert(values={"id": "s.id", "n": "1"})
    merge.execute(txnAppId="upserts", txnVersion=number)
run(spark.readStream.format("lance").option("maxFilesPerTrigger", 1).load(source).writeStream.foreachBatch(upsert))
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
    command = [sys.executable, "-c", START + SCRIPT, str(tmp_path / "in"), uri, str(tmp_path / "checkpoint")]
    run_with_kills(command, uri, chance)
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(2 * FILES))
    lance.dataset(uri).validate()


@pytest.mark.slow
@pytest.mark.timeout(60 * KILLS + 240)
@pytest.mark.parametrize("script", [COPY, UPSERT], ids=["source and sink", "merges of foreachBatch"])
def test_a_killed_stream_of_a_table_reads_every_row_once(tmp_path: Path, script: str) -> None:
    """Ours and pylance append to the source before each start. A merge counts how often a row has come."""
    chance, uri, source = random.Random(11), str(tmp_path / "t.lance"), str(tmp_path / "s.lance")
    schema = [("id", pa.int64())] if script == COPY else [("id", pa.int64()), ("n", pa.int64())]
    Dataset.write(uri, pa.table({name: pa.array([], kind) for name, kind in schema}))
    written = 0

    def append() -> None:
        nonlocal written
        for write in (
            lambda rows: Dataset.write(source, rows, mode="append"),
            lambda rows: lance.write_dataset(rows, source, mode="append"),
        ):
            for _ in range(3):
                write(pa.table({"id": pa.array([written, written + 1], pa.int64())}))
                written += 2

    command = [sys.executable, "-c", START + script, source, uri, str(tmp_path / "checkpoint")]
    run_with_kills(command, uri, chance, append)
    found = lance.dataset(uri).to_table().sort_by("id").to_pydict()
    assert found["id"] == list(range(written))
    assert set(found.get("n", [1])) == {1}
    lance.dataset(uri).validate()


@pytest.mark.slow
@pytest.mark.timeout(120 * KILLS + 240)
def test_two_killed_streams_and_other_writers_share_a_table(tmp_path: Path) -> None:
    """Four writers, two of ours and two of pylance, append to the table of both queries all the time."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"id": pa.array([], pa.int64())}))
    commands = []
    for number, folder in enumerate((tmp_path / "even", tmp_path / "odd")):
        folder.mkdir()
        for i in range(FILES):
            (folder / f"{i}.json").write_text(f'{{"id": {2 * i + number}}}\n')
        commands.append([sys.executable, "-c", START + SCRIPT, str(folder), uri, str(tmp_path / f"checkpoint-{number}")])
    stopped, appended = threading.Event(), [0, 0, 0, 0]

    def append(writer: int) -> None:
        while not stopped.wait(0.2):
            rows = pa.table({"id": pa.array([-1 - writer], pa.int64())})
            if writer % 2:
                Dataset.write(uri, rows, mode="append")
            else:
                try:
                    lance.write_dataset(rows, uri, mode="append")
                except OSError as e:
                    if "Too many concurrent writers" not in str(e):
                        raise
                    continue  # pylance gives up after 30 seconds
            appended[writer] += 1

    with ThreadPoolExecutor(6) as threads:
        writers = [threads.submit(append, writer) for writer in range(4)]
        queries = [threads.submit(run_with_kills, command, uri, random.Random(command[-1])) for command in commands]
        try:
            for query in queries:
                query.result()
        finally:
            stopped.set()
        for writer in writers:
            writer.result()
    found = Counter(lance.dataset(uri).to_table()["id"].to_pylist())
    assert found == {**dict.fromkeys(range(2 * FILES), 1), **{-1 - writer: count for writer, count in enumerate(appended)}}
    lance.dataset(uri).validate()


def run_with_kills(command: list[str], uri: str, chance: random.Random, before_start: Callable[[], None] = lambda: None) -> None:
    """Run a query to its end, after it was killed `KILLS` times, each soon after a version that it has written."""
    environment, killed = {**os.environ, **worker_environment()}, 0
    while True:
        before_start()
        before = versions(uri)
        query = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
        while killed < KILLS and versions(uri) == before and query.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                query.wait(timeout=0.05)
        try:
            assert query.wait(timeout=chance.random() * 2 if killed < KILLS else None) == 0
            if killed == KILLS:
                return
            killed += 1  # it ended before it was killed
        except subprocess.TimeoutExpired:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
            killed += 1
