"""Keeps the cost of a task low in Python workers, which Spark reuses for many tasks, and the messages of its errors short."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import zipimport
from collections.abc import Iterator

from lance_spark.errors import LanceError
from lance_spark.spark.workers.version import SPARK_VERSION

_frozen_modules = 0


def start_task() -> None:
    """Prepare the worker for a task. Functions that run on executors call this first."""
    keep_import_cache_small()
    _freeze_modules()


def start_planning() -> None:
    """Prepare a process that plans for Spark, on the driver's machine, which Spark reuses as it does workers."""
    keep_import_cache_small()
    if _is_worker():
        _freeze_modules()


def keep_import_cache_small() -> None:
    """Drop the importers of zip files, so that Spark 4.0 and 4.1 do not read pyspark.zip again in every task.

    Spark calls `importlib.invalidate_caches()` before every task and every planning, and each importer would then read its archive again,
    which takes 80 ms. A dropped importer is recreated from the directory that zipimport has cached.
    """
    if SPARK_VERSION < (4, 2):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimport.zipimporter):
                del sys.path_importer_cache[path]


def _freeze_modules() -> None:
    """Exclude the imported modules from garbage collection.

    A worker runs `gc.collect()` after every task, which takes 40 ms (with numba, 150 ms) only to find that the modules are in use.
    """
    global _frozen_modules
    if _frozen_modules != len(sys.modules):
        gc.freeze()
        _frozen_modules = len(sys.modules)


def _is_worker() -> bool:
    return any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)


@contextlib.contextmanager
def brief_errors() -> Iterator[None]:
    """Let a LanceError leave a worker as its message alone, not below a traceback of dozens of lines.

    For the outermost functions, which Spark calls. The variable is Spark's own switch, which the setting
    spark.sql.execution.pyspark.udf.hideTraceback.enabled sets, too. A worker reads it when it writes its error, and then ends. Other
    processes have no such error to write.
    """
    try:
        yield
    except LanceError:
        if _is_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
