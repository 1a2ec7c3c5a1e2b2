"""The fixture of a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.catalog.lakes import Lake, lake


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made
