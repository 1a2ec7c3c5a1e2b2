"""Spark 4.0 and 4.1 re-read their pyspark.zip in every task of a Python worker; this prevents it."""

from __future__ import annotations

import sys
import zipimport

from lance_spark.spark.types import SPARK_VERSION


def keep_import_cache_small() -> None:
    """Drop the importers of zip files, because `importlib.invalidate_caches()` would make each one read its archive again.

    That call precedes every task and every planning and takes 80 ms. An importer that is needed again is created from the
    directory that zipimport has cached.
    """
    if SPARK_VERSION < (4, 2):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimport.zipimporter):
                del sys.path_importer_cache[path]
