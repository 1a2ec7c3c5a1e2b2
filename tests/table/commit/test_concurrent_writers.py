"""Concurrent appends of processes and threads, half of them with pylance: no row is lost or duplicated."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError

# Many more for a soak: LANCE_SPARK_SOAK=1 lets 8 processes append 25 times from each of their two threads.
PROCESSES, APPENDS = (8, 25) if os.environ.get("LANCE_SPARK_SOAK") else (2, 6)
WRITERS = 2 * PROCESSES


def _rows(writer: int, number: int) -> pa.Table:
    return pa.table({"writer": [writer] * 3, "number": [number] * 3, "row": [0, 1, 2]})


def _until_it_lands(append: Callable[[], object]) -> None:
    """Repeat `append` when its library gives up after too many conflicts, which means that it was not committed."""
    while True:
        try:
            append()
            return
        except CommitConflictError as e:
            if not e.retryable:
                raise
        except OSError as e:
            if "Too many concurrent writers" not in str(e):
                raise


def _append(process: int, uri: str, options: dict[str, str], start: Any) -> None:
    def append(writer: int) -> None:
        for number in range(APPENDS):
            if process % 2:
                _until_it_lands(partial(lance.write_dataset, _rows(writer, number), uri, mode="append", storage_options=options))
            else:
                _until_it_lands(partial(Dataset.write, uri, _rows(writer, number), "append", storage_options=options))

    start.wait(timeout=250)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(append, [2 * process, 2 * process + 1]))


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_concurrent_appends_of_both_libraries_are_all_applied_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    uri, options = str(tmp_path / "t"), {}
    if kind == "s3":
        uri, endpoint = f"s3://tables/{uuid.uuid4().hex}/t", request.getfixturevalue("s3_server")
        options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
    Dataset.write(uri, _rows(-1, 0), storage_options=options)
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(PROCESSES)
    processes = [spawn.Process(target=_append, args=(i, uri, options, start)) for i in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    expected = sorted(
        [(-1, 0, row) for row in range(3)] + [(w, n, row) for w in range(WRITERS) for n in range(APPENDS) for row in range(3)]
    )
    for table in (lance.dataset(uri, storage_options=options).to_table(), Dataset.open(uri, storage_options=options).scan().to_table()):
        assert sorted(zip(*(table[name].to_pylist() for name in ("writer", "number", "row")), strict=True)) == expected
    assert Dataset.open(uri, storage_options=options).version == WRITERS * APPENDS + 1
    lance.dataset(uri, storage_options=options).validate()
