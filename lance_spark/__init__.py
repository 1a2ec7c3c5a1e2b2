"""Lance tables in Spark and in Python, without a JVM connector and without the Rust library.

`enable(spark)` registers the format "lance" with a session, `write(df, uri)` writes a DataFrame in any of Spark's four modes, and
`Dataset` works without Spark. What they raise is in `errors`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lance_spark import errors
from lance_spark.version import __version__ as __version__

if TYPE_CHECKING:
    from lance_spark.create_partitioned import create_partitioned_namespace
    from lance_spark.dataset import Dataset
    from lance_spark.lance_table import LanceTable
    from lance_spark.maintain_all import maintain
    from lance_spark.namespace.connect import namespace
    from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
    from lance_spark.spark.catalog.materialized_view import materialized_view
    from lance_spark.spark.catalog.transactions import transaction
    from lance_spark.spark.enable import enable
    from lance_spark.spark.session import catalog, last_change, write
    from lance_spark.table.backfill.function import lance_udf

__all__ = [
    "Dataset",
    "LanceTable",
    "PartitionedNamespace",
    "catalog",
    "create_partitioned_namespace",
    "enable",
    "errors",
    "lance_udf",
    "last_change",
    "maintain",
    "materialized_view",
    "namespace",
    "transaction",
    "write",
]

# Imported on first access, so that Dataset works without pyspark, and the errors without any dependency.
_LAZY = {
    "Dataset": "lance_spark.dataset",
    "LanceTable": "lance_spark.lance_table",
    "PartitionedNamespace": "lance_spark.namespace.partitioned.namespace",
    "catalog": "lance_spark.spark.session",
    "create_partitioned_namespace": "lance_spark.create_partitioned",
    "enable": "lance_spark.spark.enable",
    "lance_udf": "lance_spark.table.backfill.function",
    "last_change": "lance_spark.spark.session",
    "maintain": "lance_spark.maintain_all",
    "materialized_view": "lance_spark.spark.catalog.materialized_view",
    "namespace": "lance_spark.namespace.connect",
    "transaction": "lance_spark.spark.catalog.transactions",
    "write": "lance_spark.spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'lance_spark' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("pyspark", "py4j", "pandas"):
            raise
        raise ModuleNotFoundError(f"lance_spark.{name} needs the package {e.name}: pip install 'lance-spark[spark]'", name=e.name) from None
