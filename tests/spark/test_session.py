"""lance_spark.enable and lance_spark.write, and the parts that work without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset

ROOT = Path(__file__).parents[2]


def test_enable_can_be_called_again_and_for_other_sessions(spark: SparkSession, uri: str) -> None:
    lance_spark.enable(spark)
    other = spark.newSession()
    lance_spark.enable(other)
    lance_spark.write(spark.range(2), uri)
    assert other.read.format("lance").load(uri).count() == 2


def test_write_has_all_four_modes(spark: SparkSession, load: Callable[..., DataFrame], uri: str) -> None:
    def ids() -> list[int]:
        return sorted(row.id for row in load(uri).collect())

    lance_spark.write(spark.range(1), uri)
    with pytest.raises(lance_spark.errors.TableAlreadyExistsError, match=r"already exists.*version 1"):
        lance_spark.write(spark.range(2), uri)
    lance_spark.write(spark.range(2), uri, mode="ignore")
    assert ids() == [0]
    lance_spark.write(spark.range(1, 3), uri, mode="append", max_rows_per_file=1)
    assert ids() == [0, 1, 2]
    lance_spark.write(spark.range(7, 8), uri, mode="overwrite")
    assert ids() == [7]
    assert Dataset.open(uri).version == 3
    with pytest.raises(ValueError, match="mode must be"):
        lance_spark.write(spark.range(2), uri, mode="upsert")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
def test_every_mode_creates_a_missing_table(spark: SparkSession, uri: str, mode: str) -> None:
    lance_spark.write(spark.range(3), uri, mode=mode, data_storage_version="2.1")  # type: ignore[arg-type]
    assert Dataset.open(uri).count_rows() == 3
    assert Dataset.open(uri).snapshot.manifest.data_format == "2.1"


def test_a_table_made_in_between_is_not_appended_to(spark: SparkSession, uri: str) -> None:
    lance_spark.write(spark.range(3), uri)
    with pytest.raises(Exception, match="TableAlreadyExistsError"):
        spark.range(3).write.format("lance").mode("append").option("write_mode", "create").save(uri)
    assert Dataset.open(uri).count_rows() == 3


def test_the_engine_free_part_needs_no_pyspark() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
import lance_spark
from lance_spark import Dataset
from lance_spark.errors import LanceError
assert set(lance_spark.__all__) <= {*dir(lance_spark), *lance_spark._LAZY}
try:
    lance_spark.enable
except ImportError:
    print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"


def test_all_public_names_exist() -> None:
    for name in lance_spark.__all__:
        assert getattr(lance_spark, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(lance_spark, "nothing")  # noqa: B009


def test_spark_finds_the_format_where_the_package_is_installed(tmp_path: Path) -> None:
    # Spark looks through the top-level modules whose names begin with pyspark_; here from elsewhere, without PYTHONPATH.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    script = "import pkgutil; print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')])"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "pyspark_lance" in done.stdout, done.stderr
