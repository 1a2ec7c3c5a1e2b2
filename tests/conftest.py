"""Fixtures for tests in several folders: servers and sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.s3_server import running
from tests.spark_session import load, spark, uri

__all__ = ["load", "spark", "uri"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 and DynamoDB server with the bucket "tables"."""
    with running() as endpoint:
        yield endpoint


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With parallel workers, keep the tests of one session together. This must run before xdist reads the marks.

    There are two sessions, each with about half of the tests' time: files in tests/spark, and all others.

    With the environment variable SLOW_PART, "2/3", only that part of the slow tests is left: every third one, from the second on.
    """
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark" if item.path.parent.name == "spark" else "spark in folders"))
    part, _, parts = os.environ.get("SLOW_PART", "1/1").partition("/")
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {id(item) for number, item in enumerate(slow) if number % int(parts) != int(part) - 1}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]
