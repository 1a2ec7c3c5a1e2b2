"""Dataset: one version of a table without Spark, for tests, tools and small jobs. It delegates to `lance_spark.table`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
import pyarrow as pa

from lance_spark.actions.cleanup import clean_up
from lance_spark.actions.report import MaintenanceReport, maintenance_report
from lance_spark.actions.verify import verify
from lance_spark.display.arguments import known_arguments, other_names
from lance_spark.display.pylance_names import INSTEAD
from lance_spark.errors import check_type
from lance_spark.inspection.metadata_tables import metadata_table
from lance_spark.inspection.overview import overview
from lance_spark.metadata.operations import Operation
from lance_spark.schema.blobs import BlobHandling
from lance_spark.storage.store import Store
from lance_spark.table.branches.methods import BranchMethods
from lance_spark.table.build.manifest_builder import TableSettings
from lance_spark.table.build.sharding import sharding_spec
from lance_spark.table.changes import alter
from lance_spark.table.changes.add_bases import add_bases
from lance_spark.table.changes.add_columns import add_calculated_columns
from lance_spark.table.changes.delete import delete
from lance_spark.table.changes.merge.log import merge_log
from lance_spark.table.changes.merge.merge_insert import MergeInsert, MergeInsertBuilder, key_names, merge_insert
from lance_spark.table.changes.migrate import migrate
from lance_spark.table.changes.row_changes import RowChanges, changes_of_write
from lance_spark.table.changes.update import update
from lance_spark.table.commit.commit import commit_operation
from lance_spark.table.compaction.compaction import COMPACTION
from lance_spark.table.compaction.optimize import Optimizer
from lance_spark.table.feed.changes import Changes, changes
from lance_spark.table.indexes.methods import IndexMethods
from lance_spark.table.maintenance.cleanup import CleanupStats
from lance_spark.table.maintenance.clone import create_branch, deep_clone, shallow_clone
from lance_spark.table.maintenance.manifest_names import migrate_manifest_names
from lance_spark.table.maintenance.progress import tracker
from lance_spark.table.maintenance.verify import Report
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.mem_wal_writing.configuration import configuration, initialize_log
from lance_spark.table.mem_wal_writing.writer import ShardWriter
from lance_spark.table.scan.blob_files import BlobFile, take_blobs
from lance_spark.table.scan.plan import ScanPlan, names
from lance_spark.table.scan.runner import Here
from lance_spark.table.scan.take import take, take_by_row_id
from lance_spark.table.search.methods import SearchMethods
from lance_spark.table.upkeep.maintain import Maintenance, Upkeep, maintain
from lance_spark.table.versions.consumers import Consumers
from lance_spark.table.versions.history import COMMIT_MESSAGE, History, Versions, history, versions
from lance_spark.table.versions.snapshot import MemWal, Snapshot, check_mem_wal, open_snapshot, opened_as, reopened
from lance_spark.table.versions.tags_and_branches import Reference, Tags, resolve
from lance_spark.table.write.bases import DatasetBasePath
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.sources import Data, as_reader
from lance_spark.table.write.target import Mode
from lance_spark.table.write.write import write


@known_arguments
@dataclass(frozen=True)
class Dataset(SearchMethods, IndexMethods):
    """One version of a Lance table. It is immutable: methods that change the table return another Dataset.

    Examples:
        >>> import pyarrow as pa
        >>> from lance_spark import Dataset
        >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3], "v": ["a", "b", None]}))
        >>> later = table.delete("v IS NULL")
        >>> later.version, later.count_rows(), table.count_rows()
        (2, 2, 3)
    """

    snapshot: Snapshot
    _change: RowChanges | Snapshot | None = field(default=None, compare=False, repr=False)
    """What the verb has changed that returned this; of a write, its version, whose transaction tells it."""

    def __repr__(self) -> str:
        manifest = self.snapshot.manifest
        branch = "" if manifest.branch is None else f", branch={manifest.branch!r}"
        return f"Dataset({self.uri!r}, version={self.version}{branch})"

    def __str__(self) -> str:
        """The version, the numbers of rows and fragments, and the columns."""
        return str(overview(self.snapshot))

    def _repr_html_(self) -> str:
        return overview(self.snapshot)._repr_html_()

    if not TYPE_CHECKING:  # a type checker would take every name for known

        def __getattr__(self, name: str) -> Never:
            instead = f"; call {INSTEAD[name]}" if name in INSTEAD else ""
            raise AttributeError(f"a Dataset has no attribute {name!r}{instead}", name=name, obj=self)

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        *,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        timestamp: datetime | str | None = None,
        storage_options: Mapping[str, str] | None = None,
        allow_other_stores: bool = False,
        verify_checksums: bool = True,
        mem_wal: MemWal = "merged",
    ) -> Dataset:
        """Open the latest version, or that of a number, a tag or a time; a number and a time are of the branch, a tag includes its branch.

        Raises TableNotFoundError, VersionNotFoundError for a version, tag or branch that does not exist, and CorruptFileError.

        `allow_other_stores` allows the manifest to refer to files in other stores or buckets than the table's own. It also lets
        `deep_clone` copy files from outside of the table's folder, and cleanup and verify access clones in other stores.
        Without `verify_checksums`, checksums of data files are not verified. `mem_wal` is for tables with a write-ahead log, see
        docs/mem-wal.md: "merged" reads its rows, too; "base" reads only what is in the table.
        """
        check_mem_wal(mem_wal)
        store = Store(uri, storage_options)
        snapshot = open_snapshot(store, version=version, tag=tag, branch=branch, timestamp=timestamp, allow_other_stores=allow_other_stores)
        return cls(replace(snapshot, verify_checksums=verify_checksums, mem_wal=mem_wal))

    @classmethod
    def write(
        cls,
        uri: str | PathLike[str],
        data: Data,
        mode: Mode = "create",
        *,
        schema: pa.Schema | None = None,
        storage_options: Mapping[str, str] | None = None,
        data_storage_version: str | None = None,
        max_rows_per_file: int = NO_OPTIONS.max_rows_per_file,
        max_bytes_per_file: int = NO_OPTIONS.max_bytes_per_file,
        write_order: Sequence[str] = (),
        enable_stable_row_ids: bool = False,
        transaction_properties: Mapping[str, str] | None = None,
        commit_message: str | None = None,
        txn_app_id: str | None = None,
        txn_version: int | None = None,
        column_options: Mapping[str, str] | None = None,
        initial_bases: Sequence[DatasetBasePath] = (),
        target_bases: Sequence[str] = (),
        target_all_bases: bool | None = None,
        allow_other_stores: bool = False,
    ) -> Dataset:
        """Write `data` as one new version: "create" a table, "append" to it (creating it if needed), or "overwrite" it.

        `data` are tables, readers, batches and datasets of pyarrow, frames of pandas and polars, datasets of Hugging Face, anything else
        with `__arrow_c_stream__`, or an iterable of such tables or batches. They are cast to `schema`, which a generator of no rows needs.
        Columns are matched by name. A data file ends after `max_rows_per_file` rows, or the batch that makes it exceed
        `max_bytes_per_file`. Rows are sorted by the columns `write_order` in portions of 128 MB.
        `data_storage_version`, `enable_stable_row_ids` and `column_options`, such as
        {"v.lance.compression": "zstd"}, are for new tables. `transaction_properties` and `commit_message` are stored with the version;
        with `txn_app_id` and `txn_version`, the write happens only once.

        `initial_bases` are base paths of a new table, see docs/base-paths.md. Data files go to `target_bases` in turn, which are names or
        paths of base paths, or "." for the table's own folder; with `target_all_bases` they go to all, and if it is true also to the own
        folder. Base paths in other stores or buckets that the table names need `allow_other_stores`.

        Raises TableAlreadyExistsError in mode "create". Raises SchemaMismatchError for other columns or types. Raises CommitConflictError
        if another writer has committed a conflicting change.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]}))
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [3]}), mode="append", commit_message="one more")
            >>> table.version, table.count_rows()
            (2, 3)
        """
        options = WriteOptions(
            storage_options=storage_options or {},
            data_storage_version=data_storage_version,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            write_order=write_order,
            stable_row_ids=enable_stable_row_ids,
            properties=transaction_properties or {},
            commit_message=commit_message,
            txn_app_id=txn_app_id,
            txn_version=txn_version,
            column_options=column_options or {},
            initial_bases=initial_bases,
            target_bases=target_bases,
            target_all_bases=target_all_bases,
            allow_other_stores=allow_other_stores,
        )
        rows = data if schema is None else as_reader(data, schema)
        written = replace(write(uri, rows, mode, options), allow_other_stores=allow_other_stores)
        return cls(written, written)

    @classmethod
    def commit(
        cls,
        base_uri: str,
        operation: Operation,
        read_version: int | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        commit_message: str | None = None,
        enable_stable_row_ids: bool = False,
    ) -> Dataset:
        """Commit an operation of `lance_spark.operations` whose files have already been written.

        `read_version` is the version that it is based on; Overwrite, which may also create the table, and Restore need none. Commits
        of other writers since then are checked for conflicts, see docs/conflicts.md. An Overwrite with the schema of `read_version` keeps
        the columns: it conflicts with changes of them. The rows are not read.
        """
        properties = {} if commit_message is None else {COMMIT_MESSAGE: commit_message}
        settings = TableSettings(stable_row_ids=enable_stable_row_ids)
        return cls(commit_operation(Store(base_uri, storage_options), operation, read_version, properties, settings))

    @property
    def uri(self) -> str:
        """The URI of the table, or of the branch."""
        return self.snapshot.store.uri

    @property
    def version(self) -> int:
        """The number of this version."""
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of this version."""
        return self.snapshot.manifest.schema.to_arrow()

    @property
    def last_change(self) -> RowChanges | None:
        """The rows and files that the verb has changed which returned this Dataset; None if it was opened, or the verb changes no rows.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]}))
            >>> table.last_change.num_inserted_rows, table.delete("id > 1").last_change.num_deleted_rows
            (3, 2)
        """
        return changes_of_write(self._change) if isinstance(self._change, Snapshot) else self._change

    def versions(self) -> Versions:
        """Existing versions, oldest first, as a list that prints as a table."""
        return versions(self.snapshot.store)

    def history(self, limit: int | None = None) -> History:
        """List existing versions, newest first, each with its time, operation, properties and commit message."""
        return history(self.snapshot.store, limit)

    def changes(
        self,
        begin: int,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        net: bool = False,
        blob_handling: BlobHandling = "bytes",
    ) -> Changes:
        """The rows that were inserted, updated and deleted after the version `begin`, up to `end` (None: this version), as rows.

        They have the columns of `end`, of which `columns` are chosen, and `_change_type` ("insert", "update_preimage", "update_postimage"
        or "delete"), `_commit_version` and `_commit_timestamp`. `filter` may name all of them. After version 0, every row is an insert.
        With `net`, there is one change for each row over all commits. Raises UnsupportedFeatureError where a table without stable row ids
        does not tell which rows have changed.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]}), enable_stable_row_ids=True).update({"id": "20"}, "id = 2")
            >>> changed = table.changes(1).to_table()
            >>> list(zip(changed["id"].to_pylist(), changed["_change_type"].to_pylist()))
            [(2, 'update_preimage'), (20, 'update_postimage')]
        """
        last = self.snapshot if end is None else reopened(self.snapshot, end)
        return changes(last, begin, names(columns), filter, net, blob_handling)

    def to_arrow_dataset(self) -> Any:
        """This version as a `pyarrow.dataset.Dataset`, of which DuckDB and polars read the columns and rows that a query needs.

        Examples:
            >>> import pyarrow as pa, pyarrow.compute as pc
            >>> rows = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]})).to_arrow_dataset()
            >>> rows.to_table(filter=pc.field("id") > 1)["id"].to_pylist()
            [2, 3]
        """
        from lance_spark.table.engines.arrow_dataset import ArrowDataset  # imports all of pyarrow's datasets

        return ArrowDataset(self)

    def metadata_table(self, name: str) -> pa.Table:
        """A table about this version: "history", "fragments", "files", "columns", "indexes", "tags", "branches", "refs" or "transactions".

        docs/catalog.md has the columns. Raises InvalidOptionError for another name.
        """
        return metadata_table(name).read(self.snapshot)

    @property
    def tags(self) -> Tags:
        """The table's tags: `tags.list()`, `tags.create("name", 3)` and so on."""
        return Tags(self.snapshot)

    @property
    def consumers(self) -> Consumers:
        """The streams that have recorded their place with the table: `consumers.list()` with their lag, `consumers.drop("id")`."""
        return Consumers(self.snapshot)

    @property
    def branches(self) -> BranchMethods:
        """The table's branches without the main one: `branches.list()`, `branches.delete("name")` and so on."""
        return BranchMethods(self.snapshot)

    def checkout_version(self, version: Reference) -> Dataset:
        """Another version: a number on this branch, a tag name, or (branch, version), where None means main or the latest.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]})).delete("id = 1")
            >>> table.checkout_version(1).count_rows()
            2
        """
        return Dataset(resolve(self.snapshot, version))

    @other_names(name="branch", version="reference")
    def create_branch(self, branch: str, reference: Reference | None = None) -> Dataset:
        """Create a branch that starts at a version, `reference`, by default this one. Raises RefConflictError if it exists."""
        return Dataset(create_branch(self.snapshot, branch, reference))

    @other_names(path="target_path", version="reference")
    def shallow_clone(
        self, target_path: str, reference: Reference | None = None, storage_options: Mapping[str, str] | None = None
    ) -> Dataset:
        """Create a table that refers to the files of this one, which holds them by a tag; see docs/branches-and-tags.md.

        Warns if the tag cannot be written, since cleanups of this table may then break the clone. Raises TableAlreadyExistsError.
        """
        return Dataset(shallow_clone(self.snapshot, self._target(target_path, storage_options), reference))

    @other_names(path="target_path", version="reference")
    def deep_clone(
        self,
        target_path: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        progress: bool | None = None,
    ) -> Dataset:
        """Create a table with copies of all files of one version, at `target_path`. Raises TableAlreadyExistsError.

        `progress` shows progress bars (None: in a terminal if tqdm is installed).
        """
        return Dataset(deep_clone(self.snapshot, self._target(target_path, storage_options), reference, tracker(progress)))

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        dry_run: bool = False,
        before_version: int | None = None,
        before_timestamp: datetime | None = None,
        progress: bool | None = None,
    ) -> CleanupStats:
        """Remove old versions and the files that no version needs: versions of this branch that are older than `older_than`.

        The default age is 14 days if there is no other condition. Only versions before `before_version` and `before_timestamp` are
        removed. This version and later ones are kept: open the table again if others have committed since. The latest `retain_versions`
        are kept at any age. `delete_unverified` removes files that no version refers to at any age, which is safe only without concurrent
        writers; else they are kept for seven days. `delete_rate_limit` is in files per second. `dry_run` only reports what would be
        removed. `progress` shows bars (None: in a terminal with tqdm). Raises RefConflictError if an old version is tagged, unless
        `error_if_tagged_old_versions` is false: then it is kept.
        """
        return clean_up(
            self.snapshot,
            older_than,
            retain_versions,
            dry_run,
            before_version,
            before_timestamp,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            tracker(progress),
        )

    def maintenance_report(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
    ) -> MaintenanceReport:
        """Tell what a compaction, an optimization of indexes and a cleanup would do now; nothing is changed.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1]})).insert(pa.table({"id": [2]}))
            >>> table.maintenance_report().fragments_to_compact
            2
        """
        return maintenance_report(self.snapshot, older_than, retain_versions, target_rows_per_fragment)

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
        """Do what a table needs: small fragments, deleted rows, clustering, indexes, the write-ahead log, and old versions.

        The latest version is looked at, also if this one is older. A step is planned if twenty reads repay the bytes that it writes.
        Steps that gain most for each byte are done first, while they are within `budget_bytes`, which they rewrite, and
        `budget_seconds`. Each commits for itself, and is left out if other writers are faster. Versions older than `older_than` are
        removed (default: 14 days), except the latest `retain_versions`. Of a `filter_log`, indexes and columns to cluster by are
        recommended, and made with `apply_recommendations`. With `dry_run`, nothing is done. Returns the steps, with what
        each does, why, its cost, and its gain, which is measured afterwards. See docs/maintenance.md.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"x": [1]}))
            >>> for x in (2, 3):
            ...     table = Dataset.write("/tmp/t.lance", pa.table({"x": [x]}), mode="append")
            >>> [(step.action, step.what, step.outcome) for step in table.maintain()]
            [('compact', '3 fragments', 'done')]
        """
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
        return maintain(Here(), self.snapshot, upkeep)

    def verify(self, decode: bool = True, *, progress: bool | None = None) -> Report:
        """Check that every file of a version exists and is intact. Returns a printable report.

        A file is intact if it has the recorded size and number of rows, and decodes. With `decode`, scalar indexes are asked for a sample
        of their rows.

        `progress` shows progress bars (None: in a terminal if tqdm is installed).
        """
        return verify(self.snapshot, decode, tracker(progress))

    def insert(self, data: Data, mode: Mode = "append", *, schema: pa.Schema | None = None, commit_message: str | None = None) -> Dataset:
        """Append `data` to the latest version of the table or branch, or "overwrite" it; `Dataset.write` has more options.

        Raises SchemaMismatchError, and VersionNotFoundError if the table was dropped and made anew.
        """
        rows = data if schema is None else as_reader(data, schema)
        written = write(self.snapshot, rows, mode, WriteOptions(commit_message=commit_message))
        return replace(self._changed(written), _change=written)

    @other_names(condition="predicate")
    def delete(self, predicate: str) -> Dataset:
        """Delete the rows that satisfy `predicate`, a Spark SQL condition, in one new version.

        Raises CommitConflictError if other writers keep changing the same rows, or have replaced the table.
        """
        deleted = delete(self.snapshot, predicate)
        return replace(self._changed(deleted.snapshot), _change=deleted.changes)

    @other_names(set="updates", condition="where")
    def update(self, updates: Mapping[str, str], where: str | None = None) -> Dataset:
        """Set columns to new values (SQL text by name) in the rows that satisfy `where`, or in all rows."""
        return self._latest_after(update(self.snapshot, updates, where, NO_OPTIONS))

    def merge_insert(self, on: str | Sequence[str] | None = None) -> MergeInsertBuilder[Dataset]:
        """Merge rows by the key columns `on` (None: the primary key; ValueError without one): add clauses, then call `execute(data)`."""
        check_type("on", () if on is None else on, Iterable, "a column or a sequence of columns")
        keys = (on,) if isinstance(on, str) else tuple(on or ())
        return MergeInsertBuilder(self.uri, MergeInsert(key_names(self.snapshot, keys)), self._merged)

    @property
    def optimize(self) -> Optimizer[Dataset]:
        """Maintain the table: `optimize.compact_files()`, `optimize.cluster("x", "y")`, `optimize.optimize_indices()`."""
        return Optimizer(self.snapshot, self._at)

    def restore(self) -> Dataset:
        """Restore this version: commit it again as the latest one."""
        return self._changed(alter.restore(self.snapshot))

    def add_columns(self, columns: alter.NewColumns | Mapping[str, str]) -> Dataset:
        """Add columns: SQL expressions by name, or, for columns that are null in all rows, a field, a list of fields or a schema.

        Structs get new fields by paths, `{"s.x": "id + 1"}`, or by a field of the struct's name that has only its new fields.
        """
        if isinstance(columns, Mapping):
            return self._at(add_calculated_columns(self.snapshot, columns, NO_OPTIONS).version)
        return self._changed(alter.add_columns(self.snapshot, columns))

    def drop_columns(self, columns: Sequence[str]) -> Dataset:
        """Remove columns (with dots for nested fields). Data files are not rewritten."""
        return self._changed(
            alter.drop_columns(self.snapshot, names(columns if isinstance(columns, str) else tuple(dict.fromkeys(columns))) or ())
        )

    def reorder_columns(self, columns: Sequence[str]) -> Dataset:
        """Put these columns first, in this order; the others follow as they are. Fields of structs (with dots) are ordered in their struct.

        Field ids stay, and data files are not rewritten.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"a": [1], "b": [2], "c": [3]}))
            >>> table.reorder_columns(["c", "a"]).schema.names
            ['c', 'a', 'b']
        """
        return self._changed(alter.reorder_columns(self.snapshot, columns))

    def alter_columns(self, *alterations: alter.AlterColumn) -> Dataset:
        """Change columns: `{"path": "a", "name": "b"}`, `{"path": "s.x", "nullable": True}`, `{"path": "a", "data_type": pa.int64()}`.

        A new type rewrites the column; see `LanceTable.alterColumn`. Raises SchemaMismatchError for a null in a column that is to become
        non-nullable, for a value that does not fit the new type, and for a new type of a column with an index.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"a": [1], "b": [2]}))
            >>> table.alter_columns({"path": "a", "name": "c"}, {"path": "b", "nullable": False}).schema.names
            ['c', 'b']
        """
        return self._latest_after(alter.alter_columns(self.snapshot, alterations))

    def merge_mem_wal(self, *, commit_message: str | None = None) -> Dataset:
        """Merge what the write-ahead log has flushed into the table, each generation in one commit; see docs/mem-wal.md."""
        for _ in merge_log(self.snapshot, WriteOptions(commit_message=commit_message), Here()):
            pass
        return self._changed(reopened(self.snapshot))

    def initialize_mem_wal(
        self,
        *,
        maintained_indexes: Sequence[str] | None = None,
        bucket_column: str | None = None,
        num_buckets: int | None = None,
        identity_column: str | None = None,
        unsharded: bool = False,
        **settings: Any,
    ) -> Dataset:
        """Give a table a write-ahead log, into which `mem_wal_writer` puts rows; see docs/mem-wal.md.

        SSTables of the log have all indexes of the table, or those with the names `maintained_indexes`. Rows belong to shards by a hash
        of `bucket_column` in `num_buckets`, by the values of `identity_column`, or to one shard (`unsharded`); without any of these,
        each writer has a shard of its own choice. `settings` are those that all writers begin with, see `WriterSettings`. Raises
        InvalidOperationError if the table has a log, and InvalidOptionError.
        """
        spec = sharding_spec(self.snapshot.manifest.schema, bucket_column, num_buckets, identity_column, unsharded)
        return self._changed(initialize_log(self.snapshot, spec, maintained_indexes, settings))

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """The configuration of the write-ahead log, as pylance returns it; None if the table has no log."""
        found = configuration(self.snapshot)
        return None if found is None else found.as_dict()

    def mem_wal_writer(self, shard_id: str, **settings: Any) -> ShardWriter:
        """The writer of a shard of the write-ahead log, whose name is a UUID: other writers of the shard can write no more.

        `settings` are those of `WriterSettings`, with pylance's names; None is the table's setting, or the default.

        Examples:
            >>> import uuid
            >>> import pyarrow as pa
            >>> key = {"lance-schema:unenforced-primary-key": "true"}
            >>> schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("v", pa.string())])
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=schema))
            >>> table = table.initialize_mem_wal()
            >>> with table.mem_wal_writer(str(uuid.uuid4())) as writer:
            ...     writer.put(pa.table({"id": [2, 3], "v": ["B", "c"]}))
            ...     writer.delete(pa.table({"id": [1]}))
            >>> sorted(table.to_table()["v"].to_pylist())
            ['B', 'c']
        """
        return ShardWriter(self.snapshot, shard_id, settings)

    def migrate_manifest_paths_v2(self: Dataset | str | PathLike[str], storage_options: Mapping[str, str] | None = None) -> Dataset:
        """Give all manifests names of the V2 scheme, by which the latest version is found in one request of any store.

        A table with names of both schemes, which an interrupted migration leaves, cannot be opened: call this with its URI,
        `Dataset.migrate_manifest_paths_v2("/tmp/t.lance")`. Nobody may write to the table meanwhile. Branches have manifests of their own.

        Raises CommitConflictError for a version with two manifests that differ.
        """
        store = self.snapshot.store if isinstance(self, Dataset) else Store(self, storage_options)
        migrate_manifest_names(store)
        return Dataset(open_snapshot(store))

    def migrate(self) -> Dataset:
        """Write a table of an old storage version anew in the one of new tables, 2.2. To tables of 0.1, nothing can be added otherwise.

        This is one commit. Row addresses, row ids, deletions and indexes stay, and older versions can still be read. If it is stopped, the
        next call continues with the fragments that are not finished.
        """
        return self._at(migrate(Here(), self.snapshot).version)

    def add_bases(self, new_bases: Sequence[DatasetBasePath]) -> Dataset:
        """Register base paths, to which data files can be written from then on; see docs/base-paths.md.

        Raises InvalidOptionError for one that is in the table's folder, or has the id, name or path of another one.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark.operations import DatasetBasePath
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1]}))
            >>> table = table.add_bases([DatasetBasePath("/tmp/more", "more")])
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [2]}), "append", target_bases=["more"])
            >>> table.count_rows()
            2
        """
        return self._changed(add_bases(self.snapshot, new_bases))

    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> Dataset:
        """Set keys of the table's config, or remove them (None); with `replace` all other keys are removed."""
        return self._changed(alter.update_config(self.snapshot, values, replace_all=replace))

    def _merged(self, merge: MergeInsert, source: pa.Table, options: WriteOptions) -> Dataset:
        return self._latest_after(merge_insert(self.snapshot, merge, source, options))

    def _latest_after(self, changes: RowChanges) -> Dataset:
        return replace(self._at(changes.version), _change=changes)

    def _at(self, version: int) -> Dataset:
        return Dataset(reopened(self.snapshot, version))

    def _changed(self, snapshot: Snapshot) -> Self:
        return type(self)(opened_as(self.snapshot, snapshot))

    def _target(self, uri: str, options: Mapping[str, str] | None) -> Store:
        return self.snapshot.store.at(uri) if options is None else Store(uri, options)

    def take(self, indices: Sequence[int] | np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these numbers (from 0, without deleted rows), in the given order, with duplicates.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]}))
            >>> table.take([2, 0, 2])["id"].to_pylist()
            [3, 1, 3]
        """
        return take(with_log(self.snapshot), indices, ScanPlan(names(columns)).checked(self.snapshot))

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        indices: Sequence[int] | None = None,
    ) -> list[BlobFile | None]:
        """Open the blobs of some rows as files, which are read on demand; None for null.

        Pass exactly one of `ids` (of the column `_rowid`), `addresses` (`_rowaddr`) and `indices` (numbers as for `take`). Raises
        IndexError for a row that does not exist.
        """
        return take_blobs(with_log(self.snapshot), blob_column, ids, addresses, indices)

    def take_rows(self, row_ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these ids (of the column `_rowid`), in the given order. Raises IndexError for an id that no row has."""
        return take_by_row_id(with_log(self.snapshot), row_ids, ScanPlan(names(columns)).checked(self.snapshot))
