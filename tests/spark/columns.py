"""Comparison of scans that hand over columns with scans that hand over rows, and the memory that Arrow keeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.spark.plans import physical

SETTING = "spark.lance.columnar"
_PATIENCE_S = 200.0


@contextmanager
def rows(spark: SparkSession) -> Iterator[None]:
    """Within the block, scans hand over rows."""
    spark.conf.set(SETTING, "false")
    try:
        yield
    finally:
        spark.conf.unset(SETTING)


def differences(spark: SparkSession, works: dict[str, Callable[[], Any]]) -> dict[str, tuple[Any, Any]]:
    """The works whose results differ if scans hand over columns and if they hand over rows."""
    columns = {name: work() for name, work in works.items()}
    with rows(spark):
        return {name: (columns[name], expected) for name, work in works.items() if (expected := work()) != columns[name]}


def hands_over_columns(df: DataFrame) -> bool:
    """True if all lance scans of the frame's plan hand over columns."""
    plan = physical(df)
    return "Columnar: true" in plan and "Columnar: false" not in plan


def arrow_bytes(spark: SparkSession) -> int:
    """The bytes that Arrow keeps in the driver's process, which in local mode runs the tasks, after all tasks have ended.

    The collector runs, too, since it frees what another thread than a task's was reading when the task ended. What Spark writes to the
    worker of a function does not count: Spark 4.0 never frees it if the job is cancelled, whichever way the scan takes.
    """
    jvm: Any = spark._jvm
    status: Any = spark.sparkContext._jsc.sc().statusTracker()
    root = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()

    def kept() -> int:
        return sum(child.getAllocatedMemory() for child in root.getChildAllocators() if not child.getName().startswith("stdout writer"))

    deadline = time.monotonic() + _PATIENCE_S
    while kept() and time.monotonic() < deadline:
        if not any(executor.numRunningTasks() for executor in status.getExecutorInfos()):
            jvm.System.gc()
        os.sched_yield()
    return kept()
