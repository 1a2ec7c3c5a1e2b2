"""Forks the processes that plan and commit on the driver, as pyspark.daemon does, but from one that has imported what most requests need.

Spark ends processes that have nothing to do for a minute, and these imports take longer than most requests. See PlanningProcess.java.
"""

from __future__ import annotations

import gc
import importlib
import runpy

if __name__ == "__main__":
    gc.disable()  # modules keep what their imports make, so that collections find nothing
for _name in (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark_lance.planning",
    "lance_spark.spark.source",
):
    importlib.import_module(_name)

if __name__ == "__main__":
    gc.enable()
    gc.freeze()  # the processes share these pages as long as their collectors do not touch them
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
