"""The jobs that Spark runs for an action."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession


def stages(spark: SparkSession, action: Callable[[], object]) -> list[int]:
    """The number of stages of each Spark job that `action` runs: more than one means that rows were moved."""
    context, group = spark.sparkContext, uuid.uuid4().hex
    context.setJobGroup(group, "counted")
    try:
        action()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    tracker = context.statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    return [len(info.stageIds) for info in infos if info is not None]
