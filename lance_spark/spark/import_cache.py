"""Prevents Python workers of Spark 4.0 and 4.1 from re-reading pyspark.zip in every task."""

from __future__ import annotations

import sys
import zipimport

from lance_spark.spark.types import SPARK_VERSION


def keep_import_cache_small() -> None:
    """Drop the importers of zip files.

    Spark calls `importlib.invalidate_caches()` before every task and every planning, and each importer would then read its archive again,
    which takes 80 ms. A dropped importer is recreated from the directory that zipimport has cached.
    """
    if SPARK_VERSION < (4, 2):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimport.zipimporter):
                del sys.path_importer_cache[path]
