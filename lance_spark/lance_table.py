"""LanceTable: working with a table from Spark. Everything here delegates to `lance_spark.verbs` and `lance_spark.dataset`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_spark.dataset import Dataset
from lance_spark.spark.session import enable
from lance_spark.table.changes.delta import DELETED, INSERTED, UPDATED
from lance_spark.table.changes.new_columns import Compute
from lance_spark.table.versions.history import HistoryEntry
from lance_spark.table.write.write import WriteOptions
from lance_spark.verbs import add_columns, delete, merge, update
from lance_spark.verbs.add_columns import ColumnsAdded
from lance_spark.verbs.condition import Condition
from lance_spark.verbs.job import RowChanges
from lance_spark.verbs.merge import Clause, When
from lance_spark.verbs.target import Target


@dataclass(frozen=True)
class LanceTable:
    """A Lance table in a Spark session. Every verb acts on the latest version, runs on the executors and makes one commit.

    All verbs take `commit_message`, `txnAppId`, `txnVersion` and `properties`, which are kept with the transaction. A change that an
    application has numbered is made once, however often it is run.
    """

    _target: Target

    @classmethod
    def forPath(cls, spark: SparkSession, path: str, options: Mapping[str, Any] | None = None) -> LanceTable:
        """The table at a path. `options` are those of reading that say where it is: `storage.*`, `branch`, `allow_other_stores`.

        Raises TableNotFoundError if there is none.
        """
        enable(spark)
        table = cls(Target(spark, path, {key: str(value) for key, value in (options or {}).items()}))
        table._target.latest()
        return table

    def alias(self, name: str) -> LanceTable:
        """The same table, whose columns conditions may call `name.column`."""
        return replace(self, _target=replace(self._target, alias=name))

    def toDF(self) -> DataFrame:
        """The rows of the version that is the latest now."""
        return self._target.rows(self._target.latest(), addressed=False)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions, newest first, each with its time, operation, properties and commit message."""
        return Dataset(self._target.latest()).history(limit)

    def delete(self, condition: Condition | None = None, **noted: Any) -> RowChanges:
        """Delete the rows for which `condition` (SQL text or a Column) is true; all rows without one."""
        return delete.delete(self._target, condition, _noted(noted))

    def update(self, condition: Condition | None = None, set: Mapping[str, Condition] | None = None, **noted: Any) -> RowChanges:
        """Give the columns in `set` new values (SQL text or Columns) where `condition` is true; in all rows without one."""
        return update.update(self._target, condition, set or {}, _noted(noted))

    def addColumns(
        self,
        values: Mapping[str, Condition] | DataFrame | Compute,
        *,
        on: str | Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        **noted: Any,
    ) -> ColumnsAdded:
        """Add columns with values; only files of the new columns are written, one for each fragment.

        `values` are SQL text or Columns by name; or a DataFrame whose rows match on the columns `on` (also "_rowaddr"); or a function that
        makes record batches of `schema` from record batches of the table's `columns` (None: all). New columns are nullable.
        """
        if isinstance(values, Mapping):
            source = add_columns.from_expressions(self._target, values)
        elif isinstance(values, DataFrame):
            if on is None:
                raise ValueError("columns from a DataFrame need `on`, the columns that rows match on")
            source = add_columns.from_frame(self._target, values, [on] if isinstance(on, str) else on)
        else:
            if schema is None:
                raise ValueError("columns from a function need `schema`, the columns that it makes")
            source = add_columns.from_function(self._target, values, schema, columns)
        return add_columns.add_columns(self._target, source, _noted(noted))

    def merge(self, source: DataFrame, condition: Condition) -> MergeBuilder:
        """Merge the rows of `source` into the table: add clauses to what this returns, then call `execute`."""
        return MergeBuilder(merge.Merge(self._target, source, condition, ()))


@dataclass(frozen=True)
class MergeBuilder:
    """A merge that is being put together. Of the clauses for a row the first whose condition is true applies."""

    _merge: merge.Merge

    def whenMatchedUpdate(self, condition: Condition | None = None, set: Mapping[str, Condition] | None = None) -> MergeBuilder:
        """Update rows of the table that a row of the source matches."""
        return self._with("matched", UPDATED, condition, set or {})

    def whenMatchedUpdateAll(self, condition: Condition | None = None) -> MergeBuilder:
        """Update all columns of matched rows with the source's columns of the same names."""
        return self._with("matched", UPDATED, condition, None)

    def whenMatchedDelete(self, condition: Condition | None = None) -> MergeBuilder:
        """Delete matched rows of the table."""
        return self._with("matched", DELETED, condition, None)

    def whenNotMatchedInsert(self, condition: Condition | None = None, values: Mapping[str, Condition] | None = None) -> MergeBuilder:
        """Insert a row for each row of the source that matches none of the table; columns without a value are null."""
        return self._with("not matched", INSERTED, condition, values or {})

    def whenNotMatchedInsertAll(self, condition: Condition | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row of the table, with their columns of the same names."""
        return self._with("not matched", INSERTED, condition, None)

    def whenNotMatchedBySourceUpdate(self, condition: Condition | None = None, set: Mapping[str, Condition] | None = None) -> MergeBuilder:
        """Update rows of the table that no row of the source matches."""
        return self._with("not matched by source", UPDATED, condition, set or {})

    def whenNotMatchedBySourceDelete(self, condition: Condition | None = None) -> MergeBuilder:
        """Delete rows of the table that no row of the source matches."""
        return self._with("not matched by source", DELETED, condition, None)

    def execute(self, **noted: Any) -> RowChanges:
        """Run the merge. Raises AmbiguousMergeError when two rows of the source change the same row of the table."""
        return merge.merge(self._merge, _noted(noted))

    def _with(self, when: When, operation: int, condition: Condition | None, values: Mapping[str, Condition] | None) -> MergeBuilder:
        if values is not None and not values:
            raise ValueError("the clause needs values: {column: value}")
        return MergeBuilder(replace(self._merge, clauses=(*self._merge.clauses, Clause(when, operation, condition, values))))


def _noted(given: Mapping[str, Any]) -> WriteOptions:
    """What is kept with the transaction of a verb."""
    names = {"commit_message": "commit_message", "txnAppId": "txn_app_id", "txnVersion": "txn_version", "properties": "properties"}
    if unknown := given.keys() - names:
        raise TypeError(f"unknown argument {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    return WriteOptions(**{names[key]: value for key, value in given.items() if value is not None})
