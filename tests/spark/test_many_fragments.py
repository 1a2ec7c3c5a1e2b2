"""Queries of a table of thousands of fragments, whose tasks have the bytes of their part of the manifest."""

from __future__ import annotations

from dataclasses import replace

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.metadata.manifest import serialise
from tests.spark.test_metrics import scanned

FRAGMENTS, ROWS = 2_000, 10


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose fragments share one data file of ten rows. Of two fragments, rows were deleted."""
    uri = str(tmp_path_factory.mktemp("fragments") / "t.lance")
    snapshot = Dataset.write(uri, pa.table({"id": range(ROWS)})).snapshot
    (fragment,) = snapshot.manifest.fragments
    fragments = tuple(replace(fragment, id=i) for i in range(FRAGMENTS))
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, fragments=fragments, max_fragment_id=FRAGMENTS - 1)))
    Dataset.open(uri).delete("id > 4 AND _fragid IN (7, 1999)")
    return uri


def test_a_query_of_all_fragments_counts_as_pylance(spark: SparkSession, uri: str) -> None:
    df = spark.read.format("lance").load(uri)
    assert df.where("id > 3").count() == lance.dataset(uri).count_rows("id > 3") == 6 * FRAGMENTS - 10
    assert df.groupBy("id").count().where("count = 1998").count() == 5


def test_a_query_of_one_fragment_leaves_out_the_others(spark: SparkSession, uri: str) -> None:
    df = spark.read.format("lance").load(uri).where("_fragid = 1999").select("id")
    assert sorted(row.id for row in df.collect()) == [0, 1, 2, 3, 4]
    assert scanned(spark)["fragments skipped"] == f"{FRAGMENTS - 1:,}"


def test_an_earlier_version_has_its_own_fragments(spark: SparkSession, uri: str) -> None:
    first = spark.read.format("lance").option("version", 1).load(uri)
    assert first.where("_fragid = 7").count() == ROWS
