"""Spark 4.0 and 4.1 re-read their pyspark.zip in every task of a Python worker; this keeps them from it."""

from __future__ import annotations

import sys
import zipimport

from lance_spark.spark.types import SPARK_VERSION


def keep_import_cache_small() -> None:
    """Forget the importers of zip files, for `importlib.invalidate_caches()` would make each read its whole archive again.

    That call comes before every task and every planning, and costs 80 ms. An importer that is needed again is made again, from the
    directory that zipimport still has in memory.
    """
    if SPARK_VERSION < (4, 2):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimport.zipimporter):
                del sys.path_importer_cache[path]
