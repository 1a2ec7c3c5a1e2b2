"""A lance table of a Hive metastore is one of the SQL catalog, too: the scripts of `test_same_in_both_catalogs`, in a real metastore."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.namespace import catalog_servers
from tests.spark.processes import ROOT
from tests.spark.test_same_in_both_catalogs import CATALOGS, DIFFERENT, SCRIPTS, Outcome, outcomes_of
from tests.spark_session import worker_environment

pytestmark = pytest.mark.slow

SCRIPTS = {"writers": SCRIPTS["writers"]}
DIFFERENT_IN_HIVE: dict[tuple[str, str], str] = {}
"""What is different in a Hive metastore alone, with the reason."""


@pytest.fixture(scope="module")
def in_hive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    """The outcomes of the scripts in a session whose catalog is a Hive metastore."""
    folder = tmp_path_factory.mktemp("hive")
    with catalog_servers.hive(folder) as metastore:
        command = [sys.executable, "-m", "tests.spark.hive_session", metastore, str(folder), *SCRIPTS]
        environment = {**os.environ, **worker_environment(), "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    found: dict[str, dict[str, Outcome]] = pickle.loads((folder / "outcomes").read_bytes())
    return found


@pytest.fixture(scope="module")
def in_sql(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    """Those in a SQL catalog."""
    lance_spark.catalog(spark, "lance", root=str(tmp_path_factory.mktemp("lake")))
    space = CATALOGS["sql"]
    found = {}
    for name, steps in SCRIPTS.items():
        spark.sql(f"CREATE NAMESPACE {space}")
        found[name] = outcomes_of(spark, steps, space)
        spark.sql(f"DROP NAMESPACE {space} CASCADE")
    return found


@pytest.mark.parametrize(("script", "step"), [(script, step) for script, steps in SCRIPTS.items() for step in steps])
def test_a_step_has_the_same_outcome_in_hive(
    in_hive: dict[str, dict[str, Outcome]], in_sql: dict[str, dict[str, Outcome]], script: str, step: str
) -> None:
    hive, sql = in_hive[script][step], in_sql[script][step]
    if (script, step) in DIFFERENT or (script, step) in DIFFERENT_IN_HIVE:
        assert hive != sql, "the difference is gone: take it out of the list, and out of docs/limits.md"
        return
    assert hive == sql
