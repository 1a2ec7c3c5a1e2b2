"""The data source "lance", which Spark creates from a path and options for reads and writes.

The version is pinned when Spark creates the source, the only hook that always runs. Readers and writers use this version.
`pushFilters` is deliberately not defined: Spark's filter push-down for Python sources confuses two uses of one DataFrame.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

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
    wrong_arguments_as_options,
)
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMNS, ROW_ID
from lance_spark.predicate import conjunction, from_json, parse
from lance_spark.schema.blobs import signed
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.spark.columns.batches import Conversion, conversion_to
from lance_spark.spark.columns.projection import paths
from lance_spark.spark.columns.types import promised, stored, to_spark
from lance_spark.spark.opened import Opened, OpenedTable, open_version
from lance_spark.spark.options.known import OF_STREAMS, ReadOptions, SparkWriteOptions
from lance_spark.spark.options.table_location import store_of, store_to_write
from lance_spark.spark.protocol import FORMAT, Base, Command, Headed, Instructions, Json, Source, of_user
from lance_spark.spark.read.column_lists import ColumnLists
from lance_spark.spark.read.reader import LanceReader, Partitioning
from lance_spark.spark.read.request import Request
from lance_spark.spark.read.text_columns import TextColumns
from lance_spark.spark.workers.import_cache import brief_errors, start_planning
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import DROPPED, Snapshot
from lance_spark.table.versions.write_ahead_log import has_log

if TYPE_CHECKING:
    from lance_spark.spark.write.writer import LanceWriter
    from lance_spark.table.feed.changes import Changes
    from lance_spark.table.feed.stream import TableStream
    from lance_spark.table.search.search import Search

# Each function imports what only some reads and writes need: workers import this module often, and must start fast.


class LanceDataSource(Headed, DataSource):
    """Spark's view of a version of a Lance table or of a partitioned namespace, or of the location of a table to be written."""

    @brief_errors()
    def __init__(self, options: Mapping[str, str]) -> None:
        start_planning()
        given, options = Instructions.of(options), of_user(options)
        self._command = given.command
        self._overwritten = given.overwrite
        self._based_on = given.based_on if self._command is None else self._command.truncated
        identity = given.identity if self._command is None else self._command.identity
        self._is_lost = given.lost
        self._is_called = given.call is not None
        if given.call is not None:
            from lance_spark.spark.read.table_function import chooses_version, with_options

            identity = "" if chooses_version(given.call) else identity
            options = with_options(options, given.call)
        super().__init__(options)
        self._read = ReadOptions.parse(options)
        self._request = Request()
        self._opened: Opened | None = None
        self._commits = False
        self._header = Source(0, "", "table", 0)
        self._pinned: Callable[[ReadOptions, bool], Opened] | LanceError
        try:
            with wrong_arguments_as_options():
                self._opened = open_version(self._read if self._command is None else _read_by(self._command, self._read), identity)
            self._header, self._pinned = self._opened.header, self._opened.pinned()
        except LanceError as e:
            # A write does not need an existing table; a read raises the error later.
            self._pinned = e

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    @brief_errors()
    def schema(self) -> StructType:
        """The schema of the columns that the options select."""
        opened = self.opened()
        snapshot, plan = opened.shape, self._plan(opened)
        if self._read.feed.changes:
            # Where the changes begin does not matter here, and a stream need not say it.
            return to_spark(_shown(self._changes(opened, plan, snapshot.version).fields))
        search = self._search(opened, plan)
        return to_spark(_shown(plan.checked(snapshot).fields(snapshot)) if search is None else _found(search))

    @brief_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader. `schema` is the source's own, or a selection of its columns, or what ColumnLists makes of these."""
        try:
            columnar = self._request.columnar
            if columnar is None:
                return self._reader(schema)
            reader = self._reader(StructType.fromJson(json.loads(columnar)))
            assert isinstance(reader, LanceReader)
            reader.return_lists(ColumnLists(promised(schema)))
            return reader
        except SchemaMismatchError as e:
            if self._request.declared is None:
                if self._read.columns is None:
                    raise
                raise SchemaMismatchError(f"the option columns leaves out columns that are asked for: {e}") from e
            adopt = "CREATE OR REPLACE TABLE t USING lance adopts them"
            what = f"the session catalog has other columns than the table with its options ({adopt})"
            raise SchemaMismatchError(f"{what}: {e}") from e

    def _reader(self, schema: StructType) -> DataSourceReader:
        opened = self.opened()
        snapshot, plan = opened.shape, self._plan(opened)
        self._read.feed.check_batch()
        if self._read.feed.changes:
            return self._changes_reader(opened, plan, schema)
        if (search := self._search(opened, plan)) is not None:
            return self._search_reader(opened, search, schema)
        if (join := self._request.join) is not None:
            return self._nearest_reader(opened.table_for(", which cannot be joined by nearness"), plan, join)
        given, texts = promised(schema), TextColumns.of(schema, snapshot, opened.table_for)
        schema = texts.rest(schema)
        if not self._request.is_aggregated:
            own = _shown(plan.fields(snapshot))
            names = set(own.names)
            if any(f.name in schema.names and f.name not in names for f in ROW_COLUMNS):
                own = _shown(plan.known(snapshot))
            if schema.names != own.names or schema != to_spark(own):
                plan = replace(plan, columns=paths(own, schema) if schema.fields else (), with_row_id=False, with_row_address=False)
        plan = self._request.apply(texts.read_by(plan), plan.known(snapshot))
        aggregation = None
        if self._request.is_aggregated:
            aggregation = self._request.aggregation(plan.known(snapshot), given)
            given = promised(to_spark(_shown(plan.fields(snapshot))))
        conversion = Conversion(given, self._read.nanoseconds == "truncate")
        size = Partitioning(self._request.parallelism, self._read.max_partition_bytes)
        request, fragments = self._request, opened.num_fragments
        if not request.changes_rows:
            _check_ids(snapshot, plan)
        plan = replace(plan, with_dictionaries=request.columnar is not None and aggregation is None and not texts.conditions)
        tasks = opened.tasks(plan, not request.changes_rows)
        return LanceReader(tasks, conversion, request.rows_only, size, aggregation, request.reports, texts, fragments)

    def _search_reader(self, opened: Opened, search: Search, schema: StructType) -> DataSourceReader:
        """The reader of the rows that a search finds. What Spark filters, limits and aggregates is these rows: it is never pushed down."""
        from lance_spark.table.search.task import search_task

        request, snapshot = self._request, search.snapshot
        if request.schema is not None:
            schema = StructType.fromJson(json.loads(request.schema))
        texts = TextColumns.of(schema, snapshot, opened.table_for)
        plan = texts.read_by(self._selected(search.plan, snapshot, _found(search), search.query.columns.names, texts.rest(schema)))
        _check_ids(snapshot, plan)
        conversion = Conversion(promised(schema), self._read.nanoseconds == "truncate")
        task = search_task(replace(search, plan=plan, columns=None))
        reader = LanceReader(lambda cores, most: [task], conversion, request.rows_only, reports=request.reports, texts=texts)
        if request.results is None:
            return reader
        from lance_spark.spark.read.search_reader import SearchReader  # most reads are scans

        return SearchReader(reader.found, request.results, request.parallelism or 1)

    def _nearest_reader(self, snapshot: Snapshot, plan: ScanPlan, join: Mapping[str, Any]) -> DataSourceReader:
        """The reader of the steps of a join with the rows that `plan` and the request select."""
        from lance_spark.spark.read.nearest_reader import NearestReader, steps_of

        request, known = self._request, plan.known(snapshot)
        fields = StructType.fromJson(json.loads(request.schema or ""))
        columns = paths(_shown(known), fields) if fields.fields else ()
        plan = replace(request.apply(plan, known), columns=columns, with_row_id=False, with_row_address=False)
        _check_ids(snapshot, plan)
        join = {**join, "parameters": self._read.joins}
        return NearestReader(partial(steps_of, snapshot, plan, join, fields, request.parallelism or 1, conversion_to))

    def _changes_reader(self, opened: Opened, plan: ScanPlan, schema: StructType) -> LanceReader:
        """The reader of the changes that the options ask for. As with a search, Spark pushes nothing but columns down."""
        from lance_spark.table.feed.changes import CHANGE_COLUMNS
        from lance_spark.table.feed.request import begin_of
        from lance_spark.table.feed.task import changes_tasks

        snapshot = opened.shape
        found = self._changes(opened, plan, begin_of(snapshot, self._read.feed))
        texts = TextColumns.of(schema, snapshot, opened.table_for)
        plan = texts.read_by(self._selected(plan, snapshot, _shown(found.fields), [f.name for f in CHANGE_COLUMNS], texts.rest(schema)))
        conversion, request = Conversion(promised(schema), self._read.nanoseconds == "truncate"), self._request
        tasks = changes_tasks(replace(found, plan=plan))
        return LanceReader(lambda cores, most: tasks, conversion, request.rows_only, reports=request.reports, texts=texts)

    def _changes(self, opened: Opened, plan: ScanPlan, begin: int) -> Changes:
        from lance_spark.table.feed.request import feed

        snapshot = opened.table_for(", whose changes cannot be read; read those of its tables")
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
        from lance_spark.spark.read.stream_reader import LanceStreamReader, RefusedStream

        try:
            return LanceStreamReader(*self._stream(schema))
        except LanceError as e:
            return RefusedStream(e)

    def _stream(self, schema: StructType) -> tuple[TableStream, Conversion]:
        from lance_spark.table.feed.changes import CHANGE_COLUMNS, Changes
        from lance_spark.table.feed.stream import TableStream

        opened, read = self.opened(), self._read
        read.check_stream()
        snapshot, plan = opened.table_for("; read streams of its tables"), self._plan(opened)
        if read.feed.changes:
            found = self._changes(opened, plan, snapshot.version)
        else:
            found = Changes(snapshot, snapshot.version, snapshot.version, replace(plan, predicate=None), plan.predicate)
        own = _shown(found.fields if read.feed.changes else plan.fields(snapshot))
        found = replace(found, plan=self._selected(found.plan, snapshot, own, [f.name for f in CHANGE_COLUMNS], schema))
        stream = TableStream(found, read.feed, os.cpu_count() or 1, read.max_partition_bytes)
        return stream, Conversion(promised(schema), read.nanoseconds == "truncate")

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with `schema`, based on the latest version at the time of planning."""
        options = SparkWriteOptions.parse(self.options if self._command is None else _without_branch(self.options))
        for name in OF_STREAMS:
            if name in options.given:
                raise InvalidOptionError(f"the option {name!r} applies only to writeStream")
        self._check_writable(options)
        if self._based_on is not None:
            self._check_same_table(self._based_on)
        if self._command is not None:
            from lance_spark.spark.write.row_level import row_level_writer

            table = self._table_for("; DELETE, UPDATE, MERGE and TRUNCATE apply to single tables")
            return row_level_writer(table, store_to_write(options), options, self._command, schema)
        return self._writer(schema, overwrite, options)

    @brief_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of the batches of a stream; with `overwrite` (the output mode complete), each replaces the rows."""
        from lance_spark.spark.write.stream_writer import LanceStreamWriter, stream_options

        options = stream_options(self.options)
        if self._commits:
            return LanceStreamWriter(None)
        self._check_writable(options)
        self._table_for("; write the stream with foreachBatch")
        return LanceStreamWriter(cast("LanceWriter", self._writer(schema, overwrite, options)))

    def _check_writable(self, options: SparkWriteOptions) -> None:
        if isinstance(self._pinned, LanceError) and (options.branch or not isinstance(self._pinned, TableNotFoundError)):
            raise self._pinned

    def _table_for(self, what: str) -> Snapshot | None:
        """The table, if there is one. Raises UnsupportedFeatureError for a partitioned namespace, see `Opened`."""
        return None if self._opened is None else self._opened.table_for(what)

    def _writer(self, schema: StructType, overwrite: bool, options: SparkWriteOptions) -> DataSourceWriter:
        if self._opened is None:
            from lance_spark.spark.write.writer import LanceWriter

            self._check_not_lost()
            return LanceWriter(store_to_write(options), schema, overwrite, options)
        replaced = None
        if self._overwritten is not None:
            known = self._opened.shape.manifest.schema
            conditions = [from_json(tree, known) for tree in self._overwritten]
            replaced = conjunction(conditions) if conditions else None
        return self._opened.writer(schema, overwrite, options, replaced)

    def _check_same_table(self, base: Base) -> None:
        gone = f"{store_of(self._read).uri}, version {base.version}, {DROPPED}; create the table again"
        try:
            table = self._table_for("")
        except UnsupportedFeatureError as e:
            raise VersionNotFoundError(gone) from e
        if table is None:
            raise VersionNotFoundError(gone)
        check_continues(table, base.version, base.identity)

    def _check_not_lost(self) -> None:
        """Raise TableNotFoundError if Spark's catalog has a table whose files were deleted."""
        if self._is_lost and isinstance(self._pinned, TableNotFoundError):
            what = "DROP TABLE removes it from Spark's catalog, and CREATE OR REPLACE TABLE makes it again"
            raise TableNotFoundError(f"the files of the table at {store_of(self._read).uri} are missing: its folder was deleted. {what}")

    def opened(self) -> Opened:
        """The pinned version. Raises the error of opening it."""
        self._check_not_lost()
        if isinstance(self._pinned, TableNotFoundError) and self._request.declared is not None and not self._read.chooses_version:
            declared = StructType.fromJson(json.loads(self._request.declared))
            return OpenedTable(Snapshot(store_of(self._read), Manifest(0, from_arrow(stored(declared, {}))), ""))
        if isinstance(self._pinned, LanceError):
            raise self._pinned
        if self._opened is None:
            self._opened = self._pinned(self._read, self._read.searches)
        return self._opened

    def _plan(self, opened: Opened) -> ScanPlan:
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
        if chosen.filter is not None and not chosen.searches and not chosen.feed.changes:
            plan = replace(plan, predicate=parse(chosen.filter, plan.known(opened.shape), None))
        opened.check(plan)
        return plan

    def _search(self, opened: Opened, plan: ScanPlan) -> Search | None:
        """The search that the options ask for."""
        read = self._read
        if not read.searches:
            return None
        from lance_spark.table.search.request import SearchRequest, condition, own_columns, search_of

        snapshot = opened.table_for(", which cannot be searched; search its tables")
        request = SearchRequest(read.nearest, read.fullTextQuery, read.hybrid, read.prefilter, read.fast_search).up_to(
            read.limit, read.offset
        )
        query = (request.with_column(snapshot) if self._is_called else request).query(snapshot)
        assert query is not None
        plan = replace(plan, columns=own_columns(query, read.columns), offset=read.offset)
        if read.filter is not None:
            plan = replace(plan, predicate=condition(snapshot, plan, query, read.filter, None))
        return search_of(snapshot, plan.checked(snapshot), query, read.columns)

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the source into every task, so the manifest must not be part of it.
        return {**self.__dict__, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        start_planning()
        self.__dict__.update(state)
        # Of the processes that get a source, only the one that commits a batch asks for a writer: all others make it from the options.
        self._commits = True

    def header(self) -> Source:
        """What the JVM knows of this source."""
        return self._header

    def bound(self, request: Json) -> LanceDataSource:
        """This source, which a pickle has just made, for one scan that the planner asks for."""
        self._request = Request(**request)
        return self


def _read_by(command: Command, options: ReadOptions) -> ReadOptions:
    """The options of a read of the version that a command has read."""
    # A truncation applies to the latest version, if that is of the same table.
    version = None if command.kind == "TRUNCATE" else command.version or None
    return replace(options, version=version, tag=None, timestamp=None)


def _without_branch(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the write of a command, which knows its branch."""
    return {name: value for name, value in options.items() if name.lower() != "branch"}


def _check_ids(snapshot: Snapshot, plan: ScanPlan) -> None:
    """Raise UnsupportedFeatureError for ids and addresses of rows of a log: they are null, but Spark relies on these columns not to be."""
    if has_log(snapshot.manifest) and (found := [f.name for f in plan.fields(snapshot).fields if f.id in (ROW_ID, ROW_ADDRESS)]):
        from lance_spark.table.mem_wal.scan import check_no_log

        check_no_log(snapshot, f"the column {found[0]} of Spark")


def _shown(fields: Schema) -> pa.Schema:
    """The Arrow schema of the fields in Spark, which has no unsigned numbers."""
    return signed(fields).to_arrow()


def _found(search: Search) -> pa.Schema:
    """The Arrow schema in Spark of what a search finds."""
    own = _shown(search.plan.fields(search.snapshot))
    return pa.schema([own.field(field.name) if field.name in own.names else field for field in search.schema])
