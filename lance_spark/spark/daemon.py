"""Forks the workers of Spark, as pyspark.daemon does, but from a process that has imported what scans need.

These imports take longer than many tasks, and Spark ends workers that have nothing to do for a minute. Scans and writes use this daemon by
themselves (PythonTask.java); with the setting spark.python.daemon.module, all workers of a session do.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import runpy

from lance_spark.kernels.kernel import prepare

if __name__ == "__main__":
    gc.disable()  # modules keep what their imports make, so that collections find nothing
for _name in (
    "pyspark.sql.worker.plan_data_source_read",
    "lance_spark.spark.read.reader",
    "lance_spark.table.scan.fragment_reader",
    "lance_spark.table.scan.projection",
    "lance_spark.file.reader",
    "lance_spark.layouts.read_column",
):
    importlib.import_module(_name)

if __name__ == "__main__":
    prepare()
    # Where pandas is installed, pyarrow imports it with the first array that is made of a list or becomes one of numpy.
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")
    gc.enable()
    gc.freeze()  # the workers share these pages as long as their collectors do not touch them
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
