"""Forks the processes that plan and commit on the driver, as pyspark.daemon does, but from one that has imported what most requests need.

Spark ends processes that have nothing to do for a minute, or that have answered with an error, and these imports take longer than most
requests. See PlanningProcess.java.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy

from lance_spark.kernels.kernel import prepare

_MOST_NEED = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark_lance.planning",
    "lance_spark.spark.source",
)
_STATEMENTS_NEED = (
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "lance_spark.spark.write.kinds",
    "lance_spark.spark.write.writer",
    "lance_spark.spark.catalog.source",
    "lance_spark.predicate.from_sql",
    "lance_spark.file.reader",
    "lance_spark.layouts.read_column",
)
_forks = 0


def forked() -> None:
    """Import what statements need, too, once there was a second process: more will follow.

    The first query of a session does not wait for these imports, and no process does: the one that was just forked runs meanwhile.
    """
    global _forks
    _forks += 1
    if _forks == 2:
        _import(_STATEMENTS_NEED)
        prepare()
        # Where pandas is installed, pyarrow imports it with the first array that is made of a list or becomes one of numpy.
        with contextlib.suppress(ImportError):
            importlib.import_module("pandas")
        gc.freeze()


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


if __name__ == "__main__":
    gc.disable()  # modules keep what their imports make, so that collections find nothing
_import(_MOST_NEED)

if __name__ == "__main__":
    gc.enable()
    gc.freeze()  # the processes share these pages as long as their collectors do not touch them
    os.register_at_fork(after_in_parent=forked)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
