"""mergeSchema adds columns with an append, in one version; they are null in existing rows."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def append(request: pytest.FixtureRequest, uri: str) -> Callable[[DataFrame], None]:
    lance.write_dataset(pa.table({"id": [1, 2], "a": ["x", "y"]}), uri, enable_stable_row_ids=request.param)

    def append(df: DataFrame) -> None:
        df.write.format("lance").mode("append").option("mergeSchema", True).save(uri)

    return append


def read(uri: str) -> list[dict[str, object]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])


def test_new_columns_are_added_with_the_rows(append: Callable[[DataFrame], None], uri: str, spark: SparkSession) -> None:
    append(spark.createDataFrame([(3, 0.5, [1, 2])], "id long, b double, c array<int>"))
    assert read(uri) == [
        {"id": 1, "a": "x", "b": None, "c": None},
        {"id": 2, "a": "y", "b": None, "c": None},
        {"id": 3, "a": None, "b": 0.5, "c": [1, 2]},
    ]
    assert lance.dataset(uri).version == 2
    append(spark.createDataFrame([(4, "z")], "id long, a string"))
    lance.write_dataset(pa.table({"id": [5], "a": ["p"], "b": [1.5], "c": pa.array([None], pa.list_(pa.int32()))}), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert [row["id"] for row in read(uri)] == [1, 2, 3, 4, 5]
    ids = lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == 5


def test_types_that_do_not_fit_are_refused(append: Callable[[DataFrame], None], uri: str, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="'a' is int32"):
        append(spark.createDataFrame([(3, 1, 1)], "id long, a int, new int"))
    assert lance.dataset(uri).version == 1
