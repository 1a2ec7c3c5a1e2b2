"""Servers that tests of several folders need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3_server import running


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that speaks S3 and DynamoDB, with the bucket "tables"."""
    with running() as endpoint:
        yield endpoint
