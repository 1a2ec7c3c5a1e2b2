"""What a task returns to the driver: its value, or the LanceError that it raised. Spark would wrap the error and retry the task in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lance_spark.errors import LanceError, StorageError

Result = TypeVar("Result")


def value_or_error(function: Callable[[], Result]) -> Result | LanceError:
    """The result of `function`, or the LanceError that it raised. A StorageError is raised: the task may succeed when it is tried again."""
    try:
        return function()
    except StorageError:
        raise
    except LanceError as e:
        return e
