"""Fixtures for tests in several folders: servers and sessions."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer

from lance_spark.storage.hadoop import hadoop_files
from lance_spark.table.maintenance import cleanup
from tests.s3_server import running
from tests.sample import representatives
from tests.schedule import SparkInOneWorker, by_spark, part_of
from tests.spark_session import load, spark, uri
from tests.storage.hadoop_cluster import Cluster

__all__ = ["load", "spark", "uri"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 and DynamoDB server with the bucket "tables"."""
    with running() as endpoint:
        yield endpoint


@pytest.fixture
def hadoop_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster with the rules of HDFS, in this process."""
    import hdfs_native

    (tmp_path / "hadoop").mkdir()
    cluster = Cluster(tmp_path / "hadoop")
    monkeypatch.setattr(hdfs_native, "Client", lambda address, settings: cluster)
    hadoop_files.cache_clear()
    yield "hdfs://cluster:8020"
    hadoop_files.cache_clear()


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other client is there, or its actions are immediate: cleanups need no pause."""
    if "among_others" not in request.fixturenames:
        monkeypatch.setattr(cleanup, "PAUSE_S", 0.0)


@pytest.fixture
def among_others() -> None:
    """Other clients change the table at any time: cleanups pause for their sake."""


def pytest_configure() -> None:
    # A shell ignores interrupts in the programs that it runs in the background, and so would the programs that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ImportError):
        read_descriptions_of_services_once()


def read_descriptions_of_services_once() -> None:
    """Each session of botocore reads megabytes of JSON about AWS, and hundreds of tests have sessions with options of their own."""
    from botocore.loaders import JSONFileLoader

    read = functools.cache(JSONFileLoader().load_file)
    JSONFileLoader.load_file = lambda self, path: read(path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look at its millions of objects again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkInOneWorker | None:
    if config.getvalue("dist") != "loadfile":
        return None
    return SparkInOneWorker(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m slow` selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cells of each matrix slow that are no representatives, and put files with Spark first.

    With the environment variable SLOW_PART, "2/3", leave only that part of the slow tests: the second of three.
    """
    matrices: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("matrix") and not item.get_closest_marker("slow"):
            matrices[item.nodeid.split("[")[0]].append(item)
    for cells in matrices.values():
        always = representatives(cells)
        for cell in cells:
            if cell not in always:
                cell.add_marker(pytest.mark.slow)
    # Programs that tests start, some of which run tests, have nothing to do with the part.
    part, _, parts = os.environ.pop("SLOW_PART", "1/1").partition("/")
    slow = [item for item in items if item.get_closest_marker("slow")]
    chosen = set(part_of(slow, int(part), int(parts)))
    left_out = [item for item in slow if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in chosen or not item.get_closest_marker("slow")]
    items[:] = by_spark(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files of tests took longest, fixtures included, if the run took minutes."""
    reports = [report for of_outcome in terminalreporter.stats.values() for report in of_outcome if isinstance(report, pytest.TestReport)]
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        seconds[report.nodeid.split("::")[0]] += report.duration
    if sum(seconds.values()) < 120:
        return
    terminalreporter.section("slowest files")
    for file, duration in sorted(seconds.items(), key=lambda entry: -entry[1])[:25]:
        terminalreporter.write_line(f"{duration:7.1f} s  {file}")
    terminalreporter.write_line(f"{sum(seconds.values()):7.1f} s  all {len(seconds)} files")
