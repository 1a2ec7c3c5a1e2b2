"""The version of PySpark, on which types and the work-arounds of old versions depend."""

from __future__ import annotations

import pyspark

SPARK_VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
