"""What a task returns to the driver: its value, or the LanceError that it raised. Spark would wrap the error and retry the task in vain."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from lance_spark.errors import LanceError, StorageError

Result = TypeVar("Result")
RESULT = pa.schema([pa.field("result", pa.binary(), nullable=False)])
"""The only column of the rows of tasks: what each returns, pickled."""


def value_or_error(function: Callable[[], Result]) -> Result | LanceError:
    """The result of `function`, or the LanceError that it raised. A StorageError is raised: the task may succeed when it is tried again."""
    try:
        return function()
    except StorageError:
        raise
    except LanceError as e:
        return e


def row_of(value: object) -> pa.RecordBatch:
    """The row in which a task returns a value."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], schema=RESULT)


def value_of(outcome: Result | LanceError) -> Result:
    """The value that a task returned. Raises its error."""
    if isinstance(outcome, LanceError):
        raise outcome
    return outcome
