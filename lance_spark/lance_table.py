"""LanceTable: changing and maintaining a table from Spark. It delegates to `lance_spark.verbs` and `lance_spark.dataset`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from lance_spark.actions.cleanup import clean_up
from lance_spark.actions.report import MaintenanceReport, maintenance_report
from lance_spark.dataset import Dataset
from lance_spark.display.arguments import known_arguments, other_names
from lance_spark.errors import TableNotFoundError
from lance_spark.inspection.overview import Overview, overview
from lance_spark.spark.enable import enable
from lance_spark.table.branches.methods import BranchMethods
from lance_spark.table.changes import alter
from lance_spark.table.changes.add_bases import add_bases
from lance_spark.table.changes.add_columns import ColumnsAdded
from lance_spark.table.changes.add_columns import add_columns as add_files
from lance_spark.table.changes.delta import DELETED, INSERTED, UPDATED
from lance_spark.table.changes.merge.rows import When
from lance_spark.table.changes.migrate import Migrated, migrate
from lance_spark.table.changes.new_columns import Compute
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.compaction.compaction import COMPACTION
from lance_spark.table.maintenance.cleanup import CleanupStats
from lance_spark.table.maintenance.progress import tracker
from lance_spark.table.maintenance.verify import Report
from lance_spark.table.upkeep.maintain import Maintenance, Upkeep, maintain
from lance_spark.table.versions.consumers import Consumers
from lance_spark.table.versions.history import HistoryEntry
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.tags_and_branches import Reference, Tags, resolve
from lance_spark.table.write.bases import DatasetBasePath
from lance_spark.verbs import add_columns, alter_column, convert, create, delete, update
from lance_spark.verbs.backfill.verbs import BackfillVerbs
from lance_spark.verbs.compact import Optimizer
from lance_spark.verbs.condition import Condition
from lance_spark.verbs.create import Creation
from lance_spark.verbs.indexes import IndexVerbs
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.mem_wal import LogVerbs
from lance_spark.verbs.merge import merge
from lance_spark.verbs.merge.clauses import Clause, Merge
from lance_spark.verbs.near_duplicates import DuplicateVerbs
from lance_spark.verbs.nearest_join import JoinVerbs
from lance_spark.verbs.search import SearchVerbs
from lance_spark.verbs.similar_texts import TextDuplicateVerbs
from lance_spark.verbs.target import Target, given, locating, named_target


@known_arguments
@dataclass(frozen=True)
class LanceTable(IndexVerbs, SearchVerbs, JoinVerbs, DuplicateVerbs, TextDuplicateVerbs, BackfillVerbs, LogVerbs):
    """A Lance table in a Spark session. A verb acts on the latest version.

    Verbs that read or write rows do so on the executors, or on the driver if there is little to do; the others run on the driver. A
    change of rows or columns is one commit. A compaction commits in several steps, and a cleanup commits nothing.

    All verbs that commit a version take `commit_message`, `txnAppId`, `txnVersion` and `properties`, which are stored in the transaction. A
    change with an application id and version is committed only once, even if it is run again; a backfill takes none.

    Examples:
        >>> from lance_spark import LanceTable
        >>> spark.range(4).write.format("lance").mode("append").save("/tmp/t.lance")
        >>> table = LanceTable.forPath(spark, "/tmp/t.lance")
        >>> table.delete("id = 0").num_deleted_rows
        1
    """

    _target: Target

    def __repr__(self) -> str:
        asked = {"branch": self._target.options.get("branch"), "alias": self._target.alias}
        return f"LanceTable({', '.join([repr(self._target.uri), *(f'{k}={v!r}' for k, v in asked.items() if v is not None)])})"

    def __str__(self) -> str:
        """The latest version, its numbers of rows and fragments, and its columns; of a partitioned namespace, its tables."""
        current = self._target.current()
        if isinstance(current, Snapshot):
            return str(overview(current))
        from lance_spark.namespace.partitioned.namespace import PartitionedNamespace

        return repr(PartitionedNamespace(current))

    def _repr_html_(self) -> str:
        return self.detail()._repr_html_()

    @classmethod
    def forPath(cls, spark: SparkSession, path: str, options: Mapping[str, Any] | None = None) -> LanceTable:
        """The table, or the partitioned namespace, at a path.

        `options` locate it: `storage.*`, `branch`, `mem_wal`, `allow_other_stores`, `verify_checksums`.

        Raises TableNotFoundError if there is neither, and InvalidOptionError for other options.
        """
        enable(spark)
        return cls(Target(spark, path, locating({key: str(value) for key, value in (options or {}).items()})).opened())

    @classmethod
    def create(cls, spark: SparkSession) -> TableBuilder:
        """Create a table; raises an error if it exists: `create(spark).location(path).addColumn("id", "BIGINT").execute()`."""
        return TableBuilder(Creation(spark, "create"))

    @classmethod
    def createIfNotExists(cls, spark: SparkSession) -> TableBuilder:
        """Create a table, unless it exists."""
        return TableBuilder(Creation(spark, "create if not exists"))

    @classmethod
    def replace(cls, spark: SparkSession) -> TableBuilder:
        """Replace an existing table by an empty one with new columns; older versions are kept."""
        return TableBuilder(Creation(spark, "replace"))

    @classmethod
    def createOrReplace(cls, spark: SparkSession) -> TableBuilder:
        """Create a table, or replace an existing one by an empty one with new columns."""
        return TableBuilder(Creation(spark, "create or replace"))

    def alias(self, name: str) -> LanceTable:
        """The same table with an alias: conditions may refer to its columns as `name.column`."""
        return dataclasses.replace(self, _target=dataclasses.replace(self._target, alias=name))

    def toDF(self) -> DataFrame:
        """The rows of the current latest version."""
        return self._target.rows(self._target.current(), addressed=False)

    def changes(
        self, begin: int, end: int | None = None, *, columns: Sequence[str] | None = None, filter: str | None = None, net: bool = False
    ) -> DataFrame:
        """The rows that were inserted, updated and deleted after the version `begin`, up to `end`; as `Dataset.changes`.

        Examples:
            >>> from lance_spark import LanceTable
            >>> spark.range(3).write.format("lance").option("stable_row_ids", True).mode("append").save("/tmp/t.lance")
            >>> table = LanceTable.forPath(spark, "/tmp/t.lance")
            >>> _ = table.delete("id = 2")
            >>> table.changes(1).select("id", "_change_type", "_commit_version").collect()
            [Row(id=2, _change_type='delete', _commit_version=2)]
        """
        return self._target.changes(begin, end, columns=columns, filter=filter, net=net)

    @classmethod
    def forName(cls, spark: SparkSession, name: str) -> LanceTable:
        """A table of a catalog: "table", "database.table", "lance.namespace.table". Raises TableNotFoundError for other tables.

        The catalog is the session's own, or one of `lance_spark.catalog`.
        """
        enable(spark)
        return cls(named_target(spark, name))

    @classmethod
    def convert(
        cls, spark: SparkSession, source: str, path: str, options: Mapping[str, Any] | None = None, *, progress: bool | None = None
    ) -> LanceTable:
        """Make a table at `path` with the rows of `source`: the name of a table, or a format and a path, such as "parquet.`/data/t`".

        Columns, comments and properties arrive; partition columns become those that the table is clustered by. Files of Parquet, ORC, Avro,
        CSV and JSON are converted in up to 50 commits: after a failure, the same call goes on. Other sources are one commit. `options` are
        those of a new table. Raises TableAlreadyExistsError for a table that another source was converted to.

        Examples:
            >>> spark.range(3).write.parquet("/tmp/old")
            >>> LanceTable.convert(spark, "parquet.`/tmp/old`", "/tmp/new.lance").toDF().count()
            3
        """
        enable(spark)
        return cls(convert.convert(spark, source, path, {key: _text(value) for key, value in (options or {}).items()}, progress))

    @classmethod
    def isLanceTable(cls, spark: SparkSession, path: str, options: Mapping[str, Any] | None = None) -> bool:
        """True if there is a Lance table, or a partitioned namespace, at a path."""
        try:
            cls.forPath(spark, path, options)
        except TableNotFoundError:
            return False
        return True

    def detail(self) -> Overview:
        """The latest version's location, size, storage version, columns, config and indexes."""
        return overview(self._target.latest())

    def metadataTable(self, name: str) -> DataFrame:
        """A table about the latest version, such as its files; see `Dataset.metadata_table`.

        Examples:
            >>> spark.range(3).coalesce(1).write.format("lance").mode("append").save("/tmp/t.lance")
            >>> LanceTable.forPath(spark, "/tmp/t.lance").metadataTable("fragments").select("id", "rows").collect()
            [Row(id=0, rows=3)]
        """
        return self._target.spark.createDataFrame(self._dataset().metadata_table(name))

    def verify(self, decode: bool = True) -> Report:
        """Check that every file of a version exists and is intact, here of the latest one; see `Dataset.verify`."""
        return self._dataset().verify(decode)

    def dropColumns(self, columns: Sequence[str], **noted: Any) -> int:
        """Remove columns; their data stays in the files until these are rewritten. Returns the new version."""
        if isinstance(columns, str):
            raise TypeError(f"columns must be a sequence of names, not text; pass [{columns!r}]")
        version = alter.drop_columns(self._target.latest(), columns, given(noted).noted).version
        return self._target.refreshed(version, columns=True)

    def renameColumn(self, column: str, name: str, **noted: Any) -> int:
        """Rename a column (with dots for nested fields). Returns the new version."""
        version = alter.alter_columns(self._target.latest(), [{"path": column, "name": name}], given(noted)).version
        return self._target.refreshed(version, columns=True)

    def reorderColumns(self, columns: Sequence[str], **noted: Any) -> int:
        """Put these columns first, in this order; the others follow. See `Dataset.reorder_columns`. Returns the new version."""
        version = alter.reorder_columns(self._target.latest(), columns, given(noted).noted).version
        return self._target.refreshed(version, columns=True)

    def alterColumn(
        self, column: str, nullable: bool | None = None, type: str | DataType | pa.DataType | None = None, **noted: Any
    ) -> RowChanges:
        """Change the nullability or the type of a column, in one commit.

        A column with nulls cannot become non-nullable. A new type ("bigint", or a Spark or Arrow type) may be wider or narrower, within
        integers, floats, decimals, strings, binary, dates and timestamps, and lists of these. Only this column is rewritten. Raises
        SchemaMismatchError for nulls, for a value that does not fit the new type, and for a new type of a column with an index.

        Examples:
            >>> spark.range(3).coalesce(1).selectExpr("int(id) AS n").write.format("lance").mode("append").save("/tmp/t.lance")
            >>> table = LanceTable.forPath(spark, "/tmp/t.lance")
            >>> table.alterColumn("n", nullable=False, type="bigint").num_files_added
            1
            >>> table.toDF().schema.simpleString()
            'struct<n:bigint>'
        """
        change = alter_column.alter_column(self._target, column, nullable, type, given(noted))
        return self._target.refreshed(change, columns=True)

    def migrate(self, **noted: Any) -> Migrated:
        """Write a table of an old storage version anew in the one of new tables, 2.2. To tables of 0.1, nothing can be added otherwise.

        Tasks on the executors write the fragments, and one commit takes them. Row addresses, row ids, deletions and indexes stay. If it is
        stopped, the next call continues with the fragments that are not finished.
        """
        done = migrate(OnExecutors(self._target.spark, self._target.cores()), self._target.latest(), given(noted))
        return self._target.refreshed(done)

    def addBases(self, new_bases: Sequence[DatasetBasePath], **noted: Any) -> int:
        """Register base paths, to which data files can be written from then on. Returns the version.

        docs/base-paths.md has more. Raises InvalidOptionError for one in the table's folder, or with the id, name or path of another.
        """
        return self._target.refreshed(add_bases(self._target.latest(), new_bases, given(noted).noted).version)

    def setPrimaryKey(self, columns: Sequence[str], **noted: Any) -> int:
        """Declare the columns that identify rows; the key cannot be changed afterward. Returns the new version."""
        names = [columns] if isinstance(columns, str) else columns
        version = alter.set_primary_key(self._target.latest(), names, given(noted).noted).version
        return self._target.refreshed(version, columns=True)

    def vacuum(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        dry_run: bool = False,
        *,
        before_version: int | None = None,
        before_timestamp: datetime | None = None,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool | None = None,
        delete_rate_limit: int | None = None,
    ) -> CleanupStats:
        """Remove old versions and the files that no version needs; see `Dataset.cleanup_old_versions`.

        An old version with a tag is an error, unless `error_if_tagged_old_versions` is false, which the next release has as the default.
        """
        return clean_up(
            self._target.latest(),
            older_than,
            retain_versions,
            dry_run,
            before_version,
            before_timestamp,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            tracker(None),
        )

    def maintenanceReport(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
    ) -> MaintenanceReport:
        """Tell what a compaction, an optimization of indexes and a cleanup would do now; nothing is changed."""
        return maintenance_report(self._target.latest(), older_than, retain_versions, target_rows_per_fragment)

    def maintain(
        self,
        budget_bytes: int | None = None,
        budget_seconds: float | None = None,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
        filter_log: str | None = None,
        apply_recommendations: bool = False,
        dry_run: bool = False,
    ) -> Maintenance:
        """Do what a table needs, on the executors, what gains most first, while the budget lasts; see `Dataset.maintain`."""
        upkeep = Upkeep(
            budget_bytes,
            budget_seconds,
            older_than,
            retain_versions,
            target_rows_per_fragment,
            filter_log,
            apply_recommendations,
            dry_run,
        )
        return self._target.refreshed(maintain(self._executors(), self._target.latest(), upkeep))

    def restoreToVersion(self, version: Reference, **noted: Any) -> int:
        """Make an earlier version the latest one again: a number or the name of a tag. Returns the new version."""
        restored = alter.restore(resolve(self._target.latest(), version), given(noted).noted).version
        return self._target.refreshed(restored, columns=True)

    def restoreToTimestamp(self, timestamp: datetime | str, **noted: Any) -> int:
        """Make an earlier version the latest one again: that of `timestamp` (ISO 8601; UTC if no zone is given)."""
        latest = self._target.latest()
        old = open_snapshot(latest.store, timestamp=timestamp, allow_other_stores=latest.allow_other_stores)
        version = alter.restore(old, given(noted).noted).version
        return self._target.refreshed(version, columns=True)

    @property
    def tags(self) -> Tags:
        """The table's tags: `tags.create("name", 3)`, `tags.list()` and so on."""
        return self._dataset().tags

    @property
    def consumers(self) -> Consumers:
        """The streams that have recorded their place with the table: `consumers.list()`, `consumers.drop("id")`."""
        return self._dataset().consumers

    @property
    def branches(self) -> BranchMethods:
        """The table's branches: `branches.list()`, `branches.delete("name")`."""
        return self._dataset().branches

    @other_names(branch="name", reference="version")
    def createBranch(self, name: str, version: Reference | None = None) -> LanceTable:
        """Create a branch that starts at a version, by default the latest; returns the table on the branch."""
        self._dataset().create_branch(name, version)
        return dataclasses.replace(self, _target=dataclasses.replace(self._target, options={**self._target.options, "branch": name}))

    @other_names(target_path="path", reference="version")
    def shallowClone(self, path: str, version: Reference | None = None) -> LanceTable:
        """Create a table that refers to the files of this one."""
        self._dataset().shallow_clone(path, version)
        return dataclasses.replace(
            self, _target=dataclasses.replace(self._target, uri=path, options=_without_branch(self._target.options), name=None)
        )

    @other_names(target_path="path", reference="version")
    def deepClone(self, path: str, version: Reference | None = None) -> LanceTable:
        """Create a table with copies of all files of one version."""
        self._dataset().deep_clone(path, version)
        return dataclasses.replace(
            self, _target=dataclasses.replace(self._target, uri=path, options=_without_branch(self._target.options), name=None)
        )

    def _dataset(self) -> Dataset:
        return Dataset(self._target.latest())

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """List existing versions, newest first, each with its time, operation, properties and commit message."""
        return Dataset(self._target.latest()).history(limit)

    @other_names(predicate="condition")
    def delete(self, condition: Condition | None = None, **noted: Any) -> RowChanges:
        """Delete the rows for which `condition` (SQL text or a Column) is true, or all rows."""
        return self._target.refreshed(delete.delete(self._target, condition, given(noted)))

    @other_names(updates="set", where="condition")
    def update(self, condition: Condition | None = None, set: Mapping[str, Condition] | None = None, **noted: Any) -> RowChanges:
        """Set the columns in `set` to new values (SQL text or Columns) where `condition` is true, or in all rows."""
        return self._target.refreshed(update.update(self._target, condition, set or {}, given(noted)))

    def addColumns(
        self,
        values: Mapping[str, Condition] | DataFrame | Compute,
        *,
        on: str | Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        checkpoint: str | None = None,
        **noted: Any,
    ) -> ColumnsAdded:
        """Add columns with values; only new files with these columns are written, one for each fragment.

        `values` are SQL text or Columns by name; or a DataFrame whose rows match on the columns `on` (also "_rowaddr"); or a function that
        maps record batches of the table's `columns` (None: all) to record batches of `schema`. New columns are nullable.

        `checkpoint` is a folder (a path or URI) for an expensive function: fragments that are finished are noted there, and if the call
        fails or its driver is lost, the next call calculates only the others, and those that were changed. Use one folder a function.
        """
        if checkpoint is not None and (isinstance(values, Mapping | DataFrame)):
            raise ValueError("a checkpoint is for columns from a function")
        if isinstance(values, Mapping):
            source = add_columns.from_expressions(self._target, values)
        elif isinstance(values, DataFrame):
            if on is None:
                raise ValueError("columns from a DataFrame need the argument `on`: the columns that rows match on")
            source = add_columns.from_frame(self._target, values, [on] if isinstance(on, str) else on)
        else:
            if schema is None:
                raise ValueError("columns from a function need the argument `schema`: the columns that it returns")
            source = add_columns.from_function(self._target, values, schema, columns, checkpoint)
        change = add_files(self._target.latest(), source, given(noted))
        return self._target.refreshed(change, columns=True)

    def updateColumns(self, df: DataFrame, on: str | Sequence[str], **noted: Any) -> RowChanges:
        """Update rows from `df`, matched on the columns `on` (also "_rowaddr"); only the other columns of `df` are rewritten."""
        return self._target.refreshed(update.update_columns(self._target, df, [on] if isinstance(on, str) else on, given(noted)))

    def optimize(self) -> Optimizer:
        """Compact the table, `optimize().where("day > '2026-01-01'").executeCompaction()`, or cluster it, `executeZOrderBy("x", "y")`."""
        return Optimizer(self._target)

    def merge(self, source: DataFrame, condition: Condition) -> MergeBuilder:
        """Merge the rows of `source` into the table: add clauses to the returned builder, then call `execute`.

        If the table has a primary key (`setPrimaryKey`) and `condition` names its columns, the transaction carries the keys of inserted
        rows: of two writers that insert one key at the same time, the second runs again and finds the row of the first.

        Examples:
            >>> spark.range(3).write.format("lance").mode("append").save("/tmp/t.lance")
            >>> table = LanceTable.forPath(spark, "/tmp/t.lance").alias("t")
            >>> done = table.merge(spark.range(2, 5).alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
            >>> done.num_inserted_rows
            2
        """
        return MergeBuilder(Merge(self._target, source, condition, ()))


@known_arguments
@dataclass(frozen=True)
class TableBuilder:
    """A builder of a table."""

    _creation: Creation

    def location(self, path: str) -> TableBuilder:
        """The location of the table."""
        return TableBuilder(dataclasses.replace(self._creation, path=path))

    def tableName(self, name: str) -> TableBuilder:
        """Register the table in the session catalog under this name."""
        return TableBuilder(dataclasses.replace(self._creation, name=name))

    def addColumn(self, name: str, dataType: str | DataType, nullable: bool = True) -> TableBuilder:
        """Add a column; its type is a Spark type or the name of one."""
        return TableBuilder(self._creation.with_column(name, dataType, nullable))

    def addColumns(self, schema: StructType) -> TableBuilder:
        """Add the columns of a schema."""
        creation = self._creation
        for column in schema.fields:
            creation = creation.with_column(column.name, column.dataType, column.nullable)
        return TableBuilder(creation)

    def option(self, name: str, value: Any) -> TableBuilder:
        """Set a write option, such as `stable_row_ids`, `data_storage_version` or `v.arrow.fixed-size-list.size`."""
        return TableBuilder(dataclasses.replace(self._creation, options={**self._creation.options, name: _text(value)}))

    def property(self, key: str, value: str) -> TableBuilder:
        """Set a key of the table's config."""
        return TableBuilder(dataclasses.replace(self._creation, config={**self._creation.config, key: value}))

    def execute(self) -> LanceTable:
        """Create the table in one commit. Raises TableAlreadyExistsError or TableNotFoundError, see `LanceTable`."""
        enable(self._creation.spark)
        return LanceTable(create.create(self._creation))


@known_arguments
@dataclass(frozen=True)
class MergeBuilder:
    """A builder of a merge. For each row, the first clause whose condition is true applies."""

    _merge: Merge

    def whenMatchedUpdate(self, condition: Condition | None = None, set: Mapping[str, Condition] | None = None) -> MergeBuilder:
        """Update rows of the table that a row of the source matches."""
        return self._with("matched", UPDATED, condition, set or {})

    def whenMatchedUpdateAll(self, condition: Condition | None = None) -> MergeBuilder:
        """Update all columns of matched rows with the source's columns of the same names."""
        return self._with("matched", UPDATED, condition, None)

    def whenMatchedDelete(self, condition: Condition | None = None) -> MergeBuilder:
        """Delete matched rows of the table.

        Without a condition and another clause for matched rows, several rows of the source may match one row of the table.
        """
        return self._with("matched", DELETED, condition, None)

    def whenNotMatchedInsert(self, condition: Condition | None = None, values: Mapping[str, Condition] | None = None) -> MergeBuilder:
        """Insert a row for each source row that matches no row of the table; columns without a value have their DEFAULT, or are null."""
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

    def withSchemaEvolution(self) -> MergeBuilder:
        """Add columns of the source, and fields of its structs, that the table lacks, in the same commit; other rows have nulls in them.

        With update all or insert all, all of its columns are added; else those that clauses assign. Columns that the source lacks are
        then left unchanged by update all, and set to null by insert all.
        """
        return MergeBuilder(dataclasses.replace(self._merge, evolves=True))

    def execute(self, **noted: Any) -> RowChanges:
        """Run the merge. Raises AmbiguousMergeError if two rows of the source change the same row of the table."""
        change = merge.merge(self._merge, given(noted))
        return self._merge.target.refreshed(change, columns=self._merge.evolves)

    def _with(self, when: When, operation: int, condition: Condition | None, values: Mapping[str, Condition] | None) -> MergeBuilder:
        return MergeBuilder(dataclasses.replace(self._merge, clauses=(*self._merge.clauses, Clause(when, operation, condition, values))))


def _without_branch(options: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key.lower() != "branch"}


def _text(value: Any) -> str:
    """The value of an option as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
