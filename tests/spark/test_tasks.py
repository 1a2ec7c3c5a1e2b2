"""Tasks that executors run for a question of the JVM, of a search or of an operation: what each returns, or the error that it raises."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from lance_spark.errors import SchemaMismatchError, StorageError
from lance_spark.spark.read.tasks import TasksPartition, TasksReader, result_of


def halved(number: int) -> int:
    """Work that is refused for odd numbers, and that a store fails for negative ones."""
    if number < 0:
        raise StorageError("the store does not respond")
    if number % 2:
        raise SchemaMismatchError(f"{number} is odd")
    return number // 2


def returned(*tasks: tuple[Callable[[Any], Any], Any]) -> list[str]:
    """What an executor returns for these tasks, as the JVM hands it back."""
    reader: Any = pickle.loads(pickle.dumps(TasksReader()))
    batches = reader.read(TasksPartition([pickle.dumps(task) for task in tasks]))
    return [base64.b64encode(batch.column(0)[0].as_py()).decode() for batch in batches]


def test_tasks_return_their_results_in_order() -> None:
    assert [result_of(text) for text in returned((halved, 4), (halved, 10))] == [2, 5]


def test_the_error_of_a_task_is_raised_where_its_result_is_asked_for() -> None:
    first, second = returned((halved, 4), (halved, 3))
    assert result_of(first) == 2
    with pytest.raises(SchemaMismatchError, match="3 is odd"):
        result_of(second)


def test_a_task_whose_store_fails_fails_so_that_spark_tries_it_again() -> None:
    with pytest.raises(StorageError, match="does not respond"):
        returned((halved, -1))


def test_without_tasks_nothing_is_returned() -> None:
    reader: Any = TasksReader()
    assert list(reader.read(InputPartition(None))) == []
