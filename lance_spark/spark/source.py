"""The data source "lance", which Spark creates from a path and options for reads and writes.

The version is pinned when Spark creates the source, the only hook that always runs. Readers and writers use this version.
`pushFilters` is deliberately not defined: Spark's filter push-down for Python sources confuses two uses of one DataFrame.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
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
from lance_spark.spark.options import OF_STREAMS, ReadOptions, SparkWriteOptions
from lance_spark.spark.planner.request import Request
from lance_spark.spark.projection import paths
from lance_spark.spark.reader import PARTITIONED_MARK, VERSION_MARK, LanceReader, Partitioning
from lance_spark.spark.table_location import store_of, store_to_write
from lance_spark.spark.types import promised, stored, to_spark
from lance_spark.spark.workers.import_cache import brief_errors, start_planning
from lance_spark.storage.store import Store
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import DROPPED, Snapshot, check_identity, open_pinned, open_snapshot
from lance_spark.table.versions.write_ahead_log import warn_of_unread

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion
    from lance_spark.spark.writer import LanceWriter
    from lance_spark.table.feed.changes import Changes
    from lance_spark.table.feed.stream import TableStream
    from lance_spark.table.search.search import Search

# Each function imports what only some reads and writes need: workers import this module often, and must start fast.

OVERWRITE = "__lance_overwrite"
"""The option in which NamedTable.java passes the conditions, as JSON, of the rows that a write replaces."""

IDENTITY = "__lance_identity"
"""The option with the identity of the version that is read (see `table.versions.identity`): verbs read what they have opened."""

CALL = "__lance_function"
"""The option in which SearchFunction.java passes the call of a table function, see `planner.table_function`."""

BASED_ON = "__lance_based_on"
"""The option in which LanceTable.java passes the version and its identity that the view, to which rows are written, has opened."""


class LanceDataSource(DataSource):
    """Spark's view of a version of a Lance table or of a partitioned namespace, or of the location of a table to be written."""

    @brief_errors()
    def __init__(self, options: Mapping[str, str]) -> None:
        start_planning()
        self._command = Command.of(options)
        self._overwritten = options.get(OVERWRITE)
        self._based_on = options.get(BASED_ON) if self._command is None else self._command.truncated
        identity = options.get(IDENTITY, "") if self._command is None else self._command.identity
        self._is_called = CALL in options
        if self._is_called:
            from lance_spark.spark.planner.table_function import with_options

            options = with_options(options)
            identity = options.get(IDENTITY, "")
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
        plan = self._plan(snapshot)
        if self._read.feed.changes:
            # Where the changes begin does not matter here, and a stream need not say it.
            return to_spark(_shown(self._changes(snapshot, plan, snapshot.version).fields))
        search = self._search(snapshot, plan)
        return to_spark(_shown(plan.checked(snapshot).fields(snapshot)) if search is None else _found(search))

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

    def _reader(self, schema: StructType) -> DataSourceReader:
        snapshot = self.opened()
        plan = self._plan(snapshot)
        self._read.feed.check_batch()
        if self._read.feed.changes:
            return self._changes_reader(snapshot, plan, schema)
        if (search := self._search(snapshot, plan)) is not None:
            return self._search_reader(search, schema)
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

    def _search_reader(self, search: Search, schema: StructType) -> DataSourceReader:
        """The reader of the rows that a search finds. What Spark filters, limits and aggregates is these rows: it is never pushed down."""
        request, snapshot = self._request, search.snapshot
        if request.schema is not None:
            schema = StructType.fromJson(json.loads(request.schema))
        plan = self._selected(search.plan, snapshot, _found(search), search.query.columns.names, schema)
        conversion = Conversion(promised(schema), self._read.nanoseconds == "truncate")
        found = replace(search, plan=plan, columns=None)
        reader = LanceReader(snapshot, plan, conversion, request.rows_only, reports=request.reports, search=found)
        if request.results is None:
            return reader
        from lance_spark.spark.planner.search.search_reader import SearchReader  # most reads are scans

        return SearchReader(reader.found, request.results, request.parallelism or 1)

    def _changes_reader(self, snapshot: Snapshot, plan: ScanPlan, schema: StructType) -> LanceReader:
        """The reader of the changes that the options ask for. As with a search, Spark pushes nothing but columns down."""
        from lance_spark.table.feed.changes import CHANGE_COLUMNS
        from lance_spark.table.feed.request import begin_of

        found = self._changes(snapshot, plan, begin_of(snapshot, self._read.feed))
        plan = self._selected(plan, snapshot, _shown(found.fields), [f.name for f in CHANGE_COLUMNS], schema)
        conversion, request = Conversion(promised(schema), self._read.nanoseconds == "truncate"), self._request
        return LanceReader(snapshot, plan, conversion, request.rows_only, reports=request.reports, changes=replace(found, plan=plan))

    def _changes(self, snapshot: Snapshot, plan: ScanPlan, begin: int) -> Changes:
        from lance_spark.table.feed.request import feed

        if self._partitioned is not None:
            what = "is a partitioned namespace, whose changes cannot be read; read those of its tables"
            raise UnsupportedFeatureError(f"{self._partitioned.root.uri} {what}")
        return feed(snapshot, plan, self._read.filter, begin, self._read.feed)

    def _selected(self, plan: ScanPlan, snapshot: Snapshot, own: pa.Schema, added: Sequence[str], schema: StructType) -> ScanPlan:
        """The plan for those columns of `schema` that the table has; `added` are others of `own`, which the read returns."""
        request = self._request
        if request.filter or request.limit is not None or request.is_aggregated:
            raise ValueError("Spark's planner must not push a filter, limit or aggregate into a search or a change feed")
        if schema == to_spark(own):
            return plan
        wanted = StructType([field for field in schema.fields if field.name not in added])
        known = own if all(name in own.names for name in wanted.names) else _shown(plan.known(snapshot))
        return replace(plan, columns=paths(known, wanted) if wanted.fields else (), with_row_id=False, with_row_address=False)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the rows of the table, or with readChangeFeed of its changes, that follows its versions."""
        from lance_spark.spark.stream_reader import LanceStreamReader, RefusedStream

        try:
            return LanceStreamReader(*self._stream(schema))
        except LanceError as e:
            return RefusedStream(e)

    def _stream(self, schema: StructType) -> tuple[TableStream, Conversion]:
        from lance_spark.table.feed.changes import CHANGE_COLUMNS, Changes
        from lance_spark.table.feed.stream import TableStream

        snapshot, read = self.opened(), self._read
        read.check_stream()
        if self._partitioned is not None:
            raise UnsupportedFeatureError(f"{self._partitioned.root.uri} is a partitioned namespace; read streams of its tables")
        plan = self._plan(snapshot)
        if read.feed.changes:
            found = self._changes(snapshot, plan, snapshot.version)
        else:
            found = Changes(snapshot, snapshot.version, snapshot.version, replace(plan, predicate=None), plan.predicate)
        own = _shown(found.fields if read.feed.changes else plan.fields(snapshot))
        found = replace(found, plan=self._selected(found.plan, snapshot, own, [f.name for f in CHANGE_COLUMNS], schema))
        stream = TableStream(found, read.feed, os.cpu_count() or 1, read.max_partition_bytes)
        return stream, Conversion(promised(schema), read.nanoseconds == "truncate")

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with `schema`, based on the latest version at the time of planning."""
        options = SparkWriteOptions.parse(self.options if self._command is None else self._command.write_options(self.options))
        for name in OF_STREAMS:
            if name in options.given:
                raise InvalidOptionError(f"the option {name!r} applies only to writeStream")
        self._check_writable(options)
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
        return self._table_writer(schema, overwrite, options)

    @brief_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of the batches of a stream; with `overwrite` (the output mode complete), each replaces the rows."""
        from lance_spark.spark.stream_writer import LanceStreamWriter, check_stream_options

        options = SparkWriteOptions.parse(self.options)
        check_stream_options(options)
        self._check_writable(options)
        if self._partitioned is not None:
            raise UnsupportedFeatureError(f"{self._partitioned.root.uri} is a partitioned namespace; write the stream with foreachBatch")
        return LanceStreamWriter(self._table_writer(schema, overwrite, options))

    def _check_writable(self, options: SparkWriteOptions) -> None:
        if isinstance(self._pinned, LanceError) and (options.branch or not isinstance(self._pinned, TableNotFoundError)):
            raise self._pinned

    def _table_writer(self, schema: StructType, overwrite: bool, options: SparkWriteOptions) -> LanceWriter:
        from lance_spark.spark.writer import LanceWriter

        if self._snapshot is None:
            return LanceWriter(store_to_write(options), schema, overwrite, options)
        place = store_to_write(options) if options.branch is None else self._snapshot.store
        known = self._snapshot.manifest.schema
        conditions = [] if self._overwritten is None else [from_json(tree, known) for tree in json.loads(self._overwritten)]
        return LanceWriter(place, schema, overwrite, options, known.to_arrow(), conjunction(conditions) if conditions else None)

    def _check_same_table(self, version: str, identity: str) -> None:
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
            elif self._searches:
                from lance_spark.table.search.segments import opened as opened_before  # loads the decoders

                read = self._read
                self._snapshot = opened_before(store, version, identity, read.allow_other_stores, read.verify_checksums)
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
        if chosen.filter is not None and not self._searches and not chosen.feed.changes:
            plan = replace(plan, predicate=parse(chosen.filter, plan.known(snapshot), None))
        if self._partitioned is not None:
            from lance_spark.namespace.partitioned.scan import check_no_row_columns

            check_no_row_columns(plan, self._partitioned)
        return plan

    @property
    def _searches(self) -> bool:
        read = self._read
        return not (read.nearest is None and read.fullTextQuery is None and read.hybrid is None)

    def _search(self, snapshot: Snapshot, plan: ScanPlan) -> Search | None:
        """The search that the options ask for."""
        if not self._searches:
            return None
        read = self._read
        from lance_spark.table.search.request import SearchRequest, condition, own_columns, search_of

        if self._partitioned is not None:
            raise UnsupportedFeatureError(
                f"{self._partitioned.root.uri} is a partitioned namespace, which cannot be searched; search its tables"
            )
        request = SearchRequest(read.nearest, read.fullTextQuery, read.hybrid, read.prefilter, read.fast_search)
        query = (request.with_column(snapshot) if self._is_called else request).query(snapshot)
        assert query is not None
        plan = replace(plan, columns=own_columns(query, read.columns), offset=read.offset)
        if read.filter is not None:
            plan = replace(plan, predicate=condition(snapshot, plan, query, read.filter, None))
        return search_of(snapshot, plan.checked(snapshot), query, read.columns)

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the source into every task, so the manifest must not be part of it.
        # The mark comes first, because LanceTable.java searches for it and options could contain it, too.
        return {"_mark": self._mark, **self.__dict__, "_snapshot": None, "_partitioned": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        start_planning()
        self.__dict__.update(state)


def bind(source: bytes, request: str) -> LanceDataSource:
    """Add the planner's request for one scan to a pickled source with a pinned version. LanceTable.java pickles this call."""
    bound: LanceDataSource = pickle.loads(source)
    bound._request = Request.parse(request)
    return bound


def _shown(fields: Schema) -> pa.Schema:
    """The Arrow schema of the fields in Spark, which has no unsigned numbers."""
    return signed(fields).to_arrow()


def _found(search: Search) -> pa.Schema:
    """The Arrow schema in Spark of what a search finds."""
    own = _shown(search.plan.fields(search.snapshot))
    return pa.schema([own.field(field.name) if field.name in own.names else field for field in search.schema])


def open_version(options: ReadOptions, identity: str = "") -> Snapshot | PartitionedVersion:
    """Open the version of a table or of a partitioned namespace that the options choose; a table's had this `identity`, if it is given."""
    store = store_of(options)
    try:
        snapshot = open_snapshot(
            store,
            version=options.feed.ending_version if options.feed.changes else options.version,
            tag=options.tag,
            branch=options.branch,
            timestamp=options.feed.ending_timestamp if options.feed.changes else options.timestamp,
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
