"""A catalog for a test, and pylance's view of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.namespace.protocol import Namespace
from tests.spark.plans import settings


@dataclass(frozen=True)
class Lake:
    """The catalog `lance` of a session, over the directory namespace at `root`."""

    spark: SparkSession
    root: Path

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    @property
    def namespace(self) -> Namespace:
        """The namespace without Spark."""
        found: Namespace = lance_spark.namespace(self.root)
        return found

    def location(self, name: str) -> str:
        """The folder of a table."""
        return self.namespace.describe_table(name.split(".")).location

    def pylance(self, name: str, version: int | None = None) -> list[Mapping[str, Any]]:
        """The rows that pylance reads, after it has validated the table."""
        table = lance.dataset(self.location(name), version=version)
        table.validate()
        rows: list[Mapping[str, Any]] = table.to_table().to_pylist()
        return rows

    def versions(self, name: str) -> list[int]:
        """The versions that exist."""
        return [v["version"] for v in lance.dataset(self.location(name)).versions()]

    def files(self) -> set[str]:
        """All files except those of the namespace itself."""
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return {str(path) for path in found if path.parts[0] != "__manifest"}


@contextmanager
def lake(spark: SparkSession, root: Path, **properties: str) -> Iterator[Lake]:
    """A catalog with the namespace `ns`, whose plans Spark checks after each rule. `properties` name another namespace."""
    if properties:
        lance_spark.catalog(spark, "lance", **properties)  # type: ignore[arg-type]
    else:
        lance_spark.catalog(spark, "lance", root=str(root))
    with settings(spark, planChangeValidation="true"):
        spark.sql("CREATE NAMESPACE lance.ns")
        yield Lake(spark, root)
        spark.sql("USE spark_catalog.default")
