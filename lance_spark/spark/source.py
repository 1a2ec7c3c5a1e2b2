"""The data source "lance", which Spark creates from a path and options for reads and writes.

The version is pinned when Spark creates the source, the only hook that always runs. Readers and writers use this version.
`pushFilters` is deliberately not defined: Spark's filter push-down for Python sources confuses two uses of one DataFrame.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from lance_spark.errors import (
    InvalidOptionError,
    LanceError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.predicate import conjunction, from_json, parse
from lance_spark.schema.blobs import signed
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.spark.batches import Conversion
from lance_spark.spark.command import OPTION as COMMAND
from lance_spark.spark.command import Command
from lance_spark.spark.import_cache import brief_errors, keep_import_cache_small
from lance_spark.spark.options import ReadOptions, SparkWriteOptions
from lance_spark.spark.places import store_of, store_to_write
from lance_spark.spark.planner.request import Request
from lance_spark.spark.projection import paths
from lance_spark.spark.reader import PARTITIONED_MARK, VERSION_MARK, LanceReader, Partitioning
from lance_spark.spark.types import promised, stored, to_spark
from lance_spark.storage.store import Store
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import DROPPED, Snapshot, check_identity, open_pinned, open_snapshot
from lance_spark.table.versions.write_ahead_log import warn_of_unread

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion

# Each function imports what only some reads and writes need: workers import this module often, and must start fast.

OVERWRITE = "__lance_overwrite"
"""The option in which NamedTable.java passes the conditions, as JSON, of the rows that a write replaces."""

IDENTITY = "__lance_identity"
"""The option with the identity of the version that is read (see `table.versions.identity`): verbs read what they have opened."""

BASED_ON = "__lance_based_on"
"""The option in which LanceTable.java passes the version and its identity that the view, to which rows are written, has opened."""

NO_STREAM = (
    "a stream cannot read a lance table; read versions with spark.read.format('lance') in a loop or a scheduled job, and only the new rows "
    "with the option filter: _row_created_at_version > the version that was read last"
)
"""The message for readStream, also in LanceResolution.java."""


class LanceDataSource(DataSource):
    """Spark's view of a version of a Lance table or of a partitioned namespace, or of the location of a table to be written."""

    @brief_errors()
    def __init__(self, options: Mapping[str, str]) -> None:
        keep_import_cache_small()
        self._command = Command.of(options)
        self._overwritten = options.get(OVERWRITE)
        self._based_on = options.get(BASED_ON) if self._command is None else self._command.truncated
        identity = options.get(IDENTITY, "") if self._command is None else self._command.identity
        options = {name: value for name, value in options.items() if name not in (COMMAND, OVERWRITE, IDENTITY, BASED_ON)}
        super().__init__(options)
        self._read = ReadOptions.parse(options)
        self._request = Request()
        self._snapshot: Snapshot | None = None
        self._partitioned: PartitionedVersion | None = None
        self._mark = b""
        self._pinned: tuple[Store, int, str] | LanceError
        try:
            found = open_version(self._read if self._command is None else self._command.place(self._read), identity)
            if isinstance(found, Snapshot):
                self._snapshot = found
                self._mark = VERSION_MARK + struct.pack("<qq", found.version, len(found.identity.encode())) + found.identity.encode()
            else:
                self._partitioned, self._snapshot, self._mark = found, found.shape, PARTITIONED_MARK
            self._pinned = self._snapshot.store, self._snapshot.version, found.identity
        except LanceError as e:
            # A write does not need an existing table; a read raises the error later.
            self._pinned = e

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "lance"

    @brief_errors()
    def schema(self) -> StructType:
        """The schema of the columns that the options select."""
        snapshot = self.opened()
        return to_spark(_shown(self._plan(snapshot).checked(snapshot).fields(snapshot)))

    @brief_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader. `schema` is the source's own, or a selection of its columns by the user or the planner."""
        try:
            return self._reader(schema)
        except SchemaMismatchError as e:
            if self._request.declared is None:
                if self._read.columns is None:
                    raise
                raise SchemaMismatchError(f"the option columns leaves out columns that are asked for: {e}") from e
            adopt = "CREATE OR REPLACE TABLE t USING lance adopts them"
            what = f"the session catalog has other columns than the table with its options ({adopt})"
            raise SchemaMismatchError(f"{what}: {e}") from e

    def _reader(self, schema: StructType) -> LanceReader:
        snapshot = self.opened()
        plan = self._plan(snapshot)
        if not self._request.is_aggregated:
            own = _shown(plan.fields(snapshot))
            names = set(own.names)
            if any(f.name in schema.names and f.name not in names for f in ROW_COLUMNS):
                own = _shown(plan.known(snapshot))
            if schema.names != own.names or schema != to_spark(own):
                plan = replace(plan, columns=paths(own, schema), with_row_id=False, with_row_address=False)
        plan = self._request.apply(plan, plan.known(snapshot))
        given, aggregation = promised(schema), None
        if self._request.is_aggregated:
            aggregation = self._request.aggregation(plan.known(snapshot), given)
            given = promised(to_spark(_shown(plan.fields(snapshot))))
        conversion = Conversion(given, self._read.nanoseconds == "truncate")
        size = Partitioning(self._request.parallelism, self._read.max_partition_bytes)
        request = self._request
        return LanceReader(self._partitioned or snapshot, plan, conversion, request.rows_only, size, aggregation, request.reports)

    @brief_errors()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises UnsupportedFeatureError. With the planner, `load` raises the same, see LanceResolution.java."""
        raise UnsupportedFeatureError(NO_STREAM)

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with `schema`, based on the latest version at the time of planning."""
        options = SparkWriteOptions.parse(self.options if self._command is None else self._command.write_options(self.options))
        if isinstance(self._pinned, LanceError) and (options.branch or not isinstance(self._pinned, TableNotFoundError)):
            raise self._pinned
        if self._based_on is not None:
            self._check_same_table(*self._based_on.split(" ", 1))
        if self._command is not None:
            from lance_spark.spark.row_level import row_level_writer

            if self._partitioned is not None:
                what = "is a partitioned namespace; DELETE, UPDATE, MERGE and TRUNCATE apply to single tables"
                raise UnsupportedFeatureError(f"{self._partitioned.root.uri} {what}")
            return row_level_writer(self._snapshot, store_to_write(options), options, self._command)
        if self._partitioned is not None:
            from lance_spark.spark.partitioned_writer import PartitionedWriter

            return PartitionedWriter(self._partitioned, schema, overwrite, options)
        from lance_spark.spark.writer import LanceWriter

        if self._snapshot is None:
            return LanceWriter(store_to_write(options), schema, overwrite, options)
        place = store_to_write(options) if options.branch is None else self._snapshot.store
        known = self._snapshot.manifest.schema
        conditions = [] if self._overwritten is None else [from_json(tree, known) for tree in json.loads(self._overwritten)]
        return LanceWriter(place, schema, overwrite, options, known.to_arrow(), conjunction(conditions) if conditions else None)

    def _check_same_table(self, version: str, identity: str) -> None:
        from lance_spark.table.commit.same_table import check_continues

        if self._snapshot is None or self._partitioned is not None:
            raise VersionNotFoundError(f"{store_of(self._read).uri}, version {version}, {DROPPED}; create the table again")
        check_continues(self._snapshot, int(version), identity)

    @property
    def is_partitioned(self) -> bool:
        """True for a partitioned namespace."""
        return self._partitioned is not None

    def opened(self) -> Snapshot:
        """The pinned version. Raises the error of opening it."""
        if isinstance(self._pinned, TableNotFoundError) and self._request.declared is not None and not self._read.chooses_version:
            declared = StructType.fromJson(json.loads(self._request.declared))
            return Snapshot(store_of(self._read), Manifest(0, from_arrow(stored(declared, {}))), "")
        if isinstance(self._pinned, LanceError):
            raise self._pinned
        if self._snapshot is None:
            store, version, identity = self._pinned
            if self._mark == PARTITIONED_MARK:
                from lance_spark.namespace.partitioned.root import opened, with_flags

                self._partitioned = with_flags(opened(store, version), self._read.allow_other_stores, self._read.verify_checksums)
                check_identity(self._partitioned, identity)
                self._snapshot = self._partitioned.shape
            else:
                snapshot = open_pinned(store, version, identity, self._read.allow_other_stores)
                self._snapshot = replace(snapshot, verify_checksums=self._read.verify_checksums)
        return self._snapshot

    def _plan(self, snapshot: Snapshot) -> ScanPlan:
        chosen = self._read
        plan = ScanPlan(
            columns=chosen.columns,
            limit=chosen.limit,
            with_row_id=chosen.with_row_id,
            with_row_address=chosen.with_row_address,
            batch_size=chosen.batch_size,
            blob_handling=chosen.blob_handling,
            fragments=chosen.fragments,
            use_scalar_index=chosen.use_scalar_index,
        )
        if chosen.filter is not None:
            plan = replace(plan, predicate=parse(chosen.filter, plan.known(snapshot), None))
        if self._partitioned is not None:
            from lance_spark.namespace.partitioned.scan import check_no_row_columns

            check_no_row_columns(plan, self._partitioned)
        return plan

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the source into every task, so the manifest must not be part of it.
        # The mark comes first, because LancePlanner.java searches for it and options could contain it, too.
        return {"_mark": self._mark, **self.__dict__, "_snapshot": None, "_partitioned": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        keep_import_cache_small()
        self.__dict__.update(state)


def bind(source: bytes, request: str) -> LanceDataSource:
    """Add the planner's request for one scan to a pickled source with a pinned version. LancePlanner.java pickles this call."""
    bound: LanceDataSource = pickle.loads(source)
    bound._request = Request.parse(request)
    return bound


def _shown(fields: Schema) -> pa.Schema:
    """The Arrow schema of the fields in Spark, which has no unsigned numbers."""
    return signed(fields).to_arrow()


def open_version(options: ReadOptions, identity: str = "") -> Snapshot | PartitionedVersion:
    """Open the version of a table or of a partitioned namespace that the options choose; a table's had this `identity`, if it is given."""
    store = store_of(options)
    try:
        snapshot = open_snapshot(
            store,
            version=options.version,
            tag=options.tag,
            branch=options.branch,
            timestamp=options.timestamp,
            allow_other_stores=options.allow_other_stores,
            identity=identity,
        )
    except (TableNotFoundError, VersionNotFoundError):
        from lance_spark.namespace.partitioned.root import open_partitioned, with_flags

        # A tag is looked for before the versions are.
        found = open_partitioned(store, options.version, options.timestamp)
        if found is None:
            raise
        if options.tag is not None or options.branch is not None:
            what = "is a partitioned namespace, which has no tags and branches; use version or timestamp"
            raise InvalidOptionError(f"{store.uri} {what}") from None
        return with_flags(found, options.allow_other_stores, options.verify_checksums)
    return warn_of_unread(replace(snapshot, verify_checksums=options.verify_checksums))
