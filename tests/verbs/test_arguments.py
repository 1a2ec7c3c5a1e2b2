"""Verbs of `LanceTable` know the names that arguments have in `Dataset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable

ROWS = pa.table({"id": [1, 2, 3], "v": [1, 2, 3]})


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    Dataset.write(uri, ROWS)
    return LanceTable.forPath(spark, uri)


OTHER_NAMES: dict[str, Callable[[Any], Any]] = {
    "delete": lambda t: t.delete(predicate="id = 1").num_deleted_rows,
    "update": lambda t: t.update(updates={"v": "9"}, where="id = 1").num_updated_rows,
    "createBranch": lambda t: len([t.createBranch(branch="b", reference=1)]),
    "createIndex": lambda t: t.createIndex("id", index_type="BTREE") - 1,
    "shallowClone": lambda t: t.shallowClone(target_path=f"{t._target.uri}-clone", reference=1).history()[0].version,
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_arguments_have_the_names_of_both_doors(table: LanceTable, name: str) -> None:
    assert OTHER_NAMES[name](table) == 1


def test_a_mistyped_argument_is_told(table: LanceTable, spark: SparkSession) -> None:
    with pytest.raises(TypeError, match=r"forPath\(\) has no argument 'optoins'; did you mean 'options'\?"):
        LanceTable.forPath(spark, table._target.uri, optoins={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown argument 'commit_mesage'; did you mean 'commit_message'\?"):
        table.delete("id = 1", commit_mesage="one row")
    assert table.history()[0].version == 1
