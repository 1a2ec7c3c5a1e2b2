"""Forks the workers of Spark, as pyspark.daemon does, but from a process that has imported what scans need.

These imports take longer than many tasks. Scans that hand over columns use this daemon by themselves (PythonBatches.java); with the setting
spark.python.daemon.module, all workers of a session do.
"""

from __future__ import annotations

import gc
import importlib
import runpy

for _name in (
    "pyspark.sql.worker.plan_data_source_read",
    "lance_spark.spark.reader",
    "lance_spark.table.scan.fragment_reader",
    "lance_spark.table.scan.projection",
):
    importlib.import_module(_name)

if __name__ == "__main__":
    gc.freeze()  # the workers share these pages as long as their collectors do not touch them
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
