"""PartitionedNamespace: one version of a partitioned namespace without Spark, as `Dataset` is one version of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Literal

import pyarrow as pa

from lance_spark.arrow.stream import ArrowStream
from lance_spark.display.arguments import known_arguments, other_names
from lance_spark.display.listing import SHOWN, left_out
from lance_spark.display.table import Table, escape
from lance_spark.errors import check_type
from lance_spark.namespace.partitioned import evolve, feed, row_verbs
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.feed import PartitionedChanges
from lance_spark.namespace.partitioned.maintenance import (
    PartitionedCleanup,
    PartitionedCompaction,
    PartitionedReport,
    cleanup,
    compact,
    verify_partitioned,
    with_rows_for,
)
from lance_spark.namespace.partitioned.root import PIN_COLUMNS, PartitionedVersion, opened, with_columns, with_flags
from lance_spark.namespace.partitioned.scan import plan_partitioned
from lance_spark.namespace.partitioned.spec import FieldDefinition, Form, PartitionSpec
from lance_spark.namespace.partitioned.write import PartitionMode, begin, write_partitions
from lance_spark.predicate import Filter, parse, parse_filter
from lance_spark.schema.blobs import BlobHandling
from lance_spark.schema.schema import from_arrow, quoted
from lance_spark.storage.store import Store
from lance_spark.table.changes.merge.merge_insert import MergeInsert, MergeInsertBuilder, key_names
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.compaction.compaction import COMPACTION
from lance_spark.table.maintenance.cleanup import DEFAULT_AGE, CleanupPolicy
from lance_spark.table.scan.plan import ScanPlan, names
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.sources import Data, as_reader


@dataclass(frozen=True)
class PartitionedScan(ArrowStream):
    """A scan from `PartitionedNamespace.scan`. Rows are read on request."""

    version: PartitionedVersion
    plan: ScanPlan

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self.plan.schema(self.version.shape)

    @property
    def partitions(self) -> tuple[int, int]:
        """The number of tables to open, and of all tables."""
        task = plan_partitioned(self.version, self.plan)[0]
        return task.kept, task.total

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, table by table."""
        # Rows without columns are read as one column, that of the predicate if there is one.
        counting = not self.plan.fields(self.version.shape).fields
        plan = self.plan
        if counting:
            first = self.version.shape.manifest.schema.fields[0]
            there = (*(plan.predicate.columns if plan.predicate else ()), quoted([first.name]))
            plan = replace(plan, columns=there[:1])
        for task in plan_partitioned(self.version, plan):
            for batch in task.read():
                yield batch.select([]) if counting else batch


@known_arguments
@dataclass(frozen=True)
class PartitionedNamespace:
    """One version of a partitioned namespace. It is immutable: methods that change the namespace return another one."""

    snapshot: PartitionedVersion

    def __repr__(self) -> str:
        return f"PartitionedNamespace({self.uri!r}, version={self.version})"

    def _repr_html_(self) -> str:
        """The newest spec and the columns."""
        rows = [(field.name, str(field.type)) for field in self.schema]
        table = Table(("column", "type"), rows[:SHOWN], note=left_out(rows))
        return f"<div><code>{escape(repr(self))}</code><div>partitioned by {escape(str(self.spec))}</div>{table._repr_html_()}</div>"

    @classmethod
    def create(
        cls,
        uri: str | PathLike[str],
        schema: pa.Schema,
        fields: Sequence[FieldDefinition],
        *,
        storage_options: Mapping[str, str] | None = None,
        guard: bool = True,
        form: Form = "published",
    ) -> PartitionedNamespace:
        """Create a namespace without rows; see `lance_spark.create_partitioned_namespace`."""
        return cls(evolve.create(Store(uri, storage_options), schema, fields, guard, form))

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        storage_options: Mapping[str, str] | None = None,
        allow_other_stores: bool = False,
        verify_checksums: bool = True,
    ) -> PartitionedNamespace:
        """Open the latest version, or that of a number or time; the versions are those of the table `__manifest`.

        Raises NamespaceNotFoundError, VersionNotFoundError, UnsupportedFeatureError and CorruptFileError.
        """
        return cls(with_flags(opened(Store(uri, storage_options), version, timestamp), allow_other_stores, verify_checksums))

    @property
    def uri(self) -> str:
        """The URI of the root."""
        return self.snapshot.root.uri

    @property
    def version(self) -> int:
        """The number of this version."""
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of all rows, with the ids of the columns in their metadata."""
        return self.snapshot.schema

    @property
    def spec(self) -> PartitionSpec:
        """The newest spec, which applies to new rows."""
        return self.snapshot.spec

    @property
    def specs(self) -> dict[int, PartitionSpec]:
        """All specs by number. Existing partitions keep the spec that they were written with."""
        return dict(self.snapshot.specs)

    def partitions(self) -> pa.Table:
        """The tables: spec number, location below the root, version, and partition values."""
        rows = with_columns(self.snapshot.leaves, list(PIN_COLUMNS))
        columns = dict.fromkeys(f.column for spec in self.snapshot.specs.values() for f in spec.fields)
        return rows.select(["spec", "location", *PIN_COLUMNS.names, *(c for c in columns if c in rows.schema.names)])

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int = 0,
        batch_size: int | None = None,
        blob_handling: BlobHandling = "bytes",
    ) -> PartitionedScan:
        """Scan this version, with the arguments of `Dataset.scan`. Only tables that can have rows for `filter` are opened."""
        plan = ScanPlan(names(columns), None, limit, offset, batch_size=batch_size, blob_handling=blob_handling)
        predicate = None if filter is None else parse_filter(filter, plan.known(self.snapshot.shape))
        return PartitionedScan(self.snapshot, replace(plan, predicate=predicate).checked(self.snapshot.shape))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as a stream of the Arrow PyCapsule interface, so that other libraries read them; see `ArrowStream`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def count_rows(self, filter: Filter | None = None) -> int:
        """The number of rows, or of those that satisfy `filter`. Without a filter, only manifests are read."""
        plan = ScanPlan((), counts_rows=True)
        if filter is not None:
            plan = replace(plan, predicate=self.scan(filter=filter).plan.predicate)
        counts = (batch.column(0).to_pylist() for task in plan_partitioned(self.snapshot, plan) for batch in task.read())
        return sum(number for batch in counts for number in batch)

    def changes(self, begin: int, *, columns: Sequence[str] | None = None, filter: str | None = None) -> PartitionedChanges:
        """The rows that were inserted, updated and deleted after the version `begin`, up to this one; as `Dataset.changes`.

        `_commit_version` and `_commit_timestamp` are those of the namespace. A row that moved was deleted and inserted.
        Raises UnsupportedFeatureError where the namespace names no version of a table, and VersionNotFoundError.
        """
        return feed.changes(self.snapshot, begin, ScanPlan(names(columns)), filter)

    def write(
        self, data: Data, mode: Literal["append", "overwrite", "dynamic"] = "append", *, replace_where: str | None = None, **options: Any
    ) -> PartitionedNamespace:
        """Write `data` as one new version; see `lance_spark.namespace.partitioned.write.PartitionMode`.

        `replace_where` (with "overwrite") is a condition on partition columns: partitions that satisfy it are replaced, and all new rows
        must satisfy it. `options` are fields of `table.write.options.WriteOptions`, such as `commit_message`.
        Raises SchemaMismatchError, InvalidOptionError, and CommitConflictError if another writer has committed a conflicting change first.
        """
        if replace_where is not None and mode != "overwrite":
            raise ValueError("replace_where needs the mode overwrite")
        reader = as_reader(data)
        condition = None if replace_where is None else parse(replace_where, from_arrow(self.schema))
        chosen: PartitionMode = mode if condition is None else "replace"
        target = begin(self.snapshot.root, reader.schema, chosen, WriteOptions(**options), self.snapshot, condition)
        written = write_partitions(target, reader)
        return self._changed(commit_partitions(target, written, condition))

    @other_names(condition="predicate")
    def delete(self, predicate: str) -> PartitionedNamespace:
        """Delete the rows that satisfy `predicate`, a Spark SQL condition, in one new version.

        Raises CommitConflictError if other writers keep changing the same rows.
        """
        return self._after(row_verbs.delete(self.snapshot, predicate, NO_OPTIONS))

    @other_names(set="updates", condition="where")
    def update(self, updates: Mapping[str, str], where: str | None = None) -> PartitionedNamespace:
        """Set columns to new values (SQL text by name) in the rows that satisfy `where`, or in all rows, in one new version.

        A row whose partition values change moves to the table of its new ones, by the newest spec.
        """
        return self._after(row_verbs.update(self.snapshot, updates, where, NO_OPTIONS))

    def merge_insert(self, on: str | Sequence[str] | None = None) -> MergeInsertBuilder[PartitionedNamespace]:
        """Merge rows by the key columns `on`, as `Dataset.merge_insert`, in one new version: add clauses, then call `execute(data)`."""
        check_type("on", () if on is None else on, Iterable, "a column or a sequence of columns")
        keys = (on,) if isinstance(on, str) else tuple(on or ())
        return MergeInsertBuilder(self.uri, MergeInsert(key_names(self.snapshot.shape, keys)), self._merged)

    def _merged(self, merge: MergeInsert, source: pa.Table, options: WriteOptions) -> PartitionedNamespace:
        return self._after(row_verbs.merge_insert(self.snapshot, merge, source, options))

    def _after(self, changes: RowChanges) -> PartitionedNamespace:
        return self._changed(opened(self.snapshot.root, changes.version))

    def compact(
        self, target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment, *, where: str | None = None
    ) -> PartitionedCompaction:
        """Compact the tables whose fragments are small or have many deleted rows, in one new version of the namespace.

        With `where`, a Spark SQL condition, only those with a row for which it is true.
        """
        latest = with_flags(opened(self.snapshot.root), self.snapshot.allow_other_stores, self.snapshot.verify_checksums)
        options = replace(COMPACTION, target_rows_per_fragment=target_rows_per_fragment)
        return compact(latest, options, None if where is None else with_rows_for(latest, where))

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        dry_run: bool = False,
    ) -> PartitionedCleanup:
        """Remove versions of the namespace older than `older_than` (default: 14 days), and the parts of tables that only they need."""
        if older_than is None and retain_versions is None:
            older_than = DEFAULT_AGE
        return cleanup(self.snapshot.root, CleanupPolicy(older_than, retain_versions, delete_unverified, dry_run=dry_run))

    def verify(self, decode: bool = True) -> PartitionedReport:
        """Verify every table of this version, as `Dataset.verify`; also list unpublished versions and unreferenced tables."""
        return verify_partitioned(self.snapshot, decode)

    def add_spec(self, fields: Sequence[FieldDefinition]) -> PartitionedNamespace:
        """Create a new spec for all future rows; existing partitions stay unchanged."""
        return self._changed(evolve.add_spec(self.snapshot.root, fields))

    def add_columns(self, columns: pa.Schema | Sequence[pa.Field]) -> PartitionedNamespace:
        """Add nullable columns, which are null in existing rows."""
        return self._changed(evolve.add_columns(self.snapshot.root, columns))

    def alter_column(self, column: str, *, name: str | None = None, type: pa.DataType | None = None) -> PartitionedNamespace:
        """Rename a column, or give it a wider type."""
        return self._changed(evolve.alter_column(self.snapshot.root, column, evolve.Alteration(name, type)))

    def drop_column(self, column: str) -> PartitionedNamespace:
        """Remove a column from the namespace; its tables keep it."""
        return self._changed(evolve.drop_column(self.snapshot.root, column))

    def _changed(self, version: PartitionedVersion) -> PartitionedNamespace:
        return PartitionedNamespace(with_flags(version, self.snapshot.allow_other_stores, self.snapshot.verify_checksums))
