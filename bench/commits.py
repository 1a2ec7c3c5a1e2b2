"""python -m bench.commits [--quick]: commits per second of concurrent writers, and the cost of opening and appending by fragments.

Measures both libraries on a local disk and on a moto S3 server. The full run also writes docs/commits.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lance

from bench import growth, partitions
from bench.growth import ROWS, markdown, milliseconds
from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.metadata.manifest import serialise
from lance_spark.table.versions.history import newest_first, transaction_of
from tests import s3_server

DOCS = Path(__file__).parent.parent / "docs"
CONTESTANTS = ("ours", "pylance")
WRITERS, APPENDS, ROUNDS = 16, 50, 9
REMOTE_APPENDS = 4
"""The server is in Python and answers a few hundred requests a second."""
FRAGMENTS = (1, 1_000, 100_000)
KEYS = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "allow_http": "true"}


def append(who: str, uri: str, options: dict[str, str]) -> None:
    """One small append."""
    if who == "ours":
        Dataset.write(uri, ROWS, "append", storage_options=options)
    else:
        lance.write_dataset(ROWS, uri, mode="append", storage_options=options)


def writer(who: str, uri: str, options: dict[str, str], appends: int, start: Any, given_up: Any) -> None:
    """A process that appends until all its appends have succeeded, and counts those that its library gave up."""
    append(who, f"{uri}-{os.getpid()}", options)  # compiles kernels and connects clients
    start.wait()
    for _ in range(appends):
        while True:
            try:
                append(who, uri, options)
                break
            except (LanceError, OSError):
                with given_up.get_lock():
                    given_up.value += 1


@dataclass(frozen=True)
class Load:
    """Commits per second of concurrent writers, other commits that overtook each (mean, maximum), and the number given up."""

    rate: float
    mean: float
    most: int
    given_up: int

    @property
    def cells(self) -> list[str]:
        """The cells of the table."""
        return [f"{self.rate:.1f}", f"{self.mean:.1f} ({self.most})", str(self.given_up)]


def load(who: str, uri: str, options: dict[str, str], writers: int, appends: int) -> Load:
    """Start the writers on a new table, and check that every append succeeded."""
    Dataset.write(uri, ROWS, storage_options=options)
    spawn = multiprocessing.get_context("spawn")
    start, given_up = spawn.Barrier(writers + 1), spawn.Value("i", 0)
    arguments = (who, uri, options, appends, start, given_up)
    processes = [spawn.Process(target=writer, args=arguments) for _ in range(writers)]
    for process in processes:
        process.start()
    start.wait()
    begun = time.perf_counter()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - begun
    ds = Dataset.open(uri, storage_options=options)
    if any(process.exitcode for process in processes) or ds.count_rows() != ROWS.num_rows * (writers * appends + 1):
        raise RuntimeError(f"some appends of {who} are missing")
    snapshots = [s for s in newest_first(ds.snapshot.store) if s.version > 1]
    overtaken = [s.version - 1 - transaction_of(s).read_version for s in snapshots]
    return Load(writers * appends / seconds, statistics.mean(overtaken), max(overtaken), given_up.value)


def loads(folder: Path, writers: int, local: int, remote: int) -> Iterator[list[str]]:
    """The rows of the first table; `local` and `remote` are the appends of each writer."""
    with s3_server.running() as endpoint:
        s3 = {**KEYS, "endpoint": endpoint}
        for place, uri, given, appends in (("local disk", str(folder), {}, local), ("S3 (moto)", "s3://tables", s3, remote)):
            results = [load(who, f"{uri}/{who}", given, writers, appends) for who in CONTESTANTS]
            ratio = results[0].rate / results[1].rate
            yield [place, str(appends), *results[0].cells, *results[1].cells, f"{ratio:.2f}"]


def with_fragments(uri: str, count: int, size: int | None = None) -> None:
    """Create a table with `count` fragments. They share one data file, whose `size` is another in the manifest if nothing reads it."""
    snapshot = Dataset.write(uri, ROWS).snapshot
    (fragment,) = snapshot.manifest.fragments
    if size is not None:
        fragment = replace(fragment, files=tuple(replace(file, size=size) for file in fragment.files))
    fragments = tuple(replace(fragment, id=i) for i in range(count))
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, fragments=fragments, max_fragment_id=count - 1)))


def costs(folder: Path, rounds: int) -> Iterator[list[str]]:
    """The rows of the second table."""
    for count in FRAGMENTS:
        table = str(folder / str(count))
        with_fragments(table, count)
        yield [f"{count:,}", *cost(table, f"{table}-copy", rounds)]


def cost(table: str, copy: str, rounds: int) -> list[str]:
    """Measure opening a table, counting its rows, and appending to a new copy of it."""

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(table, copy)

    opening = milliseconds([lambda: Dataset.open(table).schema, lambda: lance.dataset(table).schema], rounds)
    counting = milliseconds([lambda: Dataset.open(table).count_rows(), lambda: lance.dataset(table).count_rows()], rounds)
    appending = milliseconds([lambda: append("ours", copy, {}), lambda: append("pylance", copy, {})], rounds, fresh)
    return [*opening, *counting, *appending]


LOAD_COLUMNS = ("commits/s", "overtaken", "given up")
LOAD_HEADS = ("store", "appends of each", *(f"{who}, {column}" for who in CONTESTANTS for column in LOAD_COLUMNS), "rate, ours / pylance")
COST_HEADS = ("fragments", *(f"{what}, {who}" for what in ("open", "count", "append") for who in ("ms", "pylance, ms", "ratio")))


def page(
    load_lines: Sequence[Sequence[str]],
    cost_lines: Sequence[Sequence[str]],
    growth_lines: Sequence[Sequence[str]],
    task_table: str,
    partition_lines: Sequence[Sequence[Sequence[str]]],
    writers: int,
    rounds: int,
) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow", "s3fs", "moto"))
    return f"""# Commits

Made by `make bench-commits` in one run on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Times differ
between machines and between runs, so compare only the ratios of one run.

## Concurrent writers

{writers} processes append {ROWS.num_rows} rows several times each to one table; all appends succeed. *Overtaken* is the number of other
commits between the start and the end of an append, on average (maximum). *Given up* is the number of times that the library raised a
conflict and the append was started again. Our commits to a local disk are durable (fsync of the data file, the manifest and
their folders); pylance does not fsync.

{markdown(LOAD_HEADS, load_lines)}

## Cost by the number of fragments

Milliseconds, the median of {rounds} alternating rounds on a local disk. *Open* reads the latest version and returns its schema,
*count* opens it and counts its rows, *append* adds {ROWS.num_rows} rows in one commit, which writes a manifest of all fragments.

{markdown(COST_HEADS, cost_lines)}

## Cost by the number of columns, fragments, rows and versions

Milliseconds, the median of {growth.ROUNDS} alternating rounds on a local disk.

The first write with a `txnAppId` after versions of other writers reads the transactions of all these versions, and this once: any of them
may have such a number among its properties, which other writers let their users set, and no manifest tells that none has. What is found
is recorded in the manifest that the write makes, so that later writes, also those of other applications, read no history.

{markdown(growth.HEADS, growth_lines)}

## Many small tasks

Milliseconds of a Spark write, the median of 3 alternating rounds after a warm-up round, in a session with two cores.

{task_table}

## Partitioned namespaces

Opening a namespace on a local disk and planning a scan of {partitions.KEPT} of its partitions, the median of {rounds} rounds; and
one job without Spark that writes {partitions.ROWS} rows to each partition, to new tables and then to existing ones. Memory is the
process's.

{markdown(partitions.PLAN_HEADS, partition_lines[0])}

{markdown(partitions.WRITE_HEADS, partition_lines[1])}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 writers of few appends, two rounds; writes nothing")
    quick = parser.parse_args().quick
    writers, appends, remote, rounds = (4, 5, 2, 2) if quick else (WRITERS, APPENDS, REMOTE_APPENDS, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        cost_lines = list(costs(Path(folder), rounds))
        growth_lines = list(growth.growth(Path(folder), growth.QUICK if quick else 1))
        written = partitions.writes(Path(folder), partitions.WRITTEN[: 1 if quick else 2])
        partition_lines = [list(partitions.plannings(Path(folder), rounds)), list(written)]
        load_lines = list(loads(Path(folder), writers, appends, remote))
    # Spark forks a process when it starts, which pylance in this one does not survive for certain.
    command = [sys.executable, "-m", "bench.tasks", *(["--quick"] if quick else [])]
    task_table = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    text = page(load_lines, cost_lines, growth_lines, task_table, partition_lines, writers, rounds)
    print(text)
    if not quick:
        (DOCS / "commits.md").write_text(text)


if __name__ == "__main__":
    main()
