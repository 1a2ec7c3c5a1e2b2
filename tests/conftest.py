"""Fixtures for tests in several folders: servers and sessions."""

from __future__ import annotations

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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With parallel workers, keep the tests of one session together. This must run before xdist reads the marks."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))
