"""A lance table of a Hive metastore is one of the SQL catalog, too: the scripts of `test_same_in_both_catalogs`, in a real metastore."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.namespace import catalog_servers
from tests.spark.processes import ROOT
from tests.spark.test_same_in_both_catalogs import CATALOGS, DIFFERENT, SCRIPTS, Outcome, outcomes_of
from tests.spark_session import worker_environment

pytestmark = pytest.mark.slow

Outcomes = Callable[[str], dict[str, Outcome]]
"""The outcomes of a script, by the names of its steps."""


@pytest.fixture(scope="module")
def in_hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """Those in a session whose own catalog is a Hive metastore."""
    folder = tmp_path_factory.mktemp("hive")
    with catalog_servers.hive(folder) as metastore:

        def of(script: str) -> dict[str, Outcome]:
            kept = folder / script
            if not kept.exists():
                command = [sys.executable, "-m", "tests.spark.hive_session", metastore, str(folder), script]
                environment = {**os.environ, **worker_environment(), "PYTHONPATH": str(ROOT)}
                ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
                assert not ran.returncode, ran.stderr
            found: dict[str, Outcome] = pickle.loads(kept.read_bytes())
            return found

        yield of


@pytest.fixture(scope="module")
def in_sql(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Those in a SQL catalog."""
    lance_spark.catalog(spark, "lance", root=str(tmp_path_factory.mktemp("lake")))
    known: dict[str, dict[str, Outcome]] = {}

    def of(script: str) -> dict[str, Outcome]:
        if script not in known:
            space = CATALOGS["sql"]
            spark.sql(f"CREATE NAMESPACE {space}")
            known[script] = outcomes_of(spark, SCRIPTS[script], space)
            spark.sql(f"DROP NAMESPACE {space} CASCADE")
        return known[script]

    return of


@pytest.mark.parametrize(("script", "step"), [(script, step) for script, steps in SCRIPTS.items() for step in steps])
def test_a_step_has_the_same_outcome_in_hive(in_hive: Outcomes, in_sql: Outcomes, script: str, step: str) -> None:
    hive, sql = in_hive(script)[step], in_sql(script)[step]
    if (script, step) in DIFFERENT:
        assert hive != sql, "the difference is gone: take it out of the list, and out of docs/limits.md"
        return
    assert hive == sql
