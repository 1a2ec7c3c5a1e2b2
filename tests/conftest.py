"""Servers and sessions that tests of several folders need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3_server import running
from tests.spark_session import load, spark, uri

__all__ = ["load", "spark", "uri"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that speaks S3 and DynamoDB, with the bucket "tables"."""
    with running() as endpoint:
        yield endpoint


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests are run side by side, those of one session stay together. First, since xdist looks at the marks itself."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))
