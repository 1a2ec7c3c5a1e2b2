"""A table of the session catalog, and what pylance and a list of rows say about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset
from lance_spark.table.changes.row_changes import RowChanges

Row = tuple[int, int | None, str | None]


@dataclass
class Table:
    """The table `t` (id BIGINT, k BIGINT, s STRING) at `uri`."""

    spark: SparkSession
    uri: str

    @classmethod
    def create(cls, spark: SparkSession, uri: str, stable: bool) -> Table:
        """Rows (i, i % 3, 's<i>') for i from 0 to 9, in two fragments."""
        for ids in (range(6), range(6, 10)):
            rows = pa.table({"id": list(ids), "k": [i % 3 for i in ids], "s": [f"s{i}" for i in ids]})
            Dataset.write(uri, rows, mode="append", enable_stable_row_ids=stable)
        spark.sql("DROP TABLE IF EXISTS t")
        spark.sql(f"CREATE TABLE t USING lance LOCATION '{uri}'")
        return cls(spark, uri)

    def run(self, statement: str) -> RowChanges:
        """Run a statement and return its result."""
        self.spark.sql(statement)
        change = lance_spark.last_change(self.spark)
        assert change is not None
        return change

    def rows(self) -> list[Row]:
        """The rows in Spark, in the order of their ids. pylance must have the same and find the table valid."""
        found = sorted((tuple(row) for row in self.spark.sql("SELECT * FROM t").collect()), key=str)
        theirs = lance.dataset(self.uri)
        theirs.validate()
        assert sorted((tuple(row.values()) for row in theirs.to_table().to_pylist()), key=str) == found
        return sorted(found, key=lambda row: row[0])

    def ids(self) -> dict[int, int]:
        """The row id of each row, by the column id."""
        return {row[0]: row[1] for row in self.spark.sql("SELECT id, _rowid FROM t").collect()}

    def files(self) -> set[str]:
        """The data and deletion files."""
        root = Path(self.uri)
        return {name for folder in ("data", "_deletions") if (root / folder).exists() for name in os.listdir(root / folder)}

    def version(self) -> int:
        """The latest version."""
        return Dataset.open(self.uri).version

    def plan(self, statement: str) -> str:
        """The physical plan of a statement."""
        return str(self.spark.sql(f"EXPLAIN {statement}").collect()[0][0])


def start() -> dict[int, Row]:
    """The rows of a new table, by id."""
    return {i: (i, i % 3, f"s{i}") for i in range(10)}


def changed(change: Callable[[Row], Any]) -> list[Row]:
    """The rows of a new table after a change of each: another row, or None if it is deleted."""
    return [new for row in start().values() if (new := change(row)) is not None]
