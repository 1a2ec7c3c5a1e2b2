"""replaceWhere replaces the rows of a condition in one version; overwriteSchema=false keeps the columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark import Dataset

Save = Callable[..., None]


@pytest.fixture
def save(spark: SparkSession, uri: str) -> Save:
    def save(rows: list[tuple[object, ...]], schema: str = "day string, n long", **options: str) -> None:
        spark.createDataFrame(rows, schema).write.format("lance").mode("overwrite").options(**options).save(uri)

    save([("mon", 1), ("mon", 2), ("tue", 3), (None, 4)])
    return save


def rows(uri: str) -> list[tuple[object, ...]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted((tuple(row.values()) for row in dataset.to_table().to_pylist()), key=repr)


def test_only_rows_of_the_condition_are_replaced_in_one_version(save: Save, uri: str) -> None:
    save([("mon", 10)], replaceWhere="day = 'mon'")
    assert rows(uri) == [("mon", 10), ("tue", 3), (None, 4)]
    assert lance.dataset(uri).version == 2


def test_rows_that_do_not_satisfy_the_condition_are_refused(save: Save, uri: str) -> None:
    for wrong in ("tue", None):
        with pytest.raises(PySparkException, match="does not satisfy the condition of replaceWhere"):
            save([("mon", 10), (wrong, 11)], replaceWhere="day = 'mon'")
    assert lance.dataset(uri).version == 1
    assert len(list(Path(uri, "data").iterdir())) == len(lance.dataset(uri).get_fragments())


def test_replacing_by_nothing_deletes(save: Save, uri: str) -> None:
    save([], replaceWhere="n > 2")
    assert rows(uri) == [("mon", 1), ("mon", 2)]


def test_the_columns_stay_without_overwrite_schema(save: Save, uri: str) -> None:
    ids = [f.id() for f in lance.dataset(uri).lance_schema.fields()]
    with pytest.raises(PySparkException, match="is not in the table"):
        save([(1,)], "other long", overwriteSchema="false")
    save([(7,)], "n long", overwriteSchema="false")
    assert Dataset.open(uri).scan().to_table().to_pylist() == [{"day": None, "n": 7}]
    assert [f.id() for f in lance.dataset(uri).lance_schema.fields()] == ids


def test_the_option_requires_overwrite(spark: SparkSession, save: Save, uri: str) -> None:
    with pytest.raises(PySparkException, match="requires Spark's mode overwrite"):
        spark.range(1).write.format("lance").mode("append").option("replaceWhere", "id = 1").save(uri)


def test_the_rows_of_a_new_table_satisfy_it_too(spark: SparkSession, uri: str) -> None:
    rows = spark.range(3).write.format("lance").mode("overwrite")
    with pytest.raises(PySparkException, match="does not satisfy the condition of replaceWhere"):
        rows.option("replaceWhere", "id > 0").save(uri)
    assert not Path(uri, "_versions").exists()
    rows.option("replaceWhere", "id >= 0").save(uri)
    assert lance.dataset(uri).count_rows() == 3


@pytest.mark.parametrize("option", ["mergeSchema", "overwriteSchema"])
def test_options_of_the_schema_are_refused_by_name(save: Save, uri: str, option: str) -> None:
    with pytest.raises(PySparkException, match=f"{option}=true does not apply"):
        save([("mon", 1, 2)], "day string, n long, m long", replaceWhere="day = 'mon'", **{option: "true"})
    assert lance.dataset(uri).version == 1
